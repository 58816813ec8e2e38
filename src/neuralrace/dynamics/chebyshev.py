"""A step of the Runge-Kutta-Chebyshev method of order 2, for stiff problems.

Explicit methods need steps no longer than a few times the time of the fastest mode, long after that mode has
come to rest. Here `s` stages are damped Chebyshev polynomials, which are stable for modes that decay at any
rate up to about `2 s^2 / 3` per step: the cost of a long step grows with its square root (Sommeijer, Shampine
and Verwer 1998, RKC: an explicit solver for parabolic PDEs). The rates of a gradient flow are real, as the
method needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

LOCAL_ORDER = 3  # the error of a step is of this order in its length

_DAMPING = 2 / 13
# Stages; longer steps are refused. A long step costs less than several short ones, but the rounding of its
# stages adds up with the square of their number: to 1e-9 and .005.
_MOST = {8: 2000, 4: 200}  # by bytes of a number
_MARGIN = 1.1  # rates up to which a step is stable, in units of the estimated largest one
_CLOSE = 0.05  # relative change of the rate at which the power method stops
_ROUNDS = 30  # of the power method, at most


class Mode(NamedTuple):
    """The mode that decays, or grows, fastest: an estimate that is carried from step to step."""

    direction: Any  # like y, of norm 1; zero where it is not known
    rate: Any


def unknown(y: Any) -> Mode:
    """Before the first step."""
    return Mode(jnp.zeros_like(y), jnp.zeros((), y.dtype))


def step(velocity: Callable[[Any], Any], y: Any, v: Any, h: Any, known: Mode) -> tuple[Any, Any, Any, Mode]:
    """State and velocity at the end of a step of length h, the estimated error, and the fastest mode."""
    fastest, most = follow(velocity, y, v, known), _MOST[y.dtype.itemsize]
    stages = 1 + jnp.sqrt(1 + 1.54 * h * _MARGIN * fastest.rate)
    stages = jnp.where(jnp.isfinite(stages), jnp.clip(jnp.floor(stages), 2, most), 2)
    stable = h * fastest.rate <= (most**2 - 1) / 1.54
    end = _polynomial(velocity, y, v, h, stages)
    v_end = velocity(end)
    off = 0.8 * (y - end) + 0.4 * h * (v + v_end)
    return end, v_end, jnp.where(stable, off, jnp.inf), fastest


def follow(velocity: Callable[[Any], Any], y: Any, v: Any, known: Mode) -> Mode:
    """The fastest mode at y, by the power method on differences of velocities."""
    small = jnp.sqrt(jnp.finfo(y.dtype).eps) * jnp.maximum(_norm(y), 1e-3)
    first = jnp.where(_norm(known.direction) > 0, known.direction, _unit(v))

    def far(state: Any) -> Any:
        mode, before, rounds = state
        return (rounds < _ROUNDS) & (jnp.abs(mode.rate - before) > _CLOSE * mode.rate)

    def once(state: Any) -> Any:
        mode, _, rounds = state
        change = (velocity(y + small * mode.direction) - v) / small
        return Mode(_unit(change), _norm(change)), mode.rate, rounds + 1

    begin = once((Mode(first, known.rate), known.rate, jnp.int32(0)))
    return jax.lax.while_loop(far, once, begin)[0]


def _polynomial(velocity: Callable[[Any], Any], y: Any, v: Any, h: Any, stages: Any) -> Any:
    """The last stage: stages are sums of Chebyshev polynomials T_j, at w0 just above 1."""
    above = _DAMPING / stages**2
    w0, square = 1 + above, above * (2 + above)  # square: w0^2 - 1, in which rounding would be large
    x = jnp.log1p(above + jnp.sqrt(square))  # arccosh(w0)
    last, slope = jnp.cosh(stages * x), stages * jnp.sinh(stages * x) / jnp.sinh(x)
    w1 = slope * square / (stages**2 * last - w0 * slope)  # T'/T'' of the last one

    def higher(now: Any, before: Any) -> Any:
        """T, T', T'' of the next j from those of j and j - 1."""
        return (
            2 * w0 * now[0] - before[0],
            2 * now[0] + 2 * w0 * now[1] - before[1],
            4 * now[1] + 2 * w0 * now[2] - before[2],
        )

    zero, one = jnp.zeros_like(w0), jnp.ones_like(w0)
    t0, t1 = (one, zero, zero), (w0, one, zero)
    b1 = 1 / w0

    def stage(j: Any, state: Any) -> Any:
        (at, past), (now, before), (b, b_past) = state
        new = higher(now, before)
        b_new = new[2] / new[1] ** 2
        mu, nu, pull = 2 * b_new * w0 / b, -b_new / b_past, 2 * b_new * w1 / b
        first = -(1 - b * now[0]) * pull
        ahead = (1 - mu - nu) * y + mu * at + nu * past + h * (pull * velocity(at) + first * v)
        return (ahead, at), (new, now), (b_new, b)

    start = ((y + b1 * w1 * h * v, y), (t1, t0), (b1, b1))  # b0 is in no result: at stage 2, `past` is y
    return jax.lax.fori_loop(2, stages.astype(jnp.int32) + 1, stage, start)[0][0]


def _norm(v: Any) -> Any:
    return jnp.sqrt(jnp.sum(v**2))


def _unit(v: Any) -> Any:
    size = _norm(v)
    return v / jnp.where(size > 0, size, 1)
