"""Ordinary differential equations, integrated in one place.

`integrate` is the method of Dormand and Prince of order 8 with its dense output (Hairer, Norsett and Wanner 1993; the
coefficients come with SciPy, whose DOP853 is its twin in the tests). A loop over its stages keeps the
program small: it compiles in tenths of a second where a general solver takes seconds. It keeps the history of an
observed value at its own steps, and stops where that value falls to a level. Derivatives in forward mode only;
where reverse mode is wanted, `integrate_differentiable` calls diffrax.
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
_E3, _E5, _D = (np.asarray(v) for v in (DOP853.E3, DOP853.E5, DOP853.D))
_SAFETY, _SHORTEST, _LONGEST = 0.9, 0.2, 10.0  # how far the length of the next step may differ
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
    h: Any
    y: Any
    velocity: Any
    value: Any
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
    dtype = y0.dtype
    followed = observed or Observed(lambda y: jnp.zeros((), dtype), lambda y, v: jnp.zeros((), dtype))
    a, c = jnp.asarray(_A, dtype), jnp.asarray(_C, dtype)
    y0, ts, t1 = jnp.asarray(y0), jnp.asarray(ts, dtype), jnp.asarray(t1, dtype)

    def norm(v: Any, size: Any) -> Any:
        return jnp.sqrt(jnp.mean((v / (atol + rtol * size)) ** 2))

    def stages(k: Any, first: int, last: int, t: Any, h: Any, y: Any) -> Any:
        def one(i: Any, k: Any) -> Any:
            return k.at[i].set(velocity(t + c[i] * h, y + h * jnp.tensordot(a[i], k, 1)))

        return jax.lax.fori_loop(first, last, one, k)

    def advance(s: _Step) -> _Step:
        h = jnp.minimum(s.h, t1 - s.t)
        k = jnp.zeros((len(_A), *y0.shape), dtype).at[0].set(s.velocity)
        k = stages(k, 1, _STAGES + 1, s.t, h, s.y)
        y = s.y + h * jnp.tensordot(a[_STAGES], k, 1)
        error = _error(k, h, lambda v: norm(v, jnp.maximum(jnp.abs(s.y), jnp.abs(y))))
        fine = jnp.isfinite(error) & jnp.isfinite(y).all()
        accept = fine & (error <= 1)
        factor = _SAFETY * jnp.maximum(error, 1e-20) ** (-1 / 8)
        factor = jnp.where(fine, jnp.clip(factor, _SHORTEST, jnp.where(accept, _LONGEST, 1.0)), _SHORTEST)
        after = jnp.where(h >= t1 - s.t, t1, s.t + h)
        value = jnp.where(accept, followed.value(y), s.value)
        reached = jnp.zeros((), bool) if stop is None else accept & (value <= stop)
        due = accept & (s.saved < len(ts)) & (ts[jnp.minimum(s.saved, len(ts) - 1)] <= after)

        def dense(k: Any) -> Any:
            k = stages(k, _STAGES + 1, len(_A), s.t, h, s.y)
            return jnp.concatenate([_ends(y - s.y, h, k), h * jnp.tensordot(jnp.asarray(_D, dtype), k, 1)])

        nothing = lambda k: jnp.zeros((3 + len(_D), *y0.shape), dtype)  # noqa: E731
        curve = jax.lax.cond(due | reached, dense, nothing, k)
        inside = lambda x: s.y + _interpolate(curve, x)  # noqa: E731
        if stop is not None:
            x = jax.lax.cond(reached, lambda: _first_below(inside, followed.value, stop, dtype), lambda: 1.0)
            after, y = jnp.where(reached, s.t + x * h, after), jnp.where(reached, inside(x), y)
            value = jnp.where(reached, followed.value(y), value)

        def save(saving: Any) -> Any:
            kept, i = saving
            new = keep(ts[i], inside((ts[i] - s.t) / h))
            return jax.tree.map(lambda rows, row: rows.at[i].set(row), kept, new), i + 1

        def more(saving: Any) -> Any:
            i = saving[1]
            return accept & (i < len(ts)) & (ts[jnp.minimum(i, len(ts) - 1)] <= after)

        kept, saved = jax.lax.while_loop(more, save, (s.kept, s.saved))
        last = jnp.where(reached, velocity(after, y), k[_STAGES]) if stop is not None else k[_STAGES]
        history = push(s.history, after, value, followed.slope(y, last), accept)
        if progress is not None:
            progress(s.t, jnp.where(accept, after, s.t))
        stuck = ~accept & (s.t + 0.1 * h * factor <= s.t)
        move = lambda new, old: jnp.where(accept, new, old)  # noqa: E731
        return _Step(
            move(after, s.t), h * factor, move(y, s.y), move(last, s.velocity), value,
            kept, saved, s.steps + 1, reached, stuck, history,
        )  # fmt: skip

    def going(s: _Step) -> Any:
        return (s.t < t1) & (s.steps < max_steps) & ~s.stopped & ~s.stuck

    end = jax.lax.while_loop(going, advance, _first(velocity, y0, ts, t1, norm, keep, followed, stop))
    final, n = keep(end.t, end.y), end.saved
    kept = jax.tree.map(lambda rows, row: jnp.where(_before(rows, n), rows, row), end.kept, final)
    limited = (end.t < t1) & ~end.stopped & ~end.stuck
    return Path(kept, end.t, end.stopped, limited, end.stuck, end.steps, end.history)


def _first(
    velocity: Any, y0: Any, ts: Any, t1: Any, norm: Any, keep: Any, followed: Observed, stop: Any
) -> _Step:
    """The state before the first step; its length changes y by a hundredth of itself."""
    zero = jnp.zeros((), y0.dtype)
    v = velocity(zero, y0)
    size, speed = norm(y0, jnp.abs(y0)), norm(v, jnp.abs(y0))
    h = jnp.where(speed > 0, 0.01 * jnp.maximum(size, 1.0) / jnp.where(speed > 0, speed, 1.0), t1)
    row, value = keep(zero, y0), followed.value(y0)
    kept = jax.tree.map(lambda v: jnp.broadcast_to(v, (len(ts), *jnp.shape(v))), row)
    saved = jnp.where(ts[0] <= 0, 1, 0).astype(jnp.int32)
    stopped = jnp.zeros((), bool) if stop is None else value <= stop
    history = push(empty(y0.dtype), zero, value, followed.slope(y0, v), jnp.ones((), bool))
    stuck = ~jnp.isfinite(v).all() | ~jnp.isfinite(y0).all()
    return _Step(
        zero, jnp.minimum(h, t1), y0, v, value, kept, saved, jnp.int32(0), stopped, stuck, history
    )  # fmt: skip


def _error(k: Any, h: Any, norm: Callable[[Any], Any]) -> Any:
    """The estimate of the local error in units of the tolerances, as in SciPy's DOP853."""
    five, three = (norm(jnp.tensordot(jnp.asarray(e, k.dtype), k[: _STAGES + 1], 1)) for e in (_E5, _E3))
    both = five**2 + 0.01 * three**2
    return jnp.where(both > 0, h * five**2 / jnp.sqrt(jnp.where(both > 0, both, 1.0)), 0.0)


def _ends(change: Any, h: Any, k: Any) -> Any:
    """What the dense output takes from both ends of a step."""
    return jnp.stack([change, h * k[0] - change, 2 * change - h * (k[_STAGES] + k[0])])


def _interpolate(curve: Any, x: Any) -> Any:
    """The change of y at the share x of a step."""
    total = jnp.zeros_like(curve[0])
    for i, row in enumerate(reversed(list(curve))):
        total = (total + row) * (x if i % 2 == 0 else 1 - x)
    return total


def _first_below(inside: Any, value: Any, stop: Any, dtype: Any) -> Any:
    """The share of a step at which the observed value falls to the level, by halving."""

    def halve(_: Any, ends: Any) -> Any:
        middle = (ends[0] + ends[1]) / 2
        below = value(inside(middle)) <= stop
        return jnp.where(below, ends[0], middle), jnp.where(below, middle, ends[1])

    return jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.zeros((), dtype), jnp.ones((), dtype)))[1]


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
