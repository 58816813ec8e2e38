"""Systems integrated in NumPy, so that nobody waits for a compiler.

The method, its tolerances and its results are those of `integrate` with order 8. Runs go side by side: each
has steps of its own length, and the velocities of all runs in a stage are computed at once. Where a small
system becomes stiff (what has been learned forces small steps on what grows slowly), LSODA goes on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import LSODA

from neuralrace.dynamics.history import Buffer
from neuralrace.dynamics.integrate import (
    FAILED,
    FINISHED,
    GOING,
    HALVINGS,
    LIMITED,
    ORDER,
    RESTED,
    STOPPED,
    Path,
    first_length,
    step_factor,
    tableau,
)

_USUAL = 40  # steps of a solution
_CACHED = 60_000  # numbers of all runs side by side: more leave the cache of a processor
_KEPT = 50_000_000  # numbers of all polynomials inside steps
_LONG = 5000  # numbers whose sums over stages take as long as one evaluation
FEW = 100  # numbers of a system that may go on by LSODA, which differentiates by each
_EDGE, _OFTEN, _CALM = 5.0, 15, 6  # of stability; steps at it that make a system stiff, and other ones not
_BEGIN = 0.02  # of the loss: so much of it may go in the first step
_FINER = 0.01  # part of the tolerances for LSODA, whose errors add up over its many steps
_LEAST = 1e-13  # relative tolerance of LSODA
_LEARNED, _REST = 1e-20, 1e-8  # of `_at_rest`: share of the loss, and relative change, that are none
_MANY, _FAR = 1000, 1e4  # steps left, and time ahead in units of that which has passed


class System(NamedTuple):
    """The same equations for any number of runs, from y (runs, numbers)."""

    velocity: Callable[[np.ndarray, np.ndarray], np.ndarray]  # (y, v): writes dy/dt into v; losses (runs,)
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray]  # (y, v): slopes of the losses in time, (runs,)


Inside = Callable[[Any], np.ndarray]  # y (times, numbers) at times inside a step
End = tuple[float, float, float]  # time, loss, and slope of the loss


class Problem(NamedTuple):
    """What all runs have in common."""

    t1: float
    rtol: float
    stop: float | None
    max_steps: int
    ts: np.ndarray | None  # the times that will be asked for; None: any


class Solution:
    """One run, which `at` gives at any of the times that will be asked for."""

    def __init__(self, start: np.ndarray) -> None:
        self.start, self.final = start, start
        self.ends: list[float] = []  # of its steps
        self.inside: list[Inside | None] = []  # None where no time will be asked for
        self.history: list[End] = []  # the start, and the middle and the end of each step
        self.status: int = GOING
        self.steps: int = 0  # taken and refused

    def add(self, end: End, y: np.ndarray, inside: Inside | None, middle: End | None = None) -> None:
        """Add a step: its end, y there, y inside, and a point on the way."""
        if middle is not None and middle[0] < end[0]:
            self.history.append(middle)
        self.ends.append(end[0])
        self.history.append(end)
        self.inside.append(inside)
        self.final = y

    def at(self, ts: np.ndarray) -> tuple[np.ndarray, int]:
        """y (times, numbers) at each time that was reached, and how many rows are valid.

        If the run ended early, the row after them has its end.
        """
        rows = np.zeros((len(ts), len(self.start)))
        t = self.history[-1][0]
        n = int(np.searchsorted(ts, t, side="right"))
        step = np.searchsorted(self.ends, ts[:n])
        for k in np.unique(step[(ts[:n] > 0) & (ts[:n] < t)]):
            inside = self.inside[k]
            assert inside is not None
            rows[:n][step == k] = inside(ts[:n][step == k])
        rows[:n][ts[:n] == 0] = self.start
        rows[:n][ts[:n] == t] = self.final
        if self.status == RESTED:
            rows[n:], n = self.final, len(ts)
        if self.status != FINISHED and n < len(ts) and (n == 0 or ts[n - 1] < t):
            rows[n], n = self.final, n + 1
        return rows, n


def solve_runs(
    system: System, starts: np.ndarray, atols: np.ndarray, problem: Problem, load: float, most: float
) -> list[Solution] | None:
    """Every run from `starts` (runs, numbers); None where that takes more than `most` evaluations.

    `load` is what evaluating one run costs, in units of what a call does whatever its size. What becomes
    stiff may take longer: explicit steps would take longer still.
    """
    runs, numbers = starts.shape
    if problem.ts is None and _USUAL * starts.size * tableau().curve.shape[1] > _KEPT:
        return None
    solutions: list[Solution] = []
    for at in range(0, runs, _at_once(numbers)):
        which = slice(at, at + _at_once(numbers))
        cost = _cost(numbers, load, len(starts[which]))
        if _USUAL * cost > most:
            return None
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "lsoda", UserWarning)  # the status of the run says so
            some = _SideBySide(system, starts[which], atols[which], problem)
            some.begin()
            while len(some.run):
                if most < cost or some.kept > _KEPT:
                    return None
                most -= 0 if some.stiff else cost
                some.advance()
        solutions += some.solutions
    return solutions


def _at_once(numbers: int) -> int:
    """Runs that go side by side."""
    return max(1, _CACHED // numbers)


def _cost(numbers: int, load: float, runs: int) -> int:
    """What a step of all runs that go side by side costs, in evaluations of a small system."""
    return round(len(tableau().c) * (1 + runs * (load + numbers / _LONG)))


class _SideBySide:
    """Some runs on their way. Arrays have a row for each run that is still going."""

    def __init__(self, system: System, starts: np.ndarray, atols: np.ndarray, problem: Problem) -> None:
        self.system, self.problem = system, problem
        self.solutions: list[Solution] = [Solution(y) for y in starts]
        self.run: np.ndarray = np.arange(len(starts))  # places in `solutions`
        self.y, self.atol, self.t = starts, atols, np.zeros(len(starts))
        self.v: np.ndarray = np.empty_like(starts)
        self.at_edge, self.calm = np.zeros((2, len(starts)), int)  # steps
        self.kept: int = 0  # numbers of all polynomials
        self.stiff: bool = False  # whether any run was

    def begin(self) -> None:
        """Compute velocities, and choose the lengths of the first steps."""
        p = self.problem
        self.gather()
        loss = self.system.velocity(self.y, self.v)
        slope = self.system.slope(self.y, self.v)
        speed = _size(self.v / (self.atol[:, None] + p.rtol * np.abs(self.y)))
        # No steps before the first say how the loss bends there.
        most = np.maximum(np.where(slope < 0, _BEGIN * loss / -slope, np.inf), 1e-12 * p.t1)
        self.h: np.ndarray = np.minimum(first_length(speed, p.rtol, p.t1, np), most)
        for k, solution in enumerate(self.solutions):
            solution.history.append((0.0, float(loss[k]), float(slope[k])))
        status = np.where(np.isfinite(self.v).all(axis=1), GOING, FAILED)
        if p.stop is not None:
            status[loss <= p.stop] = STOPPED
        self.leave(status)

    def gather(self) -> None:
        """Make room for the velocities of the runs that are going."""
        self.k: np.ndarray = np.empty((len(tableau().c), *self.y.shape))  # velocities at all stages
        self.flat: np.ndarray = self.k.reshape(len(self.k), -1)

    def sum(self, coefficients: np.ndarray, h: np.ndarray) -> np.ndarray:
        """The change of y by the velocities of the first stages with these coefficients, in a time h."""
        return h[:, None] * (coefficients @ self.flat[: len(coefficients)]).reshape(self.y.shape)

    def advance(self) -> None:
        """One step of each run, accepted or refused."""
        p, table, k, y = self.problem, tableau(), self.k, self.y
        last = self.h >= p.t1 - self.t
        h = np.where(last, p.t1 - self.t, self.h)
        k[0], loss = self.v, np.empty(0)
        for i in range(1, len(k)):
            y = self.sum(table.a[i, :i], h)
            y += self.y
            loss = self.system.velocity(y, k[i])
        largest = np.maximum(np.abs(self.y), np.abs(y))
        error = _size(self.sum(table.error, h) / (self.atol[:, None] + p.rtol * largest))
        accept, t = error <= 1, np.where(last, p.t1, self.t + h)
        self.h = h * step_factor(error, accept, ORDER, np)
        status = np.where(accept & last, FINISHED, GOING)
        status[(~accept & (self.t + 0.1 * self.h <= self.t)) | (self.h <= 0)] = FAILED
        self.watch_stability(h, accept)
        middle = self.middle(h)
        reached = accept & (loss <= (-np.inf if p.stop is None else p.stop))
        inside, slope = self.polynomials(h, t, accept, reached), self.system.slope(y, k[-1])
        for n, solution in enumerate([self.solutions[i] for i in self.run]):
            solution.steps += 1
            if accept[n]:
                end = float(t[n]), float(loss[n]), float(slope[n])
                between = middle[n], inside.get(n)
                status[n] = self.accepted(n, solution, end, y[n], *between, int(status[n]))
                if status[n] == GOING and _at_rest(solution, k[-1][n], h[n], p.t1):
                    status[n] = RESTED
            if status[n] == GOING and solution.steps >= p.max_steps:
                status[n] = LIMITED
        self.t[accept], self.v[accept] = t[accept], k[-1][accept]
        self.y = y if accept.all() else np.where(accept[:, None], y, self.y)
        self.leave(status)

    def middle(self, h: np.ndarray) -> list[End]:
        """Time, loss and slope in the middle of each step: steps are long for a cubic."""
        curve = tableau().curve
        y, v = self.y + self.sum(curve @ 0.5 ** np.arange(1, curve.shape[1] + 1), h), np.empty_like(self.y)
        loss = self.system.velocity(y, v)
        return [*zip((self.t + h / 2).tolist(), loss.tolist(), self.system.slope(y, v).tolist(), strict=True)]

    def polynomials(
        self, h: np.ndarray, t: np.ndarray, accept: np.ndarray, reached: np.ndarray
    ) -> dict[int, Inside]:
        """Accepted runs as functions of time inside this step: those that may be asked for, or that stop."""
        ts, wanted, curve = self.problem.ts, accept, tableau().curve
        if ts is not None:
            first, last = (np.searchsorted(ts, at, side="right") for at in (self.t, t))
            wanted = reached | (accept & (last > first))
        if not wanted.any():
            return {}
        c = (curve.T @ self.flat).reshape(curve.shape[1], *self.y.shape)
        self.kept += c.size
        return {n: _polynomial(self.t[n], h[n], self.y[n], c[:, n]) for n in np.flatnonzero(wanted).tolist()}

    def accepted(
        self,
        n: int,
        solution: Solution,
        end: End,
        y: np.ndarray,
        middle: End,
        inside: Inside | None,
        status: int,
    ) -> int:
        """Add a step to a solution. How its run stands."""
        stop = self.problem.stop
        if stop is not None and end[1] <= stop:
            solution.add(*_crossing(self.system, inside, self.t[n], end, y, stop), inside, middle)
            return STOPPED
        solution.add(end, y, inside, middle)
        if status != GOING or self.at_edge[n] < _OFTEN:
            return status
        self.stiff = True
        return _implicitly(self.system, solution, self.problem, self.atol[n])

    def watch_stability(self, h: np.ndarray, accept: np.ndarray) -> None:
        """Count steps whose length is limited by stability, as the program of Hairer and Wanner does.

        The two stages before the last, both at the end of the step, tell how fast velocities change.
        """
        if self.y.shape[1] > FEW:
            return
        a = tableau().a
        rate = _size(self.k[-2] - self.k[-3]) / _size(self.sum(a[-2] - a[-3], h))
        edge = accept & ~(h * rate <= _EDGE)
        self.calm = np.where(edge, 0, self.calm + accept)
        self.at_edge = np.where(edge, self.at_edge + 1, np.where(self.calm >= _CALM, 0, self.at_edge))

    def leave(self, status: np.ndarray) -> None:
        """Go on without the runs that have ended."""
        going = status == GOING
        if going.all():
            return
        for i, ended in zip(self.run[~going], status[~going].tolist(), strict=True):
            self.solutions[i].status = ended
        self.run, self.y, self.v, self.atol, self.t, self.h, self.at_edge, self.calm = (
            a[going] for a in (self.run, self.y, self.v, self.atol, self.t, self.h, self.at_edge, self.calm)
        )
        if going.any():
            self.gather()


def _size(v: np.ndarray) -> np.ndarray:
    """The root mean square of each row."""
    return np.sqrt(np.einsum("rn,rn->r", v, v) / v.shape[1])


def _polynomial(t: float, h: float, y: np.ndarray, c: np.ndarray) -> Inside:
    """y inside a step from t, from the coefficients (powers, numbers) of its velocity."""
    powers = np.arange(1, len(c) + 1)
    return lambda ts: y + h * (((np.asarray(ts)[:, None] - t) / h) ** powers @ c)


def _there(system: System, t: float, y: np.ndarray) -> End:
    """Time, loss and slope of one run at y."""
    v = np.empty((1, len(y)))
    loss = system.velocity(y[None], v)
    return t, float(loss[0]), float(system.slope(y[None], v)[0])


def _crossing(
    system: System, inside: Any, before: float, end: End, y: np.ndarray, level: float
) -> tuple[End, np.ndarray]:
    """The point inside a step where the loss falls to the level, and y there. By halving."""
    low, high = before, end[0]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = _there(system, middle, inside([middle])[0])[1] <= level
        low, high = (low, middle) if below else (middle, high)
    if high < end[0]:
        y = inside([high])[0]
        end = _there(system, high, y)
    return end, y


def _at_rest(solution: Solution, v: np.ndarray, h: float, t1: float) -> bool:
    """Whether all is learned, and no number would change by a part that counts in the many steps left.

    Changes are looked for in the time left, up to 10^4 times that which has passed: rates below are rounding.
    A loss that stays above 0 is no rest: a mode too small to be seen may still grow.
    """
    t, loss, _ = solution.history[-1]
    if loss > _LEARNED * solution.history[0][1] or t1 - t <= _MANY * h:
        return False
    return bool((np.abs(v) * min(t1 - t, _FAR * t) <= _REST * np.abs(solution.final)).all())


def _implicitly(system: System, solution: Solution, p: Problem, atol: float) -> int:
    """Go on with a run by LSODA, to its end. How it then stands."""

    def velocity(_: float, y: np.ndarray) -> np.ndarray:
        v = np.empty((1, len(y)))
        system.velocity(y[None], v)
        return v[0]

    first, rtol = solution.history[-1][0], max(_FINER * p.rtol, _LEAST)
    solver = LSODA(velocity, first, solution.final, p.t1, rtol=rtol, atol=_FINER * atol)
    while solver.status == "running":
        if solution.steps >= p.max_steps:
            return LIMITED
        before = solver.t
        solver.step()
        solution.steps += 1
        if solver.status == "failed":
            return FAILED
        dense = solver.dense_output()
        inside = lambda ts, dense=dense: dense(np.asarray(ts)).T  # noqa: E731
        end, y = _there(system, float(solver.t), solver.y), solver.y
        if p.stop is not None and end[1] <= p.stop:
            solution.add(*_crossing(system, inside, before, end, y, p.stop), inside)
            return STOPPED
        solution.add(end, y, inside)
        if _at_rest(solution, velocity(end[0], y), end[0] - before, p.t1):
            return RESTED
    return FINISHED


def path_at(solutions: list[Solution], ts: np.ndarray, keep: Callable[[np.ndarray, np.ndarray], Any]) -> Path:
    """The result of all runs at some times, as `integrate` gives it.

    `keep` has losses and other values, from the times (runs, save) and y (runs, save, numbers) there.
    """
    found = [s.at(ts) for s in solutions]
    histories = [np.array(s.history) for s in solutions]
    ends = np.array([h[-1, 0] for h in histories])
    status, steps = np.array([(s.status, s.steps) for s in solutions]).T
    with np.errstate(all="ignore"):  # as in compiled code
        reached = np.where(status == RESTED, np.inf, ends)[:, None]
        kept = keep(np.minimum(ts, reached), np.stack([y for y, _ in found]))
    counts = np.array([len(h) for h in histories])
    rows = np.stack([np.pad(h, ((0, counts.max() - len(h)), (0, 0))) for h in histories])
    last = np.array([n for _, n in found]) - 1
    return Path(kept, last, ends, status, steps, Buffer(rows, counts))
