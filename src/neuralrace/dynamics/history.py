"""The loss at a solver's own steps; learning times read off it, and which times are saved.

A solver computes the loss and its slope in time at the middle and at the end of every step. Polynomials
through these points give the loss in between, so learning times do not depend on which times were saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from neuralrace.dynamics import constants
from neuralrace.errors import InputError, array, integer, listable, number, sequence, short

SIZE = 4096  # rows kept per run: as many as figures and learning times need, in 100 kB
DEFAULT = 200  # times, where they are not given
_MOST = 10_000_000

Point = tuple[float, float, float]  # time, loss, and slope of the loss


class History(NamedTuple):
    """Loss and slope `dL/dt` at a solver's own steps and halfway between them, `(steps,)` or `(runs, steps)`.

    At most 4096 of them are kept per run. Where there are more, those are left out that change learning times
    least. Runs with fewer steps than others repeat their last one. `slope` is None where it is
    not known (descent): then the loss is linear from step to step.
    """

    t: np.ndarray
    loss: np.ndarray
    slope: np.ndarray | None

    @classmethod
    def of(cls, runs: Sequence[Sequence[Point]]) -> History:
        """The histories of all runs from the points of each."""
        rows = [_thinned(np.array(points)) for points in runs]
        found = np.zeros((3, len(rows), max(map(len, rows))))
        for k, points in enumerate(rows):
            found[:, k, : len(points)], found[:2, k, len(points) :] = points.T, points[-1:, :2].T
        return cls(*found)

    def run(self, k: Any) -> History:
        """The history of one run, or of some of them."""
        t = self.t if self.t.ndim == 1 else self.t[k]  # steps of descent are the same in all runs
        return History(t, self.loss[k], None if self.slope is None else self.slope[k])

    def scaled(self, factor: float) -> History:
        """The same for a loss that is `factor` times as large."""
        return History(self.t, factor * self.loss, None if self.slope is None else factor * self.slope)


def _thinned(points: np.ndarray) -> np.ndarray:
    """At most `SIZE` of the points (n, 3), which loses up to half of the others at a time.

    Every other point may go; those go without which learning times change least, relative to the time: from
    the distance to the line between their neighbours, in units of the fall between these. So a long tail in
    which little happens does not crowd out the steps at which the loss fell. Slopes do not count: where
    learned modes keep steps short, they are far off.
    """
    while (extra := len(points) - SIZE) > 0:
        (t_a, a, _), (t, loss, _), (t_b, b, _) = (points[k : len(points) - 2 + k : 2].T for k in range(3))
        width = t_b - t_a
        line = a + (b - a) * (t - t_a) / np.where(width > 0, width, 1)
        floor = constants.FLOOR * np.abs(points[0, 1])  # below it losses differ by rounding
        matters = np.abs(line - loss) / (np.abs(b - a) + floor) * (width / t_b)
        points = np.delete(points, 1 + 2 * np.argsort(matters)[: min(extra, (len(t) + 1) // 2)], axis=0)
    return points


def cubic(x: Any, width: Any, a: Any, slope_a: Any, b: Any, slope_b: Any) -> Any:
    """The cubic with values a, b and slopes (per time) at x = 0 and 1, for steps of length `width`."""
    bend = width * x * (1 - x) * ((1 - x) * slope_a - x * slope_b)
    return (1 + 2 * x) * (1 - x) ** 2 * a + x**2 * (3 - 2 * x) * b + bend


def curve(history: History, t: np.ndarray) -> np.ndarray:
    """The loss of one run at any times, by the cubics between its steps."""
    k = np.clip(np.searchsorted(history.t, t, side="right"), 1, max(len(history.t) - 1, 1))
    if len(history.t) == 1:
        return np.full(np.shape(t), history.loss[0])
    a, b = history.t[k - 1], history.t[k]
    width = np.where(b > a, b - a, 1.0)
    x = np.clip((t - a) / width, 0.0, 1.0)
    if history.slope is None:
        return (1 - x) * history.loss[k - 1] + x * history.loss[k]
    return cubic(x, width, history.loss[k - 1], history.slope[k - 1], history.loss[k], history.slope[k])


def first_fall(value: Callable[[float], float], before: float, after: float, level: float) -> float:
    """Where a value falls to a level between two points, at the second of which it is at or below it."""
    from scipy.optimize import brentq  # slow to import

    if value(after) >= level:
        return after
    if value(before) <= level:
        return before
    accuracy = 4 * np.finfo(float).eps
    return float(brentq(lambda x: value(x) - level, before, after, xtol=accuracy * after, rtol=accuracy))  # pyright: ignore[reportArgumentType]


def crossing(history: History, level: float) -> float:
    """The first time at which the loss of one run is at or below `level`; nan if never."""
    # A run that was stopped at this level ends there to rounding, perhaps just above it.
    below = np.flatnonzero(history.loss <= level + 1e-12 * abs(level))
    if not len(below):
        return float("nan")
    k = int(below[0])
    if k == 0 or history.t[k] <= history.t[k - 1]:
        return float(history.t[k])
    x = first_fall(_between(history, k), 0.0, 1.0, level)
    return float(history.t[k - 1] + x * (history.t[k] - history.t[k - 1]))


def _between(history: History, k: int) -> Callable[[float], float]:
    """The loss between steps k - 1 and k, as a function of the fraction of the step.

    The polynomial through values and slopes of four steps; the cubic of the two, if the polynomial exceeds
    their values, as it may where the loss has a kink.
    """
    t, loss, slope = history
    a, width = t[k - 1], t[k] - t[k - 1]
    if slope is None:
        return lambda x: loss[k - 1] + x * (loss[k] - loss[k - 1])
    near = [
        i for i in range(max(k - 2, 0), min(k + 2, len(t))) if i in (k - 1, k) or t[i] != t[max(i - 1, 0)]
    ]
    from scipy.interpolate import KroghInterpolator  # slow to import

    points = np.repeat([(t[i] - a) / width for i in near], 2)
    values = np.ravel([(loss[i], width * slope[i]) for i in near])
    through = KroghInterpolator(points, values)
    seen = through(np.linspace(0, 1, 9))
    rounding = 1e-9 * (loss[k - 1] - loss[k])
    if loss[k] - rounding <= seen.min() and seen.max() <= loss[k - 1] + rounding:
        return lambda x: float(through(x))
    return lambda x: float(cubic(x, width, loss[k - 1], slope[k - 1], loss[k], slope[k]))


# -- which times are saved ---------------------------------------------------------------------------


def save_times(t1: Any, save: Any) -> tuple[float, np.ndarray]:
    """The end, and the times to save: `save` of them, or those given; evenly spaced by default."""
    if save is not None and not isinstance(save, (str, bytes, int, np.integer)):
        if not listable(save):
            raise InputError(f"save must be a number of times, or the times; got {short(save)}")
        ts = array("save", save if hasattr(save, "__len__") else sequence("save", save, "times"), (None,))
        end = number("t1", ts[-1] if t1 is None and len(ts) else t1, above=0)
        increasing = len(ts) and (np.diff(ts) > 0).all()
        if not increasing or ts[0] < 0 or ts[-1] > end * (1 + constants.ROUNDING):
            raise InputError(f"save must be increasing times between 0 and t1 = {end:g}")
        return end, np.minimum(ts, end)  # the product of a rate and steps may be past it, by rounding
    end = number("t1", t1, above=0)
    return end, _even(end, DEFAULT if save is None else integer("save", save, least=2, most=_MOST))


@lru_cache(maxsize=64)
def _even(end: float, n: int) -> np.ndarray:
    """Even times, kept: a small reduction is solved in the time that it takes to make a few arrays."""
    ts = np.linspace(0, end, n)
    ts.flags.writeable = False
    return ts


def save_steps(steps: int, save: Any, lr: float) -> np.ndarray:
    """The steps of descent to save."""
    if save is not None and not isinstance(save, (int, np.integer)):
        end = lr * steps
        _, ts = save_times(end, save)
        return np.unique(np.round(ts / lr).astype(int)).clip(max=steps)
    _, ts = save_times(float(steps), save)
    return np.unique(np.round(ts).astype(int))


def adapted_times(histories: list[History], t1: float, known: float = np.inf) -> np.ndarray | None:
    """Default number of times, half of them where losses fall; None if even times resolve the fall already.

    The times are the same for all runs: each run has an equal part of them. After `known` they are the even
    ones, if these are enough there.
    """
    fine = _fine(histories, t1)
    falls = [f for f in (_fall(h, fine) for h in histories) if f is not None]
    if not falls:
        return None
    even = _even(t1, DEFAULT)
    resolved = lambda ts: max(np.diff(np.interp(ts, fine, f)).max() for f in falls) <= constants.RESOLVED  # noqa: E731
    if resolved(even):
        return None
    # Time and the fall of the loss have equal weight.
    travelled = fine / t1 + np.mean(falls, axis=0)
    ts = np.interp(np.linspace(0, travelled[-1], DEFAULT), travelled, fine)
    ts[0], ts[-1] = 0.0, t1
    ts = ts if (np.diff(ts) > 0).all() else np.unique(ts)
    early, late = ts[ts <= known], even[even > known]
    fill = np.linspace(len(late) - 1, 0, min(max(DEFAULT - len(early), 1), len(late))).astype(int)
    cheap = np.concatenate([early, late[fill[::-1]]])
    return cheap if resolved(cheap) else ts


def _fine(histories: list[History], t1: float) -> np.ndarray:
    own = [np.linspace(h.t[:-1], h.t[1:], 5)[:-1].ravel() for h in histories]
    points = np.concatenate([np.linspace(0, t1, 1001), *own])
    points = np.unique(points[(points >= 0) & (points <= t1)])
    return points[np.unique(np.linspace(0, len(points) - 1, constants.FINE_POINTS).round().astype(int))]


def _fall(history: History, ts: np.ndarray) -> np.ndarray | None:
    """Fraction of the fall of the loss that has happened by each time; None if it never falls."""
    losses = np.minimum.accumulate(curve(history, ts))
    whole = losses[0] - losses[-1]
    falls = np.isfinite(whole) and whole > constants.ROUNDING * abs(losses[0])
    return (losses[0] - losses) / whole if falls else None
