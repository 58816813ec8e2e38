"""Wide networks in bases that stay as they are: the first way in which a reduction around a start is solved.

The bases hold all that the initial weights make of the first signals, forwards and backwards, in two rounds.
Between them the network is a small one, whose shape depends on the task and not on the width or the seed: so
it is compiled once. What the bases miss is measured in larger ones, of a third round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from neuralrace import compiling
from neuralrace.compiling import allowance, compile_here
from neuralrace.dynamics.gradient_flow import flow
from neuralrace.dynamics.lowrank import LowRankWeights, one_thread
from neuralrace.dynamics.methods import Adaptive
from neuralrace.dynamics.setup import Setup, resized, weight_dims
from neuralrace.dynamics.times import save_times
from neuralrace.dynamics.trajectory import Status, Trajectory
from neuralrace.lowrank.bases import reduced_network
from neuralrace.lowrank.layout import Arrays
from neuralrace.lowrank.linalg import norm, row_basis
from neuralrace.lowrank.network import Direction, ReducedNetwork, Saved
from neuralrace.network import program

_LAYERS = 3  # at most: in deeper networks two rounds are seldom enough, and three make large bases
_NUMBERS = 5000  # weights of a small network, at most: larger ones take as long as bases that change
_STEPS = 200  # of a solution, at most: a stiff flow takes fewer in bases that change, by an implicit method
_SOLVER = 0.1  # of the error asked for: a few more steps, and what is stated is nearly all what bases miss
_ROUNDING = 1e-6  # of what the initial weights bring to a node: directions below that are no new ones
_LOOKS = 32  # times at which the share is measured that bases miss


class FixedBases(NamedTuple):
    """A network in the bases of two rounds, and in those of three, which begin with the same directions."""

    net: ReducedNetwork
    larger: ReducedNetwork


def fixed_bases(setup: Setup) -> list[FixedBases] | None:
    """Bases of each run; None where bases that change are faster, or where they are not of one shape."""
    graph = setup.given.graph
    if max(graph.levels.values()) > _LAYERS or graph.diagonal:
        return None
    every, scales = [], setup.rates.scales(graph)
    for run in range(setup.count):
        weights = graph.with_fixed({e: w[run] for e, w in setup.weights.items()})
        larger = reduced_network(setup.given, weights, scales)
        _widen(larger)
        _widen(larger)
        larger.update({})
        every.append(FixedBases(copy(larger), larger))
        sizes = {v: len(q) for v, q in larger.basis.items()}
        if len(larger.flat) > _NUMBERS or sizes != {v: len(q) for v, q in every[0].net.basis.items()}:
            return None
        if 0 in sizes.values():  # no signal reaches a node
            return None
        _widen(larger)
    return every


def _widen(net: ReducedNetwork) -> None:
    """Add to each basis what the initial weights bring there from the bases of its neighbours."""
    added = {}
    for v in net.basis:
        edges = [(d, e) for d in net.directions for e, _ in d.into[v]]
        rows = np.concatenate([d.outside[e] for d, e in edges])
        inside = sum(norm(net.initial[e]) ** 2 for _, e in edges)
        added[v] = row_basis(rows, _ROUNDING * (inside + norm(rows) ** 2) ** 0.5)
    for v, rows in added.items():
        net.extend(v, rows)


def flow_in_fixed_bases(
    setup: Setup,
    t1: float | None,
    save: int | Iterable[float] | None,
    error: float,
    stop_loss: float | None,
    max_steps: int,
) -> Trajectory | None:
    """The flow in fixed bases; `stats["error"]` states the error of the loss, relative to its start.

    None where that is above `error`, or where bases that change should be faster.
    """
    with one_thread():
        bases = fixed_bases(setup)
    if bases is None:
        return None
    nets = [b.net for b in bases]
    small = resized(setup.given, {v: len(q) for v, q in nets[0].basis.items()})
    parts = [n.split(n.flat) for n in nets]
    start = {e: np.stack([p[e] for p in parts]).reshape(-1, *s) for e, s in small.graph.shapes.items()}
    end, ts = save_times(t1, save)
    times = None if save is None else np.union1d(ts, np.linspace(0, end, _LOOKS + 1))
    method = Adaptive.for_error(_SOLVER * error, min(_STEPS, max_steps))
    structure = program(small, "squared").stack.digest, setup.count, times is not None and len(times)
    first = allowance(("fixed bases", structure)).spend(compiling.EVALUATIONS)  # nobody waits who asks once
    with nullcontext() if first else compile_here():
        run = flow(small, start, end, times, method=method, stop_loss=stop_loss, rates=setup.rates)
    if not {Status.FINISHED, Status.REACHED_LOSS}.issuperset(run.statuses) or run.history is None:
        return None
    t, loss, slope = run.history
    looks = np.linspace(0, len(run.t) - 1, _LOOKS + 1).astype(int)
    with one_thread():
        missed = [_missed(b, {e: w[k, looks] for e, w in run.weights.items()}) for k, b in enumerate(bases)]
    # An error of all velocities by a factor is one of time: the loss is off by that share of t dL/dt.
    stated = np.array(missed) * np.abs(t * slope).max(axis=1) / loss[:, 0] + method.stated_error
    if not (stated <= error).all():
        return None
    run.stats.update(error=stated, residual=np.sqrt(missed))
    return _lifted(setup, run, nets, None if save is None else ts)


def _missed(bases: FixedBases, weights: Arrays) -> float:
    """Largest share of the velocity of outputs that bases miss, for weights (times, out, in) between them.

    The velocity is that of the network with these weights in the larger bases, where what is new has the
    initial weights. Errors of outputs are those that this network has.
    """
    net, sizes, large = bases.larger, {v: len(q) for v, q in bases.net.basis.items()}, {}
    for e, w in net.initial.items():
        large[e] = np.repeat(w[None], len(weights[e]), axis=0)
        part = weights[e] if weights[e].ndim == 3 else weights[e][..., None]
        large[e][:, : part.shape[1], : part.shape[2]] = part
    forward, backward = (_signals(d, large) for d in net.directions)
    error = net.layout.targets - sum(_pair(net, forward[o], unit) for o, unit in net.layout.units.items())
    every, inside = np.zeros_like(error), np.zeros_like(error)
    for rate, (e, (s, t)) in zip(net.rates, net.ends.items(), strict=True):
        f, b = net.sent(e, forward[s]), backward[t]
        every += rate * _velocity(net, f, b, error)
        inside += rate * _velocity(net, f[..., : sizes.get(s)], b[..., : sizes.get(t)], error)
    size, outside = (np.sqrt(np.square(v).sum(axis=(1, 2, 3))) for v in (every, every - inside))
    return float((outside / np.maximum(size, 1e-300)).max())


def _signals(d: Direction, weights: Arrays) -> Arrays:
    """Signals at all nodes, (times, rows, size); `Direction.propagate` at many times."""
    signals: Arrays = {}
    for v in d.order:
        total = d.start.get(v, np.zeros((1, 1)))[None]
        for e, s in d.into[v]:
            part = signals[s] @ (weights[e] if d.end else weights[e].swapaxes(1, 2))
            total = total + part * d.edge_gates.get(e, 1.0)
        signals[v] = total * d.node_gates.get(v, 1.0)
    return signals


def _pair(net: ReducedNetwork, x: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """What signals of samples (times, rows, size) do to the outputs, (times, contexts, samples, outputs)."""
    return _by_context(net, x) @ _by_context(net, backward).swapaxes(-1, -2)


def _velocity(net: ReducedNetwork, f: np.ndarray, b: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Velocity of all outputs as one edge learns, from the signals at its ends."""
    back = (error @ _by_context(net, b)).reshape(len(error), -1, b.shape[-1])
    return _pair(net, f @ (f.swapaxes(1, 2) @ back), b)


def _by_context(net: ReducedNetwork, x: np.ndarray) -> np.ndarray:
    return x.reshape(*x.shape[:-2], net.layout.shape[0], -1, x.shape[-1])


class _Rows(Sequence[Saved]):
    """The network of one run at the times that are kept; its coordinates are made when they are read."""

    def __init__(self, run: Trajectory, k: int, net: ReducedNetwork, kept: np.ndarray) -> None:
        self.run, self.k, self.net, self.kept = run, k, net, kept

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, i: Any) -> Any:
        row = self.kept[i]
        y = np.concatenate([self.run.weights[e][self.k, row].ravel() for e in self.net.ends])
        return Saved(float(self.run.t[row]), float(self.run.loss[self.k, row]), self.net, y - self.net.flat)


def _lifted(setup: Setup, run: Trajectory, nets: list[ReducedNetwork], ts: np.ndarray | None) -> Trajectory:
    """The solution at the times asked for, or at all, with weights that are lifted when they are read."""
    kept, t = np.arange(len(run.t)), run.t
    if ts is not None:
        shown = np.isin(run.t, ts)
        shown[-1] |= run.t[-1] < ts[-1]  # the run ended early
        kept = np.flatnonzero(shown)
        t = ts[: len(kept)].copy()
    saved = [_Rows(run, k, net, kept) for k, net in enumerate(nets)]
    run = replace(run, t=t, loss=run.loss[:, kept], weights={})
    if not setup.many:
        t[-1] = min(t[-1], run.end[0])
        run = run[0]
    sizes = {v: len(q) for v, q in nets[0].basis.items()}
    return replace(
        run,
        weights=LowRankWeights(setup, saved, np.tile(np.arange(len(t)), (len(nets), 1))),
        settings={**run.settings, "method": "LowRank", "bases": "fixed", "dimensions": sizes},
        runs=setup.runs,
        dims=weight_dims(setup.given.graph),
    )
