"""The flow of a tied loss: a handful of numbers, so the time to compile counts more than the order.

A general solver takes two seconds to import and compile; the pair of Dormand and Prince (the tableau comes
with SciPy), with its own interpolant, takes a few tenths and solves in a millisecond.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

MOST_STEPS = 1_000_000
UNROLLED = 8


@partial(jax.jit, static_argnums=(0, 1))
def tied_flow(
    powers: tuple[tuple[int, ...], ...], many: bool, start: Any, atol: Any,
    s: Any, d: Any, sizes: Any, constant: Any, ts: Any, t1: Any, rtol: Any,
) -> Any:  # fmt: skip
    """Strengths (times, classes, modes) and loss (times,) at increasing `ts`, and whether t1 was reached."""

    def loss(b: Any) -> Any:
        m = jnp.stack([_product(b, p) for p in powers])
        return jnp.sum(-s * m) + 0.5 * jnp.einsum("km,klm,lm->", m, d, m)

    def velocity(b: Any) -> Any:
        """-d loss/db / sizes, written out so that it compiles to one loop over the modes."""
        m = [_product(b, p) for p in powers]
        if len(m) <= UNROLLED:
            errors = [s[k] - sum(d[k, j] * m[j] for j in range(len(m))) for k in range(len(m))]
        else:
            errors = s - jnp.einsum("klm,lm->km", d, jnp.stack(m))
        rows = []
        for j in range(len(b)):
            slope = jnp.zeros(b.shape[1])
            for p, error in zip(powers, errors, strict=True):
                if p[j]:
                    slope = slope + p[j] * _product(b, (*p[:j], p[j] - 1, *p[j + 1 :])) * error
            rows.append(slope / sizes[j])
        return jnp.stack(rows)

    def one(b0: Any, atol: Any) -> Any:
        path, good = dormand_prince(velocity, b0, ts, t1, rtol, atol)
        return path, constant + jax.vmap(loss)(path), good

    return jax.vmap(one)(start, atol) if many else one(start, atol)


def _product(b: Any, powers: tuple[int, ...]) -> Any:
    out = jnp.ones(b.shape[1])
    for k, p in enumerate(powers):
        out = out * b[k] ** p if p else out
    return out


def dormand_prince(velocity: Any, y0: Any, ts: Any, t1: Any, rtol: Any, atol: Any) -> tuple[Any, Any]:
    """y at times `ts` from y(0) = y0 under `dy/dt = velocity(y)`, and whether t1 was reached."""
    from scipy.integrate import RK45

    a, b, e, p = RK45.A, RK45.B, RK45.E, RK45.P

    def combine(coefficients: np.ndarray, slopes: list[Any]) -> Any:
        return sum(float(c) * k for c, k in zip(coefficients, slopes, strict=False) if c)

    def norm(v: Any, y: Any) -> Any:
        return jnp.sqrt(jnp.mean((v / (atol + rtol * jnp.abs(y))) ** 2))

    def step(carry: Any) -> Any:
        t, h, y, first, out, i, n = carry
        h = jnp.minimum(h, t1 - t)
        slopes = [first]
        for row in a[1:]:
            slopes.append(velocity(y + h * combine(row, slopes)))
        new = y + h * combine(b, slopes)
        slopes.append(velocity(new))
        error = norm(h * combine(e, slopes), jnp.maximum(jnp.abs(y), jnp.abs(new)))
        error = jnp.where(jnp.isfinite(error), error, 1e10)
        accept = error <= 1
        done = h >= t1 - t
        after = jnp.where(done, t1, t + h)
        bend = [combine(p[:, k], slopes) for k in range(p.shape[1])]

        def write(saving: Any) -> Any:
            out, i = saving
            x = (ts[i] - t) / h
            return out.at[i].set(y + h * sum(q * x ** (k + 1) for k, q in enumerate(bend))), i + 1

        due = lambda saving: accept & (saving[1] < len(ts)) & (ts[saving[1]] <= after)  # noqa: E731
        out, i = jax.lax.while_loop(due, write, (out, i))
        factor = jnp.clip(0.9 * jnp.maximum(error, 1e-12) ** -0.2, 0.2, jnp.where(accept, 10.0, 1.0))
        y, first = jnp.where(accept, new, y), jnp.where(accept, slopes[-1], first)
        return jnp.where(accept, after, t), h * factor, y, first, out, i, n + 1

    def going(carry: Any) -> Any:
        t, h, *_, n = carry
        return (t < t1) & (n < MOST_STEPS) & (h > 1e-14 * t1)

    first = velocity(y0)
    size = norm(first, y0)
    h = jnp.where(size > 0, jnp.minimum(0.01 * norm(y0, y0) / jnp.maximum(size, 1e-300), t1), t1)
    out = jnp.full((len(ts), *y0.shape), jnp.nan).at[0].set(y0)
    saved = jnp.where(ts[0] <= 0, 1, 0)
    t, *_, out, _, _ = jax.lax.while_loop(going, step, (jnp.zeros_like(t1), h, y0, first, out, saved, 0))
    return out, t >= t1
