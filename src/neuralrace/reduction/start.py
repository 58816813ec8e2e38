"""Reductions around a start: small systems for any depth, any width and any initial weights.

A weight matrix learns only along the signals that pass it: forwards from the inputs, backwards from the
errors. At the start they span few directions of a hidden layer, whatever its width. In such a basis Q of each
hidden node the weights are `W(0) + Q_t (B - B(0)) Q_s^T`, and the flow, projected, is that of a small network
with weights B. What has been learned carries signals out of these bases, so they are enriched: solve, find
at some times the parts of all signals outside the bases, take the directions in which they would move weights
most, and solve again. Each round divides the error by a factor, from which the error of the last one is
stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from neuralrace.dynamics.flow import flow
from neuralrace.dynamics.methods import Adaptive
from neuralrace.dynamics.setup import resized
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.network import gradient
from neuralrace.reduction.family import Family
from neuralrace.subspace import rotation_invariant_nodes, shrink
from neuralrace.task import Context, Task

Bases = dict[str, np.ndarray]  # hidden node -> (size, dimension), orthonormal columns
Weights = Mapping[str, np.ndarray]

_SAME = 1e-9  # directions in which the first signals have less than this share are rounding
_ROOM = 3  # rounds for which there is room before shapes change, each as large as the first basis
_NARROW = 0.5  # above this share of all weights the network itself is solved instead
_STATES = 8  # times at which signals are looked at
_REST = 1e-3  # velocities below this share of the largest count as this
_DIRECTIONS = 0.03  # of the error allowed: directions that matter less are not taken
_COARSE = 1e-4  # relative tolerance of the solver in the first round, a tenth of that in the next,
_FINE = 2e-4  # down to this share of the error allowed
_ROUNDS = 8  # most rounds
_SOLVER = 10.0  # stated on top, in tolerances of the solver
_SAFETY = 5.0  # the error that is stated, in units of its estimate
_RATIO = 0.3  # a round that gains less tells nothing about the next one


@dataclass(frozen=True)
class Start:
    """The weights around which a task is reduced, and the error allowed of the loss, in first losses."""

    weights: dict[str, np.ndarray]
    error: float


class Grown(NamedTuple):
    """The flow in the last bases, and the error that is stated of its loss, relative to the first."""

    run: Trajectory  # its weights are B
    family: Family
    error: float


def around(task: Task, weights: Weights, bases: Bases) -> Family:
    """The family `W(0) + Q_t (B - B(0)) Q_s^T`; nodes without a basis keep their neurons."""
    g = task.graph
    frames = {n: bases.get(n, np.eye(size)) for n, size in g.nodes.items()}
    left = {e: frames[t] for e, (_, t) in g.edges.items()}
    right = {e: frames[s] for e, (s, _) in g.edges.items()}
    start = shrink(g, weights, bases)
    offset = {}
    for e, (s, t) in g.edges.items():
        if s in bases or t in bases:
            offset[e] = weights[e] - left[e] @ start[e] @ right[e].T
    width = max((q.shape[1] for q in bases.values()), default=max(g.nodes.values()))
    shape = {e: (left[e].shape[1], right[e].shape[1]) for e in g.edges}
    return Family("block", g, left, right, _small(task, bases), {}, width, shape, {}, offset)


def _small(task: Task, bases: Bases) -> Task:
    return resized(task, {n: q.shape[1] for n, q in bases.items()}) if bases else task


def first_bases(task: Task, weights: Weights) -> Bases:
    """Bases of the signals at the start: of inputs forwards, of targets and outputs backwards."""
    nodes = task.graph.nodes
    rows: dict[str, list[np.ndarray]] = {n: [] for n in rotation_invariant_nodes(task)}
    for c in task.moment_contexts:
        network = _Network(task, c, weights, {}, {})
        ahead = network.forwards()
        ends = {o: np.concatenate([y, ahead.get(o, 0 * y)]) for o, y in c.targets.items()}
        for signals in (ahead, network.backwards(ends)):
            for n in rows.keys() & signals.keys():
                rows[n].append(signals[n])
    bases = {}
    for n, found in rows.items():
        every = np.concatenate(found) if found else np.zeros((1, nodes[n]))
        every = every / np.maximum(np.linalg.norm(every, axis=1, keepdims=True), 1e-300)
        q, _ = _directions(every, _SAME * float(np.linalg.norm(every)), nodes[n])
        bases[n] = q if q.shape[1] else np.eye(nodes[n], 1)
    return bases


def solve_around(
    task: Task, start: Start, t1: float, save: Any, method: Adaptive | None = None, **given: Any
) -> Grown:
    """Solve in bases that grow until the stated error is small enough, or that are complete."""
    bases = first_bases(task, start.weights)
    step = {n: q.shape[1] for n, q in bases.items()}
    bases, room = _with_room(task, bases, step)
    before, apart = None, []
    while True:
        padded = {n: np.pad(q, ((0, 0), (0, room[n] - q.shape[1]))) for n, q in bases.items()}
        small = _small(task, padded)
        rtol = max(_FINE * start.error, _COARSE * 0.1 ** len(apart)) if bases else _FINE * start.error
        chosen = method or Adaptive(rtol, 1e-2 * rtol)
        first = shrink(task.graph, start.weights, padded)
        run = flow(small, first, t1, save, method=chosen, **given)
        if save is None:  # curves are compared at the same times
            save = run.t if run.t[-1] >= t1 else np.append(run.t, t1)
        apart += [_apart(before, run)] if before is not None else []
        error = (_stated(apart) if bases else 0.0) + _SOLVER * chosen.rtol
        if error <= start.error or len(apart) == _ROUNDS:
            break
        states, before = _states(run, len(apart) % 2 == 1), run
        b = {e: w[states] for e, w in run.weights.items()}
        grown, left = _grown(task, start, padded, b, step, bases)
        if all(grown[n].shape == q.shape for n, q in bases.items()):  # nothing that matters lies outside
            error = _SAFETY * left + _SOLVER * chosen.rtol
            break
        bases = grown
        if any(q.shape[1] > room[n] for n, q in bases.items()):
            bases, room = _with_room(task, bases, step)
    family = around(task, start.weights, bases)
    cut = {e: w[:, : family.shape[e][0], : family.shape[e][1]] for e, w in run.weights.items()}
    return Grown(replace(run, weights=cut), family, error)


def _with_room(task: Task, bases: Bases, step: Mapping[str, int]) -> tuple[Bases, dict[str, int]]:
    """Bases that are far from complete, and the dimensions to which they may grow before shapes change.

    None where the small network would be about as large as the network itself.
    """
    sizes, edges = task.graph.nodes, task.graph.edges.values()
    room = {n: q.shape[1] + _ROOM * step[n] for n, q in bases.items()}
    bases = {n: q for n, q in bases.items() if room[n] < sizes[n]}
    small = {n: room[n] if n in bases else size for n, size in sizes.items()}
    few, many = (sum(size[s] * size[t] for s, t in edges) for size in (small, sizes))
    return ({}, {}) if few > _NARROW * many else (bases, room)


def _apart(before: Trajectory, run: Trajectory) -> float:
    """The largest difference of two loss curves where both have values, relative to the first loss."""
    n = min(len(before.t), len(run.t))
    apart = np.abs(before.loss[:n] - run.loss[:n])[before.t[:n] == run.t[:n]]
    return float(apart.max() / abs(run.loss[0])) if run.loss[0] else 0.0


def _stated(steps: list[float]) -> float:
    """The error of the last solution, from the differences of successive ones."""
    if not steps:
        return np.inf
    if len(steps) == 1:
        return _SAFETY * steps[0]
    ratio = steps[-1] / steps[-2] if steps[-2] else 0.0
    return _SAFETY * steps[-1] * (ratio if ratio < _RATIO else 1.0)


def _states(run: Trajectory, later: bool) -> np.ndarray:
    """Indices of saved times between which weights and loss change about equally.

    Weights change on plateaus too, and small errors made there grow. Every other round takes times between.
    """
    moved = sum(np.linalg.norm(np.diff(w, axis=0), axis=(1, 2)) ** 2 for w in run.weights.values()) ** 0.5
    ways = np.cumsum([np.abs(np.diff(run.loss)), moved], axis=1)
    far = (ways / np.maximum(ways[:, -1:], 1e-300)).sum(axis=0)
    wanted = (np.arange(_STATES) + (0.5 if later else 1.0)) / _STATES * far[-1]
    return np.unique(1 + np.searchsorted(far, wanted).clip(max=len(far) - 1))


def _grown(
    task: Task, start: Start, padded: Bases, b: Weights, step: Mapping[str, int], bases: Bases
) -> tuple[Bases, float]:
    """Bases with the directions outside them in which signals would move weights most, at some states.

    Also the share of a velocity that the largest of the directions left out would add.
    """
    graph = task.graph
    first = shrink(graph, start.weights, padded)
    speed = {e: np.linalg.norm(g, axis=(1, 2)) for e, g in gradient(_small(task, padded), b).items()}
    speed = {e: np.maximum(v, max(_REST * v.max(), 1e-300)) for e, v in speed.items()}
    rows: dict[str, list[np.ndarray]] = {n: [] for n in bases}
    for c in task.moment_contexts:
        network = _Network(task, c, start.weights, padded, {e: b[e] - first[e] for e in graph.edges})
        ahead = network.forwards()
        behind = network.backwards({o: y - ahead.get(o, 0 * y) for o, y in c.targets.items()})
        for n, found in rows.items():
            out = {e: graph.edges[e][1] for e in graph.outgoing[n]}
            into = {e: graph.edges[e][0] for e in graph.incoming[n]}
            for here, there, edges in ((ahead, behind, out), (behind, ahead, into)):
                others = [
                    c.gate(e) * there[v] / speed[e][:, None, None] for e, v in edges.items() if v in there
                ]
                if n in here and others:
                    outside = here[n] - here[n] @ padded[n] @ padded[n].T
                    found.append((_root(others) @ outside).reshape(-1, graph.nodes[n]))
    grown, left = {}, 0.0
    for n, found in rows.items():
        every = np.concatenate(found) if found else np.zeros((1, graph.nodes[n]))
        new, size = _directions(every, _DIRECTIONS * start.error, step[n])
        grown[n] = np.linalg.qr(np.concatenate([bases[n], new], axis=1))[0]
        left = max(left, float(size[new.shape[1] :].max(initial=0.0)))
    return grown, left


def _root(parts: list[np.ndarray]) -> np.ndarray:
    """R with `R^T R` the sum of `x x^T` over the parts x (states, rows, size)."""
    values, vectors = np.linalg.eigh(sum(x @ x.swapaxes(1, 2) for x in parts))
    return np.sqrt(np.maximum(values, 0.0))[:, :, None] * vectors.swapaxes(1, 2)


def _directions(rows: np.ndarray, least: float, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Principal directions of the rows, as columns, of more than the least size; the sizes of all of them."""
    _, size, directions = np.linalg.svd(rows, full_matrices=False)
    return directions[size > least][:most].T, size


class _Network:
    """One context of the full network at some states `W(0) + Q_t D Q_s^T`, D of shape (states, k, k)."""

    def __init__(self, task: Task, context: Context, weights: Weights, bases: Bases, moved: Weights) -> None:
        self.graph, self.context = task.graph, context
        self.weights, self.bases, self.moved = weights, bases, moved

    def forwards(self) -> dict[str, np.ndarray]:
        """Signals (states, rows, size) of the nodes that the inputs reach."""
        g, c = self.graph, self.context
        found: dict[str, Any] = {x: c.gate(x) * v for x, v in c.inputs.items()}
        for n in g.order:
            self._sum(found, n, {e: g.edges[e][0] for e in g.incoming[n]}, back=False)
        return found

    def backwards(self, ends: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Signals (states, rows, size) of the nodes that lead to outputs, from signals at the outputs."""
        g, c = self.graph, self.context
        found: dict[str, Any] = {o: c.gate(o) * v for o, v in ends.items()}
        for n in reversed(g.order):
            self._sum(found, n, {e: g.edges[e][1] for e in g.outgoing[n]}, back=True)
        return found

    def _sum(self, found: dict[str, Any], node: str, near: Mapping[str, str], back: bool) -> None:
        """Add the signals of a node, if any come from the nodes near it."""
        c, parts = self.context, {e: v for e, v in near.items() if v in found}
        if parts:
            total = sum(c.gate(e) * self._passed(found[v], e, v, node, back) for e, v in parts.items())
            found[node] = c.gate(node) * total

    def _passed(self, signal: np.ndarray, edge: str, here: str, there: str, back: bool) -> np.ndarray:
        """What an edge makes of a signal."""
        w, d = self.weights[edge], self.moved.get(edge)
        w, d = (w, d) if back else (w.T, None if d is None else d.swapaxes(1, 2))
        if d is None:
            return signal @ w
        inside = signal @ self.bases[here] if here in self.bases else signal
        gained = inside @ d
        return signal @ w + (gained @ self.bases[there].T if there in self.bases else gained)
