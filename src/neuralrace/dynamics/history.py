"""The loss at a solver's own steps, and learning times read off it.

A solver computes the loss and its slope in time at the middle and at the end of every step. Polynomials
through these points give the loss in between, so learning times do not depend on which times were saved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

SIZE = 4096  # rows kept per run
_FLOOR = 1e-12  # fraction of the first loss; smaller differences are rounding


class History(NamedTuple):
    """Loss and slope `dL/dt` at a solver's own steps and halfway between them, `(steps,)` or `(runs, steps)`.

    At most 4096 of them are kept per run. Where there are more, those are left out that change learning times
    least. Runs with fewer steps than others repeat their last one. `slope` is None where it is
    not known (descent): then the loss is linear from step to step.
    """

    t: np.ndarray
    loss: np.ndarray
    slope: np.ndarray | None

    def run(self, k: Any) -> History:
        """The history of one run, or of some of them."""
        t = self.t if self.t.ndim == 1 else self.t[k]  # steps of descent are the same in all runs
        return History(t, self.loss[k], None if self.slope is None else self.slope[k])

    def scaled(self, factor: float) -> History:
        """The same for a loss that is `factor` times as large."""
        return History(self.t, factor * self.loss, None if self.slope is None else factor * self.slope)


# -- while a solver runs (JAX) ---------------------------------------------------------------


class Buffer(NamedTuple):
    """Rows (t, loss, slope) of the steps so far, of which `count` are filled."""

    rows: Any  # (SIZE, 3)
    count: Any


def empty(dtype: Any) -> Buffer:
    """A buffer without steps."""
    return Buffer(jnp.zeros((SIZE, 3), dtype), jnp.int32(0))


def append(buffer: Buffer, middle: Any, end: Any, with_middle: Any, accepted: Any) -> Buffer:
    """Append the middle (if `with_middle`) and the end of a step; neither where it is not accepted."""
    # A loop of one round at most: both branches of a condition would be copied.
    rows, count = jax.lax.while_loop(lambda b: b.count > SIZE - 2, _thinned, buffer)
    middle, end = (jnp.stack([jnp.asarray(v, rows.dtype) for v in row]) for row in (middle, end))
    new = jnp.stack([jnp.where(with_middle, middle, end), end])
    # A row that is not wanted is written where the next one will be.
    rows = jax.lax.dynamic_update_slice_in_dim(rows, new, count, axis=0)
    return Buffer(rows, count + jnp.where(accepted, 1 + with_middle, 0))


def _thinned(buffer: Buffer) -> Buffer:
    """A buffer with room for at most one more row, without a quarter of its rows.

    Every other row may go; those go without which learning times change least, relative to the time: from the
    distance to the line between their neighbours, in units of the fall between these. So a long tail in which
    little happens does not crowd out the steps at which the loss fell. Slopes do not count: where learned
    modes keep steps short, they are far off.
    """
    (t_a, a, _), (t, loss, _), (t_b, b, _) = (buffer.rows[k : SIZE - 2 + k : 2].T for k in range(3))
    width = t_b - t_a
    line = a + (b - a) * (t - t_a) / jnp.where(width > 0, width, 1)
    floor = _FLOOR * jnp.abs(buffer.rows[0, 1])  # below it losses differ by rounding
    best = jnp.argsort(jnp.abs(line - loss) / (jnp.abs(b - a) + floor) * (width / t_b))[: SIZE // 4]
    goes = jnp.zeros(SIZE, bool).at[1 + 2 * best].set(True)
    return Buffer(buffer.rows[jnp.argsort(goes, stable=True)], buffer.count - SIZE // 4)


def cubic(x: Any, width: Any, a: Any, slope_a: Any, b: Any, slope_b: Any) -> Any:
    """The cubic with values a, b and slopes (per time) at x = 0 and 1, for steps of length `width`."""
    bend = width * x * (1 - x) * ((1 - x) * slope_a - x * slope_b)
    return (1 + 2 * x) * (1 - x) ** 2 * a + x**2 * (3 - 2 * x) * b + bend


# -- afterwards (NumPy) ----------------------------------------------------------------------


def collect(buffer: Any) -> History:
    """The histories of all runs `(runs, steps)` from the buffers `(runs, ...)` of a solver."""
    count = np.asarray(buffer.count).tolist()
    most = max(count)
    rows = np.array(np.asarray(buffer.rows)[:, :most].transpose(2, 0, 1), float)
    for k, n in enumerate(count):
        if n < most:
            rows[:, k, n:] = rows[:, k, n - 1 : n]
            rows[2, k, n:] = 0.0
    return History(*rows)


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


def crossing(history: History, level: float) -> float:
    """The first time at which the loss of one run is at or below `level`; nan if never."""
    # A run that was stopped at this level ends there to rounding, perhaps just above it.
    below = np.flatnonzero(history.loss <= level + 1e-12 * abs(level))
    if not len(below):
        return float("nan")
    k = int(below[0])
    if k == 0 or history.t[k] <= history.t[k - 1]:
        return float(history.t[k])
    from scipy.optimize import brentq  # slow to import

    inside = _between(history, k)
    x = 1.0 if inside(1.0) >= level else brentq(lambda x: inside(x) - level, 0.0, 1.0, xtol=1e-15)
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
