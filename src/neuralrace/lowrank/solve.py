"""The flow in bases that are enriched and truncated along the way, with an estimate of its error."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from neuralrace.lowrank import bases, constants
from neuralrace.lowrank.bdf import Stepper
from neuralrace.lowrank.network import ReducedNetwork, Saved, State, norm
from neuralrace.task import Task


class Solution(NamedTuple):
    """The network at the times asked for, and (t, loss, slope) at the solver's own steps.

    `error` is that of outputs, relative to the largest, or that of the loss curve, relative to its start;
    `residual` is the largest projection residual that was left. `outcome` is "finished", "stopped",
    "step limit" or "failed".
    """

    saved: list[Saved]
    curve: np.ndarray
    end: float
    steps: int
    outcome: str
    error: float
    residual: float


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
        self.largest = max(norm(net.layout.targets - self.s.error), 1e-300)  # outputs so far
        self.snapshot = copy(net)  # the network in its present bases
        self.saved: list[Saved] = []
        gradient = net.gradient(self.s, self.point.signals[1])
        self.curve = [(0.0, self.initial, -float(gradient.dot(net.rate * gradient)))]
        if ts[0] <= 0:
            self._save([0.0])

    def run(self, stop: float, max_steps: int) -> Solution:
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
        return Solution(self.saved, curve, end, self.steps, outcome, error, self.largest_residual)

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
        self.largest = max(self.largest, norm(net.layout.targets - s.error))
        reach = self.largest + norm(s.error - self.s.error) * stepper.t / h
        off = (constants.LOCAL[self.what] * self.local + self.missed) * reach
        self.off = off * (norm(s.error) if self.what == "loss" else 1.0)
        if self.what == "loss":  # outputs count where they are saved, the loss is a curve
            self.error = max(self.error, self.off)
        self.s = s
        return True

    def _checked(self, y: np.ndarray, s: State, tolerated: float) -> State:
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
            self.saved.append(Saved(t, self.net.loss(error), self.snapshot, y))

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
) -> tuple[Solution, float]:  # fmt: skip
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
