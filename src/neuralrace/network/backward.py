"""Loss and gradient of a linear network in NumPy: no small network waits for a compiler.

The pass forwards is that of `Stack`; the one backwards is written out here, for the squared error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neuralrace.network.plan import Product, Stack, read, summed, take


def loss_and_gradient(
    stack: Stack, flat: np.ndarray, data: Any, out: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Squared loss of flat weights `(n_weights,)` and its gradient in the same form, in `out` if given."""
    weights = stack.in_stacks(flat)
    gradient = np.empty_like(flat) if out is None else out
    parts, begun = stack.in_stacks(gradient), [False] * len(weights)  # parts are views

    def add(k: int, values: np.ndarray) -> None:
        np.add(parts[k], values, out=parts[k]) if begun[k] else np.copyto(parts[k], values)
        begun[k] = True

    activities = stack.activities(weights, data)
    loss, errors = _errors(stack, data, activities)
    for k in reversed(range(len(stack.groups))):
        group, d, error = stack.groups[k], data["groups"][k], errors[k]
        if error is None or "rows" in d:
            continue
        error = error if d["gate"] is None else error * d["gate"]
        if group.bias is not None:
            b, index = group.bias
            add(b, summed((error * d["ones"][:, :, None]).sum(axis=1), index, len(parts[b])))
        for product, gate in zip(group.products, d["edge_gates"], strict=True):
            items, at = activities[product.source], product.stack
            here = _spread(error, product.target)
            here = _in_blocks(product, here if gate is None else here * gate, items.shape[1])
            if product.w is None and not begun[at]:  # straight to its place: large ones take longer to move
                _by_weight(product, items, here, parts[at])
                begun[at] = True
            else:
                add(at, _put(_by_weight(product, items, here), product.w, len(parts[at])))
            if "rows" not in data["groups"][product.source]:  # inputs learn nothing
                before = errors[product.source]
                put = _put(_by_item(product, weights[at], here), product.a, len(items))
                errors[product.source] = put if before is None else before + put
    for part, done in zip(parts, begun, strict=True):
        if not done:
            part[...] = 0.0
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


def _in_blocks(p: Product, error: np.ndarray, rows: int) -> np.ndarray:
    """The errors of the products of each block, as the columns of its product of matrices."""
    n, k, j = p.blocks
    if len(p.shape) == 1:
        return error.reshape(n, k, j, rows, -1)
    return error.reshape(n, k, j, rows, -1).transpose(0, 2, 3, 1, 4).reshape(n, j * rows, k * p.shape[0])


def _by_weight(p: Product, items: np.ndarray, error: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Derivatives by the weights of each block, in `out` if that is given."""
    (n, k, j), a = p.blocks, take(items, p.a)
    found = np.empty((n * k, *p.shape)) if out is None else out
    if len(p.shape) == 1:
        np.einsum("nkjrs,njrs->nks", error, a.reshape(n, j, -1, *p.shape), out=found.reshape(n, k, -1))
    else:
        t, s = p.shape
        np.matmul(error.swapaxes(1, 2), a.reshape(n, -1, s), out=found.reshape(n, k * t, s))
    return found


def _by_item(p: Product, weights: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Derivatives by the items of each block."""
    (n, k, j), w = p.blocks, take(weights, p.w)
    if len(p.shape) == 1:
        return np.einsum("nkjrs,nks->njrs", error, w.reshape(n, k, -1)).reshape(n * j, -1, *p.shape)
    t, s = p.shape
    return (error @ w.reshape(n, k * t, s)).reshape(n * j, -1, s)


def _put(values: np.ndarray, index: np.ndarray | None, count: int) -> np.ndarray:
    """The sums of the values that belong to each of `count` places: the transpose of `take`."""
    return values if index is None else summed(values, index, count)
