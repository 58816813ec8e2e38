"""The losses that networks can have, one table for all of the package; add your own to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def squared(h: Any, y: Any) -> Any:
    """One half of the squared error of each row."""
    return (0.5 * (y - h) ** 2).sum(axis=-1)  # so that XLA joins it with the sum over rows


def cross_entropy(h: Any, y: Any) -> Any:
    """The cross-entropy of the softmax of each row."""
    return -jnp.sum(y * jax.nn.log_softmax(h), axis=-1)


LOSSES: dict[str, Callable[[Any, Any], Any]] = {"squared": squared, "cross_entropy": cross_entropy}
"""Losses by name: from outputs and targets `(..., rows, size)` to a number for each row, in `jax.numpy`."""
