"""Bases: what they miss (the projection residual), their enrichment by that, and their truncation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from neuralrace.lowrank import constants
from neuralrace.lowrank.layout import Arrays, Layout
from neuralrace.lowrank.linalg import factor, norm, row_basis
from neuralrace.lowrank.network import Direction, ReducedNetwork, State
from neuralrace.task import Task


class Point(NamedTuple):
    """The network at some coordinates, and the units in which its residual counts.

    `signals` has those of the samples forwards and those of their errors backwards, `change` the changes of
    the weights as these pass them. `size` has the norm of each edge's change; `scale` the velocity of each
    edge, as `assess` says; `speed` is the largest velocity relative to size.
    """

    y: np.ndarray
    state: State
    signals: tuple[Arrays, Arrays]
    change: tuple[Arrays, Arrays]
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
    scale = dict(zip(net.ends, speed.tolist(), strict=True))
    change = (s.change, {e: n.T for e, n in s.change.items()})
    return Point(y, s, (s.forward, back), change, size, scale, fastest)


def importance(net: ReducedNetwork, d: Direction, v: str, p: Point) -> np.ndarray:
    """How much signals at a node matter: squares of their weights, (contexts, samples, samples).

    They count by the velocity that they give to edges, and forwards by their effect on the outputs too.
    """
    contexts, samples, _ = net.layout.shape
    square = np.zeros((contexts, samples, samples))
    for e, far in d.out[v]:  # moved by the signal at one end times that from the other
        x = net.by_context(net.sent(e, p.signals[1 - d.end][far])) / p.scale[e]
        square += x @ x.transpose(0, 2, 1)
    if d.end == 0:
        effect = np.square(net.by_context(p.state.backward[v])).sum((1, 2)) / net.output_size**2
        square += effect[:, None, None] * np.eye(samples)
    return square


def projection_residual(net: ReducedNetwork, p: Point) -> float:
    """Largest relative velocity, or share of the outputs, that the bases miss.

    It is summed over the nodes on the way, and estimated by random directions.
    """
    totals = [0.0]
    for d in net.directions:
        signals, change, total = p.signals[d.end], p.change[d.end], {}
        for v in d.order:
            total[v] = max((total[s] for _, s in d.into[v]), default=0.0)
            if v in d.basis:
                lost = -signals[v].dot(d.basis_sketch[v])
                for e, s in d.into[v]:
                    x = net.sent(e, signals[s])
                    lost += x.dot(d.sketch[e]) + x.dot(change[e].T).dot(d.other.basis_sketch[v])
                rows = net.by_context(lost)
                squares = importance(net, d, v, p) * (rows @ rows.transpose(0, 2, 1))
                total[v] += float(squares.sum()) ** 0.5
        totals += total.values()
    return max(totals)


def reduced_network(
    task: Task, weights: Mapping[str, np.ndarray], rates: Mapping[str, float]
) -> ReducedNetwork:
    """The network at its start, in bases of the signals that pass it there."""
    net = ReducedNetwork(Layout(task, rates), weights)
    for d in net.directions:  # errors, which go backwards, are known after the forward bases
        y = net.coordinates[0]
        _extend_all(net, d, [assess(net, y, net.state(y), 0.0)], None)
        net.update({})
    error = norm(net.state(net.coordinates[0]).error)
    net.output_size = max(norm(net.layout.targets), error, 1e-300)
    return net


def look_ahead(
    net: ReducedNetwork, p: Point, h: float, left: float, tolerated: float, rest_speed: float
) -> list[Point]:
    """A point and some to come, by long implicit steps in the present bases, while these are good enough."""
    points, limit = [p], min(constants.LOOK_RESIDUAL * tolerated, constants.MAX_RESIDUAL)
    for _ in range(constants.LOOK_STEPS):
        h, s = constants.LOOK_GROWTH * h, points[-1].state
        y = points[-1].y + h * net.velocity(s, net.implicit_error(s, h, s.error))
        points.append(assess(net, y, net.state(y), rest_speed))
        left -= h
        if left < 0 or projection_residual(net, points[-1]) > limit:
            break
    return points


def enrich(net: ReducedNetwork, points: list[Point], tolerated: float) -> None:
    """Extend the bases by the signals outside them at some points, down to a share of a residual."""
    for d in net.directions:
        _extend_all(net, d, points, constants.ENRICH_DOWN_TO * tolerated)
    net.update(net.split(net.coordinates))


def truncate(net: ReducedNetwork, points: list[Point], least: float) -> np.ndarray:
    """Drop directions that matter less than a share `least` at some points; their coordinates afterwards.

    What matters is the change of the weights at the first point, and the signals at all of them that move
    weights or reach outputs.
    """
    n = len(net.coordinates)
    net.coordinates = np.concatenate([net.coordinates, [p.y for p in points]])
    past = net.split(net.coordinates)
    kept: list[Arrays] = [{}, {}]
    for d in net.directions:
        for v in d.basis:
            changes = [past[e][n].T if d.end else past[e][n] for e, _ in d.out[v]]
            parts = [x / max(norm(x), 1e-300) for x in changes]
            signals = np.concatenate([p.signals[d.end][v] for p in points])
            parts.append(_weighted(net, d, v, points, signals))
            _, size, rows = np.linalg.svd(np.concatenate(parts), full_matrices=False)
            kept[d.end][v] = rows[size > least]
    for d in net.directions:
        for v, rows in kept[d.end].items():
            d.basis[v] = rows @ d.basis[v]
            for e, _ in d.out[v]:
                past[e] = rows @ past[e] if d.end else past[e] @ rows.T
                d.image[e] = rows @ d.image[e]
        d.forget()
    net.dual = {}
    net.update(past)
    net.coordinates, states = net.coordinates[:n], net.coordinates[n:]
    return states


def _weighted(net: ReducedNetwork, d: Direction, v: str, points: list[Point], rows: np.ndarray) -> np.ndarray:
    """Signals at a node, mixed within each context so that their lengths are what they matter.

    Rows of all points are below each other, here and in `_outside`.
    """
    roots = factor(np.concatenate([importance(net, d, v, p) for p in points]))
    return (roots @ rows.reshape(*roots.shape[:2], -1)).reshape(rows.shape)


def _extend_all(net: ReducedNetwork, d: Direction, points: list[Point], least: float | None) -> None:
    """Extend all bases of one direction, in its order, by what is outside them and matters more than `least`.

    None: by all that is outside. Signals at the points are extended too, for the nodes that follow.
    """
    for v in (v for v in d.order if v in d.basis):
        outside = _outside(net, d, v, points)
        if least is None:
            u = row_basis(outside, 1e-9 * norm(outside))
        else:
            u = row_basis(_weighted(net, d, v, points, outside), least)
        u = _extend(d, v, u)
        for p, x in zip(points, np.split(outside @ u.T, len(points)), strict=True):
            p.signals[d.end][v] = np.concatenate([p.signals[d.end][v], x], axis=1)


def _extend(d: Direction, v: str, u: np.ndarray) -> np.ndarray:
    """Append rows u to a basis, made orthogonal to it; those that were appended."""
    q = d.basis[v]
    u = u[: q.shape[1] - len(q)]
    u = row_basis(u - (u @ q.T) @ q, constants.DEPENDENT)
    d.basis[v] = np.concatenate([q, u])
    for e, _ in d.out[v]:
        d.image[e] = np.concatenate([d.image[e], u @ d.weights[e].T])
    return u


def _outside(net: ReducedNetwork, d: Direction, v: str, points: list[Point]) -> np.ndarray:
    """What arrives at a node and is not in its basis, rows of full size."""
    q, total = d.basis[v], 0.0
    for e, s in d.into[v]:
        sent = [net.sent(e, p.signals[d.end][s]) for p in points]
        changes = [p.change[d.end][e] for p in points]
        moved = [x[:, : n.shape[1]].dot(n.T) for x, n in zip(sent, changes, strict=True)]
        total = total + np.concatenate(sent) @ d.image[e]
        total += np.concatenate(moved) @ d.other.basis[v][: len(changes[0])]
    return total - (total @ q.T) @ q
