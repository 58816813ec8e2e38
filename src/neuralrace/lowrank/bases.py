"""Bases: what they miss (the projection residual), their enrichment by that, and their truncation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from neuralrace.lowrank import constants
from neuralrace.lowrank.layout import Arrays, Layout
from neuralrace.lowrank.linalg import factor, norm, row_basis, scaled, transport
from neuralrace.lowrank.network import Direction, ReducedNetwork, State
from neuralrace.task import Task

Signals = list[tuple[Arrays, Arrays]]  # per context: signals, and what the changes of the weights add to them


class Point(NamedTuple):
    """The network at some coordinates, and the units in which its residual counts.

    `signals` has those of the samples forwards and those of the errors backwards, of each context. `size` has
    the norm of each edge's change; `scale` the velocity of each edge, as `assess` says; `speed` is the
    largest velocity relative to size.
    """

    state: State
    signals: tuple[list[Arrays], list[Arrays]]
    size: np.ndarray
    scale: dict[str, float]
    speed: float


def assess(net: ReducedNetwork, y: np.ndarray, s: State, rest_speed: float) -> Point:
    """Signals and units at coordinates y with state s.

    A signal outside a basis counts by the velocity that it would add to an edge, relative to that of the edge
    or to `rest_speed` times its size, whichever is larger. A frozen edge counts as if it learned, since what
    it carries moves others.
    """
    back = net.error_signals(s, s.error)
    size = np.maximum(net.norms(y), net.unit)
    rates = np.where(net.rates > 0, net.rates, 1.0)
    speed = np.maximum(net.norms(net.gradient(s, back)), rest_speed * size / rates)
    speed = np.maximum(speed, max(1e-12 * speed.max(), 1e-140))
    fastest = float((net.rates * speed / size).max(initial=0.0))
    return Point(s, (s.forward, back), size, dict(zip(net.ends, speed.tolist(), strict=True)), fastest)


def projection_residual(net: ReducedNetwork, p: Point) -> tuple[float, float]:
    """Largest relative velocity that the bases miss at a node, and what all outputs miss at once.

    The first is a sum over contexts, and over the nodes on the way, estimated by random directions.
    """
    largest = outputs = 0.0
    for end, (d, other) in enumerate((net.directions, net.directions[::-1])):
        total, change = dict.fromkeys(d.basis, 0.0), p.state.seen(end)
        for k, routes in enumerate(d.routes):
            signals, opposite, sums = p.signals[end][k], p.signals[1 - end][k], {}
            for v, (_, edges) in routes.items():
                sums[v] = max((sums[n] for _, n, _ in edges), default=0.0)
                if v not in d.basis:
                    continue
                gained = d.arriving(k, v, signals, change)
                lost = d.arriving(k, v, signals, d.sketch) + gained.dot(other.basis_sketch[v].T)
                lost -= signals[v].dot(d.basis_sketch[v].T)
                # An edge is moved by the signal at one end times that from the other.
                sizes = [
                    abs(gate) * norm(opposite[far].T.dot(lost)) / p.scale[e]
                    for e, far, gate in other.routes[k][v][1]
                ]
                if end == 0:
                    missed = norm(output_defect(net, p.state, k, v, gained))
                    sizes.append(constants.OUTPUT_WEIGHT * missed / net.output_size)
                    outputs += missed
                sums[v] += max(sizes)
                total[v] += sums[v]
        largest = max(largest, *total.values(), 0.0)
    return largest, outputs


def output_defect(net: ReducedNetwork, s: State, k: int, v: str, gained: np.ndarray) -> np.ndarray:
    """What the outputs miss of the signals outside the forward basis of a node, (rows, outputs).

    `gained` is what arrives there through the changes of the weights.
    """
    d, signals = net.forward, s.forward[k]
    arriving = d.arriving(k, v, signals, d.other) + gained
    return (arriving - signals[v].dot(d.overlap[v])).dot(s.backward[k][v].T)


def reduced_network(
    task: Task, weights: Mapping[str, np.ndarray], rates: Mapping[str, float], dtype: Any = float
) -> ReducedNetwork:
    """The network at its start, in bases of the signals that pass it there."""
    layout = Layout(task, rates)
    net = ReducedNetwork(layout, weights, dtype)
    for end in (0, 1):  # errors, which go backwards, are known after the forward bases
        y = net.coordinates[0]
        signals = _stacked(net, [assess(net, y, net.state(y), 0.0)], end)
        _extend_all(net, net.directions[end], signals, lambda _k, _v, x: x, lambda rows: 1e-9 * norm(rows))
        net.allocate({})
    error = norm(net.state(net.coordinates[0]).error)
    net.output_size = max(norm(layout.targets), error, 1e-300)
    return net


def initial_bases(task: Task, weights: Mapping[str, np.ndarray]) -> Arrays:
    """Bases (size, k) of what passes each wide node, forwards and backwards, at the initial weights.

    Nodes with no more neurons than that are left out.
    """
    net = reduced_network(task, weights, dict.fromkeys(task.graph.shapes, 1.0))
    both = {v: np.concatenate([d.basis[v] for d in net.directions]).T for v in net.forward.basis}
    return {v: np.linalg.qr(q)[0] for v, q in both.items() if q.shape[1] < len(q)}


def enrich(net: ReducedNetwork, points: list[Point], tolerated: float) -> None:
    """Extend the bases by the signals outside them at some points, down to a share of a residual."""
    least = constants.ENRICH_DOWN_TO * tolerated
    both = [_stacked(net, points, end) for end in (0, 1)]
    for end, d in enumerate(net.directions):

        def weigh(k: int, v: str, outside: np.ndarray, end: int = end) -> np.ndarray:
            parts = _per_point(outside, points)
            extra = 0.0 if end else _output_weights(net, points, k, v, parts, least)
            root = _velocity_weights(net, points, both[1 - end][k][0], end, k, v, extra)
            return (root.astype(outside.dtype) @ parts).reshape(outside.shape)

        _extend_all(net, d, both[end], weigh, lambda _: least)
    net.allocate(net.split(net.coordinates))


def truncate(net: ReducedNetwork, states: np.ndarray, points: list[Point], least: float) -> np.ndarray:
    """Drop directions that matter less than a share `least` at some states; the same states afterwards.

    What matters is the change of the weights at the first state, and the signals at all of them that move
    weights or reach outputs.
    """
    both, n = [_stacked(net, points, end) for end in (0, 1)], len(net.coordinates)
    net.coordinates = np.concatenate([net.coordinates, states])
    past = net.split(net.coordinates)
    rotations: list[Arrays] = [{}, {}]
    for end, d in enumerate(net.directions):
        for v in d.basis:
            changes = [past[e][n].T if end else past[e][n] for e in d.out[v]]
            parts = [x / max(norm(x), 1e-300) for x in changes]
            for k, edges in enumerate(d.routes):
                if v not in edges:
                    continue
                signals, extra = both[end][k][0][v], 0.0
                if end == 0:  # effect on the outputs
                    size = np.array([norm(p.state.backward[k][v]) for p in points]) / net.output_size
                    extra = np.eye(len(signals) // len(points)) * size[:, None, None] ** 2
                root = _velocity_weights(net, points, both[1 - end][k][0], end, k, v, extra)
                parts.append((root @ _per_point(signals, points)).reshape(signals.shape))
            _, size, rows = np.linalg.svd(np.concatenate(parts), full_matrices=False)
            rotations[end][v] = rows[size > least]
    for end, d in enumerate(net.directions):
        for v, rows in rotations[end].items():
            d.basis[v] = rows.astype(net.dtype) @ d.basis[v]
            for e in d.out[v]:
                past[e] = rows @ past[e] if end else past[e] @ rows.T
                d.image[e] = rows.astype(net.dtype) @ d.image[e]
        d.forget_products()
    net.allocate(past)
    net.coordinates, states = net.coordinates[:n], net.coordinates[n:]
    return states


def _stacked(net: ReducedNetwork, points: list[Point], end: int) -> Signals:
    """Signals of one direction at some points, those of one context below each other."""
    d, signals = net.directions[end], []
    for k, edges in enumerate(d.routes):
        each = [(p.signals[end][k], p.state.seen(end)) for p in points]
        gained = {v: [d.arriving(k, v, x, change) for x, change in each] for v in edges if v in d.basis}
        joined = {v: np.concatenate([x[v] for x, _ in each]) for v in each[0][0]}
        signals.append((joined, {v: np.concatenate(x) for v, x in gained.items()}))
    return signals


def _per_point(rows: np.ndarray, points: list[Point]) -> np.ndarray:
    return rows.reshape(len(points), len(rows) // len(points), rows.shape[1])


def _extend_all(
    net: ReducedNetwork,
    d: Direction,
    signals: Signals,
    weigh: Callable[..., np.ndarray],
    least: Callable[..., float],
) -> None:
    """Extend all bases of one direction, in its order, by the weighted signals outside them."""
    new: list[Arrays] = [{} for _ in signals]  # signals along the new directions of nodes before
    for v in (v for v in d.order if v in d.basis):
        here = [k for k, edges in enumerate(d.routes) if v in edges]
        if not here:
            continue
        outside = {k: _outside(net, d, k, v, signals[k], new[k]) for k in here}
        rows = np.concatenate([weigh(k, v, x) for k, x in outside.items()])
        u = _extend(d, v, row_basis(rows, least(rows)))
        if len(u):
            for k, x in outside.items():
                new[k][v] = x @ u.T


def _extend(d: Direction, v: str, u: np.ndarray) -> np.ndarray:
    """Append rows u to a basis, made orthogonal to it; those that were appended."""
    q = d.basis[v]
    u = u[: q.shape[1] - len(q)].astype(q.dtype)
    for _ in range(4 if len(u) else 0):
        along = u @ q.T
        u = row_basis(u - along @ q, constants.DEPENDENT).astype(q.dtype)
        if np.abs(along).max(initial=0.0) < np.finfo(q.dtype).eps ** 0.5:
            break
    if len(u):
        d.basis[v] = np.concatenate([q, u])
        for e in d.out[v]:
            d.image[e] = np.concatenate([d.image[e], transport(d.weights[e], u)])
    return u


def _outside(
    net: ReducedNetwork, d: Direction, k: int, v: str, signals: tuple[Arrays, Arrays], new: Arrays
) -> np.ndarray:
    """What arrives at a node and is not in its basis, rows of full size."""
    q, (seen, gained), total = d.basis[v], signals, 0.0
    node_gate, edges = d.routes[k][v]
    for e, n, gate in edges:
        x = np.concatenate([seen[n], new[n]], axis=1) if n in new else seen[n]
        total = total + scaled(gate, x.astype(q.dtype) @ d.image[e])
    other = net.backward if d is net.forward else net.forward
    x = gained[v].astype(q.dtype)
    x = scaled(node_gate, total) + x @ other.basis[v][: x.shape[1]]
    return x - (x @ q.T) @ q


def _velocity_weights(
    net: ReducedNetwork, points: list[Point], opposite: Arrays, end: int, k: int, v: str, extra: Any
) -> np.ndarray:
    """Matrices that weigh the signals at a node by the relative velocity that they give to edges.

    One for each point, (points, rows, rows); `extra` is added to their squares.
    """
    square = extra
    for e, far, gate in net.directions[1 - end].routes[k][v][1]:
        x = _per_point(opposite[far], points)
        unit = np.array([(gate / p.scale[e]) ** 2 for p in points])
        square = square + unit[:, None, None] * (x @ x.transpose(0, 2, 1))
    return factor(square)


def _output_weights(
    net: ReducedNetwork, points: list[Point], k: int, v: str, outside: np.ndarray, least: float
) -> Any:
    """The same by what the outputs miss of signals outside a basis, in squares; 0 where that is little."""
    gained = [net.forward.arriving(k, v, p.state.forward[k], p.state.change) for p in points]
    defects = np.stack([output_defect(net, p.state, k, v, g) for p, g in zip(points, gained, strict=True)])
    if norm(defects) < least * net.output_size:
        return 0.0
    square, rows = np.linalg.eigh(defects @ defects.transpose(0, 2, 1))
    size = np.sqrt(np.maximum(square, 0.0)) / net.output_size
    length = np.linalg.norm(rows.transpose(0, 2, 1).astype(outside.dtype) @ outside, axis=2)
    root = rows * (size / np.maximum(length, 1e-6 * length.max() + 1e-300))[:, None, :]
    return root @ root.transpose(0, 2, 1)
