"""Architecture graphs: nodes are layers of neurons, edges are weight matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.errors import (
    GraphError,
    InputError,
    array,
    distinct_names,
    flag,
    integer,
    known,
    sequence,
    short,
)
from neuralrace.graph.parts import (
    Edge,
    Node,
    check_activations,
    check_name,
    edges_by_node,
    levels,
    named_edges,
    some,
)
from neuralrace.graph.weights import WeightLayout

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_LISTED_PATHS = 1_000_000
LARGEST_NODE, MAX_DOMAINS = 2**31 - 1, 100_000  # neurons; nodes on one side of a routing network


class Graph(WeightLayout):
    """A directed acyclic graph of layers.

    Nodes without incoming edges are inputs, nodes without outgoing edges outputs.

    Parameters
    ----------
    nodes : dict of str to int or Node
        Number of neurons of each node; a `Node` says more of it.
    edges : list of (str, str) or dict of str to (str, str)
        `(source, target)` pairs, named `"source->target"`, or a dict from names to such pairs; parallel
        edges need names. An `Edge` in place of a pair may be constant, or diagonal.
    activations : dict of str to str, optional
        Of nodes: linear (the default), relu, leaky_relu (slope .01), elu, tanh or swish.
    biases : bool or list of str
        True for a bias on every node but the inputs, or a list of nodes. A bias is named after its node.

    Attributes
    ----------
    nodes : dict of str to int
        Name -> size.
    edges : dict of str to (str, str)
        Name -> (source, target).
    fixed : dict of str to ndarray, shape (target size, source size)
        Name -> weights, of the edges that are constant. Paths run through them, but they are not among the
        weights that learn.
    inputs, outputs, hidden : tuple of str

    Examples
    --------
    >>> g = Graph({"x": 3, "h": 128, "y": 1}, [("x", "h"), ("h", "y")])
    >>> g.inputs, g.outputs, g.n_paths
    (('x',), ('y',), 1)
    """

    def __init__(
        self,
        nodes: Mapping[str, int | Node],
        edges: Sequence[tuple[str, str] | Edge] | Mapping[str, tuple[str, str] | Edge],
        activations: Mapping[str, str] | None = None,
        biases: bool | Iterable[str] = False,
    ):
        if not isinstance(nodes, Mapping) or not nodes:
            raise GraphError(f"nodes must be a dict from names to sizes, got {short(nodes)}")
        own = {check_name("nodes", n): s if isinstance(s, Node) else Node(s) for n, s in nodes.items()}
        self.nodes: dict[str, int] = {
            n: integer(f"size of node {n!r}", node.size, most=LARGEST_NODE) for n, node in own.items()
        }
        named = named_edges(edges)
        self.edges: dict[str, tuple[str, str]] = {name: (e.source, e.target) for name, e in named.items()}
        for name, (source, target) in self.edges.items():
            known(f"edge {name!r}", (source, target), self.nodes, "node")
        self.fixed: dict[str, np.ndarray] = {
            name: array(f"fixed of edge {name!r}", e.fixed, (self.nodes[e.target], self.nodes[e.source]))
            for name, e in named.items()
            if e.fixed is not None
        }
        both = set(self.nodes) & set(self.edges)
        if both:
            raise GraphError(f"nodes and edges need different names; both have {sorted(both)}")

        self.incoming: dict[str, tuple[str, ...]] = edges_by_node(self.nodes, self.edges, 1)
        self.outgoing: dict[str, tuple[str, ...]] = edges_by_node(self.nodes, self.edges, 0)
        for node in self.nodes:
            if not self.incoming[node] and not self.outgoing[node]:
                raise GraphError(f"node {node!r} has no edges: connect it, or leave it out of nodes")
        self.inputs: tuple[str, ...] = tuple(n for n in self.nodes if not self.incoming[n])
        self.outputs: tuple[str, ...] = tuple(n for n in self.nodes if not self.outgoing[n])
        self.levels: dict[str, int] = levels(self.edges, self.incoming, self.outgoing)
        self.order: tuple[str, ...] = tuple(sorted(self.nodes, key=self.levels.__getitem__))
        self.rank: dict[str, int] = {node: k for k, node in enumerate(self.order)}
        self.names: dict[str, Any] = {**self.nodes, **self.edges}
        # Edges to hidden nodes apart: a node may have thousands of outputs, of which a sample uses few.
        self.onward: dict[str, tuple[str, ...]] = {
            n: tuple(e for e in es if self.outgoing[self.edges[e][1]]) for n, es in self.outgoing.items()
        }
        self.hidden: tuple[str, ...] = tuple(n for n in self.order if self.incoming[n] and self.outgoing[n])

        self.activations: dict[str, str] = check_activations(activations, self.nodes, own)
        if isinstance(biases, (bool, np.bool_)):
            biases = [n for n in self.order if self.incoming[n]] if biases else []
        biases = distinct_names("biases", biases, self.nodes, "node")
        own_bias = [n for n in self.order if flag(f"bias of node {n!r}", own[n].bias)]
        biases = tuple(dict.fromkeys([*biases, *own_bias]))
        for node in (*self.activations, *biases):
            if node in self.inputs:
                raise GraphError(f"{node!r} is an input: it has no activation and no bias")
        self.biases: tuple[str, ...] = biases
        diagonal = frozenset(name for name, edge in named.items() if edge.diagonal)
        for edge in diagonal:
            source, target = self.edges[edge]
            if self.nodes[source] != self.nodes[target]:
                raise GraphError(f"diagonal edge {edge!r} must join nodes of equal size")
        self.diagonal: frozenset[str] = diagonal
        if not self.shapes:
            raise GraphError("edges must not all be fixed: nothing would learn")

    def __repr__(self) -> str:
        return (
            f"Graph({len(self.nodes)} nodes, {len(self.edges)} edges, "
            f"{f'{len(self.fixed)} of them fixed, ' if self.fixed else ''}{self.n_paths} paths, "
            f"inputs {some(self.inputs)}, outputs {some(self.outputs)})"
        )

    def _repr_html_(self) -> str:
        from neuralrace.drawing import graph_svg, table_html

        rows = [
            ("inputs", some(self.inputs)),
            ("outputs", some(self.outputs)),
            ("edges, paths", f"{len(self.edges):,}, {self.n_paths:,}"),
            ("weights", f"{self.n_weights:,}"),
        ]
        return table_html("Graph", rows, graph_svg(self))

    def plot(self, gates: Mapping[str, ArrayLike] | None = None) -> Figure:
        """A matplotlib figure: layers from left to right, with names, sizes and activations.

        Fixed edges are dotted, diagonal ones dashed. Of a graph with more than 40 nodes a part is drawn.

        Parameters
        ----------
        gates : dict of str to array_like, shape (n,), optional
            Gates of nodes, as in `nr.Task`. A gated node is red and has a square for each context, filled
            where the gate is open.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> figure = Graph.pathways(2, 1, [[8], [8]]).plot(gates={"p0h1": [1, 1, 0], "p1h1": [0, 0, 1]})
        >>> [text.get_text() for text in figure.axes[0].texts][:4]
        ['x', '2', 'p0h1', '8']
        """
        from neuralrace.drawing import graph_figure

        return graph_figure(self, gates)

    def _decided_by(self) -> tuple[Any, ...]:
        parts = (self.nodes, self.edges, self.activations)
        return (*(tuple(p.items()) for p in parts), self.biases, self.diagonal, self._fixed_bytes)

    @cached_property
    def _fixed_bytes(self) -> tuple[Any, ...]:
        return tuple((name, w.tobytes()) for name, w in self.fixed.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self._decided_by() == other._decided_by()

    def __hash__(self) -> int:
        return hash(self._decided_by())

    @property
    def is_linear(self) -> bool:
        """Whether no node has an activation."""
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
        """All paths from an input to an output.

        Returns
        -------
        list of tuple of str
            Edge names of each path. More than a million paths are refused; `n_paths` counts any number.

        Examples
        --------
        >>> Graph.chain([3, 128, 1]).paths()
        [('x->h1', 'h1->y')]
        """
        return [path for output in self.outputs for path in self.paths_into(output)]

    def paths_into(self, node: str) -> list[tuple[str, ...]]:
        """All paths from an input to a node, the T(v) of neural_race section 3.

        Parameters
        ----------
        node : str
            Any node.

        Returns
        -------
        list of tuple of str
            Edge names of each path.

        Examples
        --------
        >>> Graph.chain([3, 128, 1]).paths_into("h1")
        [('x->h1',)]
        """
        known("node", [node], self.nodes, "node")
        return self._walk(node, 0)

    def paths_through(self, edge: str) -> list[tuple[str, ...]]:
        """All paths from an input to an output through an edge, the P(e) of neural_race section 3.

        Parameters
        ----------
        edge : str
            Any edge.

        Returns
        -------
        list of tuple of str
            Edge names of each path.

        Examples
        --------
        >>> len(Graph.routing(domains=3, size_in=4).paths_through("x0->h1"))
        3
        """
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
        if count > MAX_LISTED_PATHS:
            raise GraphError(
                f"more than {MAX_LISTED_PATHS:,} paths to list; n_paths counts them without listing"
            )

    def check_path(self, name: str, path: Any) -> tuple[str, ...]:
        """Check a path.

        Parameters
        ----------
        name : str
            What to call it in a message.
        path : sequence of str
            Edge names.

        Returns
        -------
        tuple of str
            Edge names that follow one another from an input to an output; anything else is refused.
        """
        path = (path,) if isinstance(path, str) else tuple(sequence(name, path, "edges"))
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

    def given_edges(self, fixed: Mapping[str, ArrayLike] | None = None) -> dict[str, Edge]:
        """The edges as `Graph` takes them.

        Parameters
        ----------
        fixed : dict, optional
            The weights of fixed edges, if they are to be others.

        Returns
        -------
        dict of str to Edge

        Examples
        --------
        >>> g = Graph({"x": 2, "h": 2, "y": 1}, [Edge("x", "h", fixed=np.eye(2)), ("h", "y")])
        >>> Graph(g.nodes, g.given_edges()) == g
        True
        """
        weights = self.fixed if fixed is None else fixed
        ends = self.edges.items()
        return {e: Edge(*nodes, weights.get(e), e in self.diagonal) for e, nodes in ends}

    def resized(self, sizes: Mapping[str, int], fixed: Mapping[str, ArrayLike] | None = None) -> Graph:
        """The same graph with other numbers of neurons at some nodes.

        Parameters
        ----------
        sizes : dict of str to int
            New sizes of some nodes.
        fixed : dict, optional
            New weights of all fixed edges, where nodes that they join have new sizes.

        Returns
        -------
        Graph

        Examples
        --------
        >>> Graph.chain([3, 128, 1]).resized({"h1": 4}).nodes
        {'x': 3, 'h1': 4, 'y': 1}
        """
        if not isinstance(sizes, Mapping):
            raise GraphError(f"sizes must be a dict from nodes to sizes, got {short(sizes)}")
        known("sizes", sizes, self.nodes, "node")
        return Graph({**self.nodes, **sizes}, self.given_edges(fixed), self.activations, self.biases)

    # -- common graphs -----------------------------------------------------------------------

    @classmethod
    def chain(cls, sizes: Sequence[int], **keywords: Any) -> Graph:
        """Nodes x, h1, ..., y in a row.

        Parameters
        ----------
        sizes : sequence of int
            Neurons of each node, input first.
        **keywords
            As in `Graph`; `activations` may also be one name, for all hidden nodes.

        Returns
        -------
        Graph

        Examples
        --------
        >>> Graph.chain([3, 128, 1]).nodes
        {'x': 3, 'h1': 128, 'y': 1}
        >>> Graph.chain([3, 8, 8, 1], activations="relu").activations
        {'h1': 'relu', 'h2': 'relu'}
        """
        sizes = sequence("sizes", sizes, "layer sizes")
        if len(sizes) < 2:
            raise GraphError(f"sizes must list at least an input and an output layer, got {short(sizes)}")
        row = ["x", *(f"h{k}" for k in range(1, len(sizes) - 1)), "y"]
        if isinstance(activation := keywords.get("activations"), str):
            keywords["activations"] = dict.fromkeys(row[1:-1], activation)
        return cls(dict(zip(row, sizes, strict=True)), list(pairwise(row)), **keywords)

    @classmethod
    def pathways(cls, size_in: int, size_out: int, hidden: Sequence[Sequence[int]], **keywords: Any) -> Graph:
        """Parallel pathways from x to y.

        Parameters
        ----------
        size_in, size_out : int
            Neurons of x and y.
        hidden : sequence of sequence of int
            `hidden[a]` lists the hidden sizes of pathway a, whose nodes are p0h1, p0h2, ...
        **keywords
            As in `Graph`.

        Returns
        -------
        Graph

        Examples
        --------
        >>> Graph.pathways(8, 15, [[100], [100, 50]]).hidden
        ('p0h1', 'p1h1', 'p1h2')
        """
        hidden = [
            sequence(f"hidden[{a}]", sizes, "layer sizes")
            for a, sizes in enumerate(sequence("hidden", hidden, "pathways"))
        ]
        if not hidden or not all(hidden):
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
        """Inputs x0.. and outputs y0.., one per domain, around a shared chain h1, h2, ...

        Parameters
        ----------
        domains : int
            Number of inputs, and of outputs.
        size_in, size_out : int
            Neurons of each input and output.
        hidden : sequence of int
            Neurons of the shared layers.
        **keywords
            As in `Graph`.

        Returns
        -------
        Graph

        Examples
        --------
        >>> Graph.routing(domains=7, size_in=4).n_paths
        49
        """
        integer("domains", domains, most=MAX_DOMAINS)
        hidden = sequence("hidden", hidden, "layer sizes")
        if not hidden:
            raise GraphError("hidden must list at least one hidden size")
        middle = [f"h{k + 1}" for k in range(len(hidden))]
        xs, ys = ([f"{c}{i}" for i in range(domains)] for c in "xy")
        nodes = {
            **dict.fromkeys(xs, size_in),
            **dict(zip(middle, hidden, strict=True)),
            **dict.fromkeys(ys, size_out),
        }
        edges = [*((x, middle[0]) for x in xs), *pairwise(middle), *((middle[-1], y) for y in ys)]
        return cls(nodes, edges, **keywords)


def check_graph(graph: Any) -> Graph:
    """`graph`, which must be a Graph."""
    if not isinstance(graph, Graph):
        raise InputError(f"graph must be a Graph, got {type(graph)}")
    return graph
