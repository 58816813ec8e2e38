"""Deep linear chains: one mode of a network with `depth` layers that start balanced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import binom, digamma, poch

from neuralrace.errors import InputError, choice, integer, number, short
from neuralrace.exact.formula import closed_form, invert, nonnegative, positive

_TERMS = 60


def _depth(name: str, value: Any) -> float:
    return math.inf if isinstance(value, float) and value == math.inf else integer(name, value, most=2**53)


@closed_form(static=["depth"], t=nonnegative, s=positive, d=positive, a0=positive, depth=_depth, tau=positive)
def chain(t: Any, s: Any, d: Any = 1.0, a0: Any = 1e-3, depth: float = 2, tau: Any = 1.0) -> Any:
    r"""Product of the weights of a balanced chain in one mode (neural_race Eq. 21, make_haste_slowly Eq. 7).

    Solves $\tau a' = D a^{2 - 2/D} (s - d a)$ for depth $D$, which is $\tau a' = s - d a$ for one layer. For
    depth `math.inf` it solves the limit $\tau a' = a^2 (s - d a)$, with time in units of $\tau / D$.
    Arguments broadcast.

    Parameters
    ----------
    t : array_like
        Times, at least 0.
    s, d : array_like
        Strength of the mode in `Syx`, and variance of its input; above 0.
    a0 : array_like, default 1e-3
        Product of the weights at time 0, above 0.
    depth : int or math.inf, default 2
        Number of layers. A new depth is compiled anew.
    tau : array_like, default 1
        Unit of time.

    Returns
    -------
    float or ndarray
        $a(t)$, which tends to $s / d$.

    Examples
    --------
    >>> round(chain(10.0, s=1.0, a0=1e-3, depth=2), 6)
    0.999998
    """
    return s / d * jnp.exp(log_fraction(t / tau, s, d, a0, depth))


def chain_time(share: float, s: ArrayLike, a0: float, depth: float = 2) -> float:
    """When balanced chains, one for each mode, have a share of the error of a silent network left.

    Parameters
    ----------
    share : float
        Of the summed squared errors.
    s : float or array_like, shape (modes,)
        Strengths of the modes; inputs are white.
    a0 : float
        Initial product of the weights, the same for all modes.
    depth : int or math.inf
        As in `chain`.

    Returns
    -------
    float
        Time as in `chain`, tau = 1; nan if the error is below from the start, or for more than exp(70).

    Examples
    --------
    >>> round(chain_time(0.25, 1.0, 0.1), 6)  # a logistic curve: log(1/a0 - 1) / 2
    1.098612
    """
    from scipy.optimize import brentq

    modes = positive("s", s)
    if not np.size(modes):
        raise InputError(f"s must hold at least one mode, got {short(s)}")

    def excess(log_t: float) -> float:
        a = chain(np.exp(log_t), modes, a0=a0, depth=depth)
        sizes = modes / np.max(modes)
        return float(np.sum((sizes - a / np.max(modes)) ** 2) / np.sum(sizes**2) - share)

    a0 = number("a0", a0, above=0)
    share, low, high = number("share", share, above=0, below=1), -700.0, 70.0
    if not excess(low) > 0 > excess(high):
        return math.nan
    return math.exp(np.asarray(brentq(excess, low, high, xtol=1e-12)).item())


def log_fraction(t: Any, s: Any, d: Any, a0: Any, depth: float) -> Any:
    """log of a(t) d/s, the learned fraction."""
    start = jnp.log(a0) + jnp.log(d) - jnp.log(s)
    if depth == 1:
        # A chain of one layer decays to its fixed point; the logistic form below needs a' ~ a.
        return jnp.log(jnp.exp(start - d * t) - jnp.expm1(-d * t))
    m = 1 - 2 / depth
    rate = 2 * s if depth == 2 else (1 if depth == math.inf else depth) * s * (s / d) ** m
    grown = rate * t
    if depth > 2:
        top = 1.5 * grown + 2
        least = -0.98 * math.log(float(jnp.finfo(start.dtype).max))
        grown = invert(partial(_time, m), grown, top, jnp.maximum(start, least))
    return _logistic(start, grown)


def _logistic(start: Any, grown: Any) -> Any:
    """log x where logit x = logit x0 + grown, start = log x0; x0 may lie above 1."""
    low = jnp.minimum(start, -1.0)
    below = jax.nn.softplus(jnp.log1p(-jnp.exp(low)) - low - grown)
    high = jnp.maximum(start, -1.0)
    z = jnp.exp(-grown) * jnp.expm1(-high)
    near = z > -0.5
    above = jnp.where(
        near,
        jnp.log1p(jnp.where(near, z, 0)),
        jnp.log(jnp.where(near, 1, jnp.exp(-high - grown) - jnp.expm1(-grown))),
    )
    return -jnp.where(start < -1, below, above)


def _time(m: float, grown: Any, start: Any) -> Any:
    """Integral over 0..grown of x^-m, the time that logit x takes to grow (x as in `_logistic`)."""
    z0 = jnp.expm1(-start)
    if m == 1:
        plain = grown - z0 * jnp.expm1(-grown)
    else:
        plain = grown + _excess(m, z0) - _excess(m, z0 * jnp.exp(-grown))
    y0, y = jnp.exp(-start), jnp.exp(-start - grown) - jnp.expm1(-grown)
    far = y < 0.5
    return jnp.where(far, _tail(m, jnp.where(far, y, 0.5)) - _tail(m, jnp.where(far, y0, 0.5)), plain)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _excess(m: float, z: Any) -> Any:
    """Integral over 0..z of ((1+z)^m - 1)/z, by series at 0, 1 (either side) and infinity of 1 + z."""
    n = np.arange(1, _TERMS)
    y = jnp.maximum(1 + z, 0)
    x, low = 1 / jnp.maximum(y, 2), jnp.minimum(y, 0.5)
    log = jnp.log(x)
    tables = [1 / (n + 1 - m), (poch(m + 1, n) / poch(1.0, n) - 1) / n, binom(m, n) / n, 1 / (n + m)]
    regions = [y > 2, z > 0, y >= 0.5]
    inner = jnp.clip(z / jnp.maximum(y, 1), -0.5, 0.5)
    series = _poly(tables, jnp.select(regions, [x, inner, inner], low), regions)
    first = jnp.expm1((1 - m) * log) / (1 - m)
    constant = float(digamma(1) - digamma(2 - m) - 1 / m)
    large = jnp.exp(-m * log) / m + log - jnp.log1p(-x) - first + constant - jnp.exp((1 - m) * log) * series
    small = float(digamma(1) - digamma(1 + m)) - jnp.log1p(-low) - low**m * series
    return jnp.select(regions, [large, series, series], small)


@_excess.defjvp
def _(m: float, primals: Any, tangents: Any) -> Any:
    (z,), (dz,) = primals, tangents
    tiny = abs(z) < 1e-5
    safe = jnp.where(tiny, 1, z)
    slope = jnp.expm1(m * jnp.log1p(safe)) / safe
    series = m * (1 + (m - 1) / 2 * z * (1 + (m - 2) / 3 * z))
    return _excess(m, z), jnp.where(tiny, series, slope) * dz


def _tail(m: float, y: Any) -> Any:
    """Sum of y^(k+m)/(k+m) over k >= 1."""
    return y**m * _poly([1 / (np.arange(1, _TERMS) + m)], y)


def _poly(tables: list[np.ndarray], x: Any, regions: Sequence[Any] = ()) -> Any:
    """Sum of c_n x^n over n >= 1, with the table of coefficients of each region."""

    def horner(total: Any, row: Any) -> Any:
        chosen = (
            jnp.select(regions, [jnp.broadcast_to(v, x.shape) for v in row[:-1]], row[-1])
            if regions
            else row[-1]
        )
        return x * (total + chosen), None

    return jax.lax.scan(horner, jnp.zeros_like(x), jnp.asarray(np.array(tables).T[::-1], x.dtype))[0]


_contexts = partial(integer, least=2, most=2**53)


@closed_form(
    static=["contexts"], t=nonnegative, s=positive, d=positive, contexts=_contexts, b0=positive, tau=positive
)
def context_strength(t: Any, s: Any, d: Any, contexts: int, b0: Any, tau: Any = 1.0) -> Any:
    r"""Strength of a mode of a context pathway, while the common pathway stays at its fixed point.

    Solves $\tau B' = 2 B \bigl(s - d B / (C - 1)\bigr)$ for $C$ contexts: make_haste_slowly appendices F and
    G with their misprints corrected (see errata), from overlaps $U_p^\top U_j = -1/(C-1)$ and input
    correlations $(C-2)/(C-1)$.

    Parameters
    ----------
    t : array_like
        Times, at least 0.
    s, d : array_like
        Strength of the mode in the residual that the common pathway leaves, and variance of the input of the
        pathway; above 0.
    contexts : int
        Number of contexts, at least 2.
    b0 : array_like
        Strength at time 0, above 0.
    tau : array_like, default 1
        Unit of time.

    Returns
    -------
    float or ndarray
        $B(t)$, which tends to $(C - 1) s / d$.

    Examples
    --------
    >>> round(context_strength(1e3, s=0.1, d=0.2, contexts=4, b0=1e-6), 6)
    1.5
    """
    d = d / (contexts - 1)
    return s / d * jnp.exp(log_fraction(t / tau, s, d, b0, 2))


_gating = partial(choice, options=("linear", "xor"))


@closed_form(t=nonnegative, a0=positive, tau=positive)
def xor_loss(t: Any, a0: Any, tau: Any = 1.0) -> Any:
    """Loss of four pathways, each open for one sample of exclusive or (neural_race Eq. 21-23).

    Parameters
    ----------
    t : array_like
        Times, at least 0.
    a0 : array_like
        Product of the weights of a pathway at time 0, above 0.
    tau : array_like, default 1
        Unit of time.

    Returns
    -------
    float or ndarray
        Mean loss; 1/2 for weights of zero.

    Examples
    --------
    >>> round(xor_loss(0.0, a0=1e-3), 6)
    0.498587
    """
    return _loss(t, jnp.zeros_like(tau), "xor", a0, tau)


@closed_form(
    static=["gating"], t=nonnegative, delta=nonnegative, gating=_gating, a0=positive, tau=positive
)  # fmt: skip
def separability_loss(t: Any, delta: Any, gating: str, a0: Any, tau: Any = 1.0) -> Any:
    r"""Loss on exclusive or with a third input +-delta that separates it (make_haste_slowly appendix C).

    It is a chain. The linear gating has $s = \Delta/2$ and $d = \Delta^2/2$ (Eq. 18-22), and learns nothing
    at $\Delta = 0$. The other has $s = \sqrt{2 + \Delta^2}/4$ and $d = (2 + \Delta^2)/4$ ($d$ is misprinted
    there, see errata).

    Parameters
    ----------
    t : array_like
        Times, at least 0.
    delta : array_like
        Size of the third input, at least 0.
    gating : {"linear", "xor"}
        One pathway for each target, or one for each sample.
    a0 : array_like
        Product of the weights of a pathway at time 0, above 0.
    tau : array_like, default 1
        Unit of time.

    Returns
    -------
    float or ndarray
        Mean loss; 1/2 for weights of zero.

    Examples
    --------
    >>> bool(separability_loss(20.0, 2.0, "linear", 1e-3) < separability_loss(20.0, 2.0, "xor", 1e-3))
    True
    """
    return _loss(t, delta, gating, a0, tau)


def _loss(t: Any, delta: Any, gating: str, a0: Any, tau: Any) -> Any:
    length, share = _length_and_share(delta, gating)
    learned = log_fraction(t / tau, length / share, length**2 / share, a0, 2)
    loss = jnp.expm1(learned) ** 2 / 2
    return jnp.where(delta > 0, loss, 0.5) if gating == "linear" else loss


@closed_form(
    static=["gating"], level=positive, delta=nonnegative, gating=_gating, a0=positive, tau=positive
)  # fmt: skip
def separability_time(level: Any, delta: Any, gating: str, a0: Any, tau: Any = 1.0) -> Any:
    """Time at which `separability_loss` falls to a level: the logistic curve, solved for time.

    0 where it starts below the level, inf where nothing is learned.

    >>> round(separability_loss(separability_time(0.2, 1.0, "linear", 1e-3), 1.0, "linear", 1e-3), 6)
    0.2
    """
    length, share = _length_and_share(delta, gating)
    left, start = jnp.sqrt(2 * level), a0 * length  # of what there is to learn
    growth = jnp.where(left < 1 - start, (1 - left) * (1 - start) / (start * left), 1.0)
    time = tau * share / (2 * length) * jnp.log(growth)
    return jnp.where(delta > 0, time, jnp.inf) if gating == "linear" else time


def _length_and_share(delta: Any, gating: str) -> tuple[Any, int]:
    """Length of the input of a pathway, and the number of pathways."""
    if gating == "linear":
        return jnp.where(delta > 0, delta, jnp.finfo(delta.dtype).tiny ** 0.25), 2
    return jnp.sqrt(2 + delta**2), 4


def separability_crossover() -> float:
    r"""The delta at which both gatings grow equally fast, $\sqrt{2/3}$ (make_haste_slowly Eq. 24-26).

    Returns
    -------
    float

    Examples
    --------
    >>> round(separability_crossover(), 6)
    0.816497
    """
    return math.sqrt(2 / 3)
