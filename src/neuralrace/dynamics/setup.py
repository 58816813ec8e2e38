"""Before and after solving: checks arguments and prepares arrays; makes a trajectory of the results."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from neuralrace.compiling import Array, Compiled
from neuralrace.dynamics import constants
from neuralrace.dynamics.rates import Rates
from neuralrace.dynamics.record import Record, Recorder
from neuralrace.dynamics.run import Path
from neuralrace.dynamics.trajectory import LazyWeights, Trajectory
from neuralrace.errors import InputError, flag, sequence, short
from neuralrace.graph import Graph
from neuralrace.network import Program, cast, check, is_linear, precision, program, runs_in_numpy
from neuralrace.subspace import Frames, closed_frames, expand, shrink
from neuralrace.task import Task

FLOW_TIME = "flow time: tau = 1 on the mean loss"


@dataclass(frozen=True)
class Setup:
    """A checked problem: task, initial weights, rates. The leading axis of arrays counts runs."""

    task: Task  # with smaller hidden nodes where weights stay in small subspaces
    given: Task
    many: bool
    kind: str
    weights: dict[str, np.ndarray]  # (runs, ...) at the start, by edge or bias
    small: Mapping[str, Array]  # those that are integrated: the same, or in small subspaces
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
            small = task.resized({n: q.shape[-1] for n, q in frames.items()})
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

    @property
    def program(self) -> Program:
        return program(self.task, self.kind)

    @property
    def structure(self) -> Hashable:
        """Equal for networks that differ in numbers alone."""
        leaves, tree = jax.tree.flatten(self.data)
        return self.task.graph, self.program.stack, tree, tuple(np.shape(v) for v in leaves)

    @property
    def in_numpy(self) -> bool:
        """Whether NumPy computes the network."""
        return np.dtype(self.dtype) == np.float64 and runs_in_numpy(self.program.stack, self.kind)

    @property
    def data(self) -> Any:
        """The numbers of the program: NumPy arrays where NumPy computes, else JAX arrays of the precision."""
        return self.program.data if self.in_numpy else self.typed(self.program.on_device)

    def typed(self, data: Any) -> Any:
        return data if np.dtype(self.dtype) == np.float64 else cast(data, self.dtype)

    def kept(self, run: int, ts: np.ndarray, flat: np.ndarray) -> tuple[np.ndarray, Any]:
        """Losses of one run at some times, and what else is kept there, from the flat weights (times, n).

        That is the weights, if they are saved, and what `record` returns.
        """
        stack, data, lift = self.program.stack, self.data, self.lift(run)
        size = max(1, constants.CACHED_WEIGHTS // flat.shape[1])
        if self.in_numpy:
            some = (flat[at : at + size] for at in range(0, len(flat), size))
            losses = np.concatenate([stack.loss(w, data) for w in some])
        else:
            losses = np.array([_loss(stack, self.kind, w, data) for w in flat], float)
        recorded = {}
        if self.recorder.record is not None:
            at = zip(ts.astype(self.dtype), flat, strict=True)
            rows = [_recorded(self.recorder, t, w, lift) for t, w in at]
            recorded = jax.tree.map(lambda *v: np.stack(v), *rows)
        return losses, (flat if self.recorder.save_weights else flat[:, :0], recorded)

    def lift(self, run: int | slice) -> Any:
        """Arguments of `Recorder.full_weights` for a run, or some; None if full weights are integrated."""
        if not self.frames:
            return None
        return {n: q[run].astype(self.dtype) for n, q in self.frames.items()}, self.start[run], self.full[run]

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


def coordinates(runs: Any, n: int, many: bool) -> dict[str, np.ndarray]:
    """The coordinates of n runs, checked; their places if none are given."""
    if runs is None:
        return {"run": np.arange(n)} if many else {}
    if not isinstance(runs, Mapping):
        raise InputError(f"runs must be a dict from names to a value for each run, got {short(runs)}")
    found = {}
    for name, value in runs.items():
        if not isinstance(name, str) or not name or name in constants.RESERVED or ":" in name:
            raise InputError(
                "runs must be named by text without ':', other than "
                f"{', '.join(constants.RESERVED)}; got {short(name)}"
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


def finish(
    setup: Setup, path: Path, settings: dict[str, Any], step_loss: np.ndarray | None = None
) -> Trajectory:
    """The trajectory of a network, from `path.kept`: flat weights (runs, save, n) and recorded values."""
    flat, recorded = path.kept
    weights = flat if isinstance(flat, LazyWeights) else _weights(setup, flat) if flat.shape[-1] else {}
    settings |= path.settings | {
        "loss": setup.kind, "dtype": str(np.dtype(setup.dtype)),
        "time": FLOW_TIME, **setup.rates.settings(setup.given.graph),
    }  # fmt: skip
    settings.setdefault("representation", setup.program.how)
    settings.setdefault("dimensions", {n: q.shape[-1] for n, q in setup.frames.items()})
    fields = path.fields(setup.many)
    return Trajectory(
        **fields,
        weights=weights,
        recorded={n: v if setup.many else v[0] for n, v in recorded.items()},
        step_loss=step_loss,
        settings=settings,
        runs=setup.runs,
        dims=weight_dims(setup.given.graph) if weights else {},
        task=setup.given,
    )


def weight_dims(graph: Graph) -> dict[str, tuple[str, ...]]:
    """The axes of the weights of a graph, named by nodes."""
    dims: dict[str, tuple[str, ...]] = {f"weights:{n}": (n,) for n in graph.biases}
    for edge, (source, target) in graph.edges.items():
        if edge in graph.fixed:
            continue
        dims[f"weights:{edge}"] = (target,) if edge in graph.diagonal else (target, source)
    return dims


def _weights(setup: Setup, flat: np.ndarray) -> dict[str, Any]:
    """Full weights from flat ones (runs, save, n), in small spaces where the flow closes in them."""
    graph, flat = setup.given.graph, np.asarray(flat, float)
    if not setup.frames:
        found = graph.unflatten(flat)
    else:
        found = expand(graph, setup.task.graph.unflatten(flat - setup.start[:, None]), setup.frames)
        for n, w in graph.unflatten(setup.full).items():
            found[n] += w[:, None]
    return found if setup.many else {n: w[0] for n, w in found.items()}


def _loss_of(stack: Any, kind: str, flat: Any, data: Any) -> Any:
    return stack.loss(flat, data, kind)


def _record_of(recorder: Recorder, t: Any, flat: Any, lift: Any) -> Any:
    return recorder(t, flat, lift)[1]


_loss, _recorded = Compiled(_loss_of, 2), Compiled(_record_of, 1)
