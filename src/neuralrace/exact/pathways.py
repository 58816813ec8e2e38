"""Parallel pathways of any depth that start orthogonal and compete for one mode (multipathway section 3)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from neuralrace.errors import InputError, array, integer
from neuralrace.exact.formula import closed_form, floats, nonnegative, positive, real


@closed_form(static=["depth"], p=real, depth=integer, sigma=positive)
def pathway_invariant(p: Any, depth: int, sigma: Any = 1.0) -> Any:
    """`sigma^(2-D) p 2F1(1/2, (D-1)/2; 3/2; -p^2)`, whose differences between pathways are constant.

    multipathway Eq. 22, which has sigma = 1; p in units of sigma. It is the integral of (1+p^2)^((1-D)/2).

    >>> round(pathway_invariant(1.0, depth=3), 6)
    0.785398
    """
    p, sigma = floats(p, sigma)
    n = integer("depth", depth) - 1
    value = (p, jnp.arcsinh(p))[n] if n < 2 else (jnp.arctan(p) if n % 2 == 0 else p / jnp.sqrt(1 + p**2))
    for k in range(2 + n % 2, n, 2):
        value = p * (1 + p**2) ** (-k / 2) / k + (k - 1) / k * value
    return sigma ** (2 - depth) * value


def _depths(name: str, value: Any) -> tuple[int, ...]:
    try:
        depths = tuple(integer(name, int(d) if isinstance(d, jnp.ndarray) else d) for d in value)
    except TypeError as error:
        raise InputError(f"{name} must be a list with the depth of every pathway, got {value!r}") from error
    if not depths:
        raise InputError(f"{name} must name at least one pathway, got none")
    return depths


def _scalar(name: str, value: Any) -> Any:
    return array(name, positive(name, value), ())


@closed_form(
    static=["depths"],
    apart=["p0"],
    t=nonnegative,
    s=_scalar,
    depths=_depths,
    p0=real,
    sigma=_scalar,
    tau=_scalar,
)
def pathways(t: Any, s: Any, depths: Any, p0: Any, sigma: Any = 1.0, tau: Any = 1.0) -> Any:
    """Contributions K of the pathways, `(pathways, *shape of t)`, to a mode of strength s (Eq. 17, 19-20).

    `K = sigma^D p q^(D-1)`, `q = sqrt(1 + p^2)`, `tau p' = sigma^(D-2) q^(D-1) (s - sum K)`; depths and p0
    (the initial last layers, in units of sigma) have one entry per pathway. White inputs. Integrated to a
    relative 1e-10, together with the logarithm of the error, so that late times are as cheap as early ones.
    Gradients in reverse mode.

    >>> k = pathways([0.0, 5.0], s=10.0, depths=[3, 3], p0=[0.02, 0.01])
    >>> k.shape, round(float(k[:, 1].sum()), 6)
    ((2, 2), 10.0)
    """
    import diffrax

    depths = _depths("depths", depths)
    t, s, p0, sigma, tau = floats(t, s, p0, sigma, tau)
    if p0.shape not in ((), (len(depths),)):
        raise InputError(f"p0 must have one entry for each of {len(depths)} pathways, got shape {p0.shape}")
    p0 = jnp.broadcast_to(p0, len(depths))
    n = jnp.asarray(depths, p0.dtype)

    def contribution(p: Any) -> Any:
        return sigma**n * p * (1 + p**2) ** ((n - 1) / 2)

    error = s - contribution(p0).sum()

    def velocity(_: Any, state: Any, duration: Any) -> Any:
        p, decay = state
        q2 = 1 + p**2
        rate = sigma ** (2 * n - 2) * q2 ** (n - 2) * (q2 + (n - 1) * p**2)
        speed = sigma ** (n - 2) * q2 ** ((n - 1) / 2) * error * jnp.exp(-decay)
        return duration * speed, duration * rate.sum()

    double = p0.dtype == jnp.float64
    controller = diffrax.PIDController(rtol=1e-11 if double else 1e-5, atol=1e-13 if double else 1e-7)

    def at(duration: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(velocity),
            diffrax.Dopri8(),
            t0=0.0,
            t1=1.0,
            dt0=None,
            y0=(p0, jnp.zeros_like(s)),
            args=duration,
            stepsize_controller=controller,
            max_steps=16384,
        )
        assert solution.ys is not None
        return contribution(solution.ys[0][0])

    return jax.vmap(at, out_axes=1)((t / tau).ravel()).reshape(len(depths), *t.shape)
