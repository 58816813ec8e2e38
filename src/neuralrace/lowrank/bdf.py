"""Backward differentiation of orders 1 to 6 on any past times, implicit in the outputs alone.

A step starts where the past points to (the predictor) and takes one step of Newton's method. Its Jacobian has
what is stiff: errors of outputs that relax. The errors at the end of the step come with it.
"""

from __future__ import annotations

from math import prod

import numpy as np

from neuralrace.lowrank import constants
from neuralrace.lowrank.network import ReducedNetwork, State


class Stepper:
    """The past of a solution, the last time first, and the order and length of the next step.

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

    def take(self, size: np.ndarray, s: State, tolerance: float) -> bool:
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
