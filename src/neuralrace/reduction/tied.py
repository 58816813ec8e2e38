"""The flow of a tied loss: a handful of numbers per mode."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from neuralrace.dynamics.gradient_flow import each_run
from neuralrace.dynamics.integrate import Observed, Path, integrate

COMPILER = {"xla_cpu_use_fusion_emitters": False}  # half the time to compile; few numbers take as long
UNROLLED = 8  # path classes up to which the sums over them are written out


def tied_flow(
    powers: tuple[tuple[int, ...], ...], max_steps: int, start: Any, atol: Any,
    statistics: Any, rates: Any, ts: Any, t1: Any, stop: Any, rtol: Any,
) -> Path:  # fmt: skip
    """Integrate from each of `start` (runs, classes, modes); `kept` are losses and strengths at `ts`.

    `statistics` are S, D, the sizes of the classes and the constant of a `TiedLoss`; `rates` the learning
    rate and the weight decay of each class.
    """
    s, d, sizes, constant = statistics
    scale, decay = (v[:, None] for v in rates)

    def loss(b: Any) -> Any:
        m = jnp.stack([_product(b, p) for p in powers])
        return constant + jnp.sum(-s * m) + 0.5 * jnp.einsum("km,klm,lm->", m, d, m)

    def slope(b: Any, v: Any) -> Any:
        g = v / jnp.where(scale > 0, scale, 1) + decay * b  # where a rate is 0, so is v
        return -jnp.sum(sizes[:, None] * g * v)

    def velocity(_: Any, b: Any) -> Any:
        return scale * (descent(powers, b, s, d, sizes) - decay * b)

    def one(b0: Any, atol: Any) -> Path:
        observed = Observed(loss, slope)
        path = integrate(
            velocity, b0, ts, t1, rtol, atol, observed=observed, stop=stop, max_steps=max_steps, order=5
        )
        return path._replace(kept=(jax.vmap(loss)(path.kept), path.kept))

    return each_run(one, start, atol)


def descent(powers: tuple[tuple[int, ...], ...], b: Any, s: Any, d: Any, sizes: Any) -> Any:
    """`-d loss/db / sizes` (classes, modes), written out so that it compiles to one loop over the modes."""
    m = [_product(b, p) for p in powers]
    if len(m) <= UNROLLED:
        errors = [s[k] - sum(d[k, j] * m[j] for j in range(len(m))) for k in range(len(m))]
    else:
        errors = s - jnp.einsum("klm,lm->km", d, jnp.stack(m))
    rows = []
    for j in range(len(b)):
        total = jnp.zeros(b.shape[1], b.dtype)
        for p, error in zip(powers, errors, strict=True):
            if p[j]:
                total = total + p[j] * _product(b, (*p[:j], p[j] - 1, *p[j + 1 :])) * error
        rows.append(total / sizes[j])
    return jnp.stack(rows)


def _product(b: Any, powers: tuple[int, ...]) -> Any:
    out = jnp.ones(b.shape[1], b.dtype)
    for k, p in enumerate(powers):
        out = out * b[k] ** p if p else out
    return out
