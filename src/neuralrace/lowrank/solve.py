"""The flow in bases that are enriched and truncated along the way, with an estimate of its error."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from math import prod
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from neuralrace.lowrank import bases, constants
from neuralrace.lowrank.network import Pass, ReducedNetwork, Snapshot, norm
from neuralrace.task import Task


class LowRankSolution(NamedTuple):
    """The network at the times asked for, and (t, loss, slope) at the solver's own steps.

    `error` is that of outputs, relative to the largest, or that of the loss curve, relative to its start;
    `residual` is the largest projection residual that was left. `outcome` is "finished", "stopped",
    "step limit" or "failed".
    """

    saved: list[Snapshot]
    curve: np.ndarray
    end: float
    steps: int
    outcome: str
    error: float
    residual: float


class Stepper:
    """Backward differentiation of orders 1 to 6 on any past times, implicit in the outputs alone.

    It holds the past of a solution, the last time first, and the order and length of the next step. A step
    starts where the past points to (the predictor) and takes one step of Newton's method. Its Jacobian has
    what is stiff: errors of outputs that relax. The errors at the end of the step come with it.

    Coordinates of the past are rows of `net.coordinates`, errors of outputs rows of `errors`; `slots` says
    which.
    """

    def __init__(self, net: ReducedNetwork, h: float, error: np.ndarray) -> None:
        self.net: ReducedNetwork = net
        self.h: float = h
        self.times: list[float] = [0.0]
        self.slots: list[int] = [0]
        self.order: int = 1
        self.steady: int = 0  # steps since the length or order changed
        net.coordinates = np.pad(net.coordinates, ((0, constants.MAX_ORDER + 2), (0, 0)))
        self.errors: np.ndarray = np.zeros((len(net.coordinates), error.size))
        self.errors[0] = error.ravel()
        self.taken: int = 0  # order of the last step
        self.slope: float = 0.0  # the loss's rate of change at its end,
        self.local: float = 0.0  # and its local error, in tolerances

    def _mixed(self, rows: np.ndarray, weights: list[list[float]]) -> np.ndarray:
        """Sums of the rows of the past."""
        every = np.zeros((len(weights), len(rows)))
        for row, w in zip(every, weights, strict=True):
            row[self.slots[: len(w)]] = w
        return every.dot(rows)

    def interpolate(self, ts: list[float]) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates and errors of outputs at times of the last step, a row for each."""
        weights = [lagrange(self.times[: self.taken + 1], t) for t in ts]
        return self._mixed(self.net.coordinates, weights), self._mixed(self.errors, weights)

    def predict(self, t1: float) -> np.ndarray:
        """The predictor, by the polynomial through the past, of the step that is due; at most to t1."""
        times, order = self.times, self.order
        self.h = t1 - times[0] if times[0] + 1.001 * self.h > t1 else self.h
        self.t = t = times[0] + self.h
        near = self.steady >= order  # try the orders beside it too
        highest = min(constants.MAX_ORDER, order + near, len(times) - 1)
        self.orders = list(range(max(1, order - near), highest + 1)) or [0]
        known, self.weight = formula(times[:order], t)
        weights = [lagrange(times[: k + 1], t) for k in self.orders]
        *self.predictors, self.known = self._mixed(self.net.coordinates, [*weights, known])
        self.guess = self.predictors[self.orders.index(min(order, len(times) - 1))]
        return self.guess

    def take(self, size: np.ndarray, s: Pass, tolerance: float) -> bool:
        """Take the step from the state at the predictor, if its relative local error is below a tolerance.

        Else the next one will be shorter.
        """
        net, times, t = self.net, self.times, self.t
        error = net.implicit_error(s, self.weight, s.error - net.jvp(s, self.known - self.guess))
        gradient = net.gradient(s, net.error_signals(s, error))
        self.slope = -float(gradient.dot(net.rate * gradient))
        new = self.known + self.weight * net.rate * gradient
        local = {}
        for k, guess in zip(self.orders, self.predictors, strict=True):
            off = (net.norms(new - guess) / size).max()
            # The first step has nothing to compare with: its velocity may change as much as the weights do.
            part = 1 / (sum(1 / (t - x) for x in times[:k]) * (t - times[k])) if k else 0.5 * off
            local[max(k, 1)] = part * off / tolerance
        self.local = local[self.order]
        if not self.local < 1:
            shorter = constants.SAFETY * self.local ** (-1 / (self.order + 1))
            self.h *= np.clip(shorter, 0.2, constants.SAFETY) if np.isfinite(self.local) else 0.1
            self.steady = 0
            return False
        slot = next(k for k in range(len(self.errors)) if k not in self.slots)
        net.coordinates[slot], self.errors[slot] = new, error.ravel()
        self.slots, self.times = [slot, *self.slots], [t, *times]
        self.steady += 1
        self._choose(local)
        return True

    def _choose(self, local: dict[int, float]) -> None:
        """The order and length of the next step, from the local errors of some orders."""
        self.taken = self.order
        factors = {k: max(x, 1e-10) ** (-1 / (k + 1)) for k, x in local.items()}
        first = self.order == 1  # stable whatever the lengths
        near, keep = first or self.steady > self.order, constants.KEEP_STEP
        if near:
            self.order = max(factors, key=factors.__getitem__)
        factor = constants.SAFETY * factors[self.order]
        if factor < keep or (near and factor * keep > 1):
            self.h *= factor if first else min(factor, constants.MAX_GROWTH)
            self.steady = 0 if near else self.steady
        self.times, self.slots = self.times[: self.order + 2], self.slots[: self.order + 2]


def formula(times: list[float], t: float) -> tuple[list[float], float]:
    """Backward differentiation at time t: weights of the past values, and of the velocity."""
    weight = 1 / sum(1 / (t - x) for x in times)
    return [weight * w / (t - x) for w, x in zip(lagrange(times, t), times, strict=True)], weight


def lagrange(nodes: list[float], t: float) -> list[float]:
    """Weights of the values at some nodes in the value at t of the polynomial through them."""
    return [prod([(t - y) / (x - y) for y in nodes if y != x]) for x in nodes]


class _Solver:
    """One solution: takes steps, checks the residual, keeps what is asked for, and adds up errors.

    `tolerances` are those of the relative local error of a step and of the projection residual.

    Early errors grow with what is learned, so tolerances are less by the share of the initial errors that has
    been learned. Local errors add up, relative to the weights, and so does the share of their change that the
    bases miss, a power of the residual. Outputs may be off by that times their size; where they change fast,
    an error of the velocity is one of time, and counts by time times their rate of change.
    """

    def __init__(self, net: ReducedNetwork, ts: np.ndarray, t1: float, what: str, *tolerances: float) -> None:
        y = net.coordinates[0]
        self.net, self.ts, self.t1, self.tolerances, self.what = net, ts, t1, tolerances, what
        self.s = net.state(y)
        self.point = bases.assess(net, y, self.s, 0.0)
        self.initial, self.first = net.loss(self.s.error), norm(self.s.error)  # loss and errors at the start
        if not np.isfinite(self.initial):
            raise OverflowError
        step = constants.FIRST_STEP * (constants.EARLY * tolerances[0]) ** 0.5
        self.stepper = Stepper(net, min(t1, step / max(self.point.speed, 1e-300)), self.s.error)
        self.truncated_size = net.coordinates.shape[1]
        self.t, self.steps = 0.0, 0
        self.residual = self.largest_residual = self.next_look = 0.0
        self.last_look = (0.0, 0.0)  # time, and log of the residual in tolerances
        self.local, self.missed = 0.0, 0.0  # sum of local errors, and what bases missed
        self.off, self.error = 0.0, 0.0  # the estimate at this time, and the largest so far
        self.largest = max(norm(net.wiring.targets - self.s.error), 1e-300)  # outputs so far
        self.snapshot = copy(net)  # the network in its present bases
        self.saved: list[Snapshot] = []
        gradient = net.gradient(self.s, self.point.signals[1])
        self.curve = [(0.0, self.initial, -float(gradient.dot(net.rate * gradient)))]
        if ts[0] <= 0:
            self._save([0.0])

    def run(self, stop: float, max_steps: int) -> LowRankSolution:
        """To time t1, until the loss falls to `stop`, or until all that can be learned is learned."""
        net, stepper, rest = self.net, self.stepper, self.tolerances[0] * self.first
        outcome = "stopped" if self.initial <= stop else "finished"
        while outcome == "finished" and self.t < self.t1 and norm(self.s.error) > rest:
            if self._step():
                self.t, loss = stepper.times[0], net.loss(stepper.errors[stepper.slots[0]])
                if loss <= stop:
                    self.t, loss, outcome = self._crossing(stop), stop, "stopped"
                self.curve.append((self.t, loss, stepper.slope))
                due = self.ts[len(self.saved) : np.searchsorted(self.ts, self.t, side="right")]
                if len(due):
                    self._save(due.tolist())
            elif self.t + stepper.h == self.t:
                outcome = "failed"
            if outcome == "finished" and self.steps == max_steps:
                outcome = "step limit"
        left = len(self.ts) - len(self.saved)
        if left:  # nothing moves any more
            self._save([self.t])
            self.saved += (left - 1) * self.saved[-1:]
        end = self.t1 if outcome == "finished" else self.t
        unit = (self.initial or 1.0) if self.what == "loss" else self.largest
        error = self.error / unit + constants.ROUNDING * float(np.finfo(float).eps)
        curve = np.array(self.curve)
        return LowRankSolution(self.saved, curve, end, self.steps, outcome, error, self.largest_residual)

    def _step(self) -> bool:
        """Try a step; whether it was taken."""
        net, stepper = self.net, self.stepper
        share = max(1 - norm(self.s.error) / self.first, constants.EARLY)
        tolerance, tolerated = share * self.tolerances[0], share * self.tolerances[1]
        y = stepper.predict(self.t1)
        s = net.state(y)
        if stepper.t >= self.next_look:
            s = self._checked(y, s, tolerated)
        self.steps += 1
        h = stepper.h
        if not stepper.take(self.point.size, s, tolerance):
            return False
        self.local += stepper.local * tolerance
        part, power = constants.MISSED[self.what]
        self.missed += part * self.residual**power * h * self.point.speed
        self.largest = max(self.largest, norm(net.wiring.targets - s.error))
        reach = self.largest + norm(s.error - self.s.error) * stepper.t / h
        off = (constants.LOCAL[self.what] * self.local + self.missed) * reach
        self.off = off * (norm(s.error) if self.what == "loss" else 1.0)
        if self.what == "loss":  # outputs count where they are saved, the loss is a curve
            self.error = max(self.error, self.off)
        self.s = s
        return True

    def _checked(self, y: np.ndarray, s: Pass, tolerated: float) -> Pass:
        """Measure the residual at the predictor, and enrich the bases if it is too large; the state there.

        It is measured again after half of the time in which it would become too large.
        """
        h, t = self.stepper.h, self.stepper.t
        rest_speed = constants.AT_REST / max(self.t1 - t, 1e-3 * self.t1)
        self.point = bases.assess(self.net, y, s, rest_speed)
        self.residual = bases.projection_residual(self.net, self.point)
        last, last_log = self.last_look
        if self.residual > tolerated:
            self._enrich(tolerated, rest_speed)
            s, last = self.point.state, t
        log = np.log(max(self.residual, 1e-300) / tolerated)
        rise = (log - last_log) / (t - last) * h if t > last else np.inf
        self.next_look = t + h * np.clip(-0.5 * log / max(rise, 1e-3), 0, constants.MAX_UNCHECKED)
        self.last_look = t, log
        self.largest_residual = max(self.largest_residual, self.residual)
        return s

    def _enrich(self, tolerated: float, rest_speed: float) -> None:
        """Enrich the bases, truncated first where they have become large."""
        net, stepper = self.net, self.stepper
        points = bases.look_ahead(net, self.point, stepper.h, self.t1 - stepper.t, tolerated, rest_speed)
        large = net.coordinates.shape[1] > constants.TRUNCATE_AT * self.truncated_size
        bases.adapt(net, points, tolerated, rest_speed, large)
        self.truncated_size = net.coordinates.shape[1] if large else self.truncated_size
        self.snapshot = copy(net)
        y = stepper.predict(self.t1)
        self.point = bases.assess(net, y, net.state(y), rest_speed)
        self.residual = bases.projection_residual(net, self.point)

    def _save(self, ts: list[float]) -> None:
        """Keep the network and its loss at times of the last step."""
        self.error = max(self.error, self.off)
        for t, y, error in zip(ts, *self.stepper.interpolate(ts), strict=True):
            self.saved.append(Snapshot(t, self.net.loss(error), self.snapshot, y))

    def _crossing(self, level: float) -> float:
        """When the loss falls to a level in the last step."""
        after, before = self.stepper.times[:2]
        loss = lambda t: self.net.loss(self.stepper.interpolate([t])[1])  # noqa: E731
        above: Any = lambda t: np.log(loss(t) / level)  # noqa: E731
        find: Any = brentq
        return float(find(above, before, after, xtol=1e-12 * after)) if above(before) > 0 else before


def solve(
    task: Task, weights: Mapping[str, np.ndarray], rates: Mapping[str, float], ts: np.ndarray, t1: float,
    error: float, what: str = "outputs", stop: float = -np.inf, max_steps: int = 100_000,
) -> tuple[LowRankSolution, float]:  # fmt: skip
    """Solve, and again with smaller tolerances while the stated error is above `error`; also that error."""
    depth, asked = max(task.graph.levels.values()), error
    left = constants.MAX_SOLUTIONS
    while True:
        left -= 1
        factor, power = constants.STEP[what]
        step = min(factor * asked / depth**power, constants.MAX_TOLERANCE)
        residual = (constants.RESIDUAL[what] * asked) ** (1 / constants.MISSED[what][1])
        residual = min(residual, constants.MAX_RESIDUAL)
        net = bases.reduced_network(task, weights, rates)
        solution = _Solver(net, ts, t1, what, step, residual).run(stop, max_steps)
        stated = max(solution.error, constants.LEAST_STATED * error)
        gave_up = solution.outcome in ("failed", "step limit") or step < 1e-13 or not left
        if stated <= error or gave_up:
            return solution, stated
        asked *= 0.8 * error / stated
