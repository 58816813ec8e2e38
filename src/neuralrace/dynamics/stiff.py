"""Stiff methods, for runs whose explicit steps are kept short by stability alone.

What has been learned forces small steps on what grows slowly. A small system goes on by LSODA, which is
implicit. A large one goes on by the exponential method of Rosenbrock and Euler, for as long as its steps are
worth their evaluations: it is exact for velocities that are linear in the weights, as they become where all
but little is learned, and of order 4. What it needs of the derivative of the velocity is found in Krylov
spaces of it (Hochbruck and Ostermann 2010, Exponential integrators, sections 2.3 and 4.2; Luan 2017,
Fourth-order two-stage explicit exponential integrators).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np

from neuralrace.dynamics import constants
from neuralrace.dynamics.explicit import STAGES, size
from neuralrace.dynamics.run import Run, Step
from neuralrace.dynamics.status import Status

Velocity = Callable[[np.ndarray], np.ndarray]


def go_on(run: Run, done: Callable[[], None]) -> None:
    """Follow a stiff run to its end, or until explicit steps are the better ones."""
    few = constants.FEW_SLIDING if run.sliding else constants.FEW_NUMBERS
    (_by_lsoda if run.y.size <= few else _by_exponential)(run, done)


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
            if run.slides():
                run.v = v
                return
            done()


def _by_exponential(run: Run, done: Callable[[], None]) -> None:
    velocity, t1 = run.velocity, run.problem.t1
    moves = lambda y: velocity(y)[0]  # noqa: E731
    (v, loss, slope), h, rate = velocity(run.y), run.h, 0.0
    work, since, taken = 0, run.t, 0
    while run.status is None:
        t, y, left = run.t, run.y, t1 - run.t
        tolerance = run.atol + run.rtol * np.abs(y)
        space, length = _course(moves, y, v, min(h, left), tolerance)
        last, end = length == left, space.states([length])[0]
        found = velocity(end)
        error = length / 3 * _size((found[0] - space.velocity(length)) / tolerance)
        parts = int(np.clip(-slope * length / loss if loss > 0 else 1, 1, constants.MOST_PARTS))
        evaluations, rate = space.directions + 1 + parts, max(rate, space.parts[0].rate)
        work, taken = work + evaluations, taken + 1
        run.steps += -(-evaluations // STAGES)
        h = length * (min(max(0.9 * max(error, 1e-20) ** (-1 / 4), 0.2), 10.0) if np.isfinite(error) else 0.2)
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
        if run.slides():
            break
        if taken % constants.TRIED == 0 and (run.t - since) * rate * STAGES < constants.EDGE * work:
            break
        elif taken % constants.TRIED == 0:
            work, since = 0, run.t
        done()
    run.v, run.h = v, min(h, constants.EDGE / rate) if rate > 0 else h
    run.at_edge = 0


@dataclass(frozen=True)
class _Krylov:
    """What a force `x^power b` adds to the solution of what is linear, in a space of few directions."""

    length: float  # of b
    power: int
    basis: np.ndarray  # (directions, numbers); the first one is that of b
    matrix: np.ndarray  # J in that basis

    @property
    def rate(self) -> float:
        """Of the fastest mode."""
        return float(np.abs(np.linalg.eigvals(self.matrix)).max())

    def moved(self, x: float) -> np.ndarray:
        """The state after a time x, in the basis."""
        return self.functions(x)[0]

    def velocity(self, x: float) -> np.ndarray:
        """The velocity then, in the basis."""
        share = self.matrix @ self.moved(x)
        share[0] += self.length * x**self.power
        return share

    def functions(self, x: float) -> tuple[np.ndarray, np.ndarray]:
        """The state after a time x, and its integral, from phi functions of x J of the first direction."""
        from scipy.linalg import expm  # slow to import

        m, p = len(self.matrix), self.power
        wide = np.diag(np.r_[np.zeros(m), np.ones(p + 1)], 1)
        wide[:m, :m], wide[0, m] = x * self.matrix, 1.0
        found = expm(wide)[:m] * (factorial(p) * self.length * x ** (p + 1))
        return found[:, m + p], x * found[:, m + p + 1]


@dataclass(frozen=True)
class _Course:
    """The solution through y of what is linear, under some forces."""

    y: np.ndarray
    parts: list[_Krylov]

    @property
    def directions(self) -> int:
        return sum(len(part.basis) for part in self.parts)

    def states(self, times: Any) -> np.ndarray:
        """The states (times, numbers) at times from that of y on."""
        return self.y + self._sum([[part.moved(x) for x in np.asarray(times, float)] for part in self.parts])

    def velocity(self, x: float) -> np.ndarray:
        """The velocity after a time x."""
        return self._sum([part.velocity(x) for part in self.parts])

    def _sum(self, shares: list[Any]) -> np.ndarray:
        each = zip(shares, self.parts, strict=True)
        return np.sum([np.array(share).astype(self.y.dtype) @ part.basis for share, part in each], axis=0)


def _course(
    velocity: Velocity, y: np.ndarray, v: np.ndarray, h: float, tolerance: np.ndarray
) -> tuple[_Course, float]:
    """A step of length h, or of as much of it as few directions are enough for.

    What is not linear is taken for a force in the second power of time, as it is at one point of the step.
    """
    linear, h = _krylov(velocity, y, v, v, 0, h, tolerance)
    first, node = _Course(y, [linear]), constants.NODE * h
    bend = (velocity(first.states([node])[0]) - first.velocity(node)) / node**2
    bent, h = _krylov(velocity, y, v, bend, 2, h, tolerance)
    return _Course(y, [linear, bent]), h


def _krylov(
    velocity: Velocity, y: np.ndarray, v: np.ndarray, b: np.ndarray, power: int, h: float,
    tolerance: np.ndarray,
) -> tuple[_Krylov, float]:  # fmt: skip
    """A space for a force in a step of length h, or of as much of it as so few directions are enough for.

    New directions are made orthogonal to the last two: J of a gradient flow is similar to a symmetric matrix.
    """
    small = np.sqrt(np.finfo(y.dtype).eps) * max(np.linalg.norm(y), 1e-3)
    most, speed = constants.MOST_DIRECTIONS, float(np.linalg.norm(b))
    q, matrix = np.empty((most, y.size), y.dtype), np.zeros((most + 1, most))
    found, new = _Krylov(speed, power, q, matrix), b / (speed if speed > 0 else 1.0)
    for j in range(most):
        q[j] = new
        new = velocity(y + small * new) - v
        new /= small
        for i in range(max(j - 1, 0), j + 1):
            matrix[i, j] = q[i] @ new
            new -= matrix[i, j] * q[i]
        matrix[j + 1, j] = np.linalg.norm(new)
        found = _Krylov(speed, power, q[: j + 1], matrix[: j + 1, : j + 1])
        off = _size(new / tolerance)
        over = lambda h, found=found, off=off: off * abs(found.functions(h)[1][-1]) > constants.LEFT_OUT  # noqa: E731
        while j == most - 1 and over(h):
            h *= constants.SHORTER
        if not over(h):
            break
        new /= matrix[j + 1, j]
    return found, h


def _size(v: np.ndarray) -> float:
    return float(size(v[None])[0])
