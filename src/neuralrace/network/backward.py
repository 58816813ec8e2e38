"""Loss and gradient: by JAX, or of a linear network in NumPy, which waits for no compiler.

The pass forwards is that of `Stack`; the one backwards is written out here, for the squared error. Weights
may have leading axes, such as one of runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from neuralrace.network.plan import Product, Stack, add, read, summed, take, weight_blocks


def loss_and_gradient(stack: Stack, flat: Any, data: Any, kind: str = "squared") -> tuple[Any, Any]:
    """Loss `(...)` of flat weights `(..., n_weights)`, and its gradient in the same form; in NumPy or JAX.

    In JAX runs go one after the other on a CPU, where that is faster, else side by side.
    """
    if isinstance(flat, np.ndarray):
        one = many = lambda w: _in_numpy(stack, w, data)
    else:
        one = lambda w: stack.loss_and_gradient(w, data, kind)  # noqa: E731
        many = _each(one)
    if flat.ndim == 2 and len(flat) == 1:  # an axis of one run costs time
        return jax.tree.map(lambda v: v[None], one(flat[0]))
    return one(flat) if flat.ndim == 1 else many(flat)


def _each(one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same of every run."""
    if jax.default_backend() != "cpu":
        return jax.vmap(one)
    return lambda flat: jax.lax.map(one, flat)


def _in_numpy(stack: Stack, flat: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
    activities = stack.activities(stack.in_stacks(flat), data)
    loss, errors = _errors(stack, data, activities)
    gradient = np.zeros_like(flat)
    weights, parts = [*stack.in_stacks(flat), *data["fixed"]], stack.in_stacks(gradient)  # views
    for k in reversed(range(len(stack.groups))):
        group, d, error = stack.groups[k], data["groups"][k], errors[k]
        if error is None or "rows" in d:
            continue
        error = error if d["gate"] is None else error * d["gate"]
        if group.bias is not None:
            biases = parts[group.bias[0]]
            each = (error * d["ones"][..., None]).sum(axis=-2)
            add(biases, each, group.bias[1], -2)
        for product, gate in zip(group.products, d["edge_gates"], strict=True):
            items, at = activities[product.source], product.stack
            here = _spread(error, product.target)
            here = _in_blocks(product, here if gate is None else here * gate)
            if "rows" not in data["groups"][product.source]:  # inputs learn nothing
                before = errors[product.source]
                put = _put(_by_item(product, weights[at], here, items.shape[-2]), product.a, items.shape[-3])
                errors[product.source] = put if before is None else before + put
            if at < len(parts):  # else it is fixed
                add(parts[at], _by_weight(product, items, here), product.w, -1 - len(product.shape))
    return loss + np.zeros(flat.shape[:-1]), gradient


def _errors(
    stack: Stack, data: Any, activities: list[np.ndarray]
) -> tuple[np.ndarray, list[np.ndarray | None]]:
    """The loss, and its derivative by the activity of each group as far as its readouts make it."""
    total = np.asarray(data["constant"], float)
    errors: list[np.ndarray | None] = [None] * len(stack.groups)
    for r, d in zip(stack.readouts, data["readouts"], strict=True):
        off = read(r, d, activities) - take(d["target"], r.target)
        weighted = off if d["weight"] is None else off * take(d["weight"], r.weight, -2)[..., None]
        total = total + 0.5 * np.einsum("...nrs,...nrs->...", off, weighted)
        if d["mix"] is not None:
            weighted = take(d["mix"], r.mix).swapaxes(-1, -2) @ weighted
        if r.joined > 1:
            *lead, count, rows, size = weighted.shape
            weighted = weighted.reshape(*lead, count * r.joined, rows // r.joined, size)
        put = _put(weighted, r.item, activities[r.group].shape[-3])
        before = errors[r.group]
        errors[r.group] = put if before is None else before + put
    return total, errors


def _spread(error: np.ndarray, target: np.ndarray | int | None) -> np.ndarray:
    """The error of the item that each product feeds; 0 for products that only pad."""
    if target is None:
        return error
    if isinstance(target, int):
        return np.repeat(error, target, axis=-3)
    return np.concatenate([error, np.zeros_like(error[..., :1, :, :])], axis=-3).take(target, axis=-3)


def _in_blocks(p: Product, error: np.ndarray) -> np.ndarray:
    """The errors of the products of each block, as the columns of its product of matrices."""
    (n, k, j), (*lead, _, rows, t) = p.blocks, error.shape
    parts = error.reshape(*lead, n, k, j, rows, t)
    if len(p.shape) == 1:
        return parts
    if k == 1:
        return error.reshape(*lead, n, j * rows, t)
    return np.moveaxis(parts, -4, -2).reshape(*lead, n, j * rows, k * t)


def _by_weight(p: Product, items: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Derivatives by the weights of each block."""
    (n, k, j), a = p.blocks, take(items, p.a)
    *lead, _, rows, s = items.shape
    before = error.shape[: -5 if len(p.shape) == 1 else -3]
    if len(p.shape) == 1:
        found = np.einsum("...nkjrs,...njrs->...nks", error, a.reshape(*lead, n, j, rows, s))
        return found.reshape(*before, n * k, s)
    found = error.swapaxes(-1, -2) @ a.reshape(*lead, n, j * rows, s)
    return found.reshape(*before, n * k, p.shape[0], s)


def _by_item(p: Product, weights: np.ndarray, error: np.ndarray, rows: int) -> np.ndarray:
    """Derivatives by the items of each block."""
    (n, _, j), w = p.blocks, weight_blocks(p, weights)
    if len(p.shape) == 1:
        found = np.einsum("...nkjrs,...nks->...njrs", error, w)
        return found.reshape(*found.shape[:-4], n * j, rows, -1)
    found = error @ w
    return found.reshape(*found.shape[:-3], n * j, rows, -1)


def _put(values: np.ndarray, index: np.ndarray | None, count: int) -> np.ndarray:
    """The sums of the values that belong to each of `count` places: the transpose of `take`."""
    return values if index is None else summed(values, index, count)
