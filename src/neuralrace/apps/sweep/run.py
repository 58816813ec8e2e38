"""A run, described; and runs of equal shape, computed together."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

import neuralrace as nr
from neuralrace.dynamics import flows
from neuralrace.errors import InputError, refuse_masked, sequence, short

Measure = Callable[[nr.Trajectory], Mapping[str, Any]]
_EXACT = 2**53 - 1  # whole numbers beyond it are not all floats
FAILED = "FAILED"  # status of a run that raised an error
_AT_ONCE = 64  # runs in one call on a CPU: more gain nothing
_ALONE = {"record", "runs", "progress"}  # options of runs that are not put together


class Run:
    """The description of one run: what to compute and what to measure. Nothing is computed yet.

    Parameters
    ----------
    task : Task
    weights : dict
        Initial weights, edge name -> (out, in).
    measure : callable, optional
        `measure(trajectory)` returns a dict of numbers or arrays. By default the final loss, and the half
        time: when the loss is midway between start and end.
    process : callable
        `process(task, weights, **options)` returns a `Trajectory`: `nr.flow` by default, `nr.descend`, or a
        function of your own.
    **options
        Of the process, such as ``t1=100.0`` or ``lr=0.01, steps=5000``.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.xor()
    >>> nr.Run(task, nr.init.gaussian(task.graph, 0.1), t1=20.0)
    Run(flow, t1=20.0)
    """

    def __init__(
        self,
        task: nr.Task,
        weights: Mapping[str, ArrayLike],
        measure: Measure | None = None,
        process: Callable[..., nr.Trajectory] = nr.flow,
        **options: Any,
    ):
        if not isinstance(task, nr.Task):
            raise InputError(f"task must be a Task, got {type(task)}")
        for name, value in (("measure", measure), ("process", process)):
            if value is not None and not callable(value):
                raise InputError(f"{name} must be a function, got {short(value)}")
        self.task, self.weights = task, task.graph.check_weights(weights)
        if any(w.ndim > len(task.graph.shapes[e]) for e, w in self.weights.items()):
            raise InputError("weights must be those of one run, without a leading axis")
        self.measure, self.process, self.given = measure or final_and_half_time, process, options
        needed: dict[str, Any] = {}
        if measure is None and process in (nr.flow, nr.descend):
            needed = {"save": 2, "save_weights": False}  # the loss at both ends, and at the solver's steps
        if isinstance(options.get("save"), Iterator):  # which would be empty when it is read again
            options["save"] = sequence("save", options["save"], "times")
        self.options: dict[str, Any] = {**needed, **options}

    def __repr__(self) -> str:
        options = "".join(f", {k}={v!r}" for k, v in self.given.items())
        return f"Run({getattr(self.process, '__name__', 'process')}{options})"

    @property
    def bytes(self) -> int:
        """Memory of the run while it is computed, about: stages of the solver and saved weights."""
        saved = self.options.get("save", 200)
        times = len(saved) if isinstance(saved, Sized) else 200 if saved is None else saved
        kept = times if self.options.get("save_weights", True) else 1
        return 8 * (self.task.graph.n_weights * (20 + kept) + 4096 * 3)

    def solve(self) -> nr.Trajectory:
        """Compute it."""
        found = self.process(self.task, self.weights, **self.options)
        if not isinstance(found, nr.Trajectory):
            raise InputError(f"process must return a Trajectory, got {short(found)}")
        if found.many:
            raise InputError(f"process must return the trajectory of one run, got one of {len(found)}")
        return found

    @property
    def key(self) -> Any:
        """Equal for runs that one call can compute: they differ in their weights alone."""
        if self.process not in (nr.flow, nr.descend) or self.options.keys() & _ALONE:
            return id(self)
        linear = self.task.graph.is_linear and self.options.get("loss", "squared") == "squared"
        known = linear or self.task.n_samples is not None
        try:
            options = pickle.dumps(sorted(self.options.items()))
        except Exception:  # options that cannot be compared
            return id(self)
        if linear and self.process is nr.flow and jax.default_backend() == "cpu":
            return flows, options, self.task.graph
        return self.process, options, self.task.graph, _digest(self.task) if known else id(self.task)


@lru_cache(maxsize=1)  # one run after the other has the same task
def _digest(task: nr.Task) -> bytes:
    """Equal for tasks of equal data."""
    s = task.as_samples().samples
    return hashlib.sha256(pickle.dumps((s.inputs, s.targets, s.gates, s.sample_weight))).digest()


def final_and_half_time(trajectory: nr.Trajectory) -> dict[str, Any]:
    """The final loss, and when the loss is midway between its start and its end; nan where it diverged."""
    if trajectory.status == nr.Status.DIVERGED:  # what was saved before that is no end
        return {"final_loss": np.nan, "half_time": np.nan}
    start, end = trajectory.loss[0], trajectory.loss[-1]
    return {"final_loss": end, "half_time": nr.learning_time(trajectory, (start + end) / 2)}


@dataclass(frozen=True)
class Record:
    """What is kept of a run: its measures, and how it went."""

    status: str
    outcome: str = ""
    message: str = ""
    seconds: float = 0.0
    steps: float = np.nan
    error: float = np.nan
    values: Mapping[str, np.ndarray] | None = None


def compute(function: Callable[..., Run], points: Sequence[Mapping[str, Any]]) -> list[Record]:
    """Describe and compute the runs at some points; a run that fails does not stop the others."""
    records: dict[int, Record] = {}
    groups: dict[Any, list[tuple[int, Run]]] = {}
    for k, point in enumerate(points):
        try:
            run = function(**point)
            if not isinstance(run, Run):
                raise InputError(f"the function must return nr.Run(...), got {type(run)}")
        except Exception as fault:
            records[k] = failure(fault)
            continue
        groups.setdefault(run.key, []).append((k, run))
    for members in groups.values():
        most = _AT_ONCE if jax.default_backend() == "cpu" else len(members)
        for at in range(0, len(members), most):
            places, runs = zip(*members[at : at + most], strict=True)
            records |= dict(zip(places, _records(list(runs)), strict=True))
    return [records[k] for k in range(len(points))]


def failure(fault: Exception, seconds: float = 0.0) -> Record:
    return Record(FAILED, message=f"{type(fault).__name__}: {fault}", seconds=seconds)


def _records(runs: list[Run]) -> Iterator[Record]:
    """Records of runs with the same key."""
    start = time.perf_counter()
    try:
        found = _together(runs)
    except Exception as fault:
        if len(runs) == 1:
            yield failure(fault, time.perf_counter() - start)
        else:  # find out which of them it was
            for run in runs:
                yield from _records([run])
        return
    seconds = (time.perf_counter() - start) / len(runs)
    for run, trajectory in zip(runs, found, strict=True):
        yield _measured(run, trajectory, seconds)


def _together(runs: list[Run]) -> list[nr.Trajectory]:
    """Trajectories of runs with the same key, in one call."""
    first = runs[0]
    if len(runs) == 1:
        return [first.solve()]
    if first.key[0] is flows:
        same: dict[bytes, nr.Task] = {}  # equal tasks are compiled once
        tasks = [same.setdefault(_digest(run.task), run.task) for run in runs]
        return flows(tasks, [run.weights for run in runs], **first.options)
    weights = {e: np.stack([run.weights[e] for run in runs]) for e in first.weights}
    return list(first.process(first.task, weights, **first.options))


def _measured(run: Run, trajectory: nr.Trajectory, seconds: float) -> Record:
    start = time.perf_counter()
    try:
        found = run.measure(trajectory)
        if not isinstance(found, Mapping):
            raise InputError(f"measure must return a dict of numbers or arrays, got {type(found)}")
        for name, value in found.items():
            refuse_masked(f"measure {str(name)!r}", value)
        values = {str(name): np.asarray(value) for name, value in found.items()}
        odd = [name for name, value in values.items() if not name or value.dtype.kind not in "biuf"]
        if odd:
            value = short(values[odd[0]])
            raise InputError(f"measure must return numbers or arrays by name; {odd[0]!r} is {value}")
        for name, value in values.items():
            if value.dtype.kind in "iu" and (np.abs(value.astype(float)) > _EXACT).any():
                raise InputError(f"measure must return numbers up to 2**53; {name!r} is {short(value)}")
    except Exception as fault:
        return failure(fault, seconds)
    stats = trajectory.stats
    return Record(
        trajectory.statuses[0].name,
        trajectory.outcome,
        "",
        seconds + time.perf_counter() - start,
        float(stats.get("steps", np.nan)),
        float(stats.get("error", np.nan)),
        values,
    )
