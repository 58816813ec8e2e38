"""Nodes and edges as a user gives them, and their checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from neuralrace.errors import GraphError, array, choice, flag, known, listable, sequence, short
from neuralrace.tables import ACTIVATIONS


@dataclass(frozen=True)
class Node:
    """A node of a graph, in place of its size.

    Parameters
    ----------
    size : int
        Number of neurons.
    activation : str
        One of those that `Graph` knows.
    bias : bool
        Whether its neurons have biases, named after the node.

    Examples
    --------
    >>> import neuralrace as nr
    >>> graph = nr.Graph({"x": 2, "h": nr.Node(8, "relu", bias=True), "y": 1}, [("x", "h"), ("h", "y")])
    >>> graph.nodes, graph.activations, graph.biases
    ({'x': 2, 'h': 8, 'y': 1}, {'h': 'relu'}, ('h',))
    """

    size: int
    activation: str = "linear"
    bias: bool = False


@dataclass(frozen=True, eq=False)
class Edge:
    """An edge of a graph, in place of its pair `(source, target)`.

    Parameters
    ----------
    source, target : str
        Nodes that it joins.
    fixed : array_like, shape (target size, source size), optional
        Its weights, if they are constant: an identity skip, a fixed readout, a weight beside an adapter. They
        are not among the weights that learn.
    diagonal : bool
        Whether neuron k is joined with neuron k only: the weights are a vector.

    Examples
    --------
    >>> import numpy as np, neuralrace as nr
    >>> skip = nr.Edge("x", "h2", fixed=np.eye(3))
    >>> nr.Graph({"x": 3, "h1": 5, "h2": 3, "y": 1}, [("x", "h1"), ("h1", "h2"), skip, ("h2", "y")])
    Graph(4 nodes, 4 edges, 1 of them fixed, 2 paths, inputs x, outputs y)
    """

    source: str
    target: str
    fixed: ArrayLike | None = None
    diagonal: bool = False

    def __post_init__(self) -> None:
        name = f"{short(self.source)} -> {short(self.target)}"
        if flag(f"diagonal of {name}", self.diagonal) and self.fixed is not None:
            raise GraphError(f"edge {name} is fixed: leave out diagonal, as its matrix says all")
        if self.fixed is not None:
            fixed = array(f"fixed of {name}", self.fixed, (None, None)).copy()
            fixed.flags.writeable = False
            object.__setattr__(self, "fixed", fixed)

    def __iter__(self) -> Iterator[str]:
        return iter((self.source, self.target))


def check_name(where: str, name: Any) -> str:
    """A name: text without a slash."""
    if not isinstance(name, str) or not name or "/" in name:
        raise GraphError(f"{where} must be named by text without '/', got {short(name)}")
    return name


def named_edges(edges: Any) -> dict[str, Edge]:
    """Edges by name, from a list of pairs and `Edge`s or a dict."""
    if isinstance(edges, Mapping):
        pairs = [(check_name("edges", name), ends) for name, ends in edges.items()]
    elif listable(edges):
        pairs = [(None, ends) for ends in sequence("edges", edges, "pairs")]
    else:
        raise GraphError(f"edges must be a list of pairs or a dict from names to pairs, got {short(edges)}")
    named: dict[str, Edge] = {}
    for name, ends in pairs:
        ends = tuple(ends) if isinstance(edge := ends, Edge) else ends
        if not isinstance(ends, (tuple, list)) or len(ends) != 2 or not all(isinstance(n, str) for n in ends):
            raise GraphError(f"edges must be (source, target) pairs of names, got {short(ends)}")
        name = name if name is not None else f"{ends[0]}->{ends[1]}"
        if name in named:
            raise GraphError(
                f"parallel edges need names: {name!r} stands twice; give a dict, as in "
                "{'first': ('x', 'y'), 'second': ('x', 'y')}"
            )
        named[name] = edge if isinstance(edge, Edge) else Edge(ends[0], ends[1])
    if not named:
        raise GraphError("edges must not be empty")
    return named


def edges_by_node(
    nodes: Mapping[str, int], edges: Mapping[str, tuple[str, str]], end: int
) -> dict[str, tuple[str, ...]]:
    """Edges that leave (end 0) or enter (end 1) each node."""
    by_node: dict[str, list[str]] = {n: [] for n in nodes}
    for edge, ends in edges.items():
        by_node[ends[end]].append(edge)
    return {n: tuple(e) for n, e in by_node.items()}


def some(names: Sequence[str]) -> str:
    """The first of many names, as text."""
    return ", ".join(names[:6]) + (f", ... ({len(names)} in all)" if len(names) > 6 else "")


def check_activations(given: Any, nodes: Mapping[str, int], own: Mapping[str, Node]) -> dict[str, str]:
    """Activations of the nodes that are not linear, given beside the nodes or with them."""
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise GraphError(f"activations must be a dict from nodes to names, got {short(given)}")
    known("activations", given, nodes, "node")
    given = {n: node.activation for n, node in own.items()} | dict(given)
    checked = {n: choice(f"activations[{n!r}]", a, ACTIVATIONS) for n, a in given.items()}
    return {n: a for n, a in checked.items() if a != "linear"}


def levels(
    edges: Mapping[str, tuple[str, str]],
    incoming: Mapping[str, tuple[str, ...]],
    outgoing: Mapping[str, tuple[str, ...]],
) -> dict[str, int]:
    """Longest distance of each node from an input."""
    inputs = [n for n in incoming if not incoming[n]]
    distance = dict.fromkeys(inputs, 0)
    waiting = {n: len(into) for n, into in incoming.items()}
    ready = list(inputs)
    while ready:
        node = ready.pop()
        for edge in outgoing[node]:
            target = edges[edge][1]
            distance[target] = max(distance.get(target, 0), distance[node] + 1)
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    left = {n for n, count in waiting.items() if count > 0}
    if left:
        walk = [next(n for n in incoming if n in left)]  # backwards, until a node comes again
        while walk[-1] not in walk[:-1]:
            walk.append(next(edges[e][0] for e in incoming[walk[-1]] if edges[e][0] in left))
        cycle = walk[walk.index(walk[-1]) :][::-1]
        raise GraphError(f"edges must not form a cycle; one runs {' -> '.join(cycle)}")
    return distance
