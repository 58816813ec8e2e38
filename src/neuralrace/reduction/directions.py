"""Families with several hidden directions per mode (theory.md section 10).

A hidden layer is the same as several layers side by side with the same gates. With one direction per mode in
each of these parts, the family of the network so written has several directions per mode in the layer itself.

Parts come in pairs, and the paths through the two parts of a pair start with opposite signs. That is how
random weights start: in a wide network what arrives from an input, `W1 v`, and what leads to an output,
`W2^T u`, are orthogonal. The pair is `(W1 v +- W2^T u) / 2`; its strengths `B+` and `B-` start equal, and the
map of the mode is `B+^2 - B-^2`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace.dynamics.rates import Rates
from neuralrace.errors import GraphError
from neuralrace.graph import Edge, Graph
from neuralrace.task import Context, Task


@dataclass(frozen=True)
class Split:
    """A graph in which every hidden node is written as several, its parts."""

    whole: Graph
    directions: int

    @cached_property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """Node -> its parts; a node that is no hidden one is its own."""
        g = self.whole
        found: dict[str, tuple[str, ...]] = {n: (n,) for n in g.nodes}
        for n in g.hidden:
            found[n] = tuple(f"{n}[{k + 1}]" for k in range(min(self.directions, g.nodes[n])))
        taken = {p for n in g.hidden for p in found[n]} & set(g.names)
        if taken:
            raise GraphError(f"parts of hidden nodes need names of their own: rename {sorted(taken)[0]!r}")
        return found

    @cached_property
    def copies(self) -> dict[str, list[list[str]]]:
        """Edge -> its copies, [part of the target][part of the source]."""
        found, hidden = {}, self.whole.hidden
        for e, (source, target) in self.whole.edges.items():
            into = [f"[{i + 1}]" if target in hidden else "" for i in range(len(self.parts[target]))]
            out = [f"[{j + 1}]" if source in hidden else "" for j in range(len(self.parts[source]))]
            found[e] = [[e + b + a for b in out] for a in into]
        return found

    def sizes(self, node: str) -> list[int]:
        """Units of each part of a node."""
        count, units = len(self.parts[node]), self.whole.nodes[node]
        return [units // count + (k < units % count) for k in range(count)]

    def sign(self, edge: str, i: int, j: int) -> int:
        """Sign with which the copy from part j to part i enters, so that its strength can start positive.

        The second of each pair sends its signals on with the opposite sign. Signs between hidden nodes are
        those of `W = Sigma W^T Sigma`, which makes more edges equal.
        """
        source, target = (n in self.whole.hidden for n in self.whole.edges[edge])
        if source and target:
            return -1 if i < j and (i + j) % 2 else 1
        return -1 if source and j % 2 else 1

    @cached_property
    def edge_of(self) -> dict[str, tuple[str, int, int]]:
        """Copy -> its edge, part of the target and part of the source."""
        return {
            name: (e, i, j)
            for e, rows in self.copies.items()
            for i, row in enumerate(rows)
            for j, name in enumerate(row)
        }

    def graph(self, whole: Graph, sizes: Mapping[str, list[int]]) -> Graph:
        """A graph with these hidden nodes in parts: that of the network, or of a small one made from it."""
        nodes, edges = {}, {}
        for n, size in whole.nodes.items():
            nodes |= dict(zip(self.parts[n], sizes[n], strict=True)) if n in sizes else {n: size}
        for e, (source, target) in whole.edges.items():
            if e not in self.copies:  # it joins the pathways of a small network
                edges[e] = Edge(source, target, whole.fixed.get(e))
                continue
            for i, row in enumerate(self.copies[e]):
                for j, name in enumerate(row):
                    ends = ((source, j), (target, i))
                    joined = (self.parts[n][k] if n in sizes else n for n, k in ends)
                    edges[name] = Edge(*joined, diagonal=e in whole.diagonal)
        return Graph(nodes, edges)

    def small(self, small: Task, modes: int) -> Task:
        """The small network of a family in parts. Signs are gates; modes without a direction are closed."""
        graph = self.graph(small.graph, {n: [modes] * len(self.parts[n]) for n in self.whole.hidden})
        signs = {n: -1.0 for n, (e, i, j) in self.edge_of.items() if self.sign(e, i, j) < 0}
        masks: dict[str, Any] = {}
        for n in self.whole.hidden:
            for part, size in zip(self.parts[n], self.sizes(n), strict=True):
                if size < modes:
                    masks[part] = (np.arange(modes) < size).astype(float)

        def gates(c: Context) -> dict[str, Any]:
            found: dict[str, Any] = {**signs, **masks}
            for name, value in c.gates.items():
                if name in self.copies:
                    copies = [copy for row in self.copies[name] for copy in row]
                else:
                    copies = self.parts.get(name, (name,))
                found |= {copy: value * found.get(copy, 1.0) for copy in copies}
            return found

        return Task.from_contexts(graph, [replace(c, gates=gates(c)) for c in small.moment_contexts])

    def start(self, edge: str, modes: int) -> np.ndarray:
        """How strong a copy of an edge starts in each mode, relative to the others.

        Parts k of two hidden nodes are joined, other parts of them are not. With more than one pair, edges
        from inputs and to outputs point in random directions of all pairs, as those of random networks do.
        """
        e, i, j = self.edge_of[edge]
        ends = [k for n, k in zip(self.whole.edges[e], (j, i), strict=True) if n in self.whole.hidden]
        if len(ends) != 1:
            return np.full(modes, float(len(set(ends)) < 2))
        if self.directions < 4:
            return np.ones(modes)
        rng = np.random.default_rng(list(self.whole.edges).index(e))
        drawn = rng.standard_normal((self.directions // 2, modes))
        return (drawn / np.linalg.norm(drawn, axis=0))[ends[0] // 2 % len(drawn)]

    def rates(self, rates: Rates) -> Rates:
        """Learning rates and decays of the copies."""
        return _renamed(rates, {name: e for name, (e, _, _) in self.edge_of.items()})

    def rates_of_whole(self, rates: Rates) -> Rates:
        """The inverse of `rates`."""
        return _renamed(rates, {e: rows[0][0] for e, rows in self.copies.items()})

    def signed(self, edge: str, b: Mapping[str, np.ndarray]) -> np.ndarray:
        """Strengths of the copies with their signs, (..., modes, parts of target, parts of source)."""
        rows = [
            [self.sign(edge, i, j) * np.asarray(b[name]) for j, name in enumerate(row)]
            for i, row in enumerate(self.copies[edge])
        ]
        return np.moveaxis(np.array(rows), (0, 1), (-2, -1))

    def merge(self, edge: str, w: Mapping[str, np.ndarray]) -> np.ndarray:
        """The weights of an edge from those of its copies."""
        rows = [np.concatenate([w[name] for name in row], axis=-1) for row in self.copies[edge]]
        return np.concatenate(rows, axis=-2)

    def divide(self, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The weights of the copies: the inverse of `merge`."""
        found = {}
        for name in self.edge_of:
            edge, rows, columns = self.place(name)
            found[name] = np.asarray(weights[edge])[..., rows, columns]
        return found

    def place(self, copy: str) -> tuple[str, slice, slice]:
        """The edge of a copy, and its rows and columns there."""
        edge, *parts = self.edge_of[copy]
        first = [np.cumsum([0, *self.sizes(n)]).tolist() for n in reversed(self.whole.edges[edge])]
        rows, columns = (slice(at[k], at[k + 1]) for at, k in zip(first, parts, strict=True))
        return edge, rows, columns


def _renamed(rates: Rates, names: Mapping[str, str]) -> Rates:
    """Rates of edges by new names, each with the old one."""
    of = {new: rates.of(old) for new, old in names.items()}
    frozen = [new for new, old in names.items() if old in rates.frozen]
    moving = {new: scale for new, (scale, _) in of.items() if new not in frozen}
    return Rates({new: decay for new, (_, decay) in of.items()}, moving, frozen)
