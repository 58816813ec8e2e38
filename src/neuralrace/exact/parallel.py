"""Parallel pathways of any depth that start orthogonal and compete for one mode (multipathway section 3)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import erf

from neuralrace.dynamics.adjoint import integrate
from neuralrace.errors import InputError, array, integer, short
from neuralrace.exact.formula import closed_form, invert, nonnegative, positive

DEEPEST = 1000  # layers


_finite = partial(integer, most=DEEPEST)


@closed_form(static=["depth"], p=array, depth=_finite, sigma=positive)
def pathway_invariant(p: Any, depth: int, sigma: Any = 1.0) -> Any:
    r"""The invariant of a pathway (multipathway Eq. 22); differences of it between pathways are constant.

    It is $\sigma^{2-D} p\; {}_2F_1\bigl(\frac12, \frac{D-1}{2}; \frac32; -p^2\bigr)$, the integral of
    $\sigma^{2-D} (1+p^2)^{(1-D)/2}$. The paper has $\sigma = 1$. Arguments broadcast.

    Parameters
    ----------
    p : array_like
        Last layer of the pathway in the mode, in units of sigma.
    depth : int
        Number of layers D, at most 1000.
    sigma : array_like, default 1
        Scale of the initial layers, above 0.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> round(pathway_invariant(1.0, depth=3), 6)
    0.785398
    """
    n = depth - 1
    value = (p, jnp.arcsinh(p))[n] if n < 2 else (jnp.arctan(p) if n % 2 == 0 else p / jnp.sqrt(1 + p**2))
    for k in range(2 + n % 2, n, 2):
        value = p * (1 + p**2) ** (-k / 2) / k + (k - 1) / k * value
    return sigma ** (2 - depth) * value


@closed_form(static=["depth"], p=positive, depth=_finite, sigma=positive)
def pathway_far(p: Any, depth: int, sigma: Any = 1.0) -> Any:
    r"""The invariant of a pathway for p far above 1 (multipathway Eq. 25).

    It is $\sigma^{2-D} p^{2-D}/(2-D)$ and the constant $\frac12 \sigma^{2-D} \sqrt\pi\, \Gamma(\frac{D}{2} -
    1) / \Gamma(\frac{D-1}{2})$, which cancels between pathways of equal depth. At depth 2 the power is a
    logarithm. The power is too large by the share $(D-1)(D-2)/(2 D p^2)$. Arguments broadcast.

    Parameters
    ----------
    p : array_like
        Last layer of the pathway in the mode, in units of sigma; above 0.
    depth : int
        Number of layers D, at most 1000.
    sigma : array_like, default 1
        Scale of the initial layers, above 0.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> round(pathway_far(20.0, depth=4), 5), round(pathway_invariant(20.0, depth=4), 5)
    (0.99875, 0.99875)
    """
    if depth < 3:
        return sigma ** (2 - depth) * (p if depth == 1 else jnp.log(2 * p))
    end = math.sqrt(math.pi) / 2 * math.exp(math.lgamma(depth / 2 - 1) - math.lgamma((depth - 1) / 2))
    return sigma ** (2 - depth) * (end - p ** (2 - depth) / (depth - 2))


@closed_form(static=["depth"], p=array, depth=partial(integer, least=2, most=DEEPEST), sigma=positive)
def pathway_deep(p: Any, depth: int, sigma: Any = 1.0) -> Any:
    r"""The invariant of a very deep pathway.

    It is $\sigma^{2-D} \sqrt{\pi/(2(D-1))}\, \mathrm{erf}\bigl(p \sqrt{(D-1)/2}\bigr)$. A deep pathway is
    strong while $p$ is still small: $(1+p^2)^{(1-D)/2}$ is then $e^{-(D-1) p^2/2}$, and not a power of $p$ as
    in multipathway Eq. 25-31. Arguments broadcast.

    Parameters
    ----------
    p : array_like
        Last layer of the pathway in the mode, in units of sigma.
    depth : int
        Number of layers D, 2 to 1000.
    sigma : array_like, default 1
        Scale of the initial layers, above 0.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> round(pathway_deep(0.1, depth=200), 4), round(pathway_invariant(0.1, depth=200), 4)
    (0.0748, 0.0748)
    """
    n = depth - 1
    return sigma ** (1 - n) * math.sqrt(math.pi / (2 * n)) * erf(p * math.sqrt(n / 2))


def _deep(name: str, value: Any) -> float:
    return (
        math.inf
        if isinstance(value, float) and value == math.inf
        else integer(name, value, least=3, most=DEEPEST)
    )


@closed_form(static=["depth"], s=positive, c=array, depth=_deep)
def pathway_split(s: Any, c: Any, depth: float = math.inf) -> Any:
    """Contribution of the second of two pathways that together have learned a mode (multipathway Eq. 26).

    Solves $K_a + K_b = s$ and $K_a^{-m} - K_b^{-m} = c$ with $m = 1 - 2/D$ for depth $D$. At infinite depth,
    where $m = 1$, this is Eq. 30 with its sign +. Arguments broadcast.

    Parameters
    ----------
    s : array_like
        Strength of the mode, above 0.
    c : array_like
        $2 - D$ times the difference of the invariants of a and b.
    depth : int or math.inf, default math.inf
        Number of layers, 3 to 1000.

    Returns
    -------
    float or ndarray
        K_b.

    Examples
    --------
    >>> round(pathway_split(10.0, 1.0), 6), round(pathway_split(10.0, -1.0), 6)
    (9.09902, 0.90098)
    """
    m = 1 - 2 / depth
    x = c * s**m
    if m == 1:
        return s / 2 * (1 + x / (2 + jnp.sqrt(x**2 + 4)))

    def rise(y: Any) -> Any:  # y = log K_b/K_a
        return jnp.exp(m * jax.nn.softplus(y)) - jnp.exp(m * jax.nn.softplus(-y))

    y = invert(rise, jnp.abs(x), jnp.log(jnp.abs(x) + 2**m) / m)
    return s * jax.nn.sigmoid(jnp.sign(c) * y)


def _depths(name: str, value: Any) -> tuple[int, ...]:
    try:
        depths = tuple(_finite(name, int(d) if isinstance(d, jnp.ndarray) else d) for d in value)
    except TypeError as error:
        raise InputError(
            f"{name} must be a list with the depth of every pathway, got {short(value)}"
        ) from error
    if not depths:
        raise InputError(f"{name} must name at least one pathway, got none")
    return depths


def _times(name: str, value: Any) -> Any:
    out = nonnegative(name, value)
    if not out.size:
        raise InputError(f"{name} must hold at least one time, got none")
    return out


def _scalar(name: str, value: Any) -> Any:
    return array(name, positive(name, value), ())


def _strength(p: Any, n: Any, sigma: Any) -> Any:
    return sigma**n * p * (1 + p**2) ** ((n - 1) / 2)


def _rate(p: Any, n: Any, sigma: Any) -> Any:
    """K' in units of the error."""
    return sigma ** (2 * n - 2) * (1 + p**2) ** (n - 2) * (1 + n * p**2)


@closed_form(static=["depths"], apart=["p"], p=array, s=_scalar, depths=_depths, sigma=_scalar)
def pathway_field(p: Any, s: Any, depths: Any, sigma: Any = 1.0) -> Any:
    r"""Contributions of parallel pathways to a mode, and how they change (multipathway Eq. 17).

    Parameters
    ----------
    p : array_like, shape (pathways, ...)
        Last layers of the pathways in the mode, in units of sigma.
    s : float
        Strength of the mode, above 0.
    depths : sequence of int, length pathways
        Number of layers of each.
    sigma : float, default 1
        Scale of the initial layers, above 0.

    Returns
    -------
    K, velocity : ndarray, shape (pathways, ...)
        Contributions $K$, and $\tau K'$.

    Examples
    --------
    >>> k, velocity = pathway_field([0.0, 1.0], 10.0, [2, 3])
    >>> k.round(6).tolist(), velocity.round(6).tolist()
    ([0.0, 2.0], [8.0, 64.0])
    """
    if p.ndim == 0 or len(p) != len(depths):
        raise InputError(f"p must have one entry for each of {len(depths)} pathways, got shape {p.shape}")
    n = jnp.asarray(depths, p.dtype).reshape(-1, *(1,) * (p.ndim - 1))
    k = _strength(p, n, sigma)
    return k, _rate(p, n, sigma) * (s - k.sum(axis=0))


@closed_form(
    static=["depths"],
    apart=["p0"],
    t=_times,
    s=_scalar,
    depths=_depths,
    p0=array,
    sigma=_scalar,
    tau=_scalar,
)
def pathways(t: Any, s: Any, depths: Any, p0: Any, sigma: Any = 1.0, tau: Any = 1.0) -> Any:
    r"""Contributions of parallel pathways to a mode over time (multipathway Eq. 17, 19-20), for white inputs.

    $K = \sigma^D p q^{D-1}$ with $q = \sqrt{1 + p^2}$ and $\tau p' = \sigma^{D-2} q^{D-1} (s - \sum K)$. The
    flow is integrated to a relative 1e-10, together with the logarithm of the error, so that late times are
    as cheap as early ones. Derivatives in reverse mode.

    Parameters
    ----------
    t : array_like
        Times, at least 0, of any shape.
    s : float
        Strength of the mode, above 0.
    depths : sequence of int, length pathways
        Number of layers of each.
    p0 : array_like, shape (pathways,), or float
        Last layers of the pathways at time 0, in units of sigma.
    sigma : float, default 1
        Scale of the initial layers, above 0.
    tau : float, default 1
        Unit of time.

    Returns
    -------
    ndarray, shape (pathways, *shape of t)

    Examples
    --------
    >>> k = pathways([0.0, 5.0], s=10.0, depths=[3, 3], p0=[0.02, 0.01])
    >>> k.shape, round(float(k[:, 1].sum()), 6)
    ((2, 2), 10.0)
    """
    if p0.shape not in ((), (len(depths),)):
        raise InputError(f"p0 must have one entry for each of {len(depths)} pathways, got shape {p0.shape}")
    p0 = jnp.broadcast_to(p0, len(depths))
    n = jnp.asarray(depths, p0.dtype)

    error = s - _strength(p0, n, sigma).sum()

    def velocity(_: Any, state: Any, duration: Any) -> Any:
        p, decay = state
        speed = sigma ** (n - 2) * (1 + p**2) ** ((n - 1) / 2) * error * jnp.exp(-decay)
        return duration * speed, duration * _rate(p, n, sigma).sum()

    double = p0.dtype == jnp.float64
    rtol, atol = (1e-11, 1e-13) if double else (1e-5, 1e-7)

    def at(duration: Any) -> Any:
        p, _ = integrate(velocity, (p0, jnp.zeros_like(s)), duration, rtol, atol)
        return _strength(p, n, sigma)

    return jax.vmap(at, out_axes=1)((t / tau).ravel()).reshape(len(depths), *t.shape)
