"""Before and after solving: checks arguments and prepares arrays; makes a trajectory of the results."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np

from neuralrace.dynamics.history import History
from neuralrace.dynamics.integrate import FAILED, FINISHED, LIMITED, RESTED, STOPPED, Path
from neuralrace.dynamics.rates import Rates
from neuralrace.dynamics.record import Record, Recorder
from neuralrace.dynamics.trajectory import Status, Trajectory
from neuralrace.errors import InputError, flag, sequence, short
from neuralrace.graph import Graph
from neuralrace.network import cast, check, is_linear, precision, program
from neuralrace.subspace import Frames, closed_frames, expand, shrink
from neuralrace.task import Task

FLOW_TIME = "flow time: tau = 1 on the mean loss"
RESERVED = (
    "t",
    "step",
    "loss",
    "end",
    "step_loss",
    "solver_step",
    "status",
    "outcome",
)  # other names in a saved trajectory


@dataclass(frozen=True)
class Setup:
    """A checked problem: task, initial weights, rates. The leading axis of arrays counts runs."""

    task: Task  # with smaller hidden nodes where weights stay in small subspaces
    given: Task
    many: bool
    kind: str
    weights: dict[str, np.ndarray]  # (runs, ...) at the start, by edge or bias
    small: dict[str, np.ndarray]  # those that are integrated: the same, or in small subspaces
    frames: Frames
    rates: Rates
    runs: dict[str, np.ndarray]
    recorder: Recorder
    dtype: Any

    @classmethod
    def prepare(
        cls, task: Any, weights: Any, kind: str, rates: Rates | None, runs: Any, dtype: Any,
        record: Record | None, save_weights: bool, compress: bool,
    ) -> Setup:  # fmt: skip
        arrays = check(task, weights, kind)
        _check_dtype(dtype)
        if record is not None and not (callable(record) and isinstance(record, Hashable)):
            raise InputError(f"record must be a function of the state, got {short(record)}")
        graph = task.graph
        found = Rates.check(rates, graph)
        many = any(w.ndim > len(graph.shapes[n]) for n, w in arrays.items())
        if not many:
            arrays = {n: w[None] for n, w in arrays.items()}
        given = coordinates(runs, _count(arrays), many)
        frames = closed_frames(task, arrays) if compress and is_linear(task, kind) else {}
        small, integrated = task, arrays
        if frames:
            small = resized(task, {n: q.shape[-1] for n, q in frames.items()})
            integrated = shrink(graph, arrays, frames)
        recorder = Recorder(small.graph, task, record, flag("save_weights", save_weights))
        recorder.check(dtype)
        return cls(small, task, many, kind, arrays, integrated, frames, found, given, recorder, dtype)

    @property
    def count(self) -> int:
        """Number of runs."""
        return _count(self.weights)

    @cached_property
    def full(self) -> np.ndarray:
        """(runs, N) all weights, flat."""
        return self.given.graph.flatten(self.weights).astype(self.dtype, copy=False)

    @cached_property
    def start(self) -> np.ndarray:
        """(runs, n) weights that are integrated, flat."""
        if self.small is self.weights:
            return self.full
        return self.task.graph.flatten(self.small).astype(self.dtype, copy=False)

    def start_of(self, k: int) -> np.ndarray:
        """(n,) those of run k in float64, to be changed."""
        return self.task.graph.flatten({n: w[k] for n, w in self.small.items()})

    @property
    def program(self) -> Any:
        return program(self.task, self.kind)

    def typed(self, data: Any) -> Any:
        return data if np.dtype(self.dtype) == np.float64 else cast(data, self.dtype)

    @property
    def numbers(self) -> Any:
        """The numbers of the program as float64 NumPy arrays."""
        return jax.tree.map(np.asarray, self.program.data)

    @property
    def data(self) -> Any:
        return self.typed(self.program.on_device)

    @property
    def lift(self) -> Any:
        """Arguments of `Recorder.full_weights`; None if full weights are integrated."""
        if not self.frames:
            return None
        return {n: q.astype(self.dtype) for n, q in self.frames.items()}, self.start, self.full

    @property
    def vectors(self) -> tuple[Any, Any]:
        return self.rates.vectors(self.task.graph, self.dtype)

    def precision(self) -> Any:
        return precision(self.dtype)


def _count(weights: Mapping[str, np.ndarray]) -> int:
    return len(next(iter(weights.values())))


def _check_dtype(dtype: Any) -> None:
    try:
        fits = np.dtype(dtype) in (np.float64, np.float32)
    except Exception:  # NumPy shows what it does not know
        fits = False
    if not fits:
        raise InputError(f"dtype must be float64 or float32, got {short(dtype)}")


def resized(task: Task, sizes: Mapping[str, int]) -> Task:
    """The task on a graph whose hidden nodes have other sizes; made once, so that it is compiled once."""
    key = tuple(sizes.items())
    if key not in task.programs:
        task.programs[key] = task.on(task.graph.resized(dict(sizes)))
    return task.programs[key]


def coordinates(runs: Any, n: int, many: bool) -> dict[str, np.ndarray]:
    """The coordinates of n runs, checked; their places if none are given."""
    if runs is None:
        return {"run": np.arange(n)} if many else {}
    if not isinstance(runs, Mapping):
        raise InputError(f"runs must be a dict from names to a value for each run, got {short(runs)}")
    found = {}
    for name, value in runs.items():
        if not isinstance(name, str) or not name or name in RESERVED or ":" in name:
            raise InputError(
                f"runs must be named by text without ':', other than {', '.join(RESERVED)}; got {short(name)}"
            )
        wanted = f"one value for each of {n} runs" if many else "a single value, as there is one run"
        try:
            values = np.asarray(
                sequence(f"runs[{name!r}]", value, "numbers") if isinstance(value, range) else value
            )
        except ValueError:
            raise InputError(f"runs[{name!r}] must be {wanted}; got {short(value)}") from None
        if values.shape != ((n,) if many else ()):
            raise InputError(f"runs[{name!r}] must be {wanted}; got shape {values.shape}")
        if values.dtype.kind not in "biufSU" or np.ma.is_masked(value):
            raise InputError(f"runs[{name!r}] must hold numbers of 64 bits or texts, got {short(value)}")
        found[name] = values
    return found


@dataclass(frozen=True)
class Solved:
    """The results of a solver; the leading axis counts runs."""

    ts: np.ndarray  # (save,) times to save
    end: np.ndarray  # (runs,) time at which each run ended
    last: np.ndarray  # (runs,) index of the last saved time that was reached
    losses: np.ndarray  # (runs, save)
    kept: Any  # other values at the saved times, (runs, save, ...); weights may be a function of `index`
    statuses: list[Status]
    outcomes: list[str]

    @classmethod
    def of(cls, path: Path, ts: np.ndarray, t1: float, stop: float | None, max_steps: int) -> Solved:
        """From the result of `integrate` for all runs; `path.kept` has losses and other values."""
        losses, kept = path.kept
        losses = np.maximum(losses, 0.0)  # rounding may leave less
        statuses = [_STATUS[code] for code in path.status.tolist()]
        if not np.isfinite(losses).all():
            finals = [losses[k, i] for k, i in enumerate(path.last)]
            statuses = [
                s if np.isfinite(v) else Status.DIVERGED for s, v in zip(statuses, finals, strict=True)
            ]
        ended = zip(statuses, path.t.tolist(), strict=True)
        outcomes = [ending(s, at, t1, stop, max_steps) for s, at in ended]
        reached = np.where(path.status == RESTED, t1, np.asarray(path.t, float))
        return cls(ts, reached, path.last, losses, kept, statuses, outcomes)

    @cached_property
    def final(self) -> np.ndarray:
        """(runs,) index of the last saved time with a finite loss."""
        finite = np.isfinite(self.losses)
        if finite.all():
            return self.last
        first_bad = np.where(finite.all(axis=1), finite.shape[1], finite.argmin(axis=1))
        return np.where(first_bad <= self.last, np.maximum(first_bad - 1, 0), self.last)

    @cached_property
    def shown(self) -> int:
        """How many of the saved times are shown: up to the last that any run reached."""
        return int(self.final.max()) + 1

    @cached_property
    def index(self) -> np.ndarray:
        """(runs, shown) indices of the saved times that are shown.

        A run that ended earlier repeats its last finite state.
        """
        return np.minimum(np.arange(self.shown), self.final[:, None])

    def pick(self, values: np.ndarray, many: bool) -> np.ndarray:
        """Values (runs, save, ...) at the times that are shown. A single run loses its axis."""
        values = values[:, : self.shown]
        if len(values) > 1 and (self.final < self.shown - 1).any():
            index = self.index
            values = np.take_along_axis(values, index.reshape(index.shape + (1,) * (values.ndim - 2)), axis=1)
        return values if many else values[0]

    def fields(self, many: bool, history: History | None, stats: dict[str, Any]) -> dict[str, Any]:
        """The fields of a `Trajectory` that do not depend on the kind of network."""
        t = np.array(self.ts[: self.shown], float)
        if not many:
            t[-1] = min(t[-1], self.end[0])
            history = None if history is None else history.run(0)
            stats = {n: v[0] if np.ndim(v) else v for n, v in stats.items()}
        return {
            "t": t,
            "loss": self.pick(self.losses, many),
            "statuses": tuple(self.statuses),
            "outcomes": tuple(self.outcomes),
            "end": self.end if many else self.end[0],
            "history": history,
            "stats": stats,
        }


_STATUS = {
    FINISHED: Status.FINISHED,
    STOPPED: Status.REACHED_LOSS,
    LIMITED: Status.STEP_LIMIT,
    FAILED: Status.DIVERGED,
    RESTED: Status.FINISHED,
}


def ending(status: Status, at: float, t1: float, stop: float | None, max_steps: int) -> str:
    """How a flow ended, in words."""
    if status is Status.REACHED_LOSS:
        return f"reached loss {stop:g} at t = {at:g}"
    if status is Status.STEP_LIMIT:
        return f"step limit of {max_steps} at t = {at:g}: try increasing max_steps"
    if status is Status.DIVERGED:
        return f"diverged at t = {at:g}: the solver found no step with finite weights"
    rest = f", at rest since t = {at:g}" if at < t1 else ""
    return f"finished at t = {t1:g}{rest}"


def finish(
    setup: Setup, solved: Solved, settings: dict[str, Any], stats: dict[str, Any],
    history: History | None, step_loss: np.ndarray | None = None,
) -> Trajectory:  # fmt: skip
    """The trajectory of a network, from `solved.kept`: flat weights (runs, save, n) and recorded values."""
    flat, recorded = solved.kept
    solved = replace(solved, losses=np.array(solved.losses, float))
    weights: Any
    if callable(flat):  # lifted from small spaces when they are asked for
        weights = flat(solved.index)
    else:
        weights = _weights(setup, solved.pick(np.asarray(flat, float), many=True)) if flat.shape[-1] else {}
    settings |= {
        "loss": setup.kind, "dtype": str(np.dtype(setup.dtype)),
        "time": FLOW_TIME, **setup.rates.settings(setup.given.graph),
    }  # fmt: skip
    settings.setdefault("dimensions", {n: q.shape[-1] for n, q in setup.frames.items()})
    return Trajectory(
        **solved.fields(setup.many, history, stats),
        weights=weights,
        recorded={n: solved.pick(np.asarray(v), setup.many) for n, v in recorded.items()},
        step_loss=step_loss,
        settings=settings,
        runs=setup.runs,
        dims=weight_dims(setup.given.graph) if weights else {},
    )


def weight_dims(graph: Graph) -> dict[str, tuple[str, ...]]:
    """The axes of the weights of a graph, named by nodes."""
    dims: dict[str, tuple[str, ...]] = {f"weights:{n}": (n,) for n in graph.biases}
    for edge, (source, target) in graph.edges.items():
        if edge in graph.fixed:
            continue
        dims[f"weights:{edge}"] = (target,) if edge in graph.diagonal else (target, source)
    return dims


def _weights(setup: Setup, flat: np.ndarray) -> dict[str, np.ndarray]:
    """Full weights from flat ones (runs, save, n), in small spaces where the flow closes in them."""
    graph = setup.given.graph
    if not setup.frames:
        found = graph.unflatten(flat)
    else:
        found = expand(graph, setup.task.graph.unflatten(flat - setup.start[:, None]), setup.frames)
        for n, w in graph.unflatten(setup.full).items():
            found[n] += w[:, None]
    return found if setup.many else {n: w[0] for n, w in found.items()}
