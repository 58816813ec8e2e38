"""Architecture graphs: nodes are layers of neurons, edges are weight matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from neuralrace.activations import ACTIVATIONS
from neuralrace.errors import GraphError, InputError, array, choice, integer, known

MOST_LISTED_PATHS = 1_000_000


class Graph:
    """A directed acyclic graph of layers.

    `nodes` maps a name to its number of neurons. `edges` is a list of `(source, target)` pairs,
    named `"source->target"`, or a dict from names to such pairs; parallel edges need names.
    Nodes without incoming edges are inputs, nodes without outgoing edges outputs. `activations`
    maps nodes to one of linear (the default), relu, leaky_relu (slope .01), leaky_relu_torch
    (the same with PyTorch's slope of .01 at exactly 0), elu, tanh, swish.
    `biases` is True for a bias on every node but the inputs, or a list of nodes. Edges in `diagonal` join
    neuron k with neuron k only: their weights are vectors.

    >>> g = Graph({"x": 3, "h": 128, "y": 1}, [("x", "h"), ("h", "y")])
    >>> g.inputs, g.outputs, g.n_paths
    (('x',), ('y',), 1)
    """

    def __init__(
        self,
        nodes: Mapping[str, int],
        edges: Sequence[tuple[str, str]] | Mapping[str, tuple[str, str]],
        activations: Mapping[str, str] | None = None,
        biases: bool | Iterable[str] = False,
        diagonal: Iterable[str] = (),
    ):
        if not isinstance(nodes, Mapping) or not nodes:
            raise GraphError(f"nodes must be a dict from names to sizes, got {nodes!r}")
        self.nodes = {_name("nodes", n): integer(f"size of node {n!r}", s) for n, s in nodes.items()}
        self.edges = _named_edges(edges)
        for name, (source, target) in self.edges.items():
            known(f"edge {name!r}", (source, target), self.nodes, "node")
        both = set(self.nodes) & set(self.edges)
        if both:
            raise GraphError(f"nodes and edges need different names; both have {sorted(both)}")

        self.incoming: dict[str, tuple[str, ...]] = _collect(self.nodes, self.edges, 1)
        self.outgoing: dict[str, tuple[str, ...]] = _collect(self.nodes, self.edges, 0)
        for node in self.nodes:
            if not self.incoming[node] and not self.outgoing[node]:
                raise GraphError(f"node {node!r} has no edges: an output that no input reaches")
        self.inputs = tuple(n for n in self.nodes if not self.incoming[n])
        self.outputs = tuple(n for n in self.nodes if not self.outgoing[n])
        self.levels = self._levels()
        self.order = tuple(sorted(self.nodes, key=self.levels.__getitem__))
        self.rank = {node: k for k, node in enumerate(self.order)}
        self.names = {**self.nodes, **self.edges}
        # Edges to hidden nodes apart: a node may have thousands of outputs, of which a sample uses few.
        self.onward = {
            n: tuple(e for e in es if self.outgoing[self.edges[e][1]]) for n, es in self.outgoing.items()
        }
        self.hidden = tuple(n for n in self.order if self.incoming[n] and self.outgoing[n])

        known("activations", activations or {}, self.nodes, "node")
        self.activations = {
            n: choice(f"activations[{n!r}]", a, ACTIVATIONS)
            for n, a in (activations or {}).items()
            if a != "linear"
        }
        if biases is True or biases is False:
            biases = [n for n in self.order if self.incoming[n]] if biases else []
        known("biases", biases := tuple(biases), self.nodes, "node")
        for node in (*self.activations, *biases):
            if node in self.inputs:
                raise GraphError(f"{node!r} is an input: it has no activation and no bias")
        self.biases = biases
        known("diagonal", diagonal := frozenset(diagonal), self.edges, "edge")
        for edge in diagonal:
            source, target = self.edges[edge]
            if self.nodes[source] != self.nodes[target]:
                raise GraphError(f"diagonal edge {edge!r} must join nodes of equal size")
        self.diagonal = diagonal

    def _levels(self) -> dict[str, int]:
        """Longest distance of each node from an input."""
        levels = dict.fromkeys(self.inputs, 0)
        waiting = {n: len(self.incoming[n]) for n in self.nodes}
        ready = list(self.inputs)
        while ready:
            node = ready.pop()
            for edge in self.outgoing[node]:
                target = self.edges[edge][1]
                levels[target] = max(levels.get(target, 0), levels[node] + 1)
                waiting[target] -= 1
                if waiting[target] == 0:
                    ready.append(target)
        cyclic = [n for n, count in waiting.items() if count > 0]
        if cyclic:
            raise GraphError(f"edges must not form a cycle; one runs through {cyclic}")
        return levels

    def __repr__(self) -> str:
        return (
            f"Graph({len(self.nodes)} nodes, {len(self.edges)} edges, {self.n_paths} paths, "
            f"inputs {_some(self.inputs)}, outputs {_some(self.outputs)})"
        )

    def _content(self) -> tuple[Any, ...]:
        parts = (self.nodes, self.edges, self.activations)
        return (*(tuple(p.items()) for p in parts), self.biases, self.diagonal)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    @property
    def is_linear(self) -> bool:
        return not self.activations

    # -- paths -------------------------------------------------------------------------------

    @cached_property
    def n_paths(self) -> int:
        """How many paths lead from inputs to outputs: counted, never listed."""
        count = dict.fromkeys(self.inputs, 1)
        for node in self.order:
            if self.incoming[node]:
                count[node] = sum(count[self.edges[e][0]] for e in self.incoming[node])
        return sum(count[o] for o in self.outputs)

    def paths(self) -> list[tuple[str, ...]]:
        """All paths from an input to an output, each a tuple of edge names."""
        return [path for output in self.outputs for path in self.paths_into(output)]

    def paths_into(self, node: str) -> list[tuple[str, ...]]:
        """All paths from an input to `node`, the T(v) of neural_race section 3."""
        known("node", [node], self.nodes, "node")
        return self._walk(node, 0)

    def paths_through(self, edge: str) -> list[tuple[str, ...]]:
        """All paths from an input to an output through `edge`, the P(e) of neural_race section 3."""
        known("edge", [edge], self.edges, "edge")
        source, target = self.edges[edge]
        before, after = self._walk(source, 0), self._walk(target, 1)
        self._refuse_many(len(before) * len(after))
        return [(*b, edge, *a) for b in before for a in after]

    def _walk(self, node: str, end: int) -> list[tuple[str, ...]]:
        """Paths from the inputs to `node` (end 0), or from `node` to the outputs (end 1)."""
        neighbours = (self.incoming, self.outgoing)[end]
        paths: list[tuple[str, ...]] = []
        stack: list[tuple[str, tuple[str, ...]]] = [(node, ())]
        while stack:
            node, path = stack.pop()
            if not neighbours[node]:
                paths.append(path)
                self._refuse_many(len(paths))
            for edge in reversed(neighbours[node]):
                stack.append((self.edges[edge][end], (*path, edge) if end else (edge, *path)))
        return paths

    def _refuse_many(self, count: int) -> None:
        if count > MOST_LISTED_PATHS:
            raise GraphError(
                f"more than {MOST_LISTED_PATHS:,} paths to list; n_paths counts them without listing"
            )

    def check_path(self, name: str, path: Any) -> tuple[str, ...]:
        """`path` as a tuple of edge names that follow one another from an input to an output."""
        path = (path,) if isinstance(path, str) else tuple(path)
        known(name, path, self.edges, "edge")
        ends = [self.edges[e] for e in path]
        if (
            not path
            or ends[0][0] not in self.inputs
            or ends[-1][1] not in self.outputs
            or any(a[1] != b[0] for a, b in pairwise(ends))
        ):
            raise InputError(f"{name} must run from an input to an output, got {path}")
        return path

    # -- weights as one flat vector ----------------------------------------------------------

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes: (target size, source size) for edges, (size,) for diagonal ones and for biases.

        A bias is named after its node.
        """
        shapes: dict[str, tuple[int, ...]] = {}
        for edge, (source, target) in self.edges.items():
            size = self.nodes[target]
            shapes[edge] = (size,) if edge in self.diagonal else (size, self.nodes[source])
        return {**shapes, **{n: (self.nodes[n],) for n in self.biases}}

    @cached_property
    def stacks(self) -> dict[tuple[int, ...], tuple[int, tuple[str, ...]]]:
        """Weights of equal shape lie side by side in the flat vector: shape -> (offset, names)."""
        names: dict[tuple[int, ...], list[str]] = {}
        for name, shape in self.shapes.items():
            names.setdefault(shape, []).append(name)
        stacks, offset = {}, 0
        for shape, members in names.items():
            stacks[shape] = (offset, tuple(members))
            offset += len(members) * prod(shape)
        return stacks

    @cached_property
    def n_weights(self) -> int:
        return sum(prod(shape) for shape in self.shapes.values())

    def check_weights(
        self, weights: Any, convert: Callable[[str, Any], Any] = array, most_axes: int = 1
    ) -> dict[str, Any]:
        """The weights as arrays that fit this graph, all with the same leading axes.

        `convert(name, value)` makes an array of each, by default a finite one of float64.
        """
        if not isinstance(weights, Mapping):
            raise InputError(f"weights must be a dict from edge names to arrays, got {type(weights)}")
        known("weights", weights, self.shapes, "edge or bias of the graph")
        missing = [n for n in self.shapes if n not in weights]
        if missing:
            raise InputError(f"weights lack {_some(missing)}")
        out, leading = {}, None
        for name, shape in self.shapes.items():
            value = convert(f"weights[{name!r}]", weights[name])
            lead = value.shape[: max(value.ndim - len(shape), 0)]
            if value.shape[len(lead) :] != shape or len(lead) > most_axes:
                raise InputError(
                    f"weights[{name!r}] must have shape {shape}, or that with a leading axis of "
                    f"seeds, got {value.shape}"
                )
            if leading is not None and lead != leading:
                raise InputError(
                    f"weights must all have the same leading axis: {name!r} has {lead}, "
                    f"those before it {leading}"
                )
            out[name], leading = value, lead
        return out

    def flatten(self, weights: Mapping[str, Any], xp: Any = np) -> Any:
        """Weights as one vector (..., n_weights) in the order of `stacks`."""
        parts = []
        for shape, (_, names) in self.stacks.items():
            for name in names:
                value = weights[name]
                parts.append(value.reshape(*value.shape[: value.ndim - len(shape)], -1))
        return xp.concatenate(parts, axis=-1)

    def unflatten(self, flat: Any) -> dict[str, Any]:
        """The inverse of `flatten`: views of a vector (..., n_weights)."""
        found = {}
        for shape, (offset, names) in self.stacks.items():
            size = prod(shape)
            for k, name in enumerate(names):
                start = offset + k * size
                found[name] = flat[..., start : start + size].reshape(*flat.shape[:-1], *shape)
        return {name: found[name] for name in self.shapes}

    def resized(self, sizes: Mapping[str, int]) -> Graph:
        """The same graph with other numbers of neurons at some nodes."""
        return Graph({**self.nodes, **sizes}, self.edges, self.activations, self.biases, self.diagonal)

    # -- common graphs -----------------------------------------------------------------------

    @classmethod
    def chain(cls, sizes: Sequence[int], **keywords: Any) -> Graph:
        """Nodes x, h1, ..., y in a row."""
        if not isinstance(sizes, Sequence) or len(sizes) < 2:
            raise GraphError(f"sizes must list at least an input and an output layer, got {sizes!r}")
        names = ["x", *(f"h{k}" for k in range(1, len(sizes) - 1)), "y"]
        return cls(dict(zip(names, sizes, strict=True)), list(pairwise(names)), **keywords)

    @classmethod
    def pathways(cls, size_in: int, size_out: int, hidden: Sequence[Sequence[int]], **keywords: Any) -> Graph:
        """Parallel pathways from x to y; `hidden[a]` lists the hidden sizes of pathway a: p0h1, ..."""
        if not hidden or any(not sizes for sizes in hidden):
            raise GraphError("hidden must list the hidden sizes of each pathway, at least one in each")
        nodes, edges = {"x": size_in}, []
        for a, sizes in enumerate(hidden):
            row = ["x", *(f"p{a}h{k + 1}" for k in range(len(sizes))), "y"]
            nodes.update(zip(row[1:-1], sizes, strict=True))
            edges += pairwise(row)
        return cls({**nodes, "y": size_out}, edges, **keywords)

    @classmethod
    def routing(
        cls,
        domains: int,
        size_in: int,
        hidden: Sequence[int] = (64, 64),
        size_out: int = 7,
        **keywords: Any,
    ) -> Graph:
        """Inputs x0.. and outputs y0.., one per domain, around a shared chain h1, h2, ..."""
        integer("domains", domains)
        if not hidden:
            raise GraphError("hidden must list at least one hidden size")
        middle = [f"h{k + 1}" for k in range(len(hidden))]
        xs, ys = ([f"{c}{i}" for i in range(domains)] for c in "xy")
        nodes = {
            **dict.fromkeys(xs, size_in),
            **dict(zip(middle, hidden, strict=True)),
            **dict.fromkeys(ys, size_out),
        }
        edges = [
            *((x, middle[0]) for x in xs),
            *pairwise(middle),
            *((middle[-1], y) for y in ys),
        ]
        return cls(nodes, edges, **keywords)


def _name(where: str, name: Any) -> str:
    if not isinstance(name, str) or not name or "/" in name:
        raise GraphError(f"{where} must be named by text without '/', got {name!r}")
    return name


def _named_edges(edges: Any) -> dict[str, tuple[str, str]]:
    if isinstance(edges, Mapping):
        pairs = [(_name("edges", name), ends) for name, ends in edges.items()]
    elif isinstance(edges, Iterable) and not isinstance(edges, (str, bytes)):
        pairs = [(None, ends) for ends in edges]
    else:
        raise GraphError(f"edges must be a list of pairs or a dict from names to pairs, got {edges!r}")
    named: dict[str, tuple[str, str]] = {}
    for name, ends in pairs:
        if isinstance(ends, str) or not isinstance(ends, Sequence) or len(ends) != 2:
            raise GraphError(f"edges must be (source, target) pairs, got {ends!r}")
        name = name if name is not None else f"{ends[0]}->{ends[1]}"
        if name in named:
            raise GraphError(f"parallel edges need names (a dict): {name!r} stands twice")
        named[name] = (ends[0], ends[1])
    if not named:
        raise GraphError("edges must not be empty")
    return named


def _collect(nodes: Mapping[str, int], edges: Mapping[str, tuple[str, str]], end: int):
    found: dict[str, list[str]] = {n: [] for n in nodes}
    for edge, ends in edges.items():
        found[ends[end]].append(edge)
    return {n: tuple(e) for n, e in found.items()}


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f", ... ({len(names)} in all)" if len(names) > 6 else "")
