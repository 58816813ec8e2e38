"""What is solved, and one run on its way: what all methods write down in the same manner."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from neuralrace.dynamics import constants
from neuralrace.dynamics.explicit import Attempt, size
from neuralrace.dynamics.history import History, Point, first_fall
from neuralrace.dynamics.status import Ending, Status


class System(Protocol):
    """What computes: NumPy, or compiled programs. States are (runs, numbers)."""

    shrinks: bool  # whether it may go on with fewer runs; compiled programs would be compiled again

    def together(self, runs: int, numbers: int) -> int:
        """How many runs go side by side."""
        ...

    def of(self, runs: list[int]) -> System:
        """The system of some of the runs, in this order."""
        ...

    def begin(self, y: np.ndarray) -> tuple[Any, Any, Any]:
        """The velocities of states (runs, numbers), their losses and the slopes of these in time."""
        ...

    def attempt(self, y: Any, v: Any, h: np.ndarray, rtol: float, atol: np.ndarray) -> Attempt:
        """Explicit steps of lengths h (see `explicit.attempt`); y and v may be arrays of an attempt."""
        ...

    def velocity(self, y: np.ndarray) -> tuple[np.ndarray, float, float]:
        """The velocity of one state (numbers,), the loss and its slope in time."""
        ...

    def keep(self, run: int, ts: np.ndarray, y: np.ndarray, /) -> tuple[np.ndarray, Any]:
        """Losses of one run at some times (times,), and what else is kept: arrays (times, ...)."""
        ...


@dataclass(frozen=True)
class Problem:
    """A flow to be solved: runs from `start` (runs, numbers) to `t1`."""

    system: System
    start: np.ndarray
    units: np.ndarray  # (runs,) the largest of the initial weights: how large weights are
    t1: float
    ts: np.ndarray  # times to save
    choose: bool  # whether other times are to be saved where these skip the fall of the loss
    stop: float | None = None
    rest: float = -np.inf  # loss at which nothing changes any more: a run that falls to it rests there
    progress: bool = False
    decays: bool = True  # else the loss never rises
    rate: float = np.inf  # largest learning rate: `-d loss/dt >= |v|^2 / rate`
    network: Any = None  # the `Setup` of a network's weights, for methods that look inside


@dataclass(frozen=True)
class Path:
    """What every method returns of all runs: times, losses and states, and how each run ended.

    A run that ended early repeats its last finite row.
    """

    t: np.ndarray  # (save,)
    losses: np.ndarray  # (runs, save)
    kept: Any  # pytree of arrays (runs, save, ...)
    endings: tuple[Ending, ...]
    history: History | None = None
    stats: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def run(self, k: int) -> Path:
        """One of the runs, as if it had been solved alone."""
        some, shown = slice(k, k + 1), int(np.searchsorted(self.t, self.endings[k].t)) + 1
        return replace(
            self,
            t=self.t[:shown],
            losses=self.losses[some, :shown],
            kept=jax.tree.map(lambda v: v[some, :shown], self.kept),
            endings=self.endings[some],
            history=None if self.history is None else self.history.run(some),
            stats={n: v[some] if np.ndim(v) else v for n, v in self.stats.items()},
        )

    def fields(self, many: bool) -> dict[str, Any]:
        """The fields of a `Trajectory` that do not depend on what was solved; a single run loses its axis."""
        t, one = np.array(self.t, float), lambda v: v if many else v[0]
        if not many:
            t[-1] = min(t[-1], self.endings[0].t)
        return {
            "t": t,
            "loss": one(self.losses),
            "endings": self.endings,
            "history": None if self.history is None else self.history if many else self.history.run(0),
            "stats": {n: one(v) if np.ndim(v) else v for n, v in self.stats.items()},
        }

    @classmethod
    def of(cls, ts: np.ndarray, rows: Sequence[tuple[np.ndarray, Any]], **rest: Any) -> Path:
        """From the losses of each run at the first of the times, and what else is kept of it there."""
        lasts = [max(int(np.isfinite(loss).argmin()) - 1, 0) if not np.isfinite(loss).all() else len(loss) - 1
                 for loss, _ in rows]  # fmt: skip
        shown = max(lasts) + 1
        filled = []
        for last, row in zip(lasts, rows, strict=True):
            index = np.minimum(np.arange(shown), last)
            whole = last + 1 == shown
            filled.append(jax.tree.map(lambda v, i=index, w=whole: v[:shown] if w else v[i], row))
        one = len(filled) == 1  # which is not copied
        losses, kept = jax.tree.map(lambda *v: v[0][None] if one else np.stack(v), *filled)
        return cls(ts[:shown], np.asarray(losses, float), kept, **rest)


class Step(NamedTuple):
    """A step of one run."""

    end: Point
    middle: Point | None
    y: np.ndarray  # (numbers,) at its end
    v: Callable[[], np.ndarray]
    inside: Callable[[], Callable[[Any], np.ndarray]]  # makes y (times, numbers) at times inside it


class Run:
    """One run on its way."""

    def __init__(self, problem: Problem, k: int, rtol: float, atol: float, most: int) -> None:
        self.problem, self.k, self.rtol, self.atol, self.most = problem, k, rtol, atol, most
        self.start: np.ndarray = problem.start[k]
        self.y: np.ndarray = self.start
        self.v: np.ndarray | None = None
        self.t, self.h = 0.0, 0.0
        self.status: Status | None = None
        self.steps: int = 0  # taken and refused
        self.at_edge, self.calm = 0, 0
        self.history: list[Point] = []
        self.inside: list[tuple[float, Callable[[Any], np.ndarray]]] = []  # steps by their ends
        self.saved: list[tuple[np.ndarray, Any]] = []
        self.passed: int = 0  # times to save that steps have passed
        self.room: float = constants.KEPT_NUMBERS / len(problem.start)
        self.known: float = np.inf  # up to here any time can be saved, after it those of the problem
        self.after: list[tuple[np.ndarray, Any]] = []  # the times after it, and what is saved there

    @property
    def stiff(self) -> bool:
        """Whether stability, not accuracy, keeps explicit steps short."""
        return self.at_edge >= constants.PATIENT

    @property
    def velocity(self) -> Callable[[np.ndarray], tuple[np.ndarray, float, float]]:
        """`System.velocity` of this run."""
        return self.problem.system.of([self.k]).velocity

    def begin(self, v: np.ndarray, loss: float, slope: float) -> None:
        """The velocity at the start, and the length of the first step."""
        p = self.problem
        self.v, self.history = v, [(0.0, loss, slope)]
        speed = float(size((v / (self.atol + self.rtol * np.abs(self.start)))[None])[0])
        self.h = constants.FIRST_CHANGE / self.rtol / speed if speed > 0 else p.t1
        if slope < 0:  # no steps before the first say how the loss bends there
            self.h = min(self.h, max(constants.FIRST_FALL * loss / -slope, 1e-12 * p.t1))
        if not np.isfinite(v).all():
            self.status = Status.DIVERGED
        elif p.stop is not None and loss <= p.stop:
            self.status = Status.REACHED_LOSS
        elif loss <= p.rest:
            self.status = Status.FINISHED

    def accept(self, step: Step) -> None:
        """Go on to the end of a step, or to where the loss falls to the level in it."""
        p, before, end = self.problem, self.t, step.end
        passed, y = bisect_right(p.ts, end[0]), step.y
        level = p.rest if p.stop is None else max(p.stop, p.rest)
        crossed = end[1] <= level
        wanted = (p.choose and self.known == np.inf) or passed > self.passed
        inside = step.inside() if crossed or wanted else None
        if crossed and inside is not None:
            end, y = self._crossing(inside, before, step, level)
            self.status = Status.REACHED_LOSS if level == p.stop else Status.FINISHED
        elif not np.isfinite(end[1]):
            self.status = Status.DIVERGED
        elif end[0] >= p.t1 or self._rests(step, end[0] - before):
            self.status = Status.FINISHED
        if step.middle is not None and step.middle[0] < end[0]:
            self.history.append(step.middle)
        self.history.append(end)
        self.t, self.y = end[0], y
        if inside is not None:
            self._remember(inside, bisect_right(p.ts, self.t))

    def _crossing(
        self, inside: Callable[[Any], np.ndarray], before: float, step: Step, level: float
    ) -> tuple[Point, np.ndarray]:
        """The point in a step where the loss falls to the level, and the state there."""
        velocity, after = self.velocity, step.end[0]
        loss = lambda t: step.end[1] if t == after else velocity(inside([t])[0])[1]  # noqa: E731
        t = first_fall(loss, before, after, level)
        if t == after:
            return step.end, step.y
        y = inside([t])[0]
        return (t, *velocity(y)[1:]), y

    def _rests(self, step: Step, h: float) -> bool:
        """Whether all is learned, and no number would change by a part that counts in the many steps left.

        No weight moves further than the root of `rate x time x loss`, as velocities are gradients of a loss
        that is left. Else changes are looked for in the time left, up to 10^4 times that which has passed,
        of numbers whose velocities are more than rounding. A loss that stays above 0 is no rest: a mode too
        small to be seen may still grow.
        """
        p, (t, loss, _) = self.problem, step.end
        left = p.t1 - t
        if loss > constants.NOTHING_LEFT * self.history[0][1] or left <= constants.MANY_STEPS * h:
            return False
        least = min(self.rtol, constants.NO_CHANGE) * p.units[self.k]
        if not p.decays and (p.rate * left * loss) ** 0.5 <= least:
            return True
        speed, fastest = np.abs(step.v()), max(0.0, *(-slope for _, _, slope in self.history)) ** 0.5
        change = np.where(speed <= constants.NO_SPEED * fastest, 0.0, speed * min(left, constants.FAR * t))
        return bool((change <= constants.NO_CHANGE * np.abs(step.y)).all())

    # -- what is saved ---------------------------------------------------------------------------

    def _remember(self, inside: Callable[[Any], np.ndarray], passed: int) -> None:
        """Keep a step until its times are saved: those are chosen late, and many together save fast."""
        p, first, self.passed = self.problem, self.passed, passed
        if self.known < np.inf:
            due = p.ts[first:passed]
            if len(due):
                rows = inside(due)
                rows[due == self.t] = self.y
                self.after.append((due, p.system.keep(self.k, due, rows)))
            return
        self.inside.append((self.t, inside))
        self.room -= 8 * self.start.size
        if self.room < 0 and p.choose:
            self.known = self.t
        elif self.room < 0:
            self.save(p.ts)

    def save(self, ts: np.ndarray) -> None:
        """Save rows at the times that were passed and not saved yet."""
        done = sum(len(losses) for losses, _ in self.saved)
        due = ts[done : bisect_right(ts, min(self.t, self.known))]
        if not len(due):
            return
        rows = np.empty((len(due), self.start.size), self.start.dtype)
        within = (due > 0) & (due < self.t)
        which = np.searchsorted([end for end, _ in self.inside], due)
        for k in np.unique(which[within]):
            rows[within & (which == k)] = self.inside[k][1](due[within & (which == k)])
        rows[due == 0], rows[due == self.t] = self.start, self.y
        self.saved.append(self.problem.system.keep(self.k, due, rows))
        self.inside, self.room = [], constants.KEPT_NUMBERS / len(self.problem.start)

    def rows(self, ts: np.ndarray) -> tuple[np.ndarray, Any]:
        """Losses and what else is kept, at all times that were reached; after them the end of the run."""
        self.save(ts[ts <= self.known])
        asked = ((np.isin(due, ts), rows) for due, rows in self.after)
        found = [*self.saved, *(jax.tree.map(lambda v, a=a: v[a], rows) for a, rows in asked if a.any())]
        n = sum(len(losses) for losses, _ in found)
        if n < len(ts) and (n == 0 or ts[n - 1] < self.t or self.status is Status.FINISHED):
            left = ts[n:] if self.status is Status.FINISHED else np.array([self.t])
            found.append(self.problem.system.keep(self.k, left, np.repeat(self.y[None], len(left), axis=0)))
        return found[0] if len(found) == 1 else jax.tree.map(lambda *v: np.concatenate(v), *found)

    @property
    def ending(self) -> Ending:
        """How it ended, in numbers."""
        assert self.status is not None
        if self.status is Status.FINISHED:
            since = self.t if self.t < self.problem.t1 else None
            return Ending(self.status, self.problem.t1, since=since)
        return Ending(self.status, self.t, level=self.problem.stop, limit=self.most)
