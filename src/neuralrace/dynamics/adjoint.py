"""Reverse-mode derivatives of the solutions of `integrate` (the discrete adjoint).

The times of the accepted steps are stored, and the composition of the steps is differentiated backwards. The
result is the derivative of the computed numbers, whatever the tolerances. Only the first state of each
stretch of steps is stored; the others are computed again, so that memory grows with the root of the number
of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from neuralrace.dynamics.integrate import FINISHED, GOING, STOPPED, Observed, begin, integrate, tableau

Velocity = Callable[[Any, Any, Any], Any]  # (t, y, args) -> dy/dt
Value = Callable[[Any, Any], Any]  # (y, args) -> number


def integrate_differentiable(
    velocity: Velocity, y0: Any, args: Any, rtol: Any, atol: Any, ts: Any = None, max_steps: int = 16384
) -> Any:
    """Solve `dy/dt = velocity(t, y, args)` with derivatives in reverse mode.

    Parameters
    ----------
    velocity : callable
        `(t, y, args) -> dy/dt`.
    y0 : pytree of arrays
        At time 0.
    args : pytree of arrays
        The result can be differentiated by them, and by arrays in the closure of `velocity`.
    rtol, atol : float
        Local errors, relative and absolute.
    ts : array, shape (times,), optional
        Increasing times from 0 on.
    max_steps : int
        Steps to each of the times.

    Returns
    -------
    pytree of arrays
        y at time 1; with `ts`, at each of them, along a leading axis. nan where there were too few steps.
    """
    flat, tree = ravel_pytree(y0)
    one = jnp.ones((), flat.dtype)
    plain = lambda t, y, args: ravel_pytree(velocity(t, tree(y), args))[0]  # noqa: E731
    plain, closure = jax.closure_convert(plain, one, flat, args)
    whole = lambda t, y, args: plain(t, y, args[0], *args[1])  # noqa: E731
    tolerances = jnp.asarray(rtol, flat.dtype), jnp.asarray(atol, flat.dtype)

    def stretch(state: Any, t: Any) -> Any:
        start, y = state
        y = _end(whole, max_steps, y, (args, closure), start, t, tolerances)
        return (t, y), y

    if ts is None:
        return tree(stretch((0 * one, flat), one)[1])
    return jax.vmap(tree)(jax.lax.scan(stretch, (0 * one, flat), ts)[1])


def crossing_time(
    velocity: Velocity,
    value: Value,
    y0: Any,
    args: Any,
    level: Any,
    t1: Any,
    rtol: Any,
    atol: Any,
    max_steps: int = 16384,
) -> Any:
    """First time at which a value falls to a level, with its derivatives in reverse mode.

    By the implicit function theorem `dT = (d level - d value(T)) / (d value/dt)`, where the value at the
    fixed time T depends on y0 and args through the solution.

    Parameters
    ----------
    velocity : callable
        `(t, y, args) -> dy/dt`, without arrays in its closure.
    value : callable
        `(y, args) -> number`, likewise.
    y0 : array
        At time 0.
    args : pytree of arrays
    level : float
    t1 : float
        Largest time.
    rtol, atol : float
        Local errors, relative and absolute.
    max_steps : int
        Largest number of steps.

    Returns
    -------
    float
        nan, with derivatives nan, where the level is not reached; 0, with derivatives 0, where y0 is
        below it.
    """
    level, t1, rtol, atol = (jnp.asarray(v, y0.dtype) for v in (level, t1, rtol, atol))
    return _crossing(velocity, value, max_steps, y0, args, level, t1, (rtol, atol))


# -- the state at a time -------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _end(velocity: Velocity, max_steps: int, y0: Any, args: Any, t0: Any, t1: Any, tolerances: Any) -> Any:
    path = integrate(
        lambda t, y: velocity(t0 + t, y, args),
        y0,
        (t1 - t0)[None],
        t1 - t0,
        *tolerances,
        max_steps=max_steps,
    )
    return jnp.where(path.status == FINISHED, path.kept[0], jnp.nan)


def _end_forwards(
    velocity: Velocity, max_steps: int, y0: Any, args: Any, t0: Any, t1: Any, tolerances: Any
) -> tuple[Any, Any]:
    path = _recorded(velocity, y0, args, t0, t1, tolerances, max_steps)
    return jnp.where(path.status == FINISHED, path.y, jnp.nan), (path, args)


def _end_backwards(velocity: Velocity, max_steps: int, saved: Any, change: Any) -> Any:
    path, args = saved
    first, total = _pull_back(velocity, args, path, change)
    start, end = path.times[0], path.times[path.count]
    early = -jnp.vdot(first, velocity(start, path.kept[0], args))
    late = jnp.vdot(change, velocity(end, path.y, args))
    return first, total, early, late, (jnp.zeros_like(early), jnp.zeros_like(early))


_end.defvjp(_end_forwards, _end_backwards)


# -- the time at a value -------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _crossing(
    velocity: Velocity, value: Value, max_steps: int, y0: Any, args: Any, level: Any, t1: Any, tolerances: Any
) -> Any:
    path = integrate(
        lambda t, y: velocity(t, y, args),
        y0,
        t1[None],
        t1,
        *tolerances,
        keep=lambda t, y: t,
        observed=_observed(value, args),
        stop=level,
        max_steps=max_steps,
    )
    return jnp.where(path.status == STOPPED, path.t, jnp.nan)


def _observed(value: Value, args: Any) -> Observed:
    return Observed(lambda y: value(y, args), lambda y, v: jnp.zeros((), y.dtype))


def _crossing_forwards(
    velocity: Velocity, value: Value, max_steps: int, y0: Any, args: Any, level: Any, t1: Any, tolerances: Any
) -> tuple[Any, Any]:
    observed = _observed(value, args)
    path = _recorded(velocity, y0, args, jnp.zeros_like(t1), t1, tolerances, max_steps, observed, level)
    time = jnp.where(path.status == STOPPED, path.times[path.count], jnp.nan)
    return time, (path, args, time)


def _crossing_backwards(velocity: Velocity, value: Value, max_steps: int, saved: Any, change: Any) -> Any:
    path, args, time = saved
    by_y, by_args = jax.grad(value, (0, 1))(path.y, args)
    slope = jnp.vdot(by_y, velocity(time, path.y, args))
    # A start below the level stays below it under small changes; a level that is not reached gives nan.
    factor = change * jnp.where(time > 0, 1 / slope, jnp.where(time == 0, 0.0, jnp.nan))
    first, total = _pull_back(velocity, args, path, -factor * by_y)
    total = jax.tree.map(lambda through, direct: through - factor * direct, total, by_args)
    none = jnp.zeros_like(time)
    return first, total, factor, none, (none, none)


_crossing.defvjp(_crossing_forwards, _crossing_backwards)


# -- steps, forwards and backwards ---------------------------------------------------------------


class _Recorded(NamedTuple):
    """The steps of a solution."""

    times: Any  # (max_steps + 1,) where each step begins; at `count`, the end
    count: Any  # steps
    kept: Any  # (stretches, size) the state at the beginning of each stretch of steps
    y: Any  # at the end
    status: Any


def _recorded(
    velocity: Velocity,
    y0: Any,
    args: Any,
    t0: Any,
    t1: Any,
    tolerances: Any,
    max_steps: int,
    observed: Observed | None = None,
    level: Any = None,
) -> _Recorded:
    """Solve as `integrate` does, and store the steps for `_pull_back`."""
    field = lambda t, y: velocity(t0 + t, y, args)  # noqa: E731
    end, (rtol, atol) = t1 - t0, tolerances
    problem, start = begin(field, y0, end[None], end, rtol, atol, lambda t, y: t, observed, level, max_steps)
    stretch = isqrt(max_steps)
    times = jnp.zeros(max_steps + 1, y0.dtype)
    kept = jnp.zeros((max_steps // stretch + 1, *y0.shape), y0.dtype)

    def advance(state: Any) -> Any:
        step, count, times, kept = state
        new = problem.advance(step)
        count, before = count + (new.t > step.t), count
        # Steps inside a stretch have no place.
        place = jnp.where(before % stretch == 0, before // stretch, len(kept))
        kept = kept.at[place].set(step.y, mode="drop")
        return new, count, times.at[count].set(new.t), kept

    first = (start, jnp.int32(0), times, kept)
    last, count, times, kept = jax.lax.while_loop(lambda s: s[0].status == GOING, advance, first)
    return _Recorded(t0 + times, count, kept, last.y, last.status)


def _pull_back(velocity: Velocity, args: Any, path: _Recorded, change: Any) -> tuple[Any, Any]:
    """From the derivative of a number by the last state those by the first state and by args."""
    length = isqrt(len(path.times) - 1)
    empty = jnp.zeros((length, *path.y.shape), path.y.dtype)

    def stretch(state: Any) -> Any:
        k, *totals = state
        begins = k * length
        n = jnp.minimum(path.count - begins, length)

        def step(i: Any, y: Any, args: Any) -> Any:
            return _step(velocity, y, args, path.times[begins + i], path.times[begins + i + 1])

        def again(i: Any, carried: Any) -> Any:
            y, states = carried
            return step(i, y, args), states.at[i].set(y)

        def back(j: Any, totals: Any) -> Any:
            i = n - 1 - j
            by_y, by_args = jax.vjp(partial(step, i), states[i], args)[1](totals[0])
            return by_y, jax.tree.map(jnp.add, totals[1], by_args)

        states = jax.lax.fori_loop(0, n, again, (path.kept[k], empty))[1]
        return k - 1, *jax.lax.fori_loop(0, n, back, tuple(totals))

    last = (path.count + length - 1) // length - 1
    start = (last, change, jax.tree.map(jnp.zeros_like, args))
    return jax.lax.while_loop(lambda s: s[0] >= 0, stretch, start)[1:]


def _step(velocity: Velocity, y: Any, args: Any, t: Any, end: Any) -> Any:
    """One step of order 8 from t to `end`. The last stage of the method is that end."""
    table, h = tableau(), end - t
    a, c = (jnp.asarray(v, y.dtype) for v in (table.a, table.c))

    def one(i: Any, k: Any) -> Any:
        return k.at[i].set(velocity(t + c[i] * h, y + h * jnp.tensordot(a[i, :-1], k, 1), args))

    k = jax.lax.fori_loop(0, len(c) - 1, one, jnp.zeros((len(c) - 1, *y.shape), y.dtype))
    return y + h * jnp.tensordot(a[-1, :-1], k, 1)
