"""What the bases do not hold: the projection residual, relative to the velocity of the weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from neuralrace.lowrank import constants
from neuralrace.lowrank.layout import Arrays
from neuralrace.lowrank.linalg import norm
from neuralrace.lowrank.network import ReducedNetwork, State


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
            for v, _, edges in routes:
                sums[v] = max((sums[n] for _, n, _ in edges), default=0.0)
                if v not in d.basis:
                    continue
                gained = d.arriving(k, v, signals, change)
                lost = d.arriving(k, v, signals, d.sketch) + gained.dot(other.basis_sketch[v].T)
                lost -= signals[v].dot(d.basis_sketch[v].T)
                # An edge is moved by the signal at one end times that from the other.
                sizes = [
                    abs(gate) * norm(opposite[far].T.dot(lost)) / p.scale[e]
                    for e, far, gate in other.into[k][v]
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
