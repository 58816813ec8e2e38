"""What compiles: the network of a task becomes a program.

Every context is visited once, and each node is given one *item* per distinct way its activity can come about.
Neither the number of domains nor that of contexts changes the program that is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import jax
import numpy as np

from neuralrace.graph import Graph
from neuralrace.network.plan import Group, Product, Program, Readout, Stack
from neuralrace.network.represent import Described, Reading
from neuralrace.tables import LOSSES
from neuralrace.task.contexts import Block, Context, Gate, digest, is_open, stacked


def compile_program(graph: Graph, given: Described | Sequence[Context], kind: str = "squared") -> Program:
    """The network as it acts on what is given, contexts by default; `kind` is the loss."""
    return _Builder(graph, given if isinstance(given, Described) else Described.of(given)).build(kind)


@dataclass
class _Item:
    node: str
    group: int
    place: int  # within its group
    products: tuple[tuple[str, int, Any], ...] = ()  # edge, source item, gate
    gate: Gate = 1.0
    rows: Block | None = None  # inputs only
    ones: Block | None = None
    bias: tuple[int, int] = (0, 0)  # its stack, and its place there


class _Builder:
    def __init__(self, graph: Graph, given: Described):
        self.graph, self.contexts, self.given = graph, given.contexts, given
        self.widths = buckets({width_of(c) for c in given.contexts})
        self.mixed_widths = buckets({r.target.shape[0] for r in given.readings if r.mix is not None})
        self.read: list[dict[str, None]] = [{} for _ in given.contexts]  # outputs that are read, in order
        for reading in given.readings:
            for k in reading.contexts:
                self.read[k][reading.output] = None
        self.items: list[_Item] = []
        self.ids: dict[Any, int] = {}
        self.groups: dict[Any, list[int]] = {}  # key -> items
        self.group_keys: list[Any] = []
        self.gates: dict[Any, Gate] = {}
        self.place = graph.place_in_stacks
        self.stacks = (*graph.stacks, *graph.fixed_stacks)

    def gate_key(self, g: Gate) -> Any:
        """A hashable stand-in for a gate."""
        if isinstance(g, float):
            key = g
        else:
            key = digest(np.asarray(g)) if np.ndim(g) == 2 else np.asarray(g).tobytes()
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
            self.items.append(_Item(node, -1, len(members) - 1, **fields))
        return self.ids[key]

    def visit(self, c: Context, outputs: Iterable[str]) -> dict[str, int]:
        """Items of all nodes that are active in a context; what is zero has none."""
        g, width = self.graph, self.widths[width_of(c)]
        here: dict[str, int] = {}
        waiting: dict[str, list[tuple[str, int, Any]]] = {n: [] for n in g.biases if g.outgoing[n]}
        ready = [g.rank[n] for n in waiting]
        heapify(ready)

        def push(node: str) -> None:
            for edge in g.onward[node]:  # outputs take from their sources below
                target = g.edges[edge][1]
                if is_open(gate := c.gate(edge)):
                    if target not in waiting:
                        waiting[target] = []
                        heappush(ready, g.rank[target])
                    waiting[target].append((edge, here[node], self.gate_key(gate)))

        def settle(node: str, products: list[tuple[str, int, Any]]) -> None:
            gate = c.gate(node)
            if not is_open(gate) or (not products and node not in g.biases):
                return
            biased = node in g.biases
            key = (node, tuple(products), self.gate_key(gate), c.ones_block if biased else None, width)
            here[node] = self.item(
                key,
                node,
                width,
                products=tuple(products),
                gate=gate,
                ones=c.ones_block if biased else None,
                bias=self.place[node] if biased else (0, 0),
            )

        for x, rows in c.input_blocks.items():
            gate = c.gate(x)
            if is_open(gate):
                key = (rows, self.gate_key(gate), width)  # equal inputs are one item
                here[x] = self.item(key, x, width, rows=rows, gate=gate)
                push(x)
        while ready:
            node = g.order[heappop(ready)]
            settle(node, waiting[node])
            if node in here:
                push(node)
        for o in outputs:
            products = [
                (e, here[g.edges[e][0]], self.gate_key(c.gate(e)))
                for e in g.incoming[o]
                if g.edges[e][0] in here and is_open(c.gate(e))
            ]
            settle(o, products)
        return here

    def build(self, kind: str) -> Program:
        active = [self.visit(c, read) for c, read in zip(self.contexts, self.read, strict=True)]
        # Sources come first: groups are computed in the order of their levels.
        self.group_keys.sort(key=lambda key: key[0])
        for number, key in enumerate(self.group_keys):
            for i in self.groups[key]:
                self.items[i].group = number
        groups, data, edges = [], [], []
        for key in self.group_keys:
            group, d, own = self.group(key)
            groups.append(group)
            data.append(d)
            edges.append(own)
        readouts, readout_data, names, constant = self.readouts(active, kind)
        weights = tuple((shape, len(names)) for shape, _, names in self.graph.stacks)
        stack = Stack(weights, tuple(groups), tuple(readouts))
        fixed = [np.stack([self.graph.fixed[e] for e in names]) for _, _, names in self.graph.fixed_stacks]
        numbers = {
            "groups": data, "readouts": readout_data, "constant": np.float64(constant), "fixed": fixed
        }  # fmt: skip
        places = [{n: (self.items[i].group, self.items[i].place) for n, i in here.items()} for here in active]
        items = [[self.items[i].node for i in self.groups[key]] for key in self.group_keys]
        rows = [c.rows for c in self.contexts]
        return Program(stack, numbers, names, places, rows, items, edges, self.given.how)

    def group(self, key: Any) -> tuple[Group, dict[str, Any], list[list[str | None]]]:
        level, size, width, activation, biased = key
        members = [self.items[i] for i in self.groups[key]]
        gate = common_gate([m.gate for m in members], width)
        if level == 0:
            rows = stacked([m.rows for m in members if m.rows is not None], width)
            rows = rows if gate is None else rows * gate
            return Group(size, width, len(members), None, None, ()), {"rows": rows}, []
        by_source: dict[Any, list[tuple[int, int, int, Any, str]]] = {}
        for k, m in enumerate(members):
            for edge, source, edge_gate in m.products:
                item = self.items[source]
                stack, place = self.place[edge]
                by_source.setdefault((item.group, stack), []).append((place, item.place, k, edge_gate, edge))
        products, gates, edges = [], [], []
        for (source, stack), all_rows in sorted(by_source.items()):
            for rows, shared in self.parts(all_rows, len(members), stack):
                product, order, factors = self.product(source, stack, width, len(members), rows, shared)
                products.append(product)
                gates.append(factors)
                edges.append([None if i < 0 else rows[i][4] for i in order])
        d = {"edge_gates": gates, "gate": gate}
        bias = None
        if biased:
            bias = members[0].bias[0], np.array([m.bias[1] for m in members], np.int32)
            d["ones"] = stacked([m.ones for m in members if m.ones is not None], width)
        return Group(size, width, len(members), activation, bias, tuple(products)), d, edges

    def parts(self, rows: list[Any], n_items: int, stack: int) -> list[tuple[list[Any], bool]]:
        """The products of one stack; those that many items share are computed once for all of them.

        Then edges that meet equally many items go together.
        """
        pairs, size = {row[:2] for row in rows}, self.stacks[stack].shape[-1]
        once = len(pairs) * (size + n_items)  # multiplications of each row and neuron
        if _SHARED * once > len(rows) * size or any(np.ndim(self.gates[row[3]]) for row in rows):
            return [(rows, False)]
        meets = Counter(edge for edge, _ in pairs)
        parts = [[row for row in rows if meets[row[0]] == m] for m in sorted(set(meets.values()))]
        return [(part, True) for part in parts]

    def product(
        self, source: int, stack: int, width: int, n_items: int, rows: list[Any], shared: bool
    ) -> tuple[Product, np.ndarray, Any]:
        """Products (place of the weights, place of the item, item that is fed, ...), order and gates."""
        places = [row[:2] for row in rows]
        edge, place = np.array(list(dict.fromkeys(places)) if shared else places, np.int32).T
        shape, _, names = self.stacks[stack]
        n_edges = len(names)
        n_places = len(self.groups[self.group_keys[source]])
        w, a, order = layout(edge, place, n_edges, n_places, shape, width)
        if shared:
            slots = {(edge[i], place[i]): k for k, i in enumerate(order) if i >= 0}
            target, gate = None, np.zeros((n_items, len(order)))
            for row in rows:
                gate[row[2], slots[row[:2]]] += self.gates[row[3]]
        else:
            targets = np.array([row[2] for row in rows] + [n_items], np.int32)[order]  # -1 where it only pads
            target = runs(targets, n_items)
            gate = common_gate([1.0 if i < 0 else self.gates[rows[i][3]] for i in order], width)
        product = Product(
            source,
            stack,
            shape,
            None if is_plain(w, n_edges) else w,
            None if is_plain(a, n_places) else a,
            (len(w), w.shape[1], a.shape[1]),
            target,
            shared,
        )
        return product, order, gate

    def readouts(
        self, active: list[dict[str, int]], kind: str
    ) -> tuple[list[Readout], list[Any], Any, float]:
        constant = self.given.constant
        groups: dict[Any, list[tuple[list[int], Reading, tuple[int, str]]]] = {}
        for r in self.given.readings:
            items = [self.items[i] for k in r.contexts if (i := active[k].get(r.output)) is not None]
            if items:
                width = (self.widths if r.mix is None else self.mixed_widths)[r.target.shape[0]]
                key = (items[0].group, width, len(items), r.mix is None, r.weight is None)
                row = ([item.place for item in items], r, (r.contexts[0], r.output))
                groups.setdefault(key, []).append(row)
            else:
                weight = None if r.weight is None else r.weight.array
                constant += _loss_of_silence(r.target.array, weight, kind)
        readouts, data = [], []
        for (group, width, joined, unmixed, unweighted), rows in groups.items():
            place = np.array([places for places, *_ in rows], np.int32).ravel()
            n_places = len(self.groups[self.group_keys[group]])
            target, targets = distinct([r.target for _, r, _ in rows], width)
            weighted = [r.weight for _, r, _ in rows if r.weight is not None]
            weight, weights = (None, None) if unweighted else distinct(weighted, width)
            mixed = [r.mix for _, r, _ in rows if r.mix is not None]
            mix, mixes = (None, None) if unmixed else distinct(mixed, width)
            if mixes is not None:
                extra = joined * self.group_keys[group][2] - mixes.shape[2]
                mixes = np.pad(mixes, ((0, 0), (0, 0), (0, extra)))
            item = None if is_plain(place, n_places) else place
            readouts.append(Readout(group, item, joined, target, weight, mix))
            data.append({"target": targets, "weight": weights, "mix": mixes})
        return readouts, data, [[name for *_, name in rows] for rows in groups.values()], constant


def _loss_of_silence(target: np.ndarray, weight: np.ndarray | None, kind: str) -> float:
    """Loss of an output whose activity is zero whatever the weights."""
    with jax.enable_x64(True):
        each = np.asarray(LOSSES[kind](np.zeros_like(target), target))
    return float(each.sum() if weight is None else weight @ each)


_SHARED = 2  # times less work, from which products that items share are computed once
_MOST = 4  # products in a block of all edges and items, for each that is wanted
_ROOM = 1_000_000  # numbers that such a block may have as outputs


def layout(
    edge: np.ndarray, place: np.ndarray, n_edges: int, n_places: int, shape: tuple[int, ...], width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrange products (edge, item) in blocks so that little is copied and padded.

    Either each block has one edge and its items, or one item and its edges, or a block is one product; or
    there is one block of all edges and all items, of whose products many are wanted.
    Returns the edges (blocks, k), items (blocks, j) and, for each product in that order, its number in the
    list given (-1 where it only pads).
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
    pairs = n_edges * n_places
    if pairs <= _MOST * len(edge) and pairs * t * width <= _ROOM:
        order = np.full((n_edges, n_places), -1)
        order[edge, place] = np.arange(len(edge))
        if np.count_nonzero(order >= 0) == len(edge):  # no pair twice, with different gates
            whole = np.arange(n_edges, dtype=np.int32)[None], np.arange(n_places, dtype=np.int32)[None]
            options.append((*whole, order.ravel()))

    def cost(option: tuple[np.ndarray, np.ndarray, np.ndarray]) -> float:
        w, a, order = option
        copied = 0 if is_plain(w, n_edges) else w.size * t * s
        copied += 0 if is_plain(a, n_places) else a.size * s * width
        return len(order) * t * width * (s + 16) + 8 * copied  # outputs are gathered, and spread backwards

    return min(options, key=cost)


def is_plain(index: np.ndarray, n: int) -> bool:
    """Whether an index just lists all n in order."""
    return index.size == n and bool((index.ravel() == np.arange(n)).all())


def runs(target: np.ndarray, items: int) -> np.ndarray | int | None:
    """Which item each product feeds: None for one each, m where m in a row feed one item."""
    if is_plain(target, items):
        return None
    m, odd = divmod(len(target), items)
    if not odd and (target == np.repeat(np.arange(items), m)).all():
        return m
    return target


def common_gate(gates: list[Gate], width: int) -> np.ndarray | None:
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


def distinct(blocks: Sequence[Block], width: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Each distinct block once, padded to `width` rows, and which one each place has (None: in order)."""
    first = {block: k for k, block in enumerate(dict.fromkeys(blocks))}
    index = np.array([first[b] for b in blocks], np.int32)
    return (None if is_plain(index, len(first)) else index), stacked(list(first), width)


def width_of(c: Context) -> int:
    """Rows that run through the network for a context."""
    shown = [*c.input_blocks.values(), *([] if c.ones_block is None else [c.ones_block])]
    return shown[0].shape[0] if shown else c.rows


def buckets(sizes: set[int]) -> dict[int, int]:
    """Few row counts instead of many: sizes within a factor of two are padded to the largest."""
    most: dict[int, int] = {}
    for n in sizes:
        most[n.bit_length()] = max(n, most.get(n.bit_length(), 0))
    return {n: max(1, most[n.bit_length()]) for n in sizes}
