"""Sweeps of an experiment: its claims, measured at every point of a grid of its parameters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from neuralrace.apps.sweep.axes import Grid
from neuralrace.apps.sweep.folder import folder_path
from neuralrace.apps.sweep.run import Record, failure
from neuralrace.apps.sweep.verb import check_workers, swept
from neuralrace.errors import TO_INSTALL, InputError, flag

if TYPE_CHECKING:
    import xarray


class Measured(Protocol):
    """An experiment of another distribution, as a function of its parameters; it must be picklable."""

    @property
    def code(self) -> str:
        """A text that changes with the code of the experiment."""
        ...

    def check(self, changes: Mapping[str, Any]) -> None:
        """Refuse parameters that the experiment refuses."""
        ...

    def __call__(self, changes: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
        """What was measured, by name, and in words how it ended."""
        ...


def sweep_experiment(
    name: str,
    over: Mapping[str, Iterable[Any]],
    out: str | Path,
    *,
    quick: bool = False,
    seeds: int | None = None,
    zipped: Iterable[Sequence[str]] = (),
    jobs: int | None = None,
    cluster: Any = None,
    retry_failed: bool = False,
    progress: bool = False,
) -> xarray.Dataset:
    """Run an experiment at every point of a grid of its parameters.

    Parameters
    ----------
    name : str
        An experiment; `neuralrace list` names them all.
    over : dict
        Parameter of the experiment -> values.
    out : path
        Folder for the result; figures and claims of each point lie in `points` inside it.
    quick : bool
        The small form of the experiment.
    seeds : int, optional
        Random starts of each point, over which the experiment takes means.
    zipped, jobs, cluster, retry_failed, progress
        As in `sweep`.

    Returns
    -------
    xarray.Dataset
        A variable for each claim, the mean over seeds; `spread:ID` has their standard deviation.
    """
    grid, folder = Grid.of(over, zipped), folder_path(out)
    fixed = {} if seeds is None else {"seeds": seeds}
    chosen = _experiment(name, quick, str(folder / "points"), fixed)
    jobs = check_workers(jobs, cluster)
    for flag_name, value in (("quick", quick), ("retry_failed", retry_failed), ("progress", progress)):
        flag(flag_name, value)
    for point in grid.points:  # everything wrong is said before anything runs
        chosen.check(point)
    definition = {"experiment": name, "quick": quick, "fixed": fixed, "code": chosen.code}
    return swept(
        partial(_measured, chosen), definition, grid, folder, 1, jobs, cluster, retry_failed, progress
    )


def _experiment(name: str, *settings: Any) -> Measured:
    """The experiment of that name, from the distribution that brings experiments."""
    for brought in entry_points(group="neuralrace.experiments"):
        return brought.load()(name, *settings)
    raise InputError(f"experiments are a distribution of their own: {TO_INSTALL}")


def _measured(experiment: Measured, points: Sequence[Mapping[str, Any]]) -> list[Record]:
    records = []
    for point in points:
        start = time.perf_counter()
        try:
            values, told = experiment(point)
        except Exception as fault:
            records.append(failure(fault, time.perf_counter() - start))
            continue
        arrays = {name: np.asarray(value) for name, value in values.items()}
        records.append(Record("FINISHED", told, seconds=time.perf_counter() - start, values=arrays))
    return records
