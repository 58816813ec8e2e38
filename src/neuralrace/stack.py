"""The network of a task as a few large array operations (theory section 3).

`stack` visits every context once and gives each node one *item* per distinct way its activity can come
about: the same edges, gates and upstream items. Items of equal level and shape are rows of one array, and
the products that feed them are one batched matrix product, so neither the number of domains nor that of
contexts changes the program that is compiled.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.activations import ACTIVATIONS
from neuralrace.graph import Graph
from neuralrace.task import Context, Gate, aligned_zeros


@dataclass(frozen=True)
class Product:
    """`weights[w] @ items[a]` for all pairs within a block; `w` (blocks, k) and `a` (blocks, j)."""

    source: int  # group of the source items
    shape: tuple[int, ...]  # (target size, source size), or (size,) for diagonal edges
    w: np.ndarray | None  # None: all weights of that shape, in order
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
    bias: np.ndarray | None  # which bias each item has
    products: tuple[Product, ...]  # none for inputs


@dataclass(frozen=True)
class Readout:
    """Outputs of one group that are compared with targets; None where an index is plain order."""

    group: int
    item: np.ndarray | None
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

    def __post_init__(self):
        content = pickle.dumps((self.weights, self.groups, self.readouts), protocol=4)
        object.__setattr__(self, "digest", hashlib.blake2b(content, digest_size=16).digest())

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stack) and self.digest == other.digest

    # -- what compiled functions call --------------------------------------------------------

    def activities(self, flat: Any, data: Any) -> list[Any]:
        """Activity of every group, `(items, rows, size)` each, from flat weights `(n_weights,)`."""
        weights = self._weights(flat)
        found: list[Any] = []
        for group, d in zip(self.groups, data["groups"], strict=True):
            if "rows" in d:
                found.append(d["rows"])
                continue
            total = 0.0
            for product, gate in zip(group.products, d["edge_gates"], strict=True):
                out = _multiply(product, weights[product.shape], found[product.source])
                total = total + _gather(out if gate is None else out * gate, product.target, group.items)
            if group.bias is not None:
                bias = take(weights[(group.size,)], group.bias)
                total = total + bias[:, None, :] * d["ones"][:, :, None]
            if group.activation:
                total = ACTIVATIONS[group.activation](total)
            found.append(total if d["gate"] is None else total * d["gate"])
        return found

    def _weights(self, flat: Any) -> dict[tuple[int, ...], Any]:
        parts = jax.lax.split(flat, [n * int(np.prod(shape)) for shape, n in self.weights])
        return {shape: p.reshape(n, *shape) for (shape, n), p in zip(self.weights, parts, strict=True)}

    def outputs(self, flat: Any, data: Any) -> list[Any]:
        """Activity at each readout, `(outputs, rows, size)`."""
        found = self.activities(flat, data)
        return [_read(r, d, found) for r, d in zip(self.readouts, data["readouts"], strict=True)]

    def loss(self, flat: Any, data: Any, kind: str = "squared") -> Any:
        found, total = self.activities(flat, data), data["constant"]
        for r, d in zip(self.readouts, data["readouts"], strict=True):
            product = self._bulky(r, d, data["groups"][r.group], kind)
            if product is not None:
                weights = self._weights(flat)[product.shape]
                total = total + _blockwise(product, weights, found[product.source], r.target, d["target"])
                continue
            h, y = _read(r, d, found), take(d["target"], r.target)
            if kind == "squared":
                each = 0.5 * jnp.sum((y - h) ** 2, axis=-1)
            else:
                each = -jnp.sum(y * jax.nn.log_softmax(h), axis=-1)
            total = total + jnp.sum(each if d["weight"] is None else each * take(d["weight"], r.weight))
        return total

    def _bulky(self, r: Readout, d: Any, numbers: Any, kind: str) -> Product | None:
        """The one product that makes these outputs, where they are too large to hold all at once."""
        group = self.groups[r.group]
        plain = (
            kind == "squared"
            and len(group.products) == 1
            and group.activation is None
            and group.bias is None
            and numbers["gate"] is None
            and numbers["edge_gates"] == [None]
            and r.item is None
            and d["mix"] is None
            and d["weight"] is None
        )
        p = group.products[0] if plain else None
        large = group.items * group.rows * group.size >= _BULK
        fits = p is not None and len(p.shape) == 2 and p.target is None and p.blocks[2] == 1
        return p if fits and large else None


_BULK = 4_000_000  # numbers: 32 MB


def _read(r: Readout, d: Any, found: list[Any]) -> Any:
    h = take(found[r.group], r.item)
    return h if d["mix"] is None else jnp.einsum("nrm,nms->nrs", take(d["mix"], r.mix), h)


def _blockwise(p: Product, weights: Any, items: Any, index: np.ndarray | None, targets: Any) -> Any:
    """Squared loss of the outputs of one product, block by block, so that they never exist together."""
    n, k, _ = p.blocks
    t, s = p.shape
    index = np.arange(n * k, dtype=np.int32) if index is None else index
    w = take(weights, p.w).reshape(n, k * t, s)
    a = take(items, p.a).reshape(n, -1, s)
    return _block_loss(a, w, targets, index.reshape(n, k))


@jax.custom_vjp
def _block_loss(a: Any, w: Any, targets: Any, index: Any) -> Any:
    return jnp.sum(jax.lax.map(lambda b: 0.5 * jnp.sum(_block_error(b, targets) ** 2), (a, w, index)))


def _block_error(block: Any, targets: Any) -> Any:
    a, w, index = block
    y = take(targets, index)  # (k, rows, t)
    return a @ w.T - jnp.moveaxis(y, 0, 1).reshape(a.shape[0], -1)


def _block_forward(a: Any, w: Any, targets: Any, index: Any) -> Any:
    def one(block: Any) -> Any:
        error = _block_error(block, targets)
        return 0.5 * jnp.sum(error**2), error @ block[1], error.T @ block[0]

    losses, da, dw = jax.lax.map(one, (a, w, index))
    return jnp.sum(losses), (da, dw)


def _block_backward(saved: Any, g: Any) -> Any:
    return g * saved[0], g * saved[1], None, None


_block_loss.defvjp(_block_forward, _block_backward)


class Program(NamedTuple):
    """A stack, the numbers it runs on, and the context and output of each row of each readout."""

    stack: Stack
    data: Any
    outputs: list[list[tuple[int, str]]]


def some_rows(data: Any, index: Any, n: int, weight: Any) -> Any:
    """Numbers of a program of samples with `n` rows, for the rows `index`; their weights times `weight`."""

    def chosen(v: Any) -> Any:
        return jnp.take(v, index, axis=1) if jnp.ndim(v) > 1 and v.shape[1] == n else v

    part = jax.tree.map(chosen, data)
    return {**part, "readouts": [{**r, "weight": r["weight"] * weight} for r in part["readouts"]]}


def row_blocks(n: int, size: int = 512) -> tuple[np.ndarray, np.ndarray]:
    """All `n` rows in blocks of equal size, and weights that are 0 where a block only repeats row 0."""
    size = min(n, size)
    index = np.arange(-(-n // size) * size).reshape(-1, size)
    return np.where(index < n, index, 0), np.where(index < n, 1.0, 0.0)


def take(values: Any, index: np.ndarray | None) -> Any:
    if index is None:
        return values
    return jnp.asarray(values).at[index].get(mode="promise_in_bounds")


def _multiply(p: Product, weights: Any, items: Any) -> Any:
    n, k, j = p.blocks
    rows = items.shape[1]
    if len(p.shape) == 1:
        w, a = take(weights, p.w).reshape(n, k, 1, 1, -1), take(items, p.a).reshape(n, 1, j, rows, -1)
        return (w * a).reshape(n * k * j, rows, -1)
    t, s = p.shape
    w = take(weights, p.w).reshape(n, k * t, s)
    a = take(items, p.a).reshape(n, j * rows, s)
    out = jnp.einsum("bcs,bts->bct", a, w)
    if k == 1:
        return out.reshape(n * j, rows, t)
    return jnp.moveaxis(out.reshape(n, j, rows, k, t), 3, 1).reshape(n * k * j, rows, t)


def _gather(out: Any, target: np.ndarray | int | None, items: int) -> Any:
    """Sum products into the items they feed; products that only pad have target `items`."""
    if target is None:
        return out
    if isinstance(target, int):
        return out.reshape(items, target, *out.shape[1:]).sum(axis=1)
    return jax.ops.segment_sum(out, target, num_segments=items + 1)[:items]


# -- building --------------------------------------------------------------------------------


@dataclass
class _Item:
    group: int
    place: int  # within its group
    products: tuple[tuple[str, int, Any], ...] = ()  # edge, source item, gate
    gate: Gate = 1.0
    rows: np.ndarray | None = None  # inputs only
    ones: np.ndarray | None = None
    bias: int = 0


class _Builder:
    def __init__(self, graph: Graph, contexts: Sequence[Context]):
        self.graph, self.contexts = graph, contexts
        self.widths = _buckets({_width(c) for c in contexts})
        self.mixed_widths = _buckets({c.rows for c in contexts if c.mix is not None})
        self.items: list[_Item] = []
        self.ids: dict[Any, int] = {}
        self.groups: dict[Any, list[int]] = {}  # key -> items
        self.group_keys: list[Any] = []
        self.gates: dict[Any, Gate] = {}
        # A weight's place among those of its shape.
        self.place = {name: k for _, names in graph.stacks.values() for k, name in enumerate(names)}

    def gate_key(self, g: Gate) -> Any:
        """A hashable stand-in for a gate; rows of gates are told apart by identity."""
        if isinstance(g, float):
            key = g
        else:
            key = id(g) if np.ndim(g) == 2 else np.asarray(g).tobytes()
        self.gates.setdefault(key, g)
        return key

    def item(self, key: Any, node: str, width: int, **fields: Any) -> int:
        if key not in self.ids:
            g = self.graph
            group = (g.levels[node], g.nodes[node], width, g.activations.get(node), node in g.biases)
            if group not in self.groups:
                self.groups[group] = []
                self.group_keys.append(group)
            members = self.groups[group]
            self.ids[key] = len(self.items)
            members.append(len(self.items))
            self.items.append(_Item(-1, len(members) - 1, **fields))
        return self.ids[key]

    def visit(self, c: Context) -> dict[str, int]:
        """Items of all nodes that are active in a context; what is zero has none."""
        g, width = self.graph, self.widths[_width(c)]
        here: dict[str, int] = {}
        waiting: dict[str, list[tuple[str, int, Any]]] = {n: [] for n in g.biases if g.outgoing[n]}
        ready = [g.rank[n] for n in waiting]
        heapify(ready)

        def push(node: str) -> None:
            for edge in g.onward[node]:  # outputs take from their sources below
                target = g.edges[edge][1]
                if _open(gate := c.gate(edge)):
                    if target not in waiting:
                        waiting[target] = []
                        heappush(ready, g.rank[target])
                    waiting[target].append((edge, here[node], self.gate_key(gate)))

        def settle(node: str, products: list[tuple[str, int, Any]]) -> None:
            gate = c.gate(node)
            if not _open(gate) or (not products and node not in g.biases):
                return
            biased = node in g.biases
            key = (node, tuple(products), self.gate_key(gate), id(c.ones) if biased else None, width)
            here[node] = self.item(
                key,
                node,
                width,
                products=tuple(products),
                gate=gate,
                ones=c.ones if biased else None,
                bias=self.place.get(node, 0),
            )

        for x, rows in c.inputs.items():
            gate = c.gate(x)
            if _open(gate):
                key = (id(rows), self.gate_key(gate), width)  # equal inputs are one item
                here[x] = self.item(key, x, width, rows=rows, gate=gate)
                push(x)
        while ready:
            node = g.order[heappop(ready)]
            settle(node, waiting[node])
            if node in here:
                push(node)
        for o in c.targets:
            products = [
                (e, here[g.edges[e][0]], self.gate_key(c.gate(e)))
                for e in g.incoming[o]
                if g.edges[e][0] in here and _open(c.gate(e))
            ]
            settle(o, products)
        return here

    def build(self, kind: str) -> Program:
        active = [self.visit(c) for c in self.contexts]
        # Sources come first: groups are computed in the order of their levels.
        self.group_keys.sort(key=lambda key: key[0])
        for number, key in enumerate(self.group_keys):
            for i in self.groups[key]:
                self.items[i].group = number
        groups, data = [], []
        for key in self.group_keys:
            group, d = self.group(key)
            groups.append(group)
            data.append(d)
        readouts, readout_data, names, constant = self.readouts(active, kind)
        weights = tuple((shape, len(names)) for shape, (_, names) in self.graph.stacks.items())
        stack = Stack(weights, tuple(groups), tuple(readouts))
        numbers = {"groups": data, "readouts": readout_data, "constant": np.float64(constant)}
        return Program(stack, numbers, names)

    def group(self, key: Any) -> tuple[Group, dict[str, Any]]:
        level, size, width, activation, biased = key
        members = [self.items[i] for i in self.groups[key]]
        gate = _common([m.gate for m in members], width)
        if level == 0:
            rows = _together([m.rows for m in members], width)
            rows = rows if gate is None else rows * gate
            return Group(size, width, len(members), None, None, ()), {"rows": rows}
        by_source: dict[Any, list[tuple[int, int, int, Any]]] = {}
        for k, m in enumerate(members):
            for edge, source, edge_gate in m.products:
                item = self.items[source]
                key = (item.group, self.graph.shapes[edge])
                by_source.setdefault(key, []).append((self.place[edge], item.place, k, edge_gate))
        products, gates = [], []
        for (source, shape), found in sorted(by_source.items()):
            product, edge_gates = self.product(source, shape, width, len(members), found)
            products.append(product)
            gates.append(edge_gates)
        d = {"edge_gates": gates, "gate": gate}
        bias = None
        if biased:
            bias = np.array([m.bias for m in members], np.int32)
            d["ones"] = np.stack([_padded(m.ones, width) for m in members])
        return Group(size, width, len(members), activation, bias, tuple(products)), d

    def product(
        self, source: int, shape: tuple[int, ...], width: int, n_items: int, found: list[Any]
    ) -> tuple[Product, np.ndarray | None]:
        edge, place, target = (np.array([f[k] for f in found], np.int32) for k in range(3))
        n_edges = len(self.graph.stacks[shape][1])
        n_places = len(self.groups[self.group_keys[source]])
        w, a, order = _layout(edge, place, n_edges, n_places, shape, width)
        targets = np.append(target, np.int32(n_items))[order]  # order is -1 where a product only pads
        gate = _common([1.0 if i < 0 else self.gates[found[i][3]] for i in order], width)
        blocks = (len(w), w.shape[1], a.shape[1])
        product = Product(
            source,
            shape,
            None if _plain(w, n_edges) else w,
            None if _plain(a, n_places) else a,
            blocks,
            _runs(targets, n_items),
        )
        return product, gate

    def readouts(
        self, active: list[dict[str, int]], kind: str
    ) -> tuple[list[Readout], list[Any], Any, float]:
        constant = sum(c.rest for c in self.contexts)
        found: dict[Any, list[tuple[int, np.ndarray, Any, Any, tuple[int, str]]]] = {}
        for k, (c, here) in enumerate(zip(self.contexts, active, strict=True)):
            for o, target in c.targets.items():
                if o in here:
                    item = self.items[here[o]]
                    width = (self.widths if c.mix is None else self.mixed_widths)[len(target)]
                    found.setdefault((item.group, width, c.mix is None, c.weight is None), []).append(
                        (item.place, target, c.weight, c.mix, (k, o))
                    )
                else:
                    constant += _loss_of_silence(target, c.weight, kind)
        readouts, data = [], []
        for (group, width, unmixed, unweighted), rows in found.items():
            place = np.array([r[0] for r in rows], np.int32)
            n_places = len(self.groups[self.group_keys[group]])
            target, targets = _distinct([r[1] for r in rows], width)
            weight, weights = (None, None) if unweighted else _distinct([r[2] for r in rows], width)
            mix, mixes = (None, None) if unmixed else _distinct([r[3] for r in rows], width)
            if mixes is not None:
                extra = self.group_keys[group][2] - mixes.shape[2]
                mixes = np.pad(mixes, ((0, 0), (0, 0), (0, extra)))
            item = None if _plain(place, n_places) else place
            readouts.append(Readout(group, item, target, weight, mix))
            data.append({"target": targets, "weight": weights, "mix": mixes})
        return readouts, data, [[r[4] for r in rows] for rows in found.values()], constant


def stack(graph: Graph, contexts: Sequence[Context], kind: str = "squared") -> Program:
    """The network as it acts on these contexts; `kind` is the loss, squared or cross_entropy."""
    return _Builder(graph, contexts).build(kind)


def _layout(
    edge: np.ndarray, place: np.ndarray, n_edges: int, n_places: int, shape: tuple[int, ...], width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrange products (edge, item) in blocks so that little is copied and padded.

    Either each block has one edge and its items, or one item and its edges, or a block is one product.
    Returns the edges (blocks, k), items (blocks, j) and, for each product in that order, its number in
    the list given (-1 where it only pads).
    """
    t, s = shape if len(shape) == 2 else (1, *shape)
    options = []
    for by, other, swap in ((edge, place, False), (place, edge, True)):
        heads, counts = np.unique(by, return_counts=True)
        most = counts.max()
        order = np.full((len(heads), most), -1)
        order[np.arange(most) < counts[:, None]] = np.argsort(by, kind="stable")
        tails = np.append(other, np.int32(0))[order]
        w, a = (tails, heads[:, None]) if swap else (heads[:, None], tails)
        options.append((w, a, order.ravel()))
    options.append((edge[:, None], place[:, None], np.arange(len(edge))))

    def cost(option: tuple[np.ndarray, np.ndarray, np.ndarray]) -> float:
        w, a, order = option
        copied = 0 if _plain(w, n_edges) else w.size * t * s
        copied += 0 if _plain(a, n_places) else a.size * s * width
        return len(order) * t * s * width + 8 * copied

    return min(options, key=cost)


def _plain(index: np.ndarray, n: int) -> bool:
    """Whether an index just lists all n in order."""
    return index.size == n and bool((index.ravel() == np.arange(n)).all())


def _runs(target: np.ndarray, items: int) -> np.ndarray | int | None:
    if _plain(target, items):
        return None
    m, odd = divmod(len(target), items)
    if not odd and (target == np.repeat(np.arange(items), m)).all():
        return m
    return target


def _common(gates: list[Gate], width: int) -> np.ndarray | None:
    """Gates as one array (n, 1 or rows, 1 or size), None where all are 1."""
    if all(np.ndim(g) == 0 and g == 1.0 for g in gates):
        return None
    if all(np.ndim(g) == 0 for g in gates):
        return np.array(gates, dtype=float)[:, None, None]
    full = [np.atleast_2d(np.asarray(g, dtype=float)) for g in gates]
    full = [_padded(g, width) if len(g) > 1 else g for g in full]
    return np.stack(np.broadcast_arrays(*full))


def _padded(rows: Any, width: int) -> np.ndarray:
    """Rows of zeros appended: they carry no input, no target and no weight."""
    out = np.zeros((width, *rows.shape[1:]))
    out[: len(rows)] = rows
    return out


def _distinct(arrays: list[Any], width: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Each distinct array once, padded to `width` rows, and which one each place has (None: in order)."""
    first = {id(a): a for a in arrays}
    seen = {key: k for k, key in enumerate(first)}
    index = np.array([seen[id(a)] for a in arrays], np.int32)
    return (None if _plain(index, len(first)) else index), _together(list(first.values()), width)


def _together(arrays: list[Any], width: int) -> np.ndarray:
    """Arrays as one, padded to `width` rows; no copy where they already lie side by side."""
    a, step = arrays[0], arrays[0].nbytes
    if len(a) == width and all(
        b.shape == a.shape and b.flags.c_contiguous and b.ctypes.data == a.ctypes.data + k * step
        for k, b in enumerate(arrays)
    ):
        return np.lib.stride_tricks.as_strided(a, (len(arrays), *a.shape), (step, *a.strides))
    out = aligned_zeros((len(arrays), width, *a.shape[1:]))
    for place, b in zip(out, arrays, strict=True):
        place[: len(b)] = b
    return out


def _open(gate: Gate) -> bool:
    return gate != 0 if isinstance(gate, float) else bool(np.any(gate))


def _width(c: Context) -> int:
    """Rows that run through the network for a context."""
    return c.rows if c.mix is None else c.mix.shape[1]


def _buckets(sizes: set[int]) -> dict[int, int]:
    """Few row counts instead of many: sizes within a factor of two are padded to the largest."""
    most: dict[int, int] = {}
    for n in sizes:
        most[n.bit_length()] = max(n, most.get(n.bit_length(), 0))
    return {n: max(1, most[n.bit_length()]) for n in sizes}


def _loss_of_silence(target: np.ndarray, weight: np.ndarray | None, kind: str) -> float:
    """Loss of an output whose activity is zero whatever the weights."""
    w = np.ones(len(target)) if weight is None else weight
    if kind == "squared":
        return 0.5 * float(w @ (target**2).sum(axis=1))
    return float(w @ target.sum(axis=1)) * float(np.log(target.shape[1]))
