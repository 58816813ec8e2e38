"""Arguments that several functions of this room take."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.errors import InputError, array, integer, sequence, short


def target_rows(Y: ArrayLike, shape: tuple[int | None, int | None] = (None, None)) -> np.ndarray:
    """Targets, one row per sample; a list of numbers is one column."""
    y = array("Y", Y)
    return array("Y", y[:, None] if y.ndim == 1 else y, shape)


def checked_data(X: ArrayLike, Y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets as arrays with the same number of rows."""
    x, y = array("X", X, (None, None)), target_rows(Y)
    if len(x) != len(y):
        raise InputError(f"Y must have as many rows as X, {len(x)}; got {len(y)}")
    if not x.size or not y.size:
        raise InputError(f"X and Y must not be empty, got shapes {x.shape} and {y.shape}")
    return x, y


def hidden_sizes(hidden: Any) -> tuple[int, ...]:
    """The sizes of ReLU layers, at least one."""
    sizes = sequence("hidden", hidden, "sizes of ReLU layers")
    if not sizes:
        raise InputError(f"hidden must list the sizes of the ReLU layers, at least one; got {short(hidden)}")
    return tuple(integer(f"hidden[{k}]", size) for k, size in enumerate(sizes))
