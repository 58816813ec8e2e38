"""What runs: the network of a task as a few large array operations (theory.md section 3).

Each node has one *item* per distinct way its activity can come about: the same edges, gates and upstream
items. Items of equal level and shape are rows of one array, and the products that feed them are one batched
matrix product.
"""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, reduce
from math import prod
from operator import add
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.tables import ACTIVATIONS, LOSSES


@dataclass(frozen=True)
class Product:
    """`weights[w] @ items[a]` for all pairs within a block; `w` (blocks, k) and `a` (blocks, j)."""

    source: int  # group of the source items
    stack: int  # of the weights; those of fixed edges come after all that learn
    shape: tuple[int, ...]  # (target size, source size), or (size,) for diagonal edges
    w: np.ndarray | None  # None: all weights of the stack, in order
    a: np.ndarray | None
    blocks: tuple[int, int, int]  # blocks, k, j
    target: np.ndarray | int | None  # item of each product; m: m in a row feed one item; None: one each


@dataclass(frozen=True)
class Group:
    """Items of equal level, size, rows and activation."""

    size: int
    rows: int
    items: int
    activation: str | None
    bias: tuple[int, np.ndarray] | None  # stack of the biases, and which one each item has
    products: tuple[Product, ...]  # none for inputs


@dataclass(frozen=True)
class Readout:
    """Outputs of one group that are compared with targets; None where an index is plain order."""

    group: int
    item: np.ndarray | None
    joined: int  # items whose rows are mixed together
    target: np.ndarray | None
    weight: np.ndarray | None
    mix: np.ndarray | None


@dataclass(frozen=True)
class Stack:
    """What is computed, without the numbers: a static argument of compiled functions."""

    weights: tuple[tuple[tuple[int, ...], int], ...]  # shape and number, as they lie in the flat vector
    groups: tuple[Group, ...]
    readouts: tuple[Readout, ...]
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        content = pickle.dumps((self.weights, self.groups, self.readouts), protocol=4)
        object.__setattr__(self, "digest", hashlib.blake2b(content, digest_size=16).digest())

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stack) and self.digest == other.digest

    @cached_property
    def work(self) -> int:
        """Multiplications of a pass forwards."""
        return sum(prod(p.blocks) * g.rows * prod(p.shape) for g in self.groups for p in g.products)

    @property
    def cost(self) -> int:
        """What loss and gradient cost in NumPy, in evaluations of a small network."""
        return 1 + self.work // _SMALL

    # -- what compiled functions call, and NumPy without compiling ---------------------------

    def activities(self, weights: Any, data: Any) -> list[Any]:
        """Activity of every group, `(items, rows, size)` each, from the weights of each stack.

        In NumPy weights may have leading axes, such as one of runs; activity then has them too.
        """
        activity: list[Any] = []
        weights = [*weights, *data["fixed"]]
        for group, d in zip(self.groups, data["groups"], strict=True):
            if "rows" in d:
                activity.append(d["rows"])
                continue
            parts = []
            for product, gate in zip(group.products, d["edge_gates"], strict=True):
                out = _multiply(product, weights[product.stack], activity[product.source])
                parts.append(_gather(out if gate is None else out * gate, product.target, group.items))
            if group.bias is not None:
                bias = take(weights[group.bias[0]], group.bias[1], -2)
                parts.append(bias[..., None, :] * d["ones"][..., None])
            total = reduce(add, parts)
            if group.activation:
                total = ACTIVATIONS[group.activation](total)
            activity.append(total if d["gate"] is None else total * d["gate"])
        return activity

    def in_stacks(self, flat: Any) -> list[Any]:
        """Weights `(number, *shape)` of each stack; views of flat vectors `(..., n_weights)` in NumPy."""
        if library(flat) is np:
            parts = [flat[..., at : at + size] for at, size in zip(self._offsets, self._sizes, strict=True)]
        else:
            parts = jax.lax.split(flat, self._sizes)
        lead = flat.shape[:-1]
        return [p.reshape(*lead, n, *shape) for (shape, n), p in zip(self.weights, parts, strict=True)]

    @cached_property
    def _sizes(self) -> list[int]:
        return [n * prod(shape) for shape, n in self.weights]

    @cached_property
    def _offsets(self) -> list[int]:
        return [sum(self._sizes[:k]) for k in range(len(self._sizes))]

    def outputs(self, flat: Any, data: Any) -> list[Any]:
        """Activity at each readout, `(outputs, rows, size)`."""
        activities = self.activities(self.in_stacks(flat), data)
        return [read(r, d, activities) for r, d in zip(self.readouts, data["readouts"], strict=True)]

    def loss(self, flat: Any, data: Any, kind: str = "squared") -> Any:
        """Loss of flat weights `(n_weights,)`; of `(..., n_weights)` in NumPy."""
        total = self._loss(self.in_stacks(flat), data, kind)
        return total + np.zeros(flat.shape[:-1]) if flat.ndim > 1 else total  # where nothing reaches outputs

    def loss_and_gradient(self, weights: Any, data: Any, kind: str = "squared") -> tuple[Any, Any]:
        """Loss of weights, flat `(n_weights,)` or in stacks, and its gradient in the same form, in JAX."""
        if isinstance(weights, list):
            return jax.value_and_grad(lambda w: self._loss(self._turned(w), data, kind))(weights)
        loss, gradient = jax.value_and_grad(self._loss)(self.in_stacks(weights), data, kind)
        return loss, self._joined(gradient)

    def for_updates(self, flat: Any) -> Any:
        """Weights in the form that is fastest to change: in stacks, but flat on a GPU where they are few.

        Large ones that only inputs feed are `(number, in, out)`: a product with few rows then need not turn
        them first, and nothing goes backwards through them.
        """
        few = flat.shape[-1] <= _FEW and jax.default_backend() != "cpu"
        return flat if few else self._turned(self.in_stacks(flat))

    def _turned(self, weights: list[Any]) -> list[Any]:
        return [w.swapaxes(-1, -2) if k in self._from_inputs else w for k, w in enumerate(weights)]

    @cached_property
    def _from_inputs(self) -> frozenset[int]:
        """Large stacks of matrices that only inputs feed, each stack as a whole.

        None on a GPU: turned weights make a step of image routing slower there (.28 ms, not .18, on an H200).
        """
        if jax.default_backend() != "cpu" or sum(self._sizes) <= _FEW:
            return frozenset()
        products = [p for g in self.groups for p in g.products if len(p.shape) == 2]
        others = {p.stack for p in products if self.groups[p.source].products or p.w is not None}
        return frozenset(p.stack for p in products) - others

    def flat(self, weights: Any) -> Any:
        """Flat weights, from either form."""
        return self._joined(self._turned(weights)) if isinstance(weights, list) else weights

    def _joined(self, weights: list[Any]) -> Any:
        """Flat weights from those in stacks."""
        found = [w.ravel() for w in weights]
        if sum(self._sizes) <= _FEW:
            return jnp.concatenate(found)
        # A CPU joins large parts number by number, up to 40 times slower than it copies them to their places.
        # Without the barrier the first copy and the zeros become one loop that reads, masked, past the end of
        # its part: 30 times slower where no memory is mapped there.
        flat = jax.lax.optimization_barrier(jnp.zeros(sum(self._sizes), found[0].dtype))
        for part, at in zip(found, self._offsets, strict=True):
            flat = jax.lax.dynamic_update_slice(flat, part, (at,))
        return flat

    def _loss(self, weights: list[Any], data: Any, kind: str) -> Any:
        xp = library(weights[0])
        activities, total = self.activities(weights, data), xp.asarray(data["constant"])
        weights = [*weights, *data["fixed"]]
        for r, d in zip(self.readouts, data["readouts"], strict=True):
            h, y = read(r, d, activities), take(d["target"], r.target)
            each = LOSSES[kind](h, y)
            each = each if d["weight"] is None else each * take(d["weight"], r.weight, -2)
            total = total + each.sum(axis=(-2, -1))
        return total


_SMALL = 100_000  # multiplications that take as long as the calls of the smallest network, about .1 ms
_FEW = 20_000  # weights whose gradient is joined as fast as it is copied
_DENSE = 100_000  # numbers in a matrix of zeros and ones that is faster than a sparse one


def library(values: Any) -> ModuleType:
    """The library of an array: NumPy or `jax.numpy`."""
    return np if isinstance(values, np.ndarray) else jnp


def read(r: Readout, d: Any, activities: list[Any]) -> Any:
    """Activity at a readout, `(outputs, rows, size)`."""
    h = take(activities[r.group], r.item)
    if d["mix"] is None:
        return h
    if r.joined > 1:
        h = h.reshape(*h.shape[:-3], -1, r.joined * h.shape[-2], h.shape[-1])
    mix = take(d["mix"], r.mix)
    return mix @ h if library(h) is np else jnp.einsum("nrm,nms->nrs", mix, h)


@dataclass(frozen=True, eq=False)
class Program:
    """What is computed, and the numbers it runs on."""

    stack: Stack
    data: Any  # NumPy arrays; where they are many, JAX arrays
    outputs: list[list[tuple[int, str]]]  # context and output of each row of each readout
    nodes: list[dict[str, tuple[int, int]]]  # of each context: group and place of each active node
    rows: list[int]  # of each context
    items: list[list[str]]  # the node of each item, by group
    edges: list[
        list[list[str | None]]
    ]  # by group and product, the edge of each part; None where it only pads
    how: str = "contexts"  # what it was compiled from: contexts, paths or samples

    @cached_property
    def microseconds(self) -> float:
        """Of loss and gradient in NumPy, about: by a count of calls, products, and numbers moved."""
        calls, moved, work = 10, 0, self.stack.work
        for g in self.stack.groups:
            moved += g.items * g.rows * g.size
            for p in g.products:
                (n, k, j), rows = p.blocks, g.rows
                weights, items = n * k * prod(p.shape), n * j * rows * p.shape[-1]
                parts = (p.w, weights), (p.a, items), (p.target, n * k * j * rows * g.size)
                taken = [size for index, size in parts if index is not None]
                calls, moved = calls + 6 + 4 * len(taken), moved + sum(taken)
        for r, d in zip(self.stack.readouts, self.data["readouts"], strict=True):
            (count, rows, size), mix = d["target"].shape, d["mix"]
            moved += (count if r.target is None else len(r.target)) * rows * size
            calls += 7 if mix is None else 14
            work += 0 if mix is None else (len(mix) if r.mix is None else len(r.mix)) * mix[0].size * size
        return calls + 1.1e-3 * moved + 2.7e-4 * work

    @cached_property
    def on_device(self) -> Any:
        """The numbers as float64 JAX arrays."""
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            return jax.device_put(self.data)


def some_rows(data: Any, index: Any, n: int, weight: Any) -> Any:
    """Numbers of a program of samples with `n` rows, for the rows `index`; their weights times `weight`."""

    def chosen(v: Any) -> Any:
        return jnp.take(v, index, axis=1) if jnp.ndim(v) > 1 and v.shape[1] == n else v

    part = jax.tree.map(chosen, data)
    readouts = [{**r, "weight": r["weight"] * weight} for r in part["readouts"]]
    return {**part, "readouts": readouts, "fixed": data["fixed"]}


def row_blocks(n: int, size: int = 512) -> tuple[np.ndarray, np.ndarray]:
    """All `n` rows in blocks of equal size, and weights that are 0 where a block only repeats row 0."""
    size = min(n, size)
    index = np.arange(-(-n // size) * size).reshape(-1, size)
    return np.where(index < n, index, 0), np.where(index < n, 1.0, 0.0)


def take(values: Any, index: np.ndarray | None, axis: int = -3) -> Any:
    """Some of the values along an axis, counted from the end; all where the index is None.

    In JAX it is the first axis: there are no leading ones.
    """
    if index is None:
        return values
    if isinstance(values, np.ndarray):
        return values.take(index, axis)
    return jnp.asarray(values).at[index].get(mode="promise_in_bounds")


def _multiply(p: Product, weights: Any, items: Any) -> Any:
    n, k, j = p.blocks
    *lead, _, rows, size = items.shape
    w, a, xp = weight_blocks(p, weights), take(items, p.a), library(items)
    if len(p.shape) == 1:
        out = w[..., None, None, :] * a.reshape(*lead, n, 1, j, rows, size)
        return out.reshape(*out.shape[:-5], n * k * j, rows, size)
    a = a.reshape(*lead, n, j * rows, size)
    out = a @ w.swapaxes(-1, -2) if xp is np else jnp.einsum("bcs,bts->bct", a, w)
    lead = out.shape[:-3]
    if k == 1:
        return out.reshape(*lead, n * j, rows, -1)
    parts = reordered(out.reshape(*lead, n, j, rows, k, -1), 0, 3, 1, 2, 4)
    return parts.reshape(*lead, n * k * j, rows, -1)


def reordered(v: Any, *axes: int) -> Any:
    """The last axes in another order; `np.moveaxis` takes as long as a small product."""
    lead = v.ndim - len(axes)
    return v.transpose(*range(lead), *(lead + a for a in axes))


def weight_blocks(p: Product, weights: Any) -> Any:
    """The weights of each block, as one matrix (n, k * t, s); those of diagonal edges (n, k, s)."""
    w, (n, k, _) = take(weights, p.w, -1 - len(p.shape)), p.blocks
    shape = (k, *p.shape) if len(p.shape) == 1 else (k * p.shape[0], p.shape[1])
    return w.reshape(*weights.shape[: -1 - len(p.shape)], n, *shape)


def _gather(out: Any, target: np.ndarray | int | None, items: int) -> Any:
    """Sum products into the items they feed; products that only pad have target `items`."""
    if target is None:
        return out
    if isinstance(target, int):
        return out.reshape(*out.shape[:-3], items, target, *out.shape[-2:]).sum(axis=-3)
    if library(out) is np:
        return summed(out, target, items)
    return jax.ops.segment_sum(out, target, num_segments=items + 1)[:items]


def summed(values: np.ndarray, index: np.ndarray, count: int, axis: int = -3) -> np.ndarray:
    """`count` sums of the values with the same index along an axis before the last; others are left out."""
    chosen = _places(index.tobytes(), index.dtype, count)
    lead, tail = values.shape[:axis], values.shape[axis + 1 :]
    if isinstance(chosen, np.ndarray) or not lead:
        return (chosen @ values.reshape(*lead, index.size, -1)).reshape(*lead, count, *tail)
    first = np.moveaxis(values, axis, 0)  # a sparse matrix takes no leading axes
    return np.moveaxis((chosen @ first.reshape(index.size, -1)).reshape(count, *first.shape[1:]), 0, axis)


@lru_cache(maxsize=1024)
def _places(index: bytes, dtype: Any, count: int) -> Any:
    """(count, n) 1 where a value has an index, else 0; sparse where it is large."""
    given = np.frombuffer(index, dtype)
    if count * len(given) <= _DENSE:
        return (given == np.arange(count)[:, None]).astype(float)
    from scipy.sparse import csr_array

    inside = np.flatnonzero(given < count)
    return csr_array((np.ones(len(inside)), (given[inside], inside)), (count, len(given)))
