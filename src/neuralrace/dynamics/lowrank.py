"""Flows of wide linear networks in low-rank bases, in the terms of `flow`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from neuralrace.compiling import Compiled
from neuralrace.dynamics.history import History, adapted_times
from neuralrace.dynamics.record import Recorder, State
from neuralrace.dynamics.run import Path, Problem
from neuralrace.dynamics.setup import Setup
from neuralrace.dynamics.status import Ending, Status
from neuralrace.dynamics.trajectory import LazyWeights
from neuralrace.errors import OutOfRange
from neuralrace.interrupts import Progress
from neuralrace.lowrank.constants import EVEN_INPUTS, ROUNDING
from neuralrace.lowrank.network import Snapshot, Wiring
from neuralrace.lowrank.solve import LowRankSolution, solve
from neuralrace.subspace import rotation_invariant_nodes
from neuralrace.task import Task

if TYPE_CHECKING:
    from neuralrace.dynamics.methods import LowRank

_STATUS = {
    "finished": Status.FINISHED,
    "stopped": Status.REACHED_LOSS,
    "step limit": Status.STEP_LIMIT,
    "failed": Status.DIVERGED,
}


def low_rank_flow(method: LowRank, problem: Problem) -> Path:
    """Every run by the change of its weights; see `LowRank`."""
    path = _solved(method, problem, problem.ts)
    if problem.choose and path.history is not None:
        runs = [path.history.run(k) for k in range(len(path.losses))]
        better = adapted_times(runs, problem.t1)
        path = path if better is None else _solved(method, problem, better)
    return path


def _solved(method: LowRank, problem: Problem, ts: np.ndarray) -> Path:
    setup, t1, stop = problem.network, problem.t1, problem.stop
    graph, recording = setup.given.graph, _Recording(setup)
    level = -np.inf if stop is None else stop
    solutions, stated, rows = [], [], []
    with Progress("flow", problem.progress) as progress:
        for run in range(setup.count):
            progress(run / setup.count)
            typed = {e: w[run].astype(setup.dtype, copy=False) for e, w in setup.weights.items()}
            first = {e: w.astype(float, copy=False) for e, w in typed.items()}
            goal = method.error, method.of, level, method.max_steps
            weights, scales = graph.with_fixed(first), setup.rates.scales(graph)
            try:
                with one_thread(), np.errstate(all="ignore"):
                    solution, error = solve(setup.given, weights, scales, ts, t1, *goal)
            except (ArithmeticError, np.linalg.LinAlgError):
                raise OutOfRange(
                    "method=LowRank must be given data and weights of sizes whose squares are numbers; "
                    "scale them, or take nr.Adaptive()"
                ) from None
            solutions.append(solution)
            stated.append(error)
            rows.append(_rows(solution.saved, recording, first))
    error = np.array(stated)
    if np.dtype(setup.dtype) == np.float32:
        error += ROUNDING * np.finfo(np.float32).eps
    endings = tuple(
        _ending(x, own, t1, stop, method) for x, own in zip(solutions, error.tolist(), strict=True)
    )
    # Times after that of the end were not reached.
    counts = [1 + int(np.searchsorted(ts, x.end * (1 - 1e-12))) for x in solutions]
    reached = [jax.tree.map(lambda v, n=n: v[:n], row) for n, row in zip(counts, rows, strict=True)]
    sizes = {v: len(q) for v, q in solutions[0].saved[-1].net.basis.items()}
    path = Path.of(
        ts, reached, endings=endings, history=History.of([x.curve for x in solutions]),
        stats={
            "steps": np.array([x.steps for x in solutions]), "error": error,
            "residual": np.array([x.residual for x in solutions]),
        },
        settings={"method": "LowRank", **asdict(method), "dimensions": sizes},
    )  # fmt: skip
    index, recorded = path.kept
    losses = np.minimum.accumulate(path.losses, axis=1)
    kept: Any = losses[..., None][..., :0]
    if setup.recorder.save_weights:
        kept = LowRankWeights(setup, [x.saved for x in solutions], index)
    return replace(path, losses=np.maximum(losses, 0.0), kept=(kept, recorded))


def _rows(
    saved: Sequence[Snapshot], recording: _Recording, first: dict[str, np.ndarray]
) -> tuple[np.ndarray, Any]:
    """Losses of a run at the saved times, and their places and what is recorded there."""
    rows: list[dict[str, np.ndarray]] = []
    for k, now in enumerate(saved):
        again = k > 0 and now is saved[k - 1]  # at rest
        rows.append(rows[-1] if again else recording(now, first))
    recorded = {n: np.stack([row[n] for row in rows]) for n in rows[0]}
    return np.array([now.loss for now in saved]), (np.arange(len(saved)), recorded)


def one_thread() -> Any:
    """Context manager under which BLAS uses one thread: small matrices' threads only wait for each other."""
    return _blas().limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _blas() -> Any:
    """The BLAS libraries in use; to find them takes as long as a short flow."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class LowRankWeights(LazyWeights):
    """Weights by edge, (runs, save, out, in), each lifted from the bases when it is first asked for.

    A single run has no axis of runs. `index` (runs, save) picks the saved time that is shown at each.
    """

    def __init__(self, setup: Setup, saved: Sequence[Sequence[Snapshot]], index: np.ndarray):
        self.names = setup.given.graph.shapes
        self.many: bool = setup.many
        self.dtype: DTypeLike = setup.dtype
        self.start: dict[str, np.ndarray] = {e: w.astype(setup.dtype) for e, w in setup.weights.items()}
        self.saved: Sequence[Sequence[Snapshot]] = saved
        self.index: np.ndarray = index
        self.lifted: dict[str, np.ndarray] = {}

    def lift(self, edge: str) -> np.ndarray:
        if edge not in self.lifted:
            out = np.stack([self._at(edge, i) for i in range(self.index.shape[1])], axis=1)
            self.lifted[edge] = out if self.many else out[0]
        return self.lifted[edge]

    def _at(self, e: str, i: int) -> np.ndarray:
        start = self.start[e]
        changes = [
            run[at[i]].change(e).reshape(start.shape[1:])
            for run, at in zip(self.saved, self.index, strict=True)
        ]
        return np.asarray((start + changes).astype(self.dtype), float)

    def at(self, i: int) -> dict[str, np.ndarray]:
        weights = {e: self._at(e, i) for e in self}
        return weights if self.many else {e: w[0] for e, w in weights.items()}

    def picked(self, k: int | np.ndarray) -> LowRankWeights:
        runs, part = np.atleast_1d(k), copy(self)
        part.many, part.lifted, part.index = np.ndim(k) > 0, {}, self.index[runs]
        part.start = {e: w[runs] for e, w in self.start.items()}
        part.saved = [self.saved[i] for i in runs]
        return part


def _ending(
    solution: LowRankSolution, stated: float, t1: float, stop: float | None, method: LowRank
) -> Ending:
    """How a run ended, in numbers."""
    status = _STATUS[solution.outcome] if np.isfinite(solution.saved[-1].loss) else Status.DIVERGED
    t = t1 if status is Status.FINISHED else solution.end
    found = Ending(status, t, level=stop, limit=method.max_steps)
    if stated <= method.error:
        return found
    missed = Status.MISSED_ERROR if status in (Status.FINISHED, Status.REACHED_LOSS) else status
    return replace(found, status=missed, error=stated, allowed=method.error)


class _Recording:
    """Calls `record` at a saved time, with full weights only if it asks for them."""

    def __init__(self, setup: Setup):
        self.recorder, self.task, self.setup = setup.recorder, setup.given, setup
        if self.recorder.record is not None:
            self.small = self.task.resized(input_dimensions(self.task))
            self.dims = input_dimensions(self.task)
            with setup.precision():
                self.full = _asks_for_weights(self.recorder, self.small, setup.dtype)

    def __call__(self, saved: Snapshot, first: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if self.recorder.record is None:
            return {}
        dtype, full = self.setup.dtype, None
        if self.full:
            full = {e: np.asarray(w + saved.change(e).reshape(w.shape), dtype) for e, w in first.items()}
        small = small_weights(saved, self.dims)
        small = {e: np.asarray(small[e], dtype) for e in self.small.graph.shapes}
        with self.setup.precision():
            given = np.asarray(saved.t, dtype), small, full
            out = _record(self.recorder, self.small, *given)
        return {n: np.asarray(v) for n, v in out.items()}


@lru_cache(maxsize=64)
def _asks_for_weights(recorder: Recorder, small: Task, dtype: Any) -> bool:
    full = False

    def asked() -> dict[str, Any]:
        nonlocal full
        full = True
        return {e: jnp.zeros(s, dtype) for e, s in recorder.task.graph.shapes.items()}

    def once() -> dict[str, Any]:
        weights = {e: jnp.zeros(s, dtype) for e, s in small.graph.shapes.items()}
        return recorder.recorded(State(jnp.zeros(()), recorder.task, asked, (small, weights)))

    jax.eval_shape(once)
    return full


def _recorded(recorder: Recorder, small: Task, t: Any, weights: Any, full: Any) -> Any:
    return recorder.recorded(State(t, recorder.task, lambda: dict(full), (small, weights)))


_record = Compiled(_recorded, 2)


def small_weights(saved: Snapshot, dims: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Weights between the spaces that the inputs span at each node, of the dimensions given.

    Products along paths from the inputs are those of the network, or those that the bases see where these
    hold all signals of the inputs.
    """
    net, spaces, small = saved.net, {}, {}
    if holds_all_inputs(net.wiring):
        weights = saved.weights
    else:
        weights = {e: w + saved.change(e) for e, w in net.weights.items()}
    for v, into in net.directions[0].into.items():
        arriving = {e: weights[e] @ spaces[s] if s in spaces else weights[e] for e, s in into}
        if v in dims:
            rows = np.concatenate(list(arriving.values()), axis=1)
            q = np.linalg.qr(rows)[0] if len(rows) > dims[v] else np.eye(len(rows), dims[v])
            arriving, spaces[v] = {e: q.T @ a for e, a in arriving.items()}, q
        small |= {e: arriving[e] if s else arriving[e][:, 0] for e, s in into}
    return small


@lru_cache(maxsize=64)
def holds_all_inputs(wiring: Wiring) -> bool:
    """Whether bases of the samples' signals are bases of all inputs' signals.

    That is so where one path leads to each wide node, and the samples that take it span its input.
    """
    rows = {v: x * wiring.node_gates[0].get(v, 1.0) for v, x in wiring.inputs.items()}
    for v in (v for v in wiring.order if v in wiring.wide):
        into = [(e, s) for e, (s, t) in wiring.ends.items() if t == v]
        e, s = into[0]
        if len(into) > 1 or s not in rows:
            return False
        rows[v] = rows[s] * wiring.edge_gates[0].get(e, 1.0)
        size = np.linalg.svd(rows[v], compute_uv=False)
        if len(size) < rows[v].shape[1] or size[-1] <= EVEN_INPUTS * size[0]:
            return False
    return True


def input_dimensions(task: Task) -> dict[str, int]:
    """Dimensions that the inputs span at each wide node, over all paths that lead there."""
    g, wide, dims = task.graph, set(rotation_invariant_nodes(task)), {}
    for v in (v for v in g.order if v in wide):
        arriving = [dims.get(s, g.nodes[s]) for s, t in g.edges.values() if t == v]
        dims[v] = min(sum(arriving) + (v in g.shapes), g.nodes[v])  # a bias adds one
    return dims
