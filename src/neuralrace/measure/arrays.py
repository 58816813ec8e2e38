"""Arguments of measures as arrays."""

from __future__ import annotations

from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuralrace.errors import InputError, array
from neuralrace.graph import Graph

Floats = NDArray[np.float64]


def floats(name: str, value: ArrayLike, least_axes: int = 0) -> Floats:
    """`value` as a float64 array of at least so many axes; a JAX array stays one, so that it can be traced.

    Unlike `errors.array` it takes nan and infinity: a run may have diverged.
    """
    traced = isinstance(value, jax.Array) and value.dtype.kind in "biuf"
    out = cast(Floats, value) if traced else array(name, value, finite=False)
    if out.ndim < least_axes:
        raise InputError(f"{name} must have at least {least_axes} axes, got shape {out.shape}")
    return out


def stack(parts: list[Floats], axis: int) -> Floats:
    """Arrays side by side along a new axis, by JAX if any of them is a JAX array."""
    traced = any(isinstance(p, jax.Array) for p in parts)
    return cast(Floats, jnp.stack(parts, axis)) if traced else np.stack(parts, axis)


def as_matrix(graph: Graph, edge: str, w: Floats) -> Floats:
    """The weights `(..., out, in)` of an edge, also where they are stored as a diagonal."""
    return w[..., None] * np.eye(w.shape[-1]) if edge in graph.diagonal else w


def plain(value: Floats) -> Floats:
    """`value`, as a float where it has no axes."""
    return value if isinstance(value, jax.Array) or np.ndim(value) else cast(Floats, float(value))
