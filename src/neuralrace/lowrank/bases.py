"""Bases: what they miss (the projection residual), their enrichment by that, and their truncation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from neuralrace.lowrank import constants
from neuralrace.lowrank.network import (
    Arrays,
    Direction,
    Pass,
    ReducedNetwork,
    Wiring,
    factor,
    norm,
    row_basis,
)
from neuralrace.task import Task


class Point(NamedTuple):
    """The network at some coordinates, and the units in which its residual counts.

    `signals` has those of the samples forwards and those of their errors backwards. `size` has the norm of
    each edge's change; `scale` the velocity of each edge, as `assess` says; `speed` is the largest velocity
    relative to size.
    """

    y: np.ndarray
    state: Pass
    signals: tuple[Arrays, Arrays]
    size: np.ndarray
    scale: dict[str, float]
    speed: float


def assess(net: ReducedNetwork, y: np.ndarray, s: Pass, rest_speed: float) -> Point:
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
    return Point(y, s, (s.forward, back), size, dict(zip(net.ends, speed.tolist(), strict=True)), fastest)


def importance(net: ReducedNetwork, d: Direction, v: str, p: Point) -> np.ndarray:
    """How much signals at a node matter: squares of their weights, (contexts, samples, samples).

    They count by the velocity that they give to edges, and forwards by their effect on the outputs too.
    """
    contexts, samples, _ = net.wiring.shape
    square = np.zeros((contexts, samples, samples))
    for e, far in d.out[v]:  # moved by the signal at one end times that from the other
        x = net.by_context(net.sent(e, p.signals[1 - d.end][far])) / p.scale[e]
        square += x @ x.transpose(0, 2, 1)
    if d.end == 0:
        effect = np.square(net.by_context(p.state.backward[v])).sum((1, 2)) / net.output_size**2
        square += effect[:, None, None] * np.eye(samples)
    return square


def projection_residual(net: ReducedNetwork, p: Point) -> float:
    """Root of the share of velocities, and of outputs, that the bases miss; norms by random directions."""
    total = 0.0
    for d in net.directions:
        for v in net.basis:
            lost: Any = sum(net.sent(e, p.signals[d.end][s]).dot(d.sketch[e]) for e, s in d.into[v])
            rows = net.by_context(lost)
            total += float((importance(net, d, v, p) * (rows @ rows.transpose(0, 2, 1))).sum())
    return total**0.5


def reduced_network(
    task: Task, weights: Mapping[str, np.ndarray], rates: Mapping[str, float]
) -> ReducedNetwork:
    """The network at its start, in bases of the signals that pass it there."""
    net = ReducedNetwork(Wiring(task, rates), weights)
    for d in net.directions:  # errors, which go backwards, are known after the forward signals
        y = net.coordinates[0]
        enrich(d, net, [assess(net, y, net.state(y), 0.0)], 0.0)
    error = norm(net.state(net.coordinates[0]).error)
    net.output_size = max(norm(net.wiring.targets), error, 1e-300)
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


def adapt(net: ReducedNetwork, points: list[Point], tolerated: float, rest_speed: float, large: bool) -> None:
    """Enrich the bases for some points; truncate them first where they are large."""
    n = len(net.coordinates)
    net.coordinates = np.concatenate([net.coordinates, [p.y for p in points]])
    steps = [truncate] if large else []
    for change in (*steps, *(partial(enrich, d) for d in net.directions)):
        change(net, points, tolerated)
        points = [assess(net, y, net.state(y), rest_speed) for y in net.coordinates[n:]]
    net.coordinates = net.coordinates[:n]


def truncate(net: ReducedNetwork, points: list[Point], tolerated: float) -> None:
    """Drop directions that matter little at some points, which are the last rows of the coordinates.

    What matters is the change of the weights at the first point, and the signals at all of them that move
    weights or reach outputs.
    """
    past, kept = net.split(net.coordinates), {}
    for v in net.basis:
        parts = []
        for d in net.directions:
            changes = [past[e][-len(points)] for e, _ in d.out[v]]
            parts += [(x.T if d.end else x) / max(norm(x), 1e-300) for x in changes]
            parts.append(_weighted(net, d, v, points, np.concatenate([p.signals[d.end][v] for p in points])))
        _, size, rows = np.linalg.svd(np.concatenate(parts), full_matrices=False)
        kept[v] = rows[size > constants.TRUNCATE_BELOW * tolerated]
    for v, rows in kept.items():
        net.restrict(v, rows, past)
    net.update(past)


def _weighted(net: ReducedNetwork, d: Direction, v: str, points: list[Point], rows: np.ndarray) -> np.ndarray:
    """Signals at a node, mixed within each context so that their lengths are what they matter.

    Rows of all points are below each other, here and in `enrich`.
    """
    roots = factor(np.concatenate([importance(net, d, v, p) for p in points]))
    return (roots @ rows.reshape(*roots.shape[:2], -1)).reshape(rows.shape)


def enrich(d: Direction, net: ReducedNetwork, points: list[Point], tolerated: float) -> None:
    """Extend all bases, in the order of one direction, by its signals that are outside them at some points.

    Those that matter; all, if a residual of 0 is tolerated. Signals at the points are extended too, for the
    nodes that follow.
    """
    for v in (v for v in d.order if v in net.basis):
        outside = np.zeros((1, 1))
        for e, s in d.into[v]:
            sent = np.concatenate([net.sent(e, p.signals[d.end][s]) for p in points])
            outside = outside + sent @ d.outside[e]
        if tolerated:
            u = row_basis(_weighted(net, d, v, points, outside), constants.ENRICH_DOWN_TO * tolerated)
        else:
            u = row_basis(outside, 1e-9 * norm(outside))
        u = net.extend(v, u)
        for p, x in zip(points, np.split(outside @ u.T, len(points)), strict=True):
            p.signals[d.end][v] = np.concatenate([p.signals[d.end][v], x], axis=1)
    net.update(net.split(net.coordinates))
