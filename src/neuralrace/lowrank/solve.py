"""The flow in bases that are enriched and truncated along the way, with an estimate of its error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from neuralrace.lowrank import constants
from neuralrace.lowrank.bases import Point, assess, enrich, projection_residual, reduced_network, truncate
from neuralrace.lowrank.bdf import Stepper
from neuralrace.lowrank.linalg import norm
from neuralrace.lowrank.network import ReducedNetwork, Saved, State
from neuralrace.task import Task


class Tolerances(NamedTuple):
    """Relative local error of a step, and projection residual."""

    step: float
    residual: float

    @classmethod
    def of(cls, error: float, what: str, depth: int) -> Tolerances:
        """Those at which the error of "outputs" or of the "loss" should be as asked for.

        Deeper networks learn later and faster: the more an error grows.
        """
        if what == "loss":
            step = constants.LOSS_TOLERANCE * error / depth**3
            residual = constants.LOSS_RESIDUAL * error / depth
        else:
            step = constants.FIRST_TOLERANCE * error**constants.TOLERANCE_POWER / depth**3
            residual = constants.RESIDUAL * step**constants.RESIDUAL_POWER
        return cls(min(step, constants.MAX_TOLERANCE), min(residual, constants.MAX_RESIDUAL))


class Solution(NamedTuple):
    """The network and its loss at the times asked for, and (t, loss, slope) at the solver's own steps.

    `error` is that of outputs, relative to the largest, and `loss_error` that of the loss curve, relative to
    its start; `residual` is the largest projection residual that was left. `outcome` is
    "finished", "stopped", "step limit" or "failed".
    """

    saved: list[Saved]
    loss: np.ndarray
    curve: np.ndarray
    end: float
    steps: int
    outcome: str
    error: float
    loss_error: float
    residual: float


class Solver:
    """One solution: takes steps, checks the residual, keeps what is asked for, and adds up errors.

    Early errors grow with what is learned, so tolerances are less by the share of the initial errors that has
    been learned. Local errors add up, relative to the weights, and so does the change that the residual
    misses; what is missed before an enrichment is orthogonal to what is missed later, so there squares add
    up. Outputs may be off by that times their size; where they change fast, an error of the velocity is one
    of time, and counts by time times their rate of change. What outputs miss at once comes on top.
    """

    net: ReducedNetwork
    ts: np.ndarray
    t1: float
    tolerances: Tolerances
    s: State
    point: Point
    initial: float  # loss at the start
    first: float  # norm of the errors there
    first_step: float
    stepper: Stepper
    truncated_size: int
    t: float
    steps: int
    residual: float
    output_residual: float
    last_log: float
    saved_before: int
    largest_residual: float
    last_look: float
    next_look: float
    local: float
    missed: list[float]
    largest: float
    reach: float
    output_error: float
    error: float
    loss_error: float
    saved: list[Saved]
    losses: list[float]
    curve: list[tuple[float, float, float]]

    def __init__(self, net: ReducedNetwork, ts: np.ndarray, t1: float, tolerances: Tolerances) -> None:
        self.net, self.ts, self.t1, self.tolerances = net, ts, t1, tolerances
        y = net.coordinates[0]
        self.s = net.state(y)
        self.point = assess(net, y, self.s, 0.0)
        self.initial, self.first = net.loss(self.s.error), norm(self.s.error)
        first_step = 0.1 * (constants.EARLY * tolerances.step) ** 0.5 / max(self.point.speed, 1e-300)
        self.first_step = min(t1, first_step)
        self.stepper = Stepper(net, self.first_step, self.s.error)
        self.truncated_size = net.coordinates.shape[1]
        self.t, self.steps = 0.0, 0
        self.residual = self.output_residual = self.last_log = self.last_look = self.next_look = 0.0
        self.largest_residual = 0.0
        self.local, self.missed = 0.0, [0.0]  # sums of local errors, and of what each basis missed
        self.largest = self.reach = max(norm(self.s.outputs), 1e-300)  # outputs so far, and their rate
        self.output_error = self.error = self.loss_error = 0.0  # now; largest at saved times; of the loss
        self.snapshot: ReducedNetwork | None = None  # the network in its present bases
        self.saved, self.losses = [], []
        self.curve = [(0.0, self.initial, net.slope(net.velocity(self.s, self.s.error)))]
        if ts[0] <= 0:
            self._save([0.0])
        self.saved_before = len(self.saved)  # at the last look

    def run(self, stop: float, max_steps: int) -> Solution:
        """To time t1, until the loss falls to `stop`, or until all that can be learned is learned."""
        net, stepper, rest = self.net, self.stepper, self.tolerances.step * self.first
        outcome = "stopped" if self.initial <= stop else "finished"
        while outcome == "finished" and self.t < self.t1 and norm(self.s.error) > rest:
            if self._step():
                self.t, loss = stepper.times[0], net.loss(stepper.error)
                if loss <= stop:
                    self.t, loss, outcome = self._crossing(stop), stop, "stopped"
                self.curve.append((self.t, loss, net.slope(stepper.velocity)))
                due = self.ts[len(self.saved) : np.searchsorted(self.ts, self.t, side="right")]
                if len(due):
                    self._save(due.tolist())
                stepper.choose()
            elif stepper.h < 1e-14 * max(self.t, self.first_step):
                outcome = "failed"
            if outcome == "finished" and self.steps == max_steps:
                outcome = "step limit"
        left = len(self.ts) - len(self.saved)
        if left:  # nothing moves any more
            self._save([self.t])
            self.saved += (left - 1) * self.saved[-1:]
            self.losses += (left - 1) * self.losses[-1:]
        end = self.t1 if outcome == "finished" else self.t
        rounding = constants.ROUNDING * float(np.finfo(net.dtype).eps)
        errors = (self.error / self.largest + rounding, self.loss_error / (self.initial or 1.0) + rounding)
        return Solution(
            self.saved,
            np.array(self.losses),
            np.array(self.curve),
            end,
            self.steps,
            outcome,
            *errors,
            self.largest_residual,
        )

    def _step(self) -> bool:
        """Try a step; whether it was taken."""
        net, stepper = self.net, self.stepper
        share = max(1 - norm(self.s.error) / self.first, constants.EARLY)
        tolerance, tolerated = (share * x for x in self.tolerances)
        y = stepper.predict(self.t1)
        s = net.state(y)
        if stepper.t >= self.next_look:
            s = self._checked(y, s, tolerance, tolerated)
        self.steps += 1
        h = stepper.h
        if not stepper.take(self.point.size, s, tolerance):
            return False
        self.local += stepper.local[stepper.order] * tolerance
        self.missed[-1] += self.residual * h * self.point.speed
        change = norm(s.outputs - self.s.outputs) * stepper.t / h
        self.s, self.largest = s, max(self.largest, norm(s.outputs))
        self.reach = self.largest + change
        self._estimate()
        return True

    def _estimate(self) -> None:
        """Errors of the outputs and of the loss at the last state, in their units."""
        missed = norm(np.array(self.missed))
        off = constants.LOCAL_SHARE * self.local + constants.RESIDUAL_SHARE * missed
        self.output_error = off * self.reach + self.output_residual
        off = constants.LOSS_LOCAL_SHARE * self.local + constants.LOSS_RESIDUAL_SHARE * missed
        loss_error = (off * self.reach + self.output_residual) * norm(self.s.error)
        self.loss_error = max(self.loss_error, loss_error)

    def _checked(self, y: np.ndarray, s: State, tolerance: float, tolerated: float) -> State:
        """Measure the residual at the predictor, and enrich the bases if it is too large; the state there.

        It is measured again after half of the time in which it would become too large.
        """
        h, t = self.stepper.h, self.stepper.t
        rest_speed = constants.AT_REST / max(self.t1 - t, 1e-3 * self.t1)
        self._measure(y, s, rest_speed)
        if self.residual > tolerated:
            s = self._enriched(y, rest_speed, tolerance, tolerated)
            self.last_look = t
        log = np.log(max(self.residual, 1e-300) / tolerated)
        rise = (log - self.last_log) / (t - self.last_look) * h if t > self.last_look else np.inf
        self.next_look = t + h * np.clip(-0.5 * log / max(rise, 1e-3), 0, constants.MAX_UNCHECKED)
        self.last_log, self.last_look, self.saved_before = log, t, len(self.saved)
        self.largest_residual = max(self.largest_residual, self.residual)
        return s

    def _measure(self, y: np.ndarray, s: State, rest_speed: float) -> None:
        self.point = assess(self.net, y, s, rest_speed)
        self.residual, self.output_residual = projection_residual(self.net, self.point)

    def _enriched(self, y: np.ndarray, rest_speed: float, tolerance: float, tolerated: float) -> State:
        """Enrich the bases, truncated first where they have become large; the state at the predictor."""
        net, stepper = self.net, self.stepper
        before = net.state(stepper.last).outputs
        states, points = stepper.look_ahead(self.t1, self.point.size, tolerance, tolerated, rest_speed)
        states, points = [y, *states], [self.point, *points]
        if net.coordinates.shape[1] > constants.TRUNCATE_AT * self.truncated_size:
            rows = truncate(net, np.stack(states), points, constants.TRUNCATE_BELOW * tolerance)
            points = [assess(net, x, net.state(x), rest_speed) for x in rows]
            self.truncated_size = net.coordinates.shape[1]
        enrich(net, points, tolerated)
        self.snapshot = None
        # Outputs now have what they missed: the past is interpolated as if they had always had it.
        missed = (before - net.state(stepper.last).outputs).ravel()
        stepper.errors += missed
        self.output_residual = norm(missed)
        self._estimate()
        if len(self.saved) > self.saved_before:
            self.error = max(self.error, self.output_residual)
        self.missed.append(0.0)
        y = stepper.predict(self.t1)
        s = net.state(y)
        self._measure(y, s, rest_speed)
        return s

    def _save(self, ts: list[float]) -> None:
        """Keep the network and its loss at times of the last step."""
        self.snapshot = self.snapshot or self.net.copied()
        self.error = max(self.error, self.output_error)
        projected = self.output_residual < constants.PROJECTED_OUTPUTS * self.output_error
        for t, y, error in zip(ts, *self.stepper.interpolate(ts), strict=True):
            self.saved.append(Saved(t, self.snapshot, y, projected))
            self.losses.append(self.net.loss(error))

    def _loss_at(self, t: float) -> float:
        return self.net.loss(self.stepper.interpolate([t])[1])

    def _crossing(self, level: float) -> float:
        """When the loss falls to a level in the last step."""
        after, before = self.stepper.times[:2]
        above: Any = lambda t: np.log(self._loss_at(t) / level)  # noqa: E731
        find: Any = brentq
        return float(find(above, before, after, xtol=1e-12 * after)) if above(before) > 0 else before


def solve(
    task: Task, weights: Mapping[str, np.ndarray], rates: Mapping[str, float], ts: np.ndarray, t1: float,
    error: float, what: str = "outputs", stop: float = -np.inf, max_steps: int = 100_000,
) -> tuple[Solution, float]:  # fmt: skip
    """Solve, and again with smaller tolerances while the stated error is above `error`; also that error."""
    depth, asked, left = max(task.graph.levels.values()), error, constants.MAX_SOLUTIONS
    while True:
        tolerances = Tolerances.of(asked, what, depth)
        dtype = np.float32 if tolerances.step > constants.SINGLE else np.float64
        net = reduced_network(task, weights, rates, dtype)
        solution = Solver(net, ts, t1, tolerances).run(stop, max_steps)
        least = constants.LEAST_STATED * error
        stated = solution.loss_error if what == "loss" else max(solution.error, least)
        left -= 1
        gave_up = solution.outcome in ("failed", "step limit") or tolerances.step < 1e-13 or not left
        if stated <= error or gave_up:
            return solution, stated
        asked *= 0.8 * error / stated
