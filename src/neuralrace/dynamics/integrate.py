"""Ordinary differential equations, integrated in one place.

`integrate` is an adaptive Runge-Kutta method of order 8 with the coefficients of Dormand and Prince and the
interpolant of diffrax; or the method of `chebyshev`, of order 2, for stiff problems. Both interpolate between
steps without further stages, with errors of up to some tens of tolerances. The loop is our own: it records an
observed value at every step, stops where that value falls to a level, and compiles in less than half the time
of a general solver. It has derivatives in forward mode only; `adjoint` has reverse mode.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.dynamics import chebyshev
from neuralrace.dynamics.history import Buffer, append, cubic, empty

_SAFETY, _SHORTEST, _LONGEST = 0.9, 0.2, 10.0  # ratio of the next step to this one
_FEW = 1000  # numbers up to which sums are faster than products of matrices
_BEGIN = 0.01  # relative change of y in the first step, about
HALVINGS = 60  # to find where the observed value crosses the level

GOING, FINISHED, STOPPED, LIMITED, FAILED, RESTED = range(6)  # how an integration stands


class Path(NamedTuple):
    """The result of `integrate`, as JAX arrays."""

    kept: Any  # values of `keep` at each of the times; valid up to `last`
    last: Any  # index of the last valid row; if the run ended early, that of its end
    t: Any  # where it ended
    status: Any  # FINISHED at t1, STOPPED at the level, LIMITED in its steps, or FAILED to find a step
    steps: Any  # taken and refused
    history: Buffer


class Observed(NamedTuple):
    """A number followed along a solution: its value at y, and its slope in time from y and dy/dt."""

    value: Callable[[Any], Any]
    slope: Callable[[Any, Any], Any]


class Tableau(NamedTuple):
    """Coefficients of a method whose last stage is the first of the next step."""

    a: np.ndarray  # (stages, stages) coefficients of the velocities in each stage; the last row is the step
    c: np.ndarray  # (stages,) times, as fractions of the step
    error: np.ndarray  # (stages,)
    curve: np.ndarray  # (stages, powers) coefficients of the interpolant in x, the fraction of the step


ORDER = 8


@cache
def tableau() -> Tableau:
    """The coefficients of Dormand and Prince."""
    stored = json.loads((files("neuralrace.dynamics") / "dormand_prince_8.json").read_text())
    return Tableau(**{name: np.array(values) for name, values in stored.items()})


class Step(NamedTuple):
    """The state between two steps."""

    t: Any
    h: Any  # length of the next step
    y: Any
    v: Any  # velocity at t
    kept: Any
    saved: Any  # how many rows
    status: Any
    steps: Any
    history: Buffer
    fastest: Any = None  # the fastest mode, which order 2 follows


class Attempt(NamedTuple):
    """A step that may be accepted or refused."""

    y: Any  # at its end
    v: Any
    off: Any  # estimate of the local error
    inside: Callable[[Any], Any]  # y as a function of the fraction of the step
    fastest: Any = None


def integrate(
    velocity: Callable[[Any, Any], Any],
    y0: Any,
    ts: Any,
    t1: Any,
    rtol: Any,
    atol: Any,
    keep: Callable[[Any, Any], Any] = lambda t, y: y,
    observed: Observed | None = None,
    stop: Any = None,
    max_steps: int = 100_000,
    progress: Callable[[Any, Any], None] | None = None,
    order: int = 8,
) -> Path:
    """Solve `dy/dt = velocity(t, y)` from y0 at time 0 to t1, inside a compiled function.

    Parameters
    ----------
    velocity : callable
        `(t, y) -> dy/dt`.
    y0 : array, any shape
    ts : array, shape (times,)
        Increasing times in [0, t1] at which `keep(t, y)` is kept.
    t1 : float
    rtol, atol : float
        Local errors, relative and absolute.
    keep : callable
        `(t, y) ->` pytree of arrays.
    observed : Observed, optional
        The value whose history is recorded.
    stop : float, optional
        Level of the observed value at which to stop.
    max_steps : int
    progress : callable, optional
        Called with the times before and after each accepted step.
    order : {8, 2}
        2 is for stiff problems whose velocity does not depend on the time.

    Returns
    -------
    Path
    """
    problem, start = begin(velocity, y0, ts, t1, rtol, atol, keep, observed, stop, max_steps, progress, order)
    end = jax.lax.while_loop(lambda s: s.status == GOING, problem.advance, start)
    return Path(end.kept, end.saved - 1, end.t, end.status, end.steps, end.history)


def begin(
    velocity: Any,
    y0: Any,
    ts: Any,
    t1: Any,
    rtol: Any,
    atol: Any,
    keep: Any,
    observed: Observed | None,
    stop: Any,
    max_steps: int,
    progress: Any = None,
    order: int = 8,
) -> tuple[Problem, Step]:
    """The problem that `integrate` solves, and its state before the first step."""
    y0 = jnp.asarray(y0)
    zero = jnp.zeros((), y0.dtype)
    followed = observed or Observed(lambda y: zero, lambda y, v: zero)
    ts, t1 = jnp.asarray(ts, y0.dtype), jnp.asarray(t1, y0.dtype)
    table = tableau() if order == ORDER else None
    problem = Problem(velocity, keep, followed, stop, ts, t1, rtol, atol, max_steps, progress, table)
    row = jax.eval_shape(keep, zero, y0)
    rows = jax.tree.map(lambda v: jnp.zeros((len(ts), *v.shape), v.dtype), row)
    # The first step has length 0: it computes the initial velocity and saves the initial state.
    start = Step(
        zero,
        zero,
        y0,
        jnp.zeros_like(y0),
        rows,
        jnp.int32(0),
        jnp.int32(GOING),
        jnp.int32(-1),
        empty(y0.dtype),
        chebyshev.unknown(y0) if table is None else None,
    )
    return problem, start


class Problem(NamedTuple):
    """The arguments of `integrate`; its methods make one step."""

    velocity: Callable[[Any, Any], Any]
    keep: Callable[[Any, Any], Any]
    followed: Observed
    stop: Any
    ts: Any
    t1: Any
    rtol: Any
    atol: Any
    max_steps: int
    progress: Callable[[Any, Any], None] | None
    table: Tableau | None  # None: the method of `chebyshev`

    def advance(self, s: Step) -> Step:
        """One step, accepted or refused."""
        h = jnp.minimum(s.h, self.t1 - s.t)
        tried = self.attempt(s, h)
        y, first = tried.y, s.steps < 0
        size = jnp.where(first, tried.v, tried.off)
        size = size / (self.atol + self.rtol * jnp.maximum(jnp.abs(s.y), jnp.abs(y)))
        error = jnp.sqrt(jnp.mean(size**2))  # at the start: the speed, in tolerances
        fine = jnp.isfinite(error)
        accept = fine & (first | (error <= 1))
        order = chebyshev.LOCAL_ORDER if self.table is None else ORDER
        begin = first_length(error, self.rtol, self.t1)
        length = jnp.where(first, begin, h * step_factor(error, accept, order))
        t = jnp.where(h >= self.t1 - s.t, self.t1, s.t + h)
        t, y, v = (jnp.where(accept, *both) for both in ((t, s.t), (y, s.y), (tried.v, s.v)))
        # Steps are long for a cubic: the history also has the middle of each.
        y_middle, change = jax.jvp(tried.inside, (jnp.full_like(h, 0.5),), (jnp.ones_like(h),))
        value_middle, value = jax.lax.map(self.followed.value, jnp.stack([y_middle, y]))
        reached = jnp.zeros((), bool)
        if self.stop is not None:
            reached = accept & (value <= self.stop)
            t, y, v, value = _once(reached, lambda end: self.crossing(s, tried, h, end), (t, y, v, value))
        stuck = (~accept & (s.t + 0.1 * length <= s.t)) | (length <= 0)  # 0: the speed overflows
        status = jnp.where(s.steps + 1 >= self.max_steps, LIMITED, GOING)
        status = jnp.where(t >= self.t1, FINISHED, status)
        status = jnp.where(reached, STOPPED, jnp.where(stuck, FAILED, status)).astype(jnp.int32)
        kept, saved = self.save(s, tried, h, t, y, status)
        middle = s.t + h / 2, value_middle, self.followed.slope(y_middle, change / h)
        end = t, value, self.followed.slope(y, v)
        history = append(s.history, middle, end, ~first & (middle[0] < t), accept | first)
        if self.progress is not None:
            self.progress(s.t, t)
        return Step(t, length, y, v, kept, saved, status, s.steps + 1, history, tried.fastest)

    def attempt(self, s: Step, h: Any) -> Attempt:
        """A step of length h."""
        if self.table is None:
            y, v, off, fastest = chebyshev.step(lambda y: self.velocity(s.t, y), s.y, s.v, h, s.fastest)
            return Attempt(y, v, off, lambda x: cubic(x, h, s.y, s.v, y, v), fastest)
        k = self.stages(self.table, s, h)
        change, off = (h * _sum(row, k) for row in (self.table.a[-1], self.table.error))
        return Attempt(s.y + change, k[-1], off, self.inside(self.table, s, k, h))

    def stages(self, table: Tableau, s: Step, h: Any) -> Any:
        """Velocities (stages, ...) at all stages of a step of length h."""
        a, c = (jnp.asarray(v, s.y.dtype) for v in (table.a, table.c))

        def one(i: Any, k: Any) -> Any:
            return k.at[i].set(self.velocity(s.t + c[i] * h, s.y + h * _sum(a[i], k)))

        k = jnp.zeros((len(c), *s.y.shape), s.y.dtype).at[0].set(s.v)
        return jax.lax.fori_loop(1, len(c), one, k)

    def inside(self, table: Tableau, s: Step, k: Any, h: Any) -> Callable[[Any], Any]:
        """y as a function of the fraction x of a step."""
        powers = [jnp.asarray(column, k.dtype) for column in table.curve.T]
        return lambda x: s.y + h * _sum(_polynomial(powers, x), k)

    def save(self, s: Step, tried: Attempt, h: Any, t: Any, y: Any, status: Any) -> tuple[Any, Any]:
        """Save the times inside a step that ends at t; also its end, if the run ends early there."""
        ahead = lambda i: self.ts[jnp.minimum(i, len(self.ts) - 1)]  # noqa: E731

        def due(saving: Any) -> Any:
            _, i, early = saving
            return (i < len(self.ts)) & ((ahead(i) <= t) | early)

        def one(saving: Any) -> Any:
            kept, i, early = saving
            at = jnp.minimum(ahead(i), t)
            there = jnp.where(at == t, y, tried.inside((at - s.t) / h))
            kept = jax.tree.map(lambda rows, row: rows.at[i].set(row), kept, self.keep(at, there))
            return kept, i + 1, early & (ahead(i) < t)

        missing = (s.saved == 0) | (ahead(s.saved - 1) < t)
        early = (status != GOING) & (status != FINISHED) & missing
        return jax.lax.while_loop(due, one, (s.kept, s.saved, early))[:2]

    def crossing(self, s: Step, tried: Attempt, h: Any, end: Any) -> Any:
        """Time, y, velocity and observed value where that value falls to the level, by halving."""
        value = lambda x: self.followed.value(tried.inside(x))  # noqa: E731

        def halve(_: Any, ends: Any) -> Any:
            middle = (ends[0] + ends[1]) / 2
            below = value(middle) <= self.stop
            return jnp.where(below, ends[0], middle), jnp.where(below, middle, ends[1])

        x = jax.lax.fori_loop(0, HALVINGS, halve, (jnp.zeros_like(h), jnp.ones_like(h)))[1]
        at, y = s.t + x * h, jnp.where(x < 1, tried.inside(x), end[1])
        return at, y, self.velocity(at, y), self.followed.value(y)


def first_length(speed: Any, rtol: Any, t1: Any, xp: Any = jnp) -> Any:
    """The length of a first step, from the speed at the start in tolerances."""
    return xp.where(speed > 0, _BEGIN / rtol / xp.where(speed > 0, speed, 1.0), t1)


def step_factor(error: Any, accept: Any, order: int, xp: Any = jnp) -> Any:
    """The ratio of the next step to this one, from its error in tolerances."""
    factor = _SAFETY * xp.maximum(error, 1e-20) ** (-1 / order)
    factor = xp.clip(factor, _SHORTEST, xp.where(accept, _LONGEST, 1.0))
    return xp.where(xp.isfinite(error), factor, _SHORTEST)


def _polynomial(coefficients: list[Any], x: Any) -> Any:
    """`c_0 x + c_1 x^2 + ...`."""
    total = coefficients[-1] * x
    for c in coefficients[-2::-1]:
        total = (total + c) * x
    return total


def _sum(coefficients: Any, k: Any) -> Any:
    """The sum of velocities with these coefficients."""
    c = jnp.asarray(coefficients, k.dtype)
    return jnp.tensordot(c, k, 1) if k.size > _FEW else (c.reshape(-1, *(1,) * (k.ndim - 1)) * k).sum(axis=0)


def _once(wanted: Any, change: Callable[[Any], Any], value: Any) -> Any:
    """`change(value)` if wanted, by a loop of one round: `lax.cond` would copy its arguments."""
    round_ = lambda c: (change(c[0]), jnp.zeros((), bool))  # noqa: E731
    return jax.lax.while_loop(lambda c: c[1], round_, (value, wanted))[0]
