"""Learning times expected over random starts, from depth, width and size of the weights alone.

The learning of a linear network depends on its initial weights only through the directions that signals
reach. Only these are drawn, with the law that they have in a network of the true width (see `revealed`): a
small network for each random start. Learned weights carry signals out of the first directions. So there are
rounds: solve, add the directions in which signals outside would move weights most, solve again. Each round
contains the draws of the one before, and their difference estimates the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from neuralrace.dynamics.gradient_flow import flow
from neuralrace.dynamics.methods import Adaptive
from neuralrace.dynamics.status import Status
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, affordable, choice, integer, known, number, quick
from neuralrace.graph.graph import LARGEST_NODE
from neuralrace.interrupts import Progress
from neuralrace.measure import stopping_time
from neuralrace.reduction.attainable import attainable_loss
from neuralrace.revealed import LAWS, RevealedNetwork
from neuralrace.task import Task

Weights = dict[str, np.ndarray]

_LEAST_SCALE = 1e-150  # products of two weights below it, and of their signals, are lost as floats
_STATES = 8  # times at which signals are computed
_EXAMPLES = 50  # draws by which these times are chosen
_FIRST_SHARE = 0.03  # fraction of a velocity that the first round may leave out; a third of it in the next
_NEGLIGIBLE = 1e-6  # a fraction that counts as zero
_SAFETY = 3.0  # the error in the result, in units of its estimate
_BEST_RATIO = 0.1  # a round is assumed to shrink the error by no more than this factor
_ROOM = 2.25  # layers may grow by this factor before programs are compiled again
_MANY, _PILOT = 20_000, 200  # draws whose cost is estimated first, by that of so many
_LARGEST = 256  # directions of a hidden layer, at most
_METHOD = Adaptive(rtol=1e-6, atol=1e-8, max_steps=5000)
_EXTENSION = 4.0  # factor by which the end is put off until all draws have reached the level,
_PATIENCE = 30.0  # up to so many times the slowest, if most have


@dataclass(frozen=True, eq=False, repr=False)
class ExpectedTime:
    """Learning times of random starts of one size, in flow time (tau = 1, mean loss).

    Attributes
    ----------
    mean, spread : float
        Mean and standard deviation over the draws that reached the level; nan where none (or only one) did.
    standard_error : float
        Of the mean, from the number of draws.
    error : float
        Estimated error of the mean from directions of wide layers that were left out; 0 where none were.
    times : ndarray, shape (draws,)
        Learning time of each draw; nan where the level was not reached.
    reached : float
        Share of the draws that reached the level.
    rounds : int
        How often the hidden layers were enlarged.
    hidden : dict of str to int
        Directions of each hidden layer that were drawn.
    """

    mean: float
    spread: float
    standard_error: float
    error: float
    times: np.ndarray
    reached: float
    rounds: int
    hidden: dict[str, int]

    def __float__(self) -> float:
        return self.mean

    def __repr__(self) -> str:
        n = len(self.times)
        share = "all" if self.reached == 1 else f"{round(self.reached * n)} of"
        return (
            f"ExpectedTime(mean {self.mean:.4g} ± {self.standard_error:.2g}, spread {self.spread:.3g}, "
            f"{share} {n} draws reached the level, error {self.error:.1g})"
        )


def expected_learning_time(
    task: Task,
    init: str,
    scale: float,
    level: float,
    *,
    width: int | Mapping[str, int] | None = None,
    draws: int = 50,
    seed: int = 0,
    t1: float | None = None,
    tolerance: float = 2e-3,
) -> ExpectedTime:
    """Mean and spread of the learning time over random starts, without drawing full networks.

    The cost depends on the sizes of inputs and outputs and on the depth, not on the width of hidden layers.
    It is exact in law for one hidden layer; for more, `error` of the result estimates the effect of those
    directions that were left out.

    Parameters
    ----------
    task : Task
        A linear network with any graph, without biases; gates of hidden nodes and edges are numbers.
    init : {"gaussian", "xavier", "orthogonal"}
        Law of the initial weights, that of `nr.init.gaussian` and so on.
    scale : float
        Its size: `std`, `gain` or `scale`; at least 1e-150.
    level : float
        Loss to reach, below the initial one.
    width : int or dict, optional
        Neurons of all hidden nodes, or of those named, in place of those of the graph. Nodes that fixed edges
        join keep theirs.
    draws : int
        Random starts, at least 2.
    seed : int
    t1 : float, optional
        Largest flow time. By default it is extended until all draws have reached the level, or to 30 times
        the slowest of those that have. A draw also ends after 5000 steps of the solver.
    tolerance : float
        Estimated error of the mean, relative to it, at which no more directions are drawn; at least 1e-5.

    Returns
    -------
    ExpectedTime
        With `mean`, `spread`, `standard_error`, `error`, `times` and more.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.hierarchy()
    >>> narrow, wide = (nr.expected_learning_time(task, "gaussian", 0.01, 0.5, width=n) for n in (64, 10**6))
    >>> wide.mean < narrow.mean, wide.hidden
    (True, {'h1': 23})
    """
    sizes = _checked_sizes(task, width)
    choice("init", init, LAWS)
    scale = number("scale", scale, least=_LEAST_SCALE)
    level = number("level", level, above=0)
    draws, seed = integer("draws", draws, 2, 1_000_000), integer("seed", seed, least=0)
    tolerance = number("tolerance", tolerance, least=1e-5)
    end = None if t1 is None else number("t1", t1, above=0)
    least = attainable_loss(task).loss
    if level <= least:
        raise InputError(f"level must be above {least:.6g}, which no weights can reach; got {level:g}")
    if draws > _MANY:
        same = {"width": width, "seed": seed, "t1": t1, "tolerance": tolerance}
        few = partial(expected_learning_time, task, init, scale, level, draws=_PILOT, **same)
        few()  # compiles
        began = perf_counter()
        hidden = few().hidden
        quick("draws", draws, (perf_counter() - began) * draws / _PILOT)
        affordable("draws", draws, 2.0 * _STATES * draws * task.graph.resized(hidden).n_weights)
    rng = np.random.default_rng(seed)
    network = RevealedNetwork(task, sizes, lambda shape: LAWS[init](rng, draws, shape, scale))
    network.follow_start(_LARGEST // 2)
    first, _ = network.start()
    if level >= first.mean():
        raise InputError(
            f"level must be below the initial loss, about {first.mean():.6g} with this scale; got {level:g}"
        )
    with Progress("expected time") as shown:
        times, error, rounds = converged_times(Draws(network, level, end), tolerance, shown)
    return _result(times, error, rounds, {n: network.known[n] for n in task.graph.hidden})


def _checked_sizes(task: Any, width: Any) -> dict[str, int]:
    """Neurons of every node, of a task whose random starts can be drawn in few directions."""
    if not isinstance(task, Task):
        raise InputError(f"task must be a Task, got {type(task)}")
    g = task.graph
    if not g.is_linear or g.biases or g.diagonal:
        raise InputError("task must have a linear graph, without activations, biases and diagonal edges")
    split = sorted(set(g.hidden) & task.data.neuron_gated)
    if split:
        raise InputError(f"task must gate the neurons of a hidden node together; those of {split} differ")
    if width is None:
        return dict(g.nodes)
    free = [n for n in g.hidden if not {*g.incoming[n], *g.outgoing[n]} & g.fixed.keys()]
    if not isinstance(width, Mapping):
        return g.nodes | dict.fromkeys(free, integer("width", width, most=LARGEST_NODE))
    known("width", width, free, "hidden node without fixed edges")
    return g.nodes | {n: integer(f"width[{n!r}]", size, most=LARGEST_NODE) for n, size in width.items()}


def converged_times(
    draws: Draws, tolerance: float, shown: Callable[[float], None] = lambda share: None
) -> tuple[np.ndarray, float, int]:
    """Learning times, the error of their mean relative to it, and the rounds that it took.

    After each round `shown` is told the way that the error has gone from 1 to the tolerance, in decades.
    """
    network, share, changes = draws.network, _FIRST_SHARE, []
    times, moved = draws.solve()
    while not network.closed and np.isfinite(times).any():
        before = dict(network.known)
        network.follow(moved, share, _LARGEST)
        limited = network.omitted > share
        if network.known != before:
            new, moved = draws.solve()
            changes.append(_change(times, new))
            times = new
        elif network.omitted <= _NEGLIGIBLE:
            break
        # Where a layer has no room left, the share of a velocity that is not seen stands for the error.
        error = max(_estimated_error(changes), network.omitted) if limited else _estimated_error(changes)
        if changes:
            shown(min(1.0, max(0.0, math.log(max(error, 1e-300)) / math.log(min(tolerance, 0.5)))))
        if not network.closed and (limited or (changes and error <= tolerance)):
            return times, error, len(changes)
        share /= 3
    return times, 0.0 if np.isfinite(times).any() else np.nan, len(changes)


def _change(before: np.ndarray, times: np.ndarray) -> float:
    """Mean change of a learning time by the last round, relative to the mean time."""
    both = np.isfinite(before) & np.isfinite(times)
    mean = times[both].mean() if both.any() else 0.0
    return float(np.abs(times - before)[both].mean() / mean) if mean > 0 else np.inf


def _estimated_error(changes: list[float]) -> float:
    """The error of the last round, if the next ones shrink it as the last one did."""
    if not changes:
        return 0.0
    ratio = changes[-1] / changes[-2] if len(changes) > 1 and changes[-2] > 0 else 1.0
    return _SAFETY * changes[-1] * min(1.0, max(_BEST_RATIO, ratio))


def _result(times: np.ndarray, error: float, rounds: int, hidden: dict[str, int]) -> ExpectedTime:
    found = times[np.isfinite(times)]
    mean = float(found.mean()) if len(found) else np.nan
    spread = float(found.std(ddof=1)) if len(found) > 1 else np.nan
    return ExpectedTime(
        mean=mean,
        spread=spread,
        standard_error=spread / math.sqrt(max(len(found), 1)),
        error=error * mean,
        times=times,
        reached=len(found) / len(times),
        rounds=rounds,
        hidden=hidden,
    )


class Draws:
    """Flows of the small networks of all draws, solved together."""

    def __init__(self, network: RevealedNetwork, level: float, t1: float | None) -> None:
        self.network: RevealedNetwork = network
        self.level: float = level
        self.t1: float | None = t1
        self.room: dict[str, int] = {}
        self.save: np.ndarray | None = None

    def solve(self) -> tuple[np.ndarray, Weights]:
        """Learning times `(draws,)`, and changes of the weights at some times `(draws, times, ...)`."""
        self._make_room()
        net = self.network
        small = net.task.resized(self.room)
        start = net.weights(small.graph.nodes)
        draws = len(next(iter(start.values())))
        affordable("draws", draws, _STATES * draws * small.graph.n_weights)
        solved = partial(flow, small, start, stop_loss=self.level, method=_METHOD)
        if self.save is None:
            run, self.t1 = self._search(solved)
            if net.closed:
                return stopping_time(run), {}
            self.save = _state_times(run, self.level, self.t1)
        run = solved(self.t1, self.save)
        moved = {}
        for e in start:
            t, s = net.ends[e]
            known = run.weights[e][:, :, : net.known[t], : net.known[s]]
            moved[e] = known - start[e][:, None, : net.known[t], : net.known[s]]
        return stopping_time(run), moved

    def _make_room(self) -> None:
        """Set the sizes of the small networks; layers that are not much larger are drawn completely."""
        net, g = self.network, self.network.graph
        for node in g.hidden:
            if net.known[node] <= self.room.get(node, 0):
                continue
            size = net.known[node]
            room = size if net.closed else max(size, min(math.ceil(_ROOM * size), _LARGEST))
            self.room[node] = min(room, net.sizes[node])
            if self.room[node] == net.sizes[node]:
                net.extend(node, net.sizes[node] - size)

    def _search(self, solved: Callable[..., Trajectory]) -> tuple[Trajectory, float]:
        """A run in which all draws have reached the level, or are given up; and its end."""
        if self.t1 is not None:
            return solved(self.t1, _even(self.t1)), self.t1
        # The time that it would take at the first speed.
        loss, slope = self.network.start()
        t1 = float(np.clip(((loss - self.level) / np.maximum(slope, 1e-200)).max(), 1e-100, 1e100))
        while True:
            run = solved(t1, _even(t1))
            times = stopping_time(run)
            slowest = np.nanmax(times, initial=0.0)
            patient = t1 < _PATIENCE * slowest or np.isfinite(times).mean() < 0.5
            if Status.FINISHED not in run.statuses or not patient:
                return run, max(t1, _EXTENSION * slowest)
            t1 *= _EXTENSION


def _even(t1: float) -> np.ndarray:
    if not np.isfinite(t1):
        raise InputError("scale must be of a size from which learning can be followed, got one too large")
    return t1 * np.arange(1, _STATES + 1) / _STATES


def _state_times(run: Trajectory, level: float, t1: float) -> np.ndarray:
    """Times at which to look at signals: evenly in time and in loss, over the draws together."""
    shares = (np.arange(_STATES) + 0.5) / _STATES
    found, histories = [], run.history
    assert histories is not None  # flows have one
    for k in np.flatnonzero(stopping_time(run) > 0)[:_EXAMPLES]:
        history = histories.run(k)
        losses = np.minimum.accumulate(history.loss)[::-1]
        found += list(shares * run.end[k])
        found += list(np.interp((1 - shares) * losses[-1] + shares * level, losses, history.t[::-1]))
    if not found:
        return _even(t1)
    ts = np.quantile(found, shares)
    return ts if (np.diff(ts) > 0).all() else _even(ts[-1])
