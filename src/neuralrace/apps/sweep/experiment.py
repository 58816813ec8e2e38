"""Sweeps of an experiment: its claims, measured at every point of a grid of its parameters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.apps.sweep.axes import Grid
from neuralrace.apps.sweep.folder import folder_path
from neuralrace.apps.sweep.run import Record, failure
from neuralrace.apps.sweep.verb import check_workers, swept
from neuralrace.errors import flag

if TYPE_CHECKING:
    import xarray


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
        An experiment, see `nr.experiments.names()`.
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
    from neuralrace.experiments import code_key, experiment

    grid, chosen, folder = Grid.of(over, zipped), experiment(name), folder_path(out)
    jobs = check_workers(jobs, cluster)
    for flag_name, value in (("quick", quick), ("retry_failed", retry_failed), ("progress", progress)):
        flag(flag_name, value)
    fixed = {} if seeds is None else {"seeds": seeds}
    for point in grid.points:  # everything wrong is said before anything runs
        chosen.chosen(quick, {**fixed, **point})
    work = partial(_measured, name, quick, fixed, str(folder / "points"))
    definition = {"experiment": name, "quick": quick, "fixed": fixed, "code": code_key(chosen)}
    return swept(work, definition, grid, folder, 1, jobs, cluster, retry_failed, progress)


def _measured(
    name: str, quick: bool, fixed: Mapping[str, Any], out: str, points: Sequence[Mapping[str, Any]]
) -> list[Record]:
    from neuralrace import experiments

    records = []
    for point in points:
        start = time.perf_counter()
        try:
            report = experiments.run(name, quick, out, {**fixed, **point})
        except Exception as fault:
            records.append(failure(fault, time.perf_counter() - start))
            continue
        values = {c.id: np.asarray(c.measured) for c in report.claims}
        values |= {f"spread:{c.id}": np.asarray(c.spread) for c in report.claims if c.spread is not None}
        held = sum(c.holds is True for c in report.claims)
        told = f"{held} of {sum(c.holds is not None for c in report.claims)} claims hold"
        records.append(Record("FINISHED", told, seconds=time.perf_counter() - start, values=values))
    return records
