"""Solutions with derivatives in reverse mode, for JAX: by diffrax."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from neuralrace.dynamics import constants
from neuralrace.errors import need_extra

Velocity = Callable[[Any, Any, Any], Any]  # (t, y, args) -> dy/dt
Value = Callable[[Any, Any], Any]  # (y, args) -> number

_BEGIN = 0.01  # relative change of y in the first step


def integrate(
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
        Steps to the last of the times.

    Returns
    -------
    pytree of arrays
        y at time 1; with `ts`, at each of them, along a leading axis. nan where there were too few steps.
    """
    need_extra("diffrax", "diffrax", "optimistix")
    import diffrax

    saved = diffrax.SaveAt(t1=True) if ts is None else diffrax.SaveAt(ts=ts)
    solution = _solved(velocity, y0, args, 1.0 if ts is None else ts[-1], rtol, atol, max_steps, saveat=saved)
    done = solution.result == diffrax.RESULTS.successful
    found = jax.tree.map(lambda v: jnp.where(done, v, jnp.nan), solution.ys)
    return jax.tree.map(lambda v: v[0], found) if ts is None else found


def crossing_time(
    velocity: Velocity, value: Value, y0: Any, args: Any, level: Any, t1: Any, rtol: Any, atol: Any,
    max_steps: int = 16384,
) -> Any:  # fmt: skip
    """First time at which a value falls to a level, with its derivatives in reverse mode.

    By the implicit function theorem `dT = (d level - d value(T)) / (d value/dt)`, where the value at the
    fixed time T depends on y0 and args through the solution.

    Parameters
    ----------
    velocity : callable
        `(t, y, args) -> dy/dt`.
    value : callable
        `(y, args) -> number`.
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
    need_extra("diffrax", "diffrax", "optimistix")
    level, t1, rtol, atol = (jnp.asarray(v, y0.dtype) for v in (level, t1, rtol, atol))
    return _crossing(velocity, value, max_steps, y0, args, level, t1, (rtol, atol))


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _crossing(
    velocity: Velocity, value: Value, max_steps: int, y0: Any, args: Any, level: Any, t1: Any, tolerances: Any
) -> Any:
    import diffrax
    from optimistix import Bisection

    accuracy = 100 * float(jnp.finfo(y0.dtype).eps)
    unit = jnp.maximum(jnp.abs(level), jnp.finfo(y0.dtype).tiny)
    above = lambda t, y, args, **_: (value(y, args) - level) / unit  # noqa: E731
    event = diffrax.Event(above, Bisection(accuracy, accuracy, flip=True), direction=False)
    saved = diffrax.SaveAt(t1=True)
    rtol, atol = tolerances
    solution = _solved(velocity, y0, args, t1, rtol, atol, max_steps, saveat=saved, event=event)
    reached = solution.result == diffrax.RESULTS.event_occurred
    time = jnp.where(reached, solution.ts[0], jnp.nan)
    return jnp.where(value(y0, args) <= level, 0.0, time)


def _forwards(
    velocity: Velocity, value: Value, max_steps: int, y0: Any, args: Any, level: Any, t1: Any, tolerances: Any
) -> tuple[Any, Any]:
    time = _crossing(velocity, value, max_steps, y0, args, level, t1, tolerances)
    return time, (y0, args, time, tolerances)


def _backwards(velocity: Velocity, value: Value, max_steps: int, saved: Any, change: Any) -> Any:
    y0, args, time, (rtol, atol) = saved
    end = jnp.where(time > 0, time, 1.0)  # any time will do where there is none

    def there(y0: Any, args: Any) -> tuple[Any, Any]:
        y = integrate(velocity, y0, args, rtol, atol, end[None], max_steps)[0]
        return value(y, args), y

    _, pull, y = jax.vjp(there, y0, args, has_aux=True)
    slope = jnp.vdot(jax.grad(value)(y, args), velocity(end, y, args))
    # A start below the level stays below it under small changes; a level that is not reached gives nan.
    factor = change * jnp.where(time > 0, 1 / slope, jnp.where(time == 0, 0.0, jnp.nan))
    none = jnp.zeros_like(time)
    return *pull(-factor), factor, none, (none, none)


_crossing.defvjp(_forwards, _backwards)


def _solved(
    velocity: Velocity, y0: Any, args: Any, t1: Any, rtol: Any, atol: Any, max_steps: int, **more: Any
) -> Any:
    import diffrax
    from optimistix import rms_norm

    def size(error: Any) -> Any:
        found = rms_norm(error)
        return jnp.where(jnp.isnan(found), jnp.inf, found)  # a step that overflows is refused, not repeated

    part = lambda y, v: v / (atol + rtol * jnp.abs(y))  # noqa: E731
    speed = size(jax.tree.map(part, y0, velocity(jnp.zeros_like(t1), y0, args)))
    first = jnp.minimum(t1, constants.FIRST_CHANGE / (rtol * speed))  # diffrax's own may overflow
    control = diffrax.PIDController(rtol=rtol, atol=atol, norm=size)
    return diffrax.diffeqsolve(
        diffrax.ODETerm(velocity), diffrax.Dopri8(), 0.0, t1, jax.lax.stop_gradient(first), y0, args,
        stepsize_controller=control, max_steps=max_steps, throw=False, **more,
    )  # fmt: skip
