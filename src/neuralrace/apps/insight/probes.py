"""Samples as a watch takes them: rows of inputs, and of targets or one-hot labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from neuralrace.errors import InputError, array, short
from neuralrace.universality.torch_module import as_array

MOST_ONE_HOT = 100_000  # tokens times places, that are shown one-hot


def targets_of(y: Any) -> tuple[np.ndarray, str]:
    """Targets, one row per sample, and the loss that they suggest; labels as one-hot rows."""
    values = as_numbers("y", y)
    if values.dtype.kind in "iub" and values.ndim == 1:
        if values.min(initial=0) < 0:
            raise InputError("y must hold class labels from 0 on, or targets as floating-point numbers")
        return np.eye(int(values.max(initial=0)) + 1)[values.astype(int)], "cross_entropy"
    found = array("y", values)
    if not found.size:
        raise InputError(f"y must not be empty, got shape {found.shape}")
    return found.reshape(len(found), -1) if found.ndim else found.reshape(1, 1), "squared"


def as_numbers(name: str, value: Any) -> np.ndarray:
    """An array or tensor as an array of its own type, which must be real."""
    try:
        found = np.asarray(as_array(value))
    except ValueError:  # rows of different lengths
        found = np.empty(0, object)
    return found if found.dtype.kind in "iub" else array(name, value if found.dtype == object else found)


def as_labels(name: str, value: Any) -> np.ndarray:
    """Numbers or texts, one for each sample."""
    try:
        found = np.asarray(value)
    except ValueError:
        found = np.empty(0, object)
    if found.dtype.kind not in "iubfUS":
        raise InputError(f"{name} must hold a number or text for each sample, got {short(value)}")
    return found


def one_hot(x: np.ndarray, tokens: int) -> np.ndarray:
    """Tokens (samples, ...) as one-hot rows."""
    if x.min(initial=0) < 0 or x.max(initial=0) >= tokens:
        raise InputError(f"x must hold tokens from 0 to {tokens - 1}, got {x.min()} to {x.max()}")
    if tokens * x[:1].size > MOST_ONE_HOT:
        raise InputError(
            f"x holds whole numbers up to {tokens - 1}, which are taken for tokens; give fewer of them, or "
            "floating-point numbers"
        )
    return np.eye(tokens, dtype=np.float32)[x.reshape(len(x), -1)].reshape(len(x), -1)


class Batches:
    """Batches of inputs and targets as arrays of rows, as often as they are asked for."""

    def __init__(self, data: Iterable[tuple[Any, Any]], inputs: int, outputs: int, tokens: int):
        if iter(data) is data:
            raise InputError(
                "data is gone through more than once: give a list or a data loader, no generator"
            )
        self.data, self.inputs, self.outputs, self.tokens = data, inputs, outputs, tokens

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for x, y in self.data:
            given, targets = np.asarray(as_array(x)), targets_of(y)[0]
            rows = one_hot(given, self.tokens) if self.tokens else np.asarray(given, float)
            rows = rows.reshape(len(rows), -1)
            targets = np.pad(targets, ((0, 0), (0, max(0, self.outputs - targets.shape[1]))))
            if (rows.shape[1], targets.shape[1]) != (self.inputs, self.outputs) or len(rows) != len(targets):
                raise InputError(
                    f"data must have {self.inputs} inputs and {self.outputs} outputs in each batch, as the "
                    f"probes have; got shapes {rows.shape} and {targets.shape}"
                )
            yield rows, targets
