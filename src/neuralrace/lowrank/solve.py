"""The flow in bases that are enriched and truncated along the way, with an estimate of its error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from neuralrace.lowrank import constants
from neuralrace.lowrank.bdf import Stepper
from neuralrace.lowrank.enrich import enrich, reduced_network, truncate
from neuralrace.lowrank.linalg import norm
from neuralrace.lowrank.network import ReducedNetwork, State
from neuralrace.lowrank.residual import assess, projection_residual
from neuralrace.lowrank.saved import Saved
from neuralrace.task import Task


class Tolerances(NamedTuple):
    """Relative local error of a step, and projection residual; less while little has been learned."""

    step: float
    residual: float


class Solution(NamedTuple):
    """The network and its loss at the times asked for, and (t, loss, slope) at the solver's own steps.

    `error` is that of outputs, relative to the largest, and `loss_error` that of the loss curve, relative to
    its start. `outcome` is "finished", "stopped", "step limit" or "failed".
    """

    saved: list[Saved]
    loss: np.ndarray
    end: float
    steps: int
    outcome: str
    error: float
    loss_error: float
    curve: np.ndarray


class Estimate:
    """Errors as they add up, relative to the weights.

    Local errors of the steps are summed, and so is what the projection residual moves. What is missed before
    an enrichment is orthogonal to what is missed later: there squares add up.
    """

    def __init__(self) -> None:
        self.local = self.before = self.missed = self.change = self.residual = 0.0

    def step(self, local: float, change: float) -> None:
        """A step with a local error, over which weights change by a share of themselves."""
        self.local += local
        self.change += change

    def measured(self, residual: float) -> None:
        """The residual of the last steps is known."""
        self.missed += residual * self.change
        self.change, self.residual = 0.0, residual

    def enriched(self, residual: float, after: float) -> None:
        """It was `residual` before the bases were enriched, and is less from now on."""
        self.before += (self.missed + residual * self.change) ** 2
        self.missed, self.change, self.residual = 0.0, 0.0, after

    @property
    def value(self) -> float:
        missed = (self.before + (self.missed + self.residual * self.change) ** 2) ** 0.5
        return constants.LOCAL_SHARE * self.local + constants.RESIDUAL_SHARE * missed


class Solver:
    """One solution.

    Early errors grow with what is learned, so tolerances are less by the share of the initial errors that has
    been learned. Outputs may be off by the estimated error times their size; where they change fast, an error
    of the velocity is one of time, and counts by time times their rate of change. Errors of outputs that the
    bases miss at once come on top.
    """

    def __init__(self, net: ReducedNetwork, t1: float, tolerances: Tolerances) -> None:
        self.net, self.t1, self.tolerances = net, t1, tolerances
        y = net.coordinates[0]
        self.s, self.estimate = net.state(y), Estimate()
        self.point = assess(net, y, self.s, 0.0)
        self.first = norm(self.s.error)
        self.first_step = min(
            t1, 0.1 * (constants.EARLY * tolerances.step) ** 0.5 / max(self.point.speed, 1e-300)
        )
        self.stepper = Stepper(net, self.first_step, self.s.error)
        self.enriched_size = net.coordinates.shape[1]
        self.unchecked = self.steps = 0  # steps that may pass without a look at the residual; all steps
        self.residual = self.output_residual = self.last_log = self.last_look = 0.0
        self.largest = max(norm(net.layout.targets - self.s.error), 1e-300)
        self.output_error = self.loss_error = 0.0  # at present, in units of outputs and of the loss
        self.snapshot: ReducedNetwork | None = None  # the network in its present bases

    @property
    def t(self) -> float:
        return self.stepper.times[0]

    @property
    def settled(self) -> bool:
        """Whether all that can be learned is learned."""
        return norm(self.s.error) <= self.tolerances.step * self.first

    def step(self) -> bool:
        """Try a step; whether it was taken."""
        net, stepper = self.net, self.stepper
        share = max(1 - norm(self.s.error) / self.first, constants.EARLY)
        tolerance, tolerated = (share * x for x in self.tolerances)
        y = stepper.predict(self.t1)
        s = net.state(y)
        if not self.unchecked:
            s = self._checked(y, s, tolerance, tolerated)
        self.steps += 1
        h, t = stepper.h, stepper.t
        if not stepper.take(self.point.size, s, tolerance):
            return False
        self.estimate.step(stepper.local[stepper.order] * tolerance, h * self.point.speed)
        if self.unchecked:
            self.unchecked -= 1
        else:
            self._schedule(t, h, tolerated)
        change = t * norm(s.error - self.s.error) / h
        self.s, self.largest = s, max(self.largest, norm(net.layout.targets - s.error))
        off = self.estimate.value * (self.largest + change)
        self.output_error = off + self.output_residual
        self.loss_error = (constants.LOSS_SHARE * off + self.output_residual) * norm(s.error)
        return True

    def _checked(self, y: np.ndarray, s: State, tolerance: float, tolerated: float) -> State:
        """Measure the residual at the predictor, and enrich the bases if it is too large; the state there."""
        net, stepper, t1 = self.net, self.stepper, self.t1
        rest_speed = constants.AT_REST / max(t1 - stepper.t, 1e-3 * t1)
        self.point = assess(net, y, s, rest_speed)
        self.residual, self.output_residual = projection_residual(net, self.point)
        if self.residual <= tolerated:
            return s
        before = self.residual
        states, points = stepper.look_ahead(t1, self.point.size, tolerance, tolerated, rest_speed)
        states, points = [y, *states], [self.point, *points]
        if net.coordinates.shape[1] > constants.TRUNCATE_AT * self.enriched_size:
            rows = truncate(net, np.stack(states), points, constants.TRUNCATE_BELOW * tolerance)
            points = [assess(net, x, net.state(x), rest_speed) for x in rows]
            self.enriched_size = net.coordinates.shape[1]
        enrich(net, points, tolerated)
        self.snapshot = None
        self.last_look = stepper.t
        y = stepper.predict(t1)
        s = net.state(y)
        self.point = assess(net, y, s, rest_speed)
        self.residual, self.output_residual = projection_residual(net, self.point)
        self.estimate.enriched(before, self.residual)
        return s

    def _schedule(self, t: float, h: float, tolerated: float) -> None:
        """Look at the residual again after half of the time in which it would become too large."""
        self.estimate.measured(self.residual)
        log = np.log(max(self.residual, 1e-300) / tolerated)
        rise = (log - self.last_log) / (t - self.last_look) * h if t > self.last_look else np.inf
        self.unchecked = int(np.clip(-0.5 * log / max(rise, 1e-3), 0, constants.MAX_UNCHECKED))
        self.last_log, self.last_look = log, t

    def saved(self, ts: list[float]) -> tuple[list[Saved], list[float]]:
        """The network and its loss at times of the last step."""
        self.snapshot = self.snapshot or self.net.copied()
        own = self.output_error - self.output_residual
        projected = self.output_residual < constants.PROJECTED_OUTPUTS * own
        ys, errors = self.stepper.interpolate(ts)
        found = [Saved(t, self.snapshot, y, projected) for t, y in zip(ts, ys, strict=True)]
        return found, [self.net.loss(e) for e in errors]

    def cut(self, stop: float) -> None:
        """End the last step where the loss falls to `stop`."""
        stepper, net = self.stepper, self.net

        def above(t: float) -> float:
            return float(np.log(net.loss(stepper.interpolate([t])[1]) / stop))

        before, t = stepper.times[1], stepper.times[0]
        end = float(brentq(above, before, t, xtol=1e-12 * t)) if above(before) > 0 else before  # pyright: ignore
        y, error = stepper.interpolate([end])
        net.coordinates[stepper.slots[0]], stepper.errors[stepper.slots[0]] = y[0], error[0]
        stepper.times[0] = end


def solve(
    net: ReducedNetwork,
    ts: np.ndarray,
    t1: float,
    tolerances: Tolerances,
    stop: float = -np.inf,
    max_steps: int = 100_000,
) -> Solution:
    """The flow to time t1, or until the loss falls to `stop`."""
    solver = Solver(net, t1, tolerances)
    stepper, initial = solver.stepper, net.loss(solver.s.error)
    saved = [Saved(0.0, net.copied(), net.coordinates[0], False)] if ts[0] <= 0 else []
    losses, curve = (
        [initial] * len(saved),
        [(0.0, initial, net.slope(net.velocity(solver.s, solver.s.error)))],
    )
    error = loss_error = 0.0
    outcome = "stopped" if initial <= stop else "finished"
    while outcome == "finished" and solver.t < t1 and not solver.settled:
        taken = solver.step()
        outcome = "step limit" if solver.steps == max_steps else outcome
        if not taken:
            outcome = "failed" if stepper.h < 1e-14 * max(solver.t, solver.first_step) else outcome
            continue
        if net.loss(stepper.error) <= stop:
            solver.cut(stop)
            outcome = "stopped"
        curve.append((solver.t, net.loss(stepper.error), net.slope(stepper.velocity)))
        loss_error = max(loss_error, solver.loss_error)
        due = ts[len(saved) : np.searchsorted(ts, solver.t, side="right")].tolist()
        if due:
            error = max(error, solver.output_error)
            new, new_losses = solver.saved(due)
            saved, losses = saved + new, losses + new_losses
        stepper.choose()
    if len(saved) < len(ts):  # nothing moves any more
        left, error = len(ts) - len(saved), max(error, solver.output_error)
        new, new_losses = solver.saved([solver.t])
        saved, losses = saved + left * new, losses + left * new_losses
    end = t1 if outcome == "finished" else solver.t
    rounding = constants.ROUNDING * float(np.finfo(net.dtype).eps)
    error, loss_error = error / solver.largest + rounding, loss_error / (initial or 1.0) + rounding
    return Solution(saved, np.array(losses), end, solver.steps, outcome, error, loss_error, np.array(curve))


def tolerances_for(error: float, of: str, depth: int) -> Tolerances:
    """Tolerances at which the error of outputs or of the loss curve should be as asked for."""
    if of == "loss":
        step, residual = constants.LOSS_TOLERANCE * error, constants.LOSS_RESIDUAL * error
    else:
        # Deeper networks learn later and faster: the more an error grows.
        step = constants.FIRST_TOLERANCE * error**constants.TOLERANCE_POWER / depth**3
        residual = constants.RESIDUAL * step**constants.RESIDUAL_POWER
    return Tolerances(min(step, constants.MAX_TOLERANCE), min(residual, constants.MAX_RESIDUAL))


def solve_to(
    task: Task, weights: Mapping[str, np.ndarray], rates: Mapping[str, float], ts: np.ndarray, t1: float,
    error: float, of: str, stop: float, max_steps: int,
) -> tuple[Solution, float]:  # fmt: skip
    """Solve, and again with smaller tolerances while the stated error is above `error`; also that error."""
    depth, asked = max(task.graph.levels.values()), error
    while True:
        tolerances = tolerances_for(asked, of, depth)
        dtype = np.float32 if tolerances.step > constants.SINGLE else np.float64
        net = reduced_network(task, weights, rates, dtype)
        solution = solve(net, ts, t1, tolerances, stop, max_steps)
        stated = solution.loss_error if of == "loss" else solution.error
        stated = max(stated, constants.LEAST_STATED * error)
        gave_up = solution.outcome in ("failed", "step limit") or tolerances.step < 1e-13
        if stated <= error or gave_up:
            return solution, stated
        asked *= 0.8 * error / stated
