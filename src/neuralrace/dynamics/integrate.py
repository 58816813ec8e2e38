"""Ordinary differential equations, integrated in one place.

`integrate` is the method of Dormand and Prince of order 8 with its dense output (Hairer, Norsett and Wanner
1993; the coefficients come with SciPy, whose DOP853 is its twin in the tests). A loop over its stages keeps
the program small: it compiles in tenths of a second where a general solver takes seconds. It keeps the
history of an observed value at its own steps, and stops where that value falls to a level. Derivatives in
forward mode only; where reverse mode is wanted, `integrate_differentiable` calls diffrax.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import DOP853

from neuralrace.dynamics.history import Buffer, empty, push

_STAGES = DOP853.n_stages  # 12; stage 12 is the velocity at the end of the step
_EXTRA = len(DOP853.C_EXTRA)  # stages that only the dense output needs
_A = np.zeros((_STAGES + 1 + _EXTRA, _STAGES + 1 + _EXTRA))
_A[:_STAGES, :_STAGES] = DOP853.A
_A[_STAGES, :_STAGES] = DOP853.B
_A[_STAGES + 1 :] = DOP853.A_EXTRA
_C = np.concatenate([DOP853.C, [1.0], DOP853.C_EXTRA])
_CURVE = np.zeros((3 + len(DOP853.D), len(_A)))  # of the dense output: from both ends of a step, and others
_CURVE[0] = _A[_STAGES]
_CURVE[1] = np.eye(len(_A))[0] - _A[_STAGES]
_CURVE[2] = 2 * _A[_STAGES] - np.eye(len(_A))[[0, _STAGES]].sum(axis=0)
_CURVE[3:] = DOP853.D
_RESULTS = np.zeros((3, len(_A)))  # of a step: its change, and two estimates of its error
_RESULTS[0] = _A[_STAGES]
_RESULTS[1:, : _STAGES + 1] = DOP853.E5, DOP853.E3
_SAFETY, _SHORTEST, _LONGEST = 0.9, 0.2, 10.0  # how far the length of the next step may differ
_BETWEEN = 30.0  # estimated error, in tolerances, up to which saved values are read off the dense output
_INSIDE = (
    4  # parts of a step whose ends the history keeps, where the slope of the observed value changes much
)
_STEEP = 4.0  # by such a factor,
_TELLING = 1e-4  # and so that it matters: a change in this step of this share of the first value
_HALVINGS = 60  # to find where the observed value crosses the level


class Path(NamedTuple):
    """What `integrate` returns, as JAX arrays."""

    kept: Any  # what `keep` gave at each of the times; at the end, for times never reached
    t: Any  # where it ended
    stopped: Any  # whether the observed value fell to the level
    limited: Any  # whether the steps were used up
    failed: Any  # whether no step was short enough
    steps: Any  # taken and refused
    history: Buffer


class Observed(NamedTuple):
    """A number followed along a solution: its value at y, and its slope in time from y and dy/dt."""

    value: Callable[[Any], Any]
    slope: Callable[[Any, Any], Any]


class _Step(NamedTuple):
    t: Any
    h: Any  # length of the next step
    y: Any
    k: Any  # velocities at the stages of a step, the first of them at t
    value: Any
    curve: Any  # the polynomial of the last step in which one was needed
    kept: Any
    saved: Any  # how many of the times
    steps: Any
    stopped: Any
    stuck: Any
    history: Buffer


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
        What the history holds.
    stop : float, optional
        Level of the observed value at which to stop.
    max_steps : int
    progress : callable, optional
        Called with the times before and after each accepted step.

    Returns
    -------
    Path
    """
    y0 = jnp.asarray(y0)
    nothing = lambda y: jnp.zeros((), y0.dtype)  # noqa: E731
    followed = observed or Observed(nothing, lambda y, v: nothing(y))
    ts, t1 = jnp.asarray(ts, y0.dtype), jnp.asarray(t1, y0.dtype)
    problem = _Problem(velocity, keep, followed, stop, ts, t1, rtol, atol, progress)

    def going(s: _Step) -> Any:
        return (s.t < t1) & (s.steps < max_steps) & ~s.stopped & ~s.stuck

    end = jax.lax.while_loop(going, problem.advance, problem.start(y0))
    final, n = keep(end.t, end.y), end.saved
    kept = jax.tree.map(lambda rows, row: jnp.where(_before(rows, n), rows, row), end.kept, final)
    limited = (end.t < t1) & ~end.stopped & ~end.stuck
    return Path(kept, end.t, end.stopped, limited, end.stuck, end.steps, end.history)


class _Problem(NamedTuple):
    velocity: Callable[[Any, Any], Any]
    keep: Callable[[Any, Any], Any]
    followed: Observed
    stop: Any
    ts: Any
    t1: Any
    rtol: Any
    atol: Any
    progress: Callable[[Any, Any], None] | None

    def norm(self, v: Any, size: Any) -> Any:
        """Root mean square in units of the tolerances."""
        return jnp.sqrt(jnp.mean((v / (self.atol + self.rtol * size)) ** 2))

    def due(self, saved: Any, until: Any) -> Any:
        """Whether the next of the times lies before `until`."""
        return (saved < len(self.ts)) & (self.ts[jnp.minimum(saved, len(self.ts) - 1)] <= until)

    def start(self, y: Any) -> _Step:
        """The state before the first step; its length changes y by a hundredth of itself."""
        zero = jnp.zeros((), y.dtype)
        v = self.velocity(zero, y)
        size, speed = self.norm(y, jnp.abs(y)), self.norm(v, jnp.abs(y))
        h = jnp.where(speed > 0, 0.01 * jnp.maximum(size, 1.0) / jnp.where(speed > 0, speed, 1.0), self.t1)
        row, value = self.keep(zero, y), self.followed.value(y)
        kept = jax.tree.map(lambda v: jnp.broadcast_to(v, (len(self.ts), *jnp.shape(v))), row)
        saved = jnp.where(self.ts[0] <= 0, 1, 0).astype(jnp.int32)
        stopped = jnp.zeros((), bool) if self.stop is None else value <= self.stop
        history = push(empty(y.dtype), zero, value, self.followed.slope(y, v), jnp.ones((), bool))
        stuck = ~jnp.isfinite(v).all() | ~jnp.isfinite(y).all()
        k = jnp.zeros((len(_A), *y.shape), y.dtype).at[0].set(v)
        h = jnp.minimum(h, self.t1)
        curve = jnp.zeros((len(_CURVE), *y.shape), y.dtype)
        return _Step(zero, h, y, k, value, curve, kept, saved, jnp.int32(0), stopped, stuck, history)

    def stages(self, s: _Step, k: Any, h: Any, first: int, last: int) -> Any:
        """Velocities at some stages of a step."""
        a, c = (jnp.asarray(v, s.y.dtype) for v in (_A, _C))

        def one(i: Any, k: Any) -> Any:
            return k.at[i].set(self.velocity(s.t + c[i] * h, s.y + h * jnp.tensordot(a[i], k, 1)))

        return jax.lax.fori_loop(first, last, one, k)

    def advance(self, s: _Step) -> _Step:
        """One step, accepted or refused."""
        h = jnp.minimum(s.h, self.t1 - s.t)
        k = self.stages(s, s.k, h, 1, _STAGES + 1)
        change, five, three = h * _sums(_RESULTS, k)
        y, last = s.y + change, k[_STAGES]
        norm = lambda v: self.norm(v, jnp.maximum(jnp.abs(s.y), jnp.abs(y)))  # noqa: E731
        error = _error(norm(five), norm(three))
        fine = jnp.isfinite(error) & jnp.isfinite(y).all()
        accept = fine & (error <= 1)
        factor = _SAFETY * jnp.maximum(error, 1e-20) ** (-1 / 8)
        factor = jnp.where(fine, jnp.clip(factor, _SHORTEST, jnp.where(accept, _LONGEST, 1.0)), _SHORTEST)
        after = jnp.where(h >= self.t1 - s.t, self.t1, s.t + h)
        value, slopes = self.followed.value(y), (self.followed.slope(s.y, k[0]), self.followed.slope(y, last))
        reached = jnp.zeros((), bool) if self.stop is None else accept & (value <= self.stop)
        steep = accept & _steep(h, *slopes, s.history.first)
        needed = reached | steep | (accept & self.due(s.saved, after))
        k, curve, off = self.dense(s, k, h, norm, needed)
        inside = lambda x: s.y + _interpolate(curve, x)  # noqa: E731
        value, slope = jnp.where(accept, value, s.value), slopes[1]
        if self.stop is not None:
            x = jax.lax.cond(reached, lambda: self.crossing(inside, y.dtype), lambda: jnp.ones((), y.dtype))
            after, y = jnp.where(reached, s.t + x * h, after), jnp.where(reached, inside(x), y)
            value = jnp.where(reached, self.followed.value(y), value)
            last = jnp.where(reached, self.velocity(after, y), last)
            slope = self.followed.slope(y, last)
        kept, saved = self.save(s, k, inside, off, h, jnp.where(accept, after, -1.0))
        history = self.between(s, inside, h, (after - s.t) / h, steep)
        history = push(history, after, value, slope, accept)
        if self.progress is not None:
            self.progress(s.t, jnp.where(accept, after, s.t))
        stuck = ~accept & (s.t + 0.1 * h * factor <= s.t)
        t, y, first = (jnp.where(accept, *v) for v in ((after, s.t), (y, s.y), (last, k[0])))
        k = _cleared(k, ~fine).at[0].set(first)
        return _Step(t, h * factor, y, k, value, curve, kept, saved, s.steps + 1, reached, stuck, history)

    def between(self, s: _Step, inside: Callable[[Any], Any], h: Any, end: Any, steep: Any) -> Buffer:
        """Push states inside a step in which the slope of the observed value changes much."""

        def one(i: Any, history: Buffer) -> Buffer:
            x = end * i / _INSIDE
            y, t = inside(x), s.t + x * h
            slope = self.followed.slope(y, self.velocity(t, y))
            return push(history, t, self.followed.value(y), slope, jnp.ones((), bool))

        return jax.lax.fori_loop(1, jnp.where(steep, _INSIDE, 1), one, s.history)

    def dense(self, s: _Step, k: Any, h: Any, norm: Any, needed: Any) -> tuple[Any, Any, Any]:
        """The polynomial of y in the share x of a step, where that is needed, and an estimate of its error.

        The next term of the polynomial would be in proportion to `(x (1 - x))^4`, at most 1/256. Its
        coefficient is estimated from the last two, as in a geometric series. Also returns `k`.
        """

        def find(c: Any) -> Any:
            k = self.stages(s, c[0], h, _STAGES + 1, len(_A))
            curve = h * _sums(_CURVE, k)
            before, last = norm(curve[-2]), norm(curve[-1])
            ratio = jnp.where(before > 0, last / jnp.where(before > 0, before, 1), 0)
            return k, curve, last * ratio / 256, jnp.zeros((), bool)

        # A loop of one round at most: what a condition takes and gives would be copied.
        start = k, s.curve, jnp.zeros((), s.y.dtype), needed
        return jax.lax.while_loop(lambda c: c[3], find, start)[:3]

    def save(self, s: _Step, k: Any, inside: Callable[[Any], Any], off: Any, h: Any, until: Any) -> Any:
        """Keep what is due: by the dense output, or by a shorter step where that is too far off."""

        def shorter(x: Any) -> Any:
            return s.y + x * h * _sums(_A[_STAGES], self.stages(s, k, x * h, 1, _STAGES))

        def one(saving: Any) -> Any:
            kept, i = saving
            x = (self.ts[i] - s.t) / h
            again = lambda _: (shorter(x), jnp.zeros((), bool))  # noqa: E731
            y, _ = jax.lax.while_loop(lambda c: c[1], again, (inside(x), off > _BETWEEN))
            new = self.keep(self.ts[i], y)
            return jax.tree.map(lambda rows, row: rows.at[i].set(row), kept, new), i + 1

        return jax.lax.while_loop(lambda saving: self.due(saving[1], until), one, (s.kept, s.saved))

    def crossing(self, inside: Callable[[Any], Any], dtype: Any) -> Any:
        """The share of a step at which the observed value falls to the level, by halving."""

        def halve(_: Any, ends: Any) -> Any:
            middle = (ends[0] + ends[1]) / 2
            below = self.followed.value(inside(middle)) <= self.stop
            return jnp.where(below, ends[0], middle), jnp.where(below, middle, ends[1])

        return jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.zeros((), dtype), jnp.ones((), dtype)))[1]


def _sums(rows: np.ndarray, k: Any) -> Any:
    """Sums of velocities with these coefficients, one for each row."""
    return jnp.tensordot(jnp.asarray(rows, k.dtype), k, 1)


def _cleared(k: Any, wanted: Any) -> Any:
    """Zeros where `wanted`: infinite velocities would spoil sums in which their coefficient is zero."""
    once = lambda c: (jnp.zeros_like(k), jnp.zeros((), bool))  # noqa: E731
    return jax.lax.while_loop(lambda c: c[1], once, (k, wanted))[0]


def _error(five: Any, three: Any) -> Any:
    """The estimate of the local error in units of the tolerances, as in SciPy's DOP853."""
    both = five**2 + 0.01 * three**2
    return jnp.where(both > 0, five**2 / jnp.sqrt(jnp.where(both > 0, both, 1.0)), 0.0)


def _interpolate(curve: Any, x: Any) -> Any:
    """The change of y at the share x of a step."""
    total = jnp.zeros_like(curve[0])
    for i, row in enumerate(reversed(list(curve))):
        total = (total + row) * (x if i % 2 == 0 else 1 - x)
    return total


def _steep(h: Any, slope: Any, later: Any, first: Any) -> Any:
    """Whether the slope of the observed value changes much in a step, and matters."""
    low, high = jnp.minimum(jnp.abs(slope), jnp.abs(later)), jnp.maximum(jnp.abs(slope), jnp.abs(later))
    return (high > _STEEP * low) & (h * high > _TELLING * jnp.abs(first))


def _before(rows: Any, n: Any) -> Any:
    return (jnp.arange(len(rows)) < n).reshape(-1, *(1,) * (rows.ndim - 1))


def integrate_differentiable(
    velocity: Callable[[Any, Any, Any], Any], y0: Any, args: Any, rtol: float, atol: float
) -> Any:
    """y at time 1 of `dy/dt = velocity(t, y, args)`, with derivatives in reverse mode (by diffrax)."""
    import diffrax

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(velocity),
        diffrax.Dopri8(),
        t0=0.0,
        t1=1.0,
        dt0=None,
        y0=y0,
        args=args,
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
        max_steps=16384,
    )
    assert solution.ys is not None
    return jax.tree.map(lambda v: v[0], solution.ys)
