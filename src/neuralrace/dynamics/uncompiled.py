"""Small systems integrated in NumPy, so that nobody waits for a compiler.

SciPy's DOP853 makes the steps, of the same order as those of `integrate`; the result has the same form.
Where a small system becomes stiff (what has been learned forces small steps on what grows slowly), LSODA
makes them. A system is compiled instead once NumPy has taken as long on it as compiling would (see
`compiling`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import DOP853, LSODA

from neuralrace.compiling import Allowance
from neuralrace.dynamics.history import Buffer
from neuralrace.dynamics.integrate import FAILED, FINISHED, GOING, HALVINGS, LIMITED, STOPPED, Path

_USUAL = 600  # evaluations of a solution
_STAGES = 12  # evaluations of a step
# Part of the tolerances. Between its steps SciPy's DOP853 is now and then far less accurate than `integrate`:
# of 398 drawn networks at rtol 1e-9, by up to 8e-7 (compiled: 2e-9). At a tenth: by up to 3e-8.
_STRICT = 0.1
_LEAST = 1e-13  # relative tolerance
_MOST = 20_000  # numbers of a system, whose interpolants are all kept
_LONG = 5000  # numbers whose sums over stages take as long as one evaluation
_FEW = 100  # numbers of a system that may go on by LSODA, which differentiates by each
_EDGE, _OFTEN, _CALM = 6.1, 15, 6  # of stability; steps at it that make a system stiff, and other ones not
_BEGIN = 0.02  # of the loss: so much of it may go in the first step
_FINER = 0.1  # part of the tolerances for LSODA, whose errors add up over its many steps


class Point(NamedTuple):
    """The loss at a point, the velocity, and the slope of the loss in time."""

    loss: float
    velocity: np.ndarray
    slope: float


class Solution(NamedTuple):
    """One run, which `at` gives at any times."""

    start: np.ndarray
    ends: list[float]  # of its steps
    inside: list[Callable[[np.ndarray], np.ndarray]]  # y (numbers, times) inside each step
    history: np.ndarray  # (steps + 1, 3) time, loss and slope
    status: int
    steps: int  # taken and refused
    final: np.ndarray

    def at(self, ts: np.ndarray) -> tuple[np.ndarray, int]:
        """y (times, numbers) at each time that was reached, and how many rows are valid.

        If the run ended early, the row after them has its end.
        """
        rows = np.zeros((len(ts), len(self.start)))
        t = self.history[-1, 0]
        n = int(np.searchsorted(ts, t, side="right"))
        step = np.searchsorted(self.ends, ts[:n])
        for k in np.unique(step[ts[:n] > 0]):
            rows[:n][step == k] = self.inside[k](ts[:n][step == k]).T
        rows[:n][ts[:n] == 0] = self.start
        rows[:n][ts[:n] == t] = self.final
        if self.status != FINISHED and n < len(ts) and (n == 0 or ts[n - 1] < t):
            rows[n], n = self.final, n + 1
        return rows, n


Evaluate = Callable[[np.ndarray], Point]


def solve_runs(
    evaluate: Evaluate, starts: np.ndarray, t1: float, rtol: float, atols: np.ndarray, stop: float | None,
    max_steps: int, left: Allowance, cost: int = 1,
) -> list[Solution] | None:  # fmt: skip
    """Every run from `starts` (runs, numbers); None where it should be compiled instead."""
    cost += starts.shape[1] // _LONG
    if starts.shape[1] > _MOST or not left.covers(_USUAL * cost * len(starts)):
        return None
    solutions = []
    for start, atol in zip(starts, atols, strict=True):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "lsoda", UserWarning)  # the status of the run says so
            found = _solve(evaluate, start, t1, rtol, float(atol), stop, max_steps, left, cost)
        if found is None:
            return None
        solutions.append(found)
    return solutions


def _solve(
    evaluate: Evaluate, start: np.ndarray, t1: float, rtol: float, atol: float, stop: float | None,
    max_steps: int, left: Allowance, cost: int,
) -> Solution | None:  # fmt: skip
    latest = point = evaluate(start)

    def velocity(_: float, y: np.ndarray) -> np.ndarray:
        nonlocal latest
        latest = evaluate(y)
        return latest.velocity

    if stop is not None and point.loss <= stop:
        return Solution(start, [], [], np.array([(0.0, point.loss, point.slope)]), STOPPED, 0, start)
    if not np.isfinite(point.velocity).all():
        return Solution(start, [], [], np.array([(0.0, point.loss, 0.0)]), FAILED, 0, start)
    solver = Stepper(velocity, start, t1, rtol, atol)
    if point.slope < 0:  # no steps before the first say how the loss bends there
        solver.shorten(_BEGIN * point.loss / -point.slope)
    ends, inside, history = [], [], [(0.0, point.loss, point.slope)]
    status, y, seen = GOING, start, 0
    while status == GOING:
        if not solver.step():
            status = FAILED
            break
        t, y = solver.t, solver.y
        point = latest if solver.explicit else evaluate(y)  # the last evaluation of an explicit step is at y
        inside.append(solver.dense_output())
        status = LIMITED if solver.steps >= max_steps else GOING
        status = FINISHED if t >= t1 else status
        if stop is not None and point.loss <= stop:
            t = _crossing(evaluate, inside[-1], history[-1][0], t, stop)
            y = inside[-1](t) if t < solver.t else y
            point, status = evaluate(y), STOPPED
        ends.append(t)
        history.append((t, point.loss, point.slope))
        solver.choose()
        if not solver.explicit:
            left.left, seen = left.left + seen, 0  # given back: compiled code, explicit, would take longer
        elif not left.spend(solver.evaluations * cost - seen):
            return None
        else:
            seen = solver.evaluations * cost
    return Solution(start, ends, inside, np.array(history), status, solver.steps, y)


class Stepper:
    """Steps by DOP853; of a few numbers by LSODA once stability limits those of DOP853.

    Whether it does is tested as in the program of Hairer and Wanner.
    """

    def __init__(self, velocity: Any, start: np.ndarray, t1: float, rtol: float, atol: float):
        self.velocity, self.t1, self.rtol, self.atol = velocity, t1, _STRICT * rtol, _STRICT * atol
        self.steps: int = 0  # taken and refused
        self.evaluations: int = 0
        self.solver: Any = self._by(DOP853, 0.0, start, 1.0)
        self.explicit: bool = True  # the method of the next step
        self.at_edge: int = 0
        self.calm: int = 0

    def _by(self, method: Any, t: float, y: np.ndarray, part: float) -> Any:
        rtol, atol = max(part * self.rtol, _LEAST), part * self.atol
        return method(self.velocity, t, y, self.t1, rtol=rtol, atol=atol)

    @property
    def t(self) -> float:
        return self.solver.t

    @property
    def y(self) -> np.ndarray:
        return self.solver.y

    def shorten(self, first: float) -> None:
        """Make a first step that is no longer than this."""
        self.solver.h_abs = min(self.solver.h_abs, max(first, 1e-12 * self.t1))

    def step(self) -> bool:
        """Make a step; False where none is found."""
        before = self.solver.nfev
        self.solver.step()
        made = self.solver.nfev - before
        self.evaluations += made
        self.steps += made // _STAGES if self.explicit else 1
        return self.solver.status != "failed"

    def dense_output(self) -> Callable[[np.ndarray], np.ndarray]:
        """The solution inside the latest step."""
        before = self.solver.nfev
        found = self.solver.dense_output()
        self.evaluations += self.solver.nfev - before
        return found

    def choose(self) -> None:
        """Choose the method of the next step."""
        if self.explicit and self.solver.status == "running" and len(self.y) <= _FEW and self._stiff():
            self.solver, self.explicit = self._by(LSODA, self.t, self.y, _FINER), False

    def _stiff(self) -> bool:
        h, k = self.solver.t - self.solver.t_old, self.solver.K
        stage = self.solver.y_old + h * (self.solver.A[-1] @ k[:_STAGES])
        change = float(np.linalg.norm(self.y - stage))
        rate = float(np.linalg.norm(k[_STAGES] - k[_STAGES - 1])) / change if change else np.inf
        if h * rate > _EDGE:
            self.at_edge, self.calm = self.at_edge + 1, 0
        else:
            self.calm += 1
            self.at_edge = 0 if self.calm == _CALM else self.at_edge
        return self.at_edge >= _OFTEN


def _crossing(evaluate: Evaluate, inside: Any, before: float, after: float, level: float) -> float:
    """Where the loss falls to the level inside a step, by halving."""
    low, high = before, after
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if evaluate(inside(middle)).loss <= level else (middle, high)
    return high


def path_at(solutions: list[Solution], ts: np.ndarray, keep: Callable[[np.ndarray, np.ndarray], Any]) -> Path:
    """The result of all runs at some times, as `integrate` gives it.

    `keep` has losses and other values, from the times (runs, save) and y (runs, save, numbers) there.
    """
    found = [s.at(ts) for s in solutions]
    ends = np.array([s.history[-1, 0] for s in solutions])
    with np.errstate(all="ignore"):  # as in compiled code
        kept = keep(np.minimum(ts, ends[:, None]), np.stack([y for y, _ in found]))
    most = max(len(s.history) for s in solutions)
    rows = np.stack([np.pad(s.history, ((0, most - len(s.history)), (0, 0))) for s in solutions])
    counts = np.array([len(s.history) for s in solutions])
    last = np.array([n for _, n in found]) - 1
    return Path(
        kept,
        last,
        ends,
        np.array([s.status for s in solutions]),
        np.array([s.steps for s in solutions]),
        Buffer(rows, counts),
    )
