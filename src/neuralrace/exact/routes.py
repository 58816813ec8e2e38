"""Routing between M input and M output domains: outer strengths B1, hidden strength B2."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import InputError, array, integer, number, sequence
from neuralrace.exact.formula import closed_form, invert, nonnegative, positive


def routing(t: Any, s: Any, d: Any, M: int, b0: Any, tau: Any = 1.0) -> Any:
    r"""Strengths of a mode in a routing network with M input and M output domains (neural_race Eq. 13-14).

    Solves $\tau B_1' = \frac1M B_2 B_1 (s - d B_2 B_1^2)$ and $\tau B_2' = B_1^2 (s - d B_2 B_1^2)$.
    Arguments broadcast.

    Parameters
    ----------
    t : array_like
        Times, at least 0.
    s, d : array_like
        Strength of the mode in `Syx`, and variance of its input; above 0.
    M : int
        Number of input domains, and of output domains.
    b0 : float or pair of array_like
        Strengths at time 0: one number for both, or a pair (B1, B2); at least 1e-150.
    tau : array_like, default 1
        Unit of time.

    Returns
    -------
    B1, B2 : float or ndarray
        Strengths of the layers next to inputs and outputs, and of the shared layer.

    Examples
    --------
    >>> b1, b2 = routing(1e4, s=1.0, d=1.0, M=10, b0=0.01)
    >>> round(b2 * b1**2, 6), round(b2 / b1 / 10**0.5, 3)
    (1.0, 1.0)
    """
    b1, b2 = _pair(b0)
    return _race(t, s, d, 1 / integer("M", M), 1.0, b1, b2, tau)


def sharing(t: Any, s: Any, d: Any, M: int, P: float, b0: Any, tau: Any = 1.0) -> Any:
    r"""Strengths of a mode where P of the M^2 routes run through each hidden pathway (neural_race Eq. 16-17).

    As `routing`, with the rates $\sqrt P/M^2$ of $B_1$ and $P/M^2$ of $B_2$; $P = M^2$ is `routing`.

    Parameters
    ----------
    t, s, d, M, b0, tau
        As in `routing`.
    P : float
        Routes through each hidden pathway, 1 to M^2.

    Returns
    -------
    B1, B2 : float or ndarray
        As in `routing`.

    Examples
    --------
    >>> [round(sharing(100.0, 1.0, 1.0, 4, P, 0.1)[1], 2) for P in (1, 4, 16)]
    [0.26, 1.26, 1.58]
    """
    m2, p = integer("M", M) ** 2, number("P", P, least=1)
    if p > m2:
        raise InputError(f"P must lie between 1 and M^2 = {m2}, got {p:g}")
    b1, b2 = _pair(b0)
    return _race(t, s, d, p**0.5 / m2, p / m2, b1, b2, tau)


def _pair(b0: Any) -> tuple[Any, Any]:
    b0 = sequence("b0", b0, "strengths") if isinstance(b0, range) else b0
    if not isinstance(b0, (tuple, list)) and np.ndim(b0) == 0:
        return b0, b0
    if len(b0) != 2:
        raise InputError(f"b0 must be a number or a pair B1, B2, got {len(b0)} values")
    return b0[0], b0[1]


def _start(_: str, value: Any) -> Any:
    out = positive("b0", value)
    if (out < 1e-150).any():
        raise InputError(f"b0 must be at least 1e-150, or its square vanishes; got {out.min():g}")
    return out


@closed_form(t=nonnegative, s=positive, d=positive, k1=array, k2=array, b1=_start, b2=_start, tau=positive)
def _race(t: Any, s: Any, d: Any, k1: Any, k2: Any, b1: Any, b2: Any, tau: Any) -> Any:
    """Solve tau B1' = k1 B2 B1 (s - B2 B1^2 d), tau B2' = k2 B1^2 (s - B2 B1^2 d)."""
    # In units where p' = q p, q' = p^2 (times 1 - q p^2), p^2 - q^2 is constant (neural_race Eq. 15), and the
    # fixed point is q p^2 = 1.
    unit = (s / d * k1**2 * k2) ** (1 / 3)
    p0, q0 = (k1 * k2) ** 0.5 * b1 / unit, k1 * b2 / unit
    gap = (p0 - q0) * (p0 + q0)
    end = _fixed_point(gap)
    # The smaller of p and q is the variable: the larger one follows without cancellation.
    start = jnp.log(jnp.where(gap >= 0, q0, p0) / end)
    clock = s * unit * t / tau
    q = _larger(end, gap)[1]
    beta = q**3
    top = 1.5 * clock * q * (1 + 2 * beta) / beta + 5 - jnp.minimum(start, 0)
    grown = invert(_time, clock, top, start, gap, end)
    p, q = _larger(end * jnp.exp(start) / _rest(grown, start), gap)
    return p * unit / (k1 * k2) ** 0.5, q * unit / k1


def _rest(grown: Any, start: Any) -> Any:
    """y0/y where logit y = logit y0 + grown, start = log y0."""
    return jnp.exp(-grown) - jnp.exp(start) * jnp.expm1(-grown)


def _larger(small: Any, gap: Any) -> tuple[Any, Any]:
    """p and q from the smaller of them and gap = p^2 - q^2."""
    large = jnp.sqrt(small**2 + jnp.where(gap >= 0, gap, -gap))
    return jnp.where(gap >= 0, large, small), jnp.where(gap >= 0, small, large)


def _fixed_point(gap: Any) -> Any:
    """The smaller of p and q where q p^2 = 1."""

    def newton(log: Any, gap: Any) -> Any:
        def value(log: Any) -> Any:
            p, q = _larger(jnp.exp(log), gap)
            return jnp.log(q) + 2 * jnp.log(p)

        f, slope = jax.jvp(value, (log,), (jnp.ones_like(log),))
        return log - f / slope

    frozen = jax.lax.stop_gradient(gap)
    log = jax.lax.fori_loop(0, 10, lambda _, log: newton(log, frozen), jnp.zeros_like(gap))
    return jnp.exp(newton(newton(log, gap), gap))


def _time(grown: Any, start: Any, gap: Any, end: Any) -> Any:
    """Integral of dq / (p^2 (1 - q p^2)) = dq / p^2 + q dq / (1 - q p^2), by partial fractions."""
    rest = _rest(grown, start)
    y0, y = jnp.exp(start), jnp.exp(start) / rest
    (p0, q0), (p, q), (_, q1) = (_larger(v, gap) for v in (end * y0, end * y, end))
    beta = q1**3
    u0, u = q0 / q1, q / q1
    other = jnp.log((q1 + q) / (q1 + q0)) - jnp.log((1 + y) / (1 + y0))
    logs = grown + jnp.log(rest) + jnp.where(gap >= 0, 0, other)
    logs += 0.5 * jnp.log((1 + beta * u * (1 + u)) / (1 + beta * u0 * (1 + u0)))
    z = (u - u0) / (1 / beta + u * u0 + (u + u0) / 2)
    late = (logs - (1 / beta + 0.5) * _arctan(1 / beta - 0.25, z)) / (1 + 2 * beta)
    # For small q these terms cancel, and quadrature is exact.
    v = jnp.minimum(u, 0.05)
    v = v + (jnp.minimum(u0, 0.05) - v) * ((1 - _NODES.reshape(-1, *(1,) * v.ndim)) / 2).astype(v.dtype)
    few = jnp.tensordot(_WEIGHTS.astype(v.dtype), v / ((1 - v) * (1 + beta * v * (1 + v))), 1) * (u - u0) / 2
    late = jnp.where((u < 0.05) & (u0 < 0.05), few, late)
    return _early(gap, p0, q0, p, q, start, jnp.log(y)) + beta / q1 * late


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


def _early(gap: Any, p0: Any, q0: Any, p: Any, q: Any, log0: Any, log: Any) -> Any:
    """Integral of dq / (q^2 + gap) from q0 to q."""
    rise = jnp.where(gap >= 0, q / p * (q / p0) - q0 / p * (q0 / p0), p / p0 - p0 / p)
    z = rise / (p0 / p * q + p / p0 * q0)
    far = -gap * z**2 > 0.5
    c = jnp.sqrt(jnp.where(far, -gap, 1))
    a = (q0 + c) * (q + c)
    ratio = jnp.where(far, (q0 + c) / (q + c) * ((a + p0**2) / (a + p**2)), 1)
    return jnp.where(far, (log - log0 + jnp.log(ratio) / 2) / c, _arctan(gap, jnp.where(far, 0, z)))


def _arctan(c: Any, z: Any) -> Any:
    """arctan(sqrt(c) z) / sqrt(c), analytic through c = 0."""
    u = c * z**2
    near = abs(u) < 1e-3
    series = z * (1 - u * (1 / 3 - u * (1 / 5 - u * (1 / 7 - u * (1 / 9 - u / 11)))))
    root = jnp.sqrt(jnp.where(near, 1, abs(c)))
    w = jnp.where(near, 0, root * z)
    plus, minus = jnp.arctan(w), jnp.arctanh(jnp.where(c < 0, w, 0))
    return jnp.where(near, series, jnp.where(c < 0, minus, plus) / root)
