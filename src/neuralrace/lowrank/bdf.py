"""Backward differentiation of orders 1 to 6 on any past times, implicit in the outputs alone.

A step starts where the past points to (the predictor) and takes one step of Newton's method. Its Jacobian has
what is stiff: errors of outputs that relax. The errors at the end of the step come with it.
"""

from __future__ import annotations

from copy import copy
from math import prod

import numpy as np

from neuralrace.lowrank import constants
from neuralrace.lowrank.bases import Point, assess, projection_residual
from neuralrace.lowrank.network import ReducedNetwork, State


class Stepper:
    """The past of a solution, the last time first, and the order and length of the next step.

    Coordinates of the past are rows of `net.coordinates`, errors of outputs rows of `errors`; `slots` says
    which.
    """

    net: ReducedNetwork
    h: float
    times: list[float]
    slots: list[int]
    order: int
    steady: int  # steps since the length or order changed
    errors: np.ndarray
    t: float  # of the step that is due
    orders: list[int]  # that it tries,
    predictors: list[np.ndarray]  # with each of them
    guess: np.ndarray  # the predictor that it starts from
    known: np.ndarray  # the part of the formula that the past gives,
    weight: float  # and the weight of the velocity in it
    velocity: np.ndarray
    local: dict[int, float]  # local errors by order, in tolerances

    def __init__(self, net: ReducedNetwork, h: float, error: np.ndarray) -> None:
        self.net, self.h = net, h
        self.times, self.slots = [0.0], [0]
        self.order, self.steady = 1, 0
        net.coordinates = np.pad(net.coordinates, ((0, constants.MAX_ORDER + 2), (0, 0)))
        self.errors = np.zeros((len(net.coordinates), error.size))
        self.errors[0] = error.ravel()

    def _mixed(self, rows: np.ndarray, weights: list[list[float]]) -> np.ndarray:
        """Sums of the rows of the past."""
        every = np.zeros((len(weights), len(rows)))
        for row, w in zip(every, weights, strict=True):
            row[self.slots[: len(w)]] = w
        return every.dot(rows)

    def interpolate(self, ts: list[float]) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates and errors of outputs at times of the last step, a row for each."""
        weights = [lagrange(self.times[: self.order + 1], t) for t in ts]
        return self._mixed(self.net.coordinates, weights), self._mixed(self.errors, weights)

    @property
    def error(self) -> np.ndarray:
        """Errors of outputs at the last time."""
        return self.errors[self.slots[0]]

    @property
    def last(self) -> np.ndarray:
        """Coordinates at the last time."""
        return self.net.coordinates[self.slots[0]]

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

    def take(self, size: np.ndarray, s: State, tolerance: float) -> bool:
        """Take the step from the state at the predictor, if its relative local error is below a tolerance.

        Else the next one will be shorter.
        """
        net, times, t = self.net, self.times, self.t
        error = net.implicit_error(s, self.weight, s.error - net.jvp(s, self.known - self.guess))
        self.velocity = net.velocity(s, error)
        new = self.known + self.weight * self.velocity
        self.local = {}
        for k, guess in zip(self.orders, self.predictors, strict=True):
            off = (net.norms(new - guess) / size).max()
            # The first step has nothing to compare with: its velocity may change as much as the weights do.
            part = 1 / (sum(1 / (t - x) for x in times[:k]) * (t - times[k])) if k else 0.5 * off
            self.local[max(k, 1)] = part * off / tolerance
        local, safe = self.local[self.order], constants.SAFETY
        if not local < 1:
            self.steady = 0
            self.h *= (
                np.clip(safe * local ** (-1 / (self.order + 1)), 0.2, safe) if np.isfinite(local) else 0.1
            )
            return False
        slot = next(k for k in range(len(self.errors)) if k not in self.slots)
        net.coordinates[slot], self.errors[slot] = new, error.ravel()
        self.slots, self.times = [slot, *self.slots], [t, *times]
        self.steady += 1
        return True

    def choose(self) -> None:
        """The order and length of the next step."""
        factors = {k: max(x, 1e-10) ** (-1 / (k + 1)) for k, x in self.local.items()}
        near, keep = self.steady > self.order, constants.KEEP_STEP
        self.order = max(factors, key=factors.__getitem__) if near else self.order
        factor = constants.SAFETY * factors[self.order]
        if factor < keep or (near and factor * keep > 1):
            self.h, self.steady = (
                self.h * min(factor, constants.MAX_GROWTH),
                0 if near else self.steady,
            )
        self.times, self.slots = self.times[: self.order + 2], self.slots[: self.order + 2]

    def look_ahead(
        self, t1: float, size: np.ndarray, tolerance: float, tolerated: float, rest_speed: float
    ) -> tuple[list[np.ndarray], list[Point]]:
        """States to come, by loose steps in the present bases, as far as these are good enough."""
        net, kept, found = self.net, self.net.coordinates, []
        net.coordinates, ahead = kept.copy(), copy(self)
        ahead.errors = self.errors.copy()
        ahead.order, ahead.steady = min(self.order, constants.LOOK_ORDER), 0
        ahead.h = constants.LOOK_STEP * self.h
        loose = min(constants.LOOK_TOLERANCE * tolerance, constants.MAX_TOLERANCE)
        limit = min(constants.LOOK_RESIDUAL * tolerated, constants.MAX_RESIDUAL)
        for _ in range(constants.LOOK_STEPS):
            if ahead.times[0] >= t1:
                break
            y = ahead.predict(t1)
            s = net.state(y)
            if ahead.take(size, s, loose):
                ahead.choose()
                found.append((y, assess(net, y, s, rest_speed)))
                if (
                    len(found) % constants.LOOK_EVERY == 0
                    and projection_residual(net, found[-1][1])[0] > limit
                ):
                    break
        net.coordinates = kept
        n = constants.LOOK_STATES
        some = sorted({round(k) for k in np.linspace(0, len(found) - 1, n)}) if found else []
        return [found[k][0] for k in some], [found[k][1] for k in some]


def formula(times: list[float], t: float) -> tuple[list[float], float]:
    """Backward differentiation at time t: weights of the past values, and of the velocity."""
    weight = 1 / sum(1 / (t - x) for x in times)
    return [weight * w / (t - x) for w, x in zip(lagrange(times, t), times, strict=True)], weight


def lagrange(nodes: list[float], t: float) -> list[float]:
    """Weights of the values at some nodes in the value at t of the polynomial through them."""
    return [prod([(t - y) / (x - y) for y in nodes if y != x]) for x in nodes]
