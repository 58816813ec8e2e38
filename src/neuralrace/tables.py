"""The activations that nodes can have and the losses of networks: two tables; add your own to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from neuralrace.compiling import Array


def leaky_relu_torch(a: jax.Array) -> jax.Array:
    """Leaky ReLU with PyTorch's slope at exactly 0, which is .01; that of JAX is 1 there.

    Parameters
    ----------
    a : array
        What comes into the units, of any shape.

    Returns
    -------
    array
        `a` where it is positive, else .01 `a`; the shape of `a`.

    Examples
    --------
    >>> float(jax.grad(leaky_relu_torch)(0.0)), float(jax.grad(ACTIVATIONS["leaky_relu"])(0.0))
    (0.009999999776482582, 1.0)
    """
    return jnp.where(a > 0, a, 0.01 * a)


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda a: a,
    "relu": jax.nn.relu,
    "leaky_relu": jax.nn.leaky_relu,
    "leaky_relu_torch": leaky_relu_torch,
    "elu": jax.nn.elu,
    "tanh": jnp.tanh,
    "swish": jax.nn.swish,
}
"""Elementwise functions by name, written with `jax.numpy`. Slopes at 0 are JAX's: 0 for relu, 1 for
leaky_relu."""


def squared(h: Array, y: Array) -> Array:
    """One half of the squared error of each row."""
    return (0.5 * (y - h) ** 2).sum(axis=-1)  # so that XLA joins it with the sum over rows


def cross_entropy(h: Array, y: Array) -> Array:
    """The cross-entropy of the softmax of each row."""
    return -jnp.sum(y * jax.nn.log_softmax(h), axis=-1)


Loss = Callable[[Array, Array], Array]
LOSSES: dict[str, Loss] = {
    "squared": squared,
    "cross_entropy": cross_entropy,
}
"""Losses by name: from outputs and targets `(..., rows, size)` to a number for each row, in `jax.numpy`."""
