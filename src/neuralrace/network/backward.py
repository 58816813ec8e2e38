"""Loss and gradient of a linear network in NumPy: no small network waits for a compiler.

The pass forwards is that of `Stack`; the one backwards is written out here, for the squared error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neuralrace.network.plan import Product, Stack, read, summed, take


def loss_and_gradient(stack: Stack, flat: np.ndarray, data: Any) -> tuple[float, np.ndarray]:
    """Squared loss of flat weights `(n_weights,)` and its gradient `(n_weights,)`."""
    weights = stack.in_stacks(flat)
    gradient = np.zeros_like(flat)
    into = stack.in_stacks(gradient)  # views
    activities = stack.activities(weights, data)
    loss, errors = _errors(stack, data, activities)
    for k in reversed(range(len(stack.groups))):
        group, d, error = stack.groups[k], data["groups"][k], errors[k]
        if error is None or "rows" in d:
            continue
        error = error if d["gate"] is None else error * d["gate"]
        if group.bias is not None:
            biases = into[group.bias[0]]
            biases += summed((error * d["ones"][:, :, None]).sum(axis=1), group.bias[1], len(biases))
        for product, gate in zip(group.products, d["edge_gates"], strict=True):
            items = activities[product.source]
            here = _spread(error, product.target)
            here = here if gate is None else here * gate
            by_weight, by_item = _multiply_back(product, weights[product.stack], items, here)
            into[product.stack][...] += _put(by_weight, product.w, len(into[product.stack]))
            before, put = errors[product.source], _put(by_item, product.a, len(items))
            errors[product.source] = put if before is None else before + put
    return loss, gradient


def _errors(stack: Stack, data: Any, activities: list[np.ndarray]) -> tuple[float, list[np.ndarray | None]]:
    """The loss, and its derivative by the activity of each group as far as its readouts make it."""
    total = float(data["constant"])
    errors: list[np.ndarray | None] = [None] * len(stack.groups)
    for r, d in zip(stack.readouts, data["readouts"], strict=True):
        off = read(r, d, activities) - take(d["target"], r.target)
        weighted = off if d["weight"] is None else off * take(d["weight"], r.weight)[:, :, None]
        total += 0.5 * float(np.vdot(off, weighted))
        if d["mix"] is not None:
            weighted = take(d["mix"], r.mix).swapaxes(1, 2) @ weighted
        put = _put(weighted, r.item, len(activities[r.group]))
        before = errors[r.group]
        errors[r.group] = put if before is None else before + put
    return total, errors


def _spread(error: np.ndarray, target: np.ndarray | int | None) -> np.ndarray:
    """The error of the item that each product feeds; 0 for products that only pad."""
    if target is None:
        return error
    if isinstance(target, int):
        return np.repeat(error, target, axis=0)
    return np.concatenate([error, np.zeros_like(error[:1])])[target]


def _multiply_back(
    p: Product, weights: np.ndarray, items: np.ndarray, error: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives by the weights and by the items of each block, from those by its products."""
    n, k, j = p.blocks
    rows, s = items.shape[1], p.shape[-1]
    w, a = take(weights, p.w), take(items, p.a)
    if len(p.shape) == 1:
        error = error.reshape(n, k, j, rows, s)
        by_weight = np.einsum("nkjrs,njrs->nks", error, a.reshape(n, j, rows, s))
        by_item = np.einsum("nkjrs,nks->njrs", error, w.reshape(n, k, s))
        return by_weight.reshape(n * k, s), by_item.reshape(n * j, rows, s)
    t = p.shape[0]
    error = error.reshape(n, k, j, rows, t).transpose(0, 2, 3, 1, 4).reshape(n, j * rows, k * t)
    by_weight = error.swapaxes(1, 2) @ a.reshape(n, j * rows, s)
    by_item = error @ w.reshape(n, k * t, s)
    return by_weight.reshape(n * k, t, s), by_item.reshape(n * j, rows, s)


def _put(values: np.ndarray, index: np.ndarray | None, count: int) -> np.ndarray:
    """The sums of the values that belong to each of `count` places: the transpose of `take`."""
    return values if index is None else summed(values, index, count)
