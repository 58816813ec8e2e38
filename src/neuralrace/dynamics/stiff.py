"""Stiff methods, for runs whose explicit steps are kept short by stability alone.

What has been learned forces small steps on what grows slowly. A small system goes on by LSODA, which is
implicit. A large one goes on by the exponential method of Rosenbrock and Euler, for as long as its steps are
worth their evaluations: it is exact for velocities that are linear in the weights, as they become where all
but little is learned. What it needs of the derivative of the velocity is found in a Krylov space of it
(Hochbruck and Ostermann 2010, Exponential integrators, sections 2.3 and 4.2).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuralrace.dynamics import constants
from neuralrace.dynamics.explicit import STAGES, size
from neuralrace.dynamics.run import Run, Step
from neuralrace.dynamics.status import Status

Velocity = Callable[[np.ndarray], np.ndarray]


def go_on(run: Run, done: Callable[[], None]) -> None:
    """Follow a stiff run to its end, or until explicit steps are the better ones."""
    (_by_lsoda if run.y.size <= constants.FEW_NUMBERS else _by_exponential)(run, done)


def _by_lsoda(run: Run, done: Callable[[], None]) -> None:
    from scipy.integrate import LSODA  # slow to import

    velocity, rtol = run.velocity, max(constants.LSODA_SHARE * run.rtol, constants.LSODA_LEAST)
    start, atol = np.asarray(run.y, float), constants.LSODA_SHARE * run.atol
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "lsoda", UserWarning)  # the status of the run says so
        solver = LSODA(lambda _, y: velocity(y)[0], run.t, start, run.problem.t1, rtol=rtol, atol=atol)
        while run.status is None:
            if run.steps >= run.most:
                run.status = Status.STEP_LIMIT
                return
            solver.step()
            run.steps += 1
            if solver.status == "failed":
                run.status = Status.DIVERGED
                return
            dense, y = solver.dense_output(), solver.y
            v, loss, slope = velocity(y)
            inside = lambda dense=dense: lambda ts: dense(np.asarray(ts)).T  # noqa: E731
            run.accept(Step((float(solver.t), loss, slope), None, y, lambda v=v: v, inside))
            done()


def _by_exponential(run: Run, done: Callable[[], None]) -> None:
    velocity, t1 = run.velocity, run.problem.t1
    (v, loss, slope), h, rate = velocity(run.y), run.h, 0.0
    work, since, taken = 0, run.t, 0
    while run.status is None:
        t, y, last = run.t, run.y, h >= t1 - run.t
        tolerance = constants.EXPONENTIAL_SHARE * (run.atol + run.rtol * np.abs(y))
        space, length = _krylov(lambda y: velocity(y)[0], y, v, min(h, t1 - t), tolerance)
        last, end = last and length == t1 - t, space.states([length])[0]
        found = velocity(end)
        error = length / 3 * _size((found[0] - space.velocity(length)) / tolerance)
        parts = int(np.clip(-slope * length / loss if loss > 0 else 1, 1, constants.MOST_PARTS))
        evaluations, rate = len(space.basis) + parts, max(rate, space.rate)
        work, taken = work + evaluations, taken + 1
        run.steps += -(-evaluations // STAGES)
        h = length * (min(max(0.9 * max(error, 1e-20) ** (-1 / 3), 0.2), 10.0) if np.isfinite(error) else 0.2)
        if error <= 1:
            inside = lambda t=t, space=space: lambda ts: space.states(np.asarray(ts) - t)  # noqa: E731
            for part in length * np.arange(1, parts) / parts:  # for cubics through the losses
                if run.status is None:
                    y = space.states([part])[0]
                    w = velocity(y)
                    run.accept(Step((t + part, *w[1:]), None, y, lambda w=w: w[0], inside))
            if run.status is None:
                v, loss, slope = found
                run.accept(Step((t1 if last else t + length, loss, slope), None, end, lambda v=v: v, inside))
        elif h <= 0 or t + 0.1 * h <= t:
            run.status = Status.DIVERGED
        if run.status is None and run.steps >= run.most:
            run.status = Status.STEP_LIMIT
        if taken % constants.TRIED == 0 and (run.t - since) * rate * STAGES < constants.EDGE * work:
            break
        elif taken % constants.TRIED == 0:
            work, since = 0, run.t
        done()
    run.v, run.h = v, min(h, constants.EDGE / rate) if rate > 0 else h
    run.at_edge = 0


@dataclass(frozen=True)
class _Krylov:
    """The solution through y of what is linear, `y + x phi1(x J) v`, in a space of few directions."""

    y: np.ndarray
    speed: float  # the length of v
    basis: np.ndarray  # (directions, numbers); the first one is that of v
    matrix: np.ndarray  # J in that basis

    @property
    def rate(self) -> float:
        """Of the fastest mode."""
        return float(np.abs(np.linalg.eigvals(self.matrix)).max())

    def states(self, times: Any) -> np.ndarray:
        """The states (times, numbers) at times from that of y on."""
        shares = [x * self.functions(x)[0] for x in np.asarray(times, float)]
        return self.y + (self.speed * np.array(shares)).astype(self.y.dtype) @ self.basis

    def velocity(self, x: float) -> np.ndarray:
        """The velocity after a time x."""
        share = self.matrix @ self.functions(x)[0] * x  # exp(z) = 1 + z phi1(z)
        share[0] += 1
        return (self.speed * share).astype(self.y.dtype) @ self.basis

    def functions(self, x: float) -> tuple[np.ndarray, np.ndarray]:
        """What phi1(x J) and phi2(x J) make of the first direction."""
        from scipy.linalg import expm  # slow to import

        m = len(self.matrix)
        wide = np.zeros((m + 2, m + 2))
        wide[:m, :m], wide[0, m], wide[m, m + 1] = x * self.matrix, 1.0, 1.0
        found = expm(wide)
        return found[:m, m], found[:m, m + 1]


def _krylov(
    velocity: Velocity, y: np.ndarray, v: np.ndarray, h: float, tolerance: np.ndarray
) -> tuple[_Krylov, float]:
    """A space for a step of length h, or of as much of it as so few directions are enough for.

    New directions are made orthogonal to the last two: J of a gradient flow is similar to a symmetric matrix.
    """
    small = np.sqrt(np.finfo(y.dtype).eps) * max(np.linalg.norm(y), 1e-3)
    most, speed = constants.MOST_DIRECTIONS, float(np.linalg.norm(v))
    q, matrix = [v / (speed if speed > 0 else 1.0)], np.zeros((most + 1, most))
    found = _Krylov(y, speed, np.zeros(0), matrix)
    for j in range(most):
        new = (velocity(y + small * q[j]) - v) / small
        for i in range(max(j - 1, 0), j + 1):
            matrix[i, j] = q[i] @ new
            new = new - matrix[i, j] * q[i]
        matrix[j + 1, j] = np.linalg.norm(new)
        found, whole = _Krylov(y, speed, np.zeros(0), matrix[: j + 1, : j + 1]), matrix[j + 1, j] == 0
        if whole or j % constants.EACH == constants.EACH - 1:
            off = 0.0 if whole else speed * _size(new / tolerance)
            while not off * h**2 * abs(found.functions(h)[1][-1]) <= constants.LEFT_OUT and j == most - 1:
                h *= constants.SHORTER
            if off * h**2 * abs(found.functions(h)[1][-1]) <= constants.LEFT_OUT:
                break
        q.append(new / matrix[j + 1, j])
    return replace(found, basis=np.stack(q[: len(found.matrix)])), h


def _size(v: np.ndarray) -> float:
    return float(size(v[None])[0])
