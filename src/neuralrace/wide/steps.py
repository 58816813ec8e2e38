"""Flows of wide networks: extrapolated steps that are implicit in the outputs, and their error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from neuralrace.task import Task
from neuralrace.wide.carriers import Rows
from neuralrace.wide.network import SPARE, Signals, Wide

_RESIDUAL = 150.0  # tolerated residual, in tolerances of the steps
_FORGET = 1e-4  # share of that down to which directions are kept
_OLD = 6.0  # growth of the small weights at which frames forget
_COLUMNS = 9  # most columns of the extrapolation
_FIRST = 0.02  # first tolerance of the steps, in tolerances of the result


class Solution(NamedTuple):
    """What the weights gained at the times asked for, in all that the frames ever held, and the losses."""

    gained: list[Rows]
    loss: np.ndarray
    end: float
    steps: int
    outcome: str  # finished, stopped, step limit or failed


def solve(
    net: Wide,
    ts: Iterable[float],
    t1: float,
    tolerance: float,
    stop: float = -np.inf,
    max_steps: int = 100_000,
) -> Solution:
    """The flow to time t1, or until the loss falls to `stop`; relative local errors of `tolerance`."""
    residual = min(_RESIDUAL * tolerance, 0.3)
    t, steps, step, kept, outcome = 0.0, 0, 0.0, [], "finished"
    s, _ = net.hold(net.signals(net.moved), 0.0, residual)
    size, unit = len(net.moved), np.array([np.sqrt(np.mean(w**2)) for w in net.weights.values()])
    speed = net.velocity(s, net.returned(net.moved, s.error), s.error)
    with np.errstate(divide="ignore"):
        step = min(t1, 0.01 * np.min(unit / np.sqrt(np.add.reduceat(speed**2, net.at[:-1]))))
    settled = 0.1 * tolerance * np.linalg.norm(s.error)
    ts = np.asarray(ts)
    for until in [*ts, *([t1] if t1 > ts[-1] else [])]:
        while t < until and outcome == "finished" and np.linalg.norm(s.error) > settled:
            last = t + 1.001 * step >= until
            h = until - t if last else step
            new, step = _extrapolate(net, s, h, tolerance, unit)
            steps += 1
            if steps == max_steps:
                outcome = "step limit"
            if step < 1e-14 * t1:
                outcome = "failed"
            if new is None:
                continue
            old, net.moved = net.moved, new
            ahead = net.signals(new)
            if net.loss(ahead) <= stop:
                if abs(net.loss(ahead) / stop - 1) > 1e-6 and h > 1e-12 * t:  # where exactly
                    part = np.log(net.loss(s) / stop) / np.log(net.loss(s) / net.loss(ahead))
                    net.moved, step = old, h * np.clip(part, 0.01, 0.99)
                    continue
                outcome = "stopped"
            before = net.views(old)
            ahead, grew = net.hold(ahead, 1 / max(t1 - t - h, 1e-3 * t1), residual)
            if grew:  # again, in the larger frames
                net.restate(before)
                s, step = net.signals(net.moved), h
                outcome = "finished" if outcome == "stopped" else outcome
                continue
            t, s = (until if last else t + h), ahead
            if len(new) > _OLD * size:
                net.forget(_FORGET * residual)
                s, _ = net.hold(net.signals(net.moved), 1 / t1, 10 * SPARE * residual)
                size = len(net.moved)
        if not kept or kept[-1][2] < steps:
            kept.append((net.archived(), net.loss(s), steps))
        else:  # as it was
            kept.append(kept[-1])
    kept = kept[: len(ts)]
    end = t if outcome != "finished" else t1
    return Solution([m for m, *_ in kept], np.array([x for _, x, _ in kept]), end, steps, outcome)


def _extrapolate(net: Wide, s: Signals, h: float, tolerance: float, unit: np.ndarray) -> Any:
    """One step, None if it failed, and how long the next may be."""
    table: list[np.ndarray] = []
    work, sizes, error, before, j = [], [], np.inf, np.inf, 0
    first = net.returned(net.moved, s.error)
    for j in range(1, _COLUMNS + 1):
        y = net.moved
        for i in range(j):
            now = net.signals(y) if i else s
            back = net.returned(y, now.error) if i else first
            y = y + h / j * net.velocity(now, back, net.lag(now, back, h / j))
        row = [y]
        for k, above in enumerate(table, 1):
            row.append(row[-1] + (row[-1] - above) * (j - k) / k)
        table = row
        if j == 1:
            continue
        scale = np.maximum(np.sqrt(np.add.reduceat(row[-1] ** 2, net.at[:-1])), unit)
        before, error = error, (np.sqrt(np.add.reduceat((row[-1] - row[-2]) ** 2, net.at[:-1])) / scale).max()
        error = error / tolerance
        if not np.isfinite(error):
            return None, h / 10
        sizes.append(h * min(4.0, 0.9 * (0.7 / max(error, 1e-12)) ** (1 / j)))
        work.append((2 + j * (j - 1) / 2) / sizes[-1])
        if error < 1 or (j > 3 and error > before):
            break
    best = int(np.argmin(work))
    if error >= 1:
        return None, min(sizes[best], h / 2)
    more = (2 + j * (j + 1) / 2) / (2 + j * (j - 1) / 2)  # the next column may do better
    return table[-1], sizes[best] * (more if best == len(work) - 1 and j < _COLUMNS else 1.0)


class Followed(NamedTuple):
    """A run: its network in small spaces at saved times, its error as it is stated, and how it went."""

    net: Wide
    solution: Solution
    small: Rows
    sizes: dict[str, int]
    error: float


def follow(
    task: Task, weights: Mapping[str, np.ndarray], frozen: Iterable[str], ts: np.ndarray, t1: float,
    width_error: float, stop: float, max_steps: int,
) -> Followed:  # fmt: skip
    """Solve with smaller and smaller tolerances until what flows through the edges changes little."""
    tolerance, seen, error = _FIRST * width_error, None, np.inf
    while True:
        net = Wide(task, weights, frozen, np.float32 if width_error >= 1e-3 else np.float64)
        found = solve(net, ts, t1, tolerance, stop, max_steps)
        small, sizes = net.small(found.gained)
        now = net.through(small)
        if seen is not None:
            # The error of the coarser one, or more if the two came near to each other by chance.
            error = np.linalg.norm(now - seen, axis=2).max() / np.linalg.norm(now, axis=2).max()
            error = max(error, 0.2 * _RESIDUAL * tolerance)
        lowest = tolerance < 1e-12
        if error <= width_error or lowest or found.outcome in ("failed", "step limit"):
            return Followed(net, found, small, sizes, float(error))
        tolerance *= 0.25 if seen is None else np.clip(0.5 * width_error / error, 0.03, 0.25)
        seen = now
