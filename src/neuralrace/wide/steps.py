"""Flows of wide networks: steps by backward differentiation, implicit in the outputs, and their error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from neuralrace.task import Task
from neuralrace.wide.network import Rows, Wide

_ORDER = 6  # highest of the formulas
_RESIDUAL = 1000.0  # tolerated residual, in tolerances of the steps
_SLOW = 0.1  # velocities count at least as much as takes weights so far, in the time left
_REST = ((0.4, 3), (0.75, 1))  # shares of the tolerated residual, and steps without a look at it below
_FORGET = 0.1  # tolerances of the steps down to which directions are kept
_OLD = 3.0  # growth of the small weights at which frames forget
_EARLY = 0.04  # least share of the tolerances, while nothing has been learned: early errors grow
_FIRST = 0.02  # first tolerance of the steps, in tolerances of the result, for a path of one edge
# Of errors, as they add up: how much they may change the result, relative to time times its rate of change.
_LOCAL = 0.5
_LEFT = 0.4


class Solution(NamedTuple):
    """What was kept at the times asked for, and the losses there; its error as it is stated."""

    kept: list[Any]
    loss: np.ndarray
    end: float
    steps: int
    outcome: str  # finished, stopped, step limit or failed
    error: float


def solve(
    net: Wide,
    ts: np.ndarray,
    t1: float,
    tolerance: float,
    keep: Callable[[Wide, np.ndarray], Any],
    stop: float = -np.inf,
    max_steps: int = 100_000,
) -> Solution:
    """The flow to time t1, or until the loss falls to `stop`; relative local errors of `tolerance`.

    Formulas of backward differentiation, of orders 1 to 6 and on any past times. Newton's method takes one
    step from where the past points to; its Jacobian has what is stiff, the errors of outputs that relax.

    Early errors grow with what is learned: tolerances are less by the share of that in the first errors.

    The stated error is that at the times asked for. Local errors and what left the frames add up, each
    relative to the weights. (What leaves before frames grow is orthogonal to what leaves later: there squares
    add up.) Where outputs change fast, an error of the velocity is one of time, and counts by time times
    their rate of change. What of the outputs the frames do not see comes on top.
    """
    view = net.view(net.past[0], 0.0)
    s, size, most = view.state, net.past.shape[1], tolerance
    with np.errstate(divide="ignore"):
        h = min(t1, 0.1 * (_EARLY * most) ** 0.5 * np.min(net.unit / net.norms(view.speed)))
    first = float(np.linalg.norm(s.error))
    settled = 0.1 * most * first
    kept, change, check = [(keep(net, net.past[0]), net.loss(s))], 0.0, 0
    net.past = np.concatenate([net.past, np.zeros((_ORDER + 2, net.past.shape[1]))])
    rows = [0]  # of the past, the last one first
    times, order, same, steps, outcome = np.zeros(1), 1, 0, 0, "finished"
    error = stated = local = leaks = leak = left = 0.0

    def mix(*weights: np.ndarray) -> np.ndarray:
        """Sums of the past."""
        every = np.zeros((len(weights), len(net.past)))
        for row, w in zip(every, weights, strict=True):
            row[rows[: len(w)]] = w
        return every @ net.past

    def at(t: float) -> np.ndarray:
        return mix(_through(times[: order + 1], t))[0]

    def above(t: float) -> float:
        return np.log(net.loss(net.state(at(t))) / stop)

    while outcome == "finished" and times[0] < t1 and np.linalg.norm(s.error) > settled:
        share = max(1 - float(np.linalg.norm(s.error)) / first, _EARLY)
        tolerance, residual = share * most, min(_RESIDUAL * share * most, 0.3)
        h = t1 - times[0] if times[0] + 1.001 * h > t1 else h
        t = times[0] + h
        slow = _SLOW / max(t1 - t, 1e-3 * t1)
        # Where the past points to, by polynomials of some orders, and the formula's part that is known.
        near = same >= order  # time to choose anew
        orders = list(range(max(1, order - near), min(_ORDER, order + near, len(times) - 1) + 1)) or [0]
        known, step = _formula(times[:order], t)
        place = orders.index(min(order, len(times) - 1))
        slot = next(k for k in range(len(net.past)) if k not in rows)
        net.past[slot] = mix(_through(times[: orders[place] + 1], t))[0]
        if check:
            ahead = net.state(net.past[slot])
        else:
            view = net.view(net.past[slot], slow)
            left = net.leaving(view)
            if left > residual:
                leaks, leak, change = leaks + (leak + left * change) ** 2, 0.0, 0.0
                net.grow(slot, view, slow, residual)
                view = net.view(net.past[slot], slow)
                left = net.leaving(view)
            ahead = view.state
        *others, known = mix(*(_through(times[: k + 1], t) for k in orders if k != orders[place]), known)
        guesses = [*others[:place], net.past[slot], *others[place:]]
        # One step of Newton's method.
        new = net.lag(ahead, step, ahead.error - net.pushed(ahead, known - guesses[place]))
        new = known + step * net.velocity(ahead, new)
        scale = np.maximum(net.norms(new), net.unit)
        wrong = {}  # local errors, in tolerances
        for k, guess in zip(orders, guesses, strict=True):
            part = 1 / (np.sum(1 / (t - times[:k])) * (t - times[k])) if k else 0.5
            wrong[max(k, 1)] = part * (net.norms(new - guess) / scale).max() / tolerance
        steps += 1
        if steps == max_steps:
            outcome = "step limit"
        if not wrong[order] < 1:
            same = 0
            finite = np.isfinite(wrong[order])
            h *= np.clip(0.8 * wrong[order] ** (-1 / (order + 1)), 0.2, 0.8) if finite else 0.1
            outcome = "failed" if h < 1e-14 * t1 else outcome
            continue
        # What leaves is in units of the velocity, or of a least one.
        moved = np.maximum(net.norms(new - net.past[rows[0]]), h * np.array(list(view.scale.values())))
        change += (moved / scale).max()
        local += wrong[order] * tolerance
        if check:
            check -= 1
        else:
            leak, change = leak + left * change, 0.0
            check = next((rest for below, rest in _REST if left < below * residual), 0)
        net.past[slot], rows, times = new, [slot, *rows], np.concatenate([[t], times])
        rate = t * np.linalg.norm(ahead.error - s.error) / (t - times[1]) / net.whole
        stated = (1 + rate) * (_LOCAL * local + _LEFT * (leaks + (leak + left * change) ** 2) ** 0.5)
        s, same = ahead, same + 1
        if net.loss(s) <= stop and above(t) <= 0:
            end: Any = brentq(above, times[1], t, xtol=1e-12 * t) if above(times[1]) > 0 else times[1]
            net.past[slot], times[0], outcome = at(end), end, "stopped"
        while len(kept) < len(ts) and ts[len(kept)] <= times[0]:
            y = at(ts[len(kept)])
            now = net.state(y)
            kept.append((keep(net, y), net.loss(now)))
            error = max(error, stated + net.unseen(now))
        if same > order:
            order = max(wrong, key=lambda k: max(wrong[k], 1e-10) ** (-1 / (k + 1)))
            factor = 0.8 * max(wrong[order], 1e-10) ** (-1 / (order + 1))
            h, same = (h * min(factor, 2.0), 0) if not 0.9 < factor < 1.1 else (h, same)
        times, rows = times[: order + 2], rows[: order + 2]
        if net.past.shape[1] > _OLD * size:
            net.forget(slot, slow, _FORGET * tolerance)
            size, check = net.past.shape[1], 0
    last = net.past[rows[0]]
    s = net.state(last)
    error = max(error, stated + net.unseen(s))
    kept += [(keep(net, last), net.loss(s))] * (len(ts) - len(kept))
    end = t1 if outcome == "finished" else times[0]
    states, losses = ([k[i] for k in kept] for i in (0, 1))
    return Solution(states, np.array(losses), end, steps, outcome, error)


def _formula(times: np.ndarray, t: float) -> tuple[np.ndarray, float]:
    """Backward differentiation at time t: weights of the past, and of the velocity."""
    step = 1 / np.sum(1 / (t - times))
    return step * _through(times, t) / (t - times), step


def _through(nodes: np.ndarray, t: float) -> np.ndarray:
    """The value at t of the polynomial through some nodes: weights of its values there."""
    apart = nodes[:, None] - nodes + np.eye(len(nodes))
    return np.where(np.eye(len(nodes), dtype=bool), 1.0, t - nodes).prod(axis=1) / apart.prod(axis=1)


def follow(
    task: Task, weights: Mapping[str, np.ndarray], frozen: Iterable[str], ts: np.ndarray, t1: float,
    width_error: float, stop: float, max_steps: int, full: bool,
) -> tuple[Solution, dict[str, int]]:  # fmt: skip
    """Solve, and again with a smaller tolerance while the stated error is too large; kept are weights in
    small spaces, of the sizes returned, and what full ones gained."""

    def keep(net: Wide, y: np.ndarray) -> tuple[Rows, Rows]:
        return net.small(y), {e: net.gain(e, y) for e in net.ends} if full else {}

    # The steeper the curves, and the longer before, the more an error grows: both as the depth.
    tolerance = _FIRST * width_error / max(task.graph.levels.values()) ** 2
    while True:
        net = Wide(task, weights, frozen, np.float32 if width_error >= 1e-3 else np.float64)
        found = solve(net, ts, t1, tolerance, keep, stop, max_steps)
        if found.error <= width_error or tolerance < 1e-13 or found.outcome in ("failed", "step limit"):
            return found, net.spaces
        tolerance *= 0.8 * width_error / found.error
