"""Flows of wide networks: steps by backward differentiation, implicit in the outputs, and their error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from math import prod
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from neuralrace.task import Task
from neuralrace.wide.network import Rows, State, View, Wide

_ORDER = 6  # highest of the formulas
_SAME = 0.9  # lengths of steps that differ less are not changed
_RESIDUAL = 100.0  # tolerated residual, for tolerances of the steps to the power of
_POWER = 0.8
_SLOW = 0.1  # velocities count at least as much as takes weights so far, in the time left
_REST = 8  # most steps without a look at the residual
_FORGET = 3.0  # tolerances of the steps down to which directions are kept
_OLD = 2.0  # growth of the small weights at which frames forget
_MOST = 0.3  # largest residual
# Frames grow by what leaves them at some states to come, found in the frames that are.
_FAR = 20.0  # residual up to which they tell these, in tolerated ones
_LOOSE = 1e5  # tolerance of the steps there,
_ROUGH = 3  # their highest order at first,
_STRIDE = 5.0  # their length at first, in usual ones,
_TRIES = 12  # and most of them
_EVERY = 3  # after so many of them, a look at what leaves
_VIEWS = 3  # of the states, most that are taken
_EARLY = 0.04  # least share of the tolerances, while nothing has been learned: early errors grow
_SINGLE = 1e-6  # tolerance above which frames are in single precision
_FIRST = 0.05  # first tolerance of the steps, for a path of one edge, in errors asked for to the power of
_STATED = 1.1
_AT_LEAST = 0.1  # of the error asked for, so much is stated
# Of errors, as they add up: how much they may change the result, relative to time times its rate of change.
_LOCAL = 4.0
_LEFT = 0.3
_INSIDE = 0.1  # what outputs may miss, in units of their error, where they are taken as frames see them
ROUNDING = 10.0  # stated on top, in units of the precision of frames, and of weights in single precision


class Saved(NamedTuple):
    """The network at a time asked for; its weights are computed when they are."""

    t: float
    net: Wide
    y: np.ndarray
    inside: bool

    def small(self) -> Rows:
        """Weights in small spaces, whose products along paths from inputs are those of the network."""
        return self.net.small(self.y, self.inside)

    def gained(self) -> Rows:
        """The change of the full weights since the start."""
        return {e: self.net.gain(e, self.y) for e in self.net.ends}


class Solution(NamedTuple):
    """What was kept at the times asked for, and the losses there; its error as it is stated.

    `curve` has time and loss at the solver's own steps.
    """

    kept: list[Any]
    loss: np.ndarray
    end: float
    steps: int
    outcome: str  # finished, stopped, step limit or failed
    error: float
    curve: list[tuple[float, float]]


class Past:
    """Formulas of backward differentiation, of orders 1 to 6 and on any past times, of which `net.past` has
    the small weights.

    Newton's method takes one step from where the past points to; its Jacobian has what is stiff, the errors
    of outputs that relax.
    """

    def __init__(self, net: Wide, h: float) -> None:
        self.net, self.h = net, h
        self.times, self.rows = [0.0], [0]  # the last one first
        self.order, self.same = 1, 0
        net.past = np.concatenate([net.past, np.zeros((_ORDER + 2, net.past.shape[1]))])

    def _mix(self, *weights: list[float]) -> np.ndarray:
        """Sums of the past."""
        every = np.zeros((len(weights), len(self.net.past)))
        for row, w in zip(every, weights, strict=True):
            row[self.rows[: len(w)]] = w
        return every @ self.net.past

    def at(self, t: float) -> np.ndarray:
        return self._mix(_through(self.times[: self.order + 1], t))[0]

    def last(self) -> np.ndarray:
        return self.net.past[self.rows[0]]

    def point(self, t1: float) -> np.ndarray:
        """Where the past points to, by polynomials of some orders; also the formula's part that is known."""
        times, order = self.times, self.order
        self.h = t1 - times[0] if times[0] + 1.001 * self.h > t1 else self.h
        self.t = t = times[0] + self.h
        near = self.same >= order  # time to choose anew
        self.orders = list(range(max(1, order - near), min(_ORDER, order + near, len(times) - 1) + 1)) or [0]
        known, self.step = _formula(times[:order], t)
        *self.guesses, self.known = self._mix(*(_through(times[: k + 1], t) for k in self.orders), known)
        self.guess = self.guesses[self.orders.index(min(order, len(times) - 1))]
        return self.guess

    def take(self, size: np.ndarray, ahead: State, tolerance: float) -> bool:
        """Take the step, if its relative local error is less than the tolerance, else a smaller one next."""
        net, times, t, known = self.net, self.times, self.t, self.known
        error = net.lag(ahead, self.step, ahead.error - net.pushed(ahead, known - self.guess))
        new = known + self.step * net.velocity(ahead, error)
        self.wrong = {}  # local errors, in tolerances
        for k, guess in zip(self.orders, self.guesses, strict=True):
            off = (net.norms(new - guess) / size).max()
            # At first there is no other to compare with: the velocity may change as much as the weights do.
            part = 1 / (sum(1 / (t - x) for x in times[:k]) * (t - times[k])) if k else 0.5 * off
            self.wrong[max(k, 1)] = part * off / tolerance
        wrong = self.wrong[self.order]
        if not wrong < 1:
            self.same = 0
            self.h *= np.clip(0.8 * wrong ** (-1 / (self.order + 1)), 0.2, 0.8) if np.isfinite(wrong) else 0.1
            return False
        slot = next(k for k in range(len(net.past)) if k not in self.rows)
        net.past[slot], self.rows, self.times = new, [slot, *self.rows], [t, *times]
        self.same += 1
        return True

    def choose(self) -> None:
        """The order and length of the next step."""
        wrong = {k: max(x, 1e-10) ** (-1 / (k + 1)) for k, x in self.wrong.items()}
        near = self.same > self.order
        self.order = max(wrong, key=wrong.__getitem__) if near else self.order
        factor = 0.8 * wrong[self.order]
        if factor < _SAME or (near and factor * _SAME > 1):
            self.h, self.same = self.h * min(factor, 2.0), 0 if near else self.same
        self.times, self.rows = self.times[: self.order + 2], self.rows[: self.order + 2]

    def far(
        self, t1: float, size: np.ndarray, tolerance: float, most: float, slow: float
    ) -> tuple[list[np.ndarray], list[View]]:
        """States to come, and views of them, as far as the frames are good enough to tell: some, of loose
        steps."""
        net, kept, found = self.net, self.net.past, []
        net.past, ahead = kept.copy(), copy(self)
        ahead.order, ahead.same, ahead.h = min(self.order, _ROUGH), 0, _STRIDE * self.h
        for _ in range(_TRIES):
            if ahead.times[0] >= t1:
                break
            guess = ahead.point(t1)
            s = net.state(guess)
            if ahead.take(size, s, min(_LOOSE * tolerance, 1e-2)):
                ahead.choose()
                found.append((guess, s))
                look = len(found) % _EVERY == 0
                if look and net.leaving(net.view(guess, s, slow)) > min(_FAR * most, _MOST):
                    break
        net.past = kept
        some = sorted({round(k) for k in np.linspace(0, len(found) - 1, _VIEWS)}) if found else []
        return [found[k][0] for k in some], [net.view(y, s, slow) for y, s in (found[k] for k in some)]


def solve(
    net: Wide,
    ts: np.ndarray,
    t1: float,
    tolerance: float,
    keep: Callable[[Saved], Any],
    stop: float = -np.inf,
    max_steps: int = 100_000,
) -> Solution:
    """The flow to time t1, or until the loss falls to `stop`; relative local errors of `tolerance`.

    Early errors grow with what is learned: tolerances are less by the share of that in the first errors.

    The stated error is that at the times asked for. Local errors and what left the frames add up, each
    relative to the weights. (What leaves before frames grow is orthogonal to what leaves later: there squares
    add up.) So far outputs may be off, relative to their size; and where they change fast, an error of the
    velocity is one of time, and counts by time times their rate of change. What of the outputs the frames do
    not see comes on top. All this is relative to the largest outputs.
    """
    s, size, most = net.state(net.past[0]), net.past.shape[1], tolerance
    view = net.view(net.past[0], s, 0.0)
    first = float(np.linalg.norm(s.error))
    settled = most * first
    leaving = min(_RESIDUAL * most**_POWER, _MOST)
    kept, outcome = (
        [(keep(Saved(0.0, net, net.past[0], False)), net.loss(s))] if ts[0] <= 0 else [],
        "finished",
    )
    curve = [(0.0, net.loss(s))]
    check = steps = 0
    start = min(t1, 0.1 * (_EARLY * most) ** 0.5 / max(view.pace, 1e-300))
    past = Past(net, start)
    error = stated = rate = local = leaks = leak = left = change = low = looked = 0.0
    largest = max(float(np.linalg.norm(net.outputs(s))), 1e-300)
    outcome = "stopped" if net.loss(s) <= stop else outcome

    def save(t: float, y: np.ndarray, n: int) -> None:
        """Keep the network. Of what outputs are off by, time is a part where they change fast."""
        nonlocal error, largest
        now = net.state(y)
        unseen, largest = net.unseen(now), max(largest, float(np.linalg.norm(net.outputs(now))))
        error = max(error, stated * (largest + rate) + unseen)
        saved = Saved(t, net, y, unseen < _INSIDE * stated * largest)
        kept.extend([(keep(saved), net.loss(now))] * n)

    def above(t: float) -> float:
        return np.log(net.loss(net.state(past.at(t))) / stop)

    while outcome == "finished" and past.times[0] < t1 and np.linalg.norm(s.error) > settled:
        share = max(1 - float(np.linalg.norm(s.error)) / first, _EARLY)
        tolerance, residual = share * most, share * leaving
        guess, t = past.point(t1), past.t
        slow = _SLOW / max(t1 - t, 1e-3 * t1)
        ahead = net.state(guess)
        if not check:
            view = net.view(guess, ahead, slow)
            left = net.leaving(view)
            if left > residual:
                leaks, leak, change = leaks + (leak + left * change) ** 2, 0.0, 0.0
                states, views = past.far(t1, view.size, tolerance, residual, slow)
                states, views = [guess, *states], [view, *views]
                if net.past.shape[1] > _OLD * size:
                    states = net.forget(np.stack(states), views, _FORGET * tolerance)
                    views, size = [net.view(y, net.state(y), slow) for y in states], net.past.shape[1]
                net.grow(views, residual)
                looked = t
                guess = past.point(t1)
                ahead = net.state(guess)
                view = net.view(guess, ahead, slow)
                left = net.leaving(view)
        h, steps = past.h, steps + 1
        if steps == max_steps:
            outcome = "step limit"
        if not past.take(view.size, ahead, tolerance):
            outcome = "failed" if past.h < 1e-14 * max(past.times[0], start) else outcome
            continue
        change += h * view.pace
        local += past.wrong[past.order] * tolerance
        if check:
            check -= 1
        else:
            leak, change = leak + left * change, 0.0
            # Look again after half of the time in which it would become too large.
            now = np.log(max(left, 1e-300) / residual)
            rise = (now - low) / (t - looked) * h if t > looked else np.inf
            check, low, looked = int(np.clip(-0.5 * now / max(rise, 1e-3), 0, _REST)), now, t
        stated = _LOCAL * local + _LEFT * (leaks + (leak + left * change) ** 2) ** 0.5
        rate, s = t * float(np.linalg.norm(net.outputs(ahead) - net.outputs(s))) / h, ahead
        if net.loss(s) <= stop and above(t) <= 0:
            before = past.times[1]
            end: Any = brentq(above, before, t, xtol=1e-12 * t) if above(before) > 0 else before
            past.last()[...], past.times[0], outcome = past.at(end), end, "stopped"
        while len(kept) < len(ts) and ts[len(kept)] <= past.times[0]:
            save(ts[len(kept)], past.at(ts[len(kept)]), 1)
        curve.append(
            (past.times[0], net.loss(net.state(past.last())) if outcome == "stopped" else net.loss(s))
        )
        past.choose()
    if len(kept) < len(ts):
        save(past.times[0], past.last(), len(ts) - len(kept))
    end = t1 if outcome == "finished" else past.times[0]
    states, losses = ([k[i] for k in kept] for i in (0, 1))
    error = error / largest + ROUNDING * float(np.finfo(net.dtype).eps)
    return Solution(states, np.array(losses), end, steps, outcome, error, curve)


def _formula(times: list[float], t: float) -> tuple[list[float], float]:
    """Backward differentiation at time t: weights of the past, and of the velocity."""
    step = 1 / sum(1 / (t - x) for x in times)
    return [step * w / (t - x) for w, x in zip(_through(times, t), times, strict=True)], step


def _through(nodes: list[float], t: float) -> list[float]:
    """The value at t of the polynomial through some nodes: weights of its values there."""
    return [prod((t - y) / (x - y) for y in nodes if y != x) for x in nodes]


def follow(
    task: Task, weights: Mapping[str, np.ndarray], frozen: Iterable[str], ts: np.ndarray, t1: float,
    error: float, stop: float, max_steps: int, keep: Callable[[Saved], Any], once: float | None = None,
) -> tuple[Solution, dict[str, int]]:  # fmt: skip
    """Solve, and again with a smaller tolerance while the stated error is too large; also the sizes of the
    small spaces."""
    # Deeper networks learn later and faster: the more an error grows.
    tolerance = once or _FIRST * error**_STATED / max(task.graph.levels.values()) ** 3
    while True:
        net = Wide(task, weights, frozen, np.float32 if tolerance > _SINGLE else np.float64)
        found = solve(net, ts, t1, tolerance, keep, stop, max_steps)
        found = found._replace(error=max(found.error, _AT_LEAST * error))
        if once or found.error <= error or tolerance < 1e-13 or found.outcome in ("failed", "step limit"):
            return found, net.spaces
        tolerance *= 0.8 * error / found.error
