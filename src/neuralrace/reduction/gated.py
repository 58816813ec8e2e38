"""A small gated network as a pure function of its weights, its data and its gates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.dynamics.rates import Rates
from neuralrace.errors import InputError, array, known
from neuralrace.graph import Graph


class Statistics(NamedTuple):
    """The data of a task in the bases of the reduced system; a pytree.

    Attributes
    ----------
    inputs, targets : dict of str to array, shape (contexts, rows, dimension)
        Of each input and output, in its basis. Rows have the second moments of a context's samples: they are
        the samples times the root of their weight where these are few. Shorter contexts end in zeros.
    counts : dict of str to array, shape (contexts,)
        Of each output: 1 where its error counts in the loss, 0 where the task has no target for it.
    irreducible_loss : array, shape (contexts,)
        Loss that no weights can remove.

    Examples
    --------
    >>> import neuralrace as nr
    >>> s = nr.reduce(nr.tasks.xor()).to_jax(strength=0.1)
    >>> brighter = s.statistics._replace(inputs={x: 2 * v for x, v in s.statistics.inputs.items()})
    >>> s.learning_time(s.strengths, brighter, s.gates, 0.1, 100.0) < 9.0  # 9.2 with inputs half as large
    True
    """

    inputs: dict[str, Any]
    targets: dict[str, Any]
    counts: dict[str, Any]
    irreducible_loss: Any


class _Group(NamedTuple):
    """Nodes of one size, one kind and one level, whose activities are one array."""

    nodes: tuple[str, ...]
    size: int
    links: tuple[_Link, ...]


class _Link(NamedTuple):
    """Edges from one group to another, whose weights are one array."""

    source: int  # group
    edges: tuple[int, ...]  # in the order of the graph
    sources: tuple[int, ...]  # of each edge, the place in its group
    targets: tuple[int, ...]
    stack: tuple[int, tuple[int, int, int]]  # where the weights of this shape begin, and their shape
    places: tuple[int, ...]  # among the weights of this shape


class Packed(NamedTuple):
    """Data and gates in the form in which the network runs: arrays over the nodes of a group, or edges."""

    inputs: tuple[Any, ...]  # (nodes, contexts, rows, dimension)
    targets: tuple[Any, ...]
    counts: tuple[Any, ...]  # (nodes, contexts)
    irreducible_loss: Any  # (contexts,)
    nodes: tuple[Any, ...]  # gates of each group (nodes, contexts)
    edges: Any  # gates (edges, contexts)


@cache
def _groups(graph: Graph) -> tuple[_Group, ...]:
    """The nodes of a graph in groups, sources before targets: few where many nodes are alike."""
    kind = dict.fromkeys(graph.nodes, "hidden") | dict.fromkeys(graph.outputs, "output")
    kind |= dict.fromkeys(graph.inputs, "input")
    table: dict[Any, list[str]] = {}
    for n in graph.order:
        table.setdefault((graph.levels[n], kind[n], graph.nodes[n]), []).append(n)
    at = {n: (k, i) for k, nodes in enumerate(table.values()) for i, n in enumerate(nodes)}
    number = {e: k for k, e in enumerate(graph.edges)}
    stacks = (*graph.stacks, *graph.fixed_stacks)
    found = []
    for nodes in table.values():
        into: dict[int, list[str]] = {}
        for e in (e for n in nodes for e in graph.incoming[n]):
            into.setdefault(at[graph.edges[e][0]][0], []).append(e)
        links = []
        for source, edges in into.items():
            shape, offset, names = stacks[graph.place_in_stacks[edges[0]][0]]
            ends = [graph.edges[e] for e in edges]
            links.append(
                _Link(
                    source,
                    tuple(number[e] for e in edges),
                    tuple(at[s][1] for s, _ in ends),
                    tuple(at[t][1] for _, t in ends),
                    (offset, (len(names), shape[0], shape[1])),
                    tuple(graph.place_in_stacks[e][1] for e in edges),
                )
            )
        found.append(_Group(tuple(nodes), graph.nodes[nodes[0]], tuple(links)))
    return tuple(found)


class GatedNetwork(NamedTuple):
    """A linear graph with the learning rate and weight decay of each edge that learns; static in JAX.

    Weights are one vector, in the order of `Graph.flatten`.
    """

    graph: Graph
    scale: tuple[float, ...]
    decay: tuple[float, ...]

    @classmethod
    def of(cls, graph: Graph, rates: Rates) -> GatedNetwork:
        return cls(graph, *zip(*map(rates.of, graph.shapes), strict=True))

    def pack(self, statistics: Statistics, gates: Any) -> Packed:
        """Data and gates in the form that `loss` and `velocity` take."""
        groups, g = _groups(self.graph), self.graph
        first = [group.nodes for group in groups if not group.links]
        last = [group.nodes for group in groups if group.nodes[0] in g.outputs]
        side_by_side = lambda table, names: jnp.stack([table[n] for n in names])  # noqa: E731
        return Packed(
            tuple(side_by_side(statistics.inputs, nodes) for nodes in first),
            tuple(side_by_side(statistics.targets, nodes) for nodes in last),
            tuple(side_by_side(statistics.counts, nodes) for nodes in last),
            statistics.irreducible_loss,
            tuple(side_by_side(gates, group.nodes) for group in groups),
            side_by_side(gates, g.edges),
        )

    def loss(self, weights: Any, data: Packed) -> Any:
        """Every context through the whole graph: `h_v = g_v sum_e g_e W_e h_s` (theory.md section 1)."""
        groups, h = _groups(self.graph), []  # activities (nodes, contexts, rows, size)
        fixed = [self.graph.fixed[e].ravel() for stack in self.graph.fixed_stacks for e in stack.names]
        weights = jnp.concatenate([weights, *(jnp.asarray(w, weights.dtype) for w in fixed)])
        inputs, targets = iter(data.inputs), iter(zip(data.targets, data.counts, strict=True))
        total = data.irreducible_loss.sum()
        for group, gate in zip(groups, data.nodes, strict=True):
            arriving = [_carried(link, len(group.nodes), weights, h, data.edges) for link in group.links]
            h.append(gate[..., None, None] * (sum(arriving) if arriving else next(inputs)))
            if group.nodes[0] in self.graph.outputs:
                y, counts = next(targets)
                total = total + 0.5 * (counts * ((y - h[-1]) ** 2).sum(axis=(-1, -2))).sum()
        return total

    def velocity(self, t: Any, weights: Any, data: Packed) -> Any:
        """Time derivative of the weights at any time, `-scale (dL/dW + decay W)`."""
        move = -jax.grad(self.loss)(weights, data)
        if any(self.decay):
            move = move - self._by_weight(self.decay, weights.dtype) * weights
        return move if set(self.scale) == {1.0} else self._by_weight(self.scale, weights.dtype) * move

    def _by_weight(self, values: tuple[float, ...], dtype: Any) -> np.ndarray:
        g = self.graph
        table = {e: np.full(g.shapes[e], v, dtype) for e, v in zip(g.shapes, values, strict=True)}
        return g.flatten(table)

    # -- checks of arguments, whose shapes are known to JAX too ---------------------------------

    def check(self, strengths: Any, statistics: Any, gates: Any) -> tuple[Any, Statistics, Any]:
        """The arguments as arrays that fit the graph and each other, with all gates."""
        g = self.graph
        blocks = _named("strengths", strengths, g.shapes, "edge")
        for e, shape in g.shapes.items():
            _fit(f"strengths[{e!r}]", blocks[e], shape)
        if not isinstance(statistics, Statistics):
            raise InputError(f"statistics must be a Statistics, got {type(statistics).__name__}")
        inputs = _named("statistics.inputs", statistics.inputs, g.inputs, "input node")
        targets = _named("statistics.targets", statistics.targets, g.outputs, "output node")
        counts = _named("statistics.counts", statistics.counts, g.outputs, "output node")
        irreducible = numbers("statistics.irreducible_loss", statistics.irreducible_loss)
        if irreducible.ndim != 1 or not len(irreducible):
            raise InputError(
                f"statistics.irreducible_loss must have shape (contexts,), got {irreducible.shape}"
            )
        rows = inputs[g.inputs[0]].shape[1] if inputs[g.inputs[0]].ndim == 3 else 0
        for name, table in (("inputs", inputs), ("targets", targets)):
            for n, v in table.items():
                _fit(f"statistics.{name}[{n!r}]", v, (len(irreducible), rows, g.nodes[n]))
        for o, v in counts.items():
            _fit(f"statistics.counts[{o!r}]", v, (len(irreducible),))
        return blocks, Statistics(inputs, targets, counts, irreducible), self._gates(gates, len(irreducible))

    def _gates(self, gates: Any, contexts: int) -> dict[str, Any]:
        """A gate for every node and edge, `(contexts,)`."""
        if not isinstance(gates, Mapping):
            raise InputError(
                f"gates must be a dict from nodes and edges to arrays, got {type(gates).__name__}"
            )
        known("gates", gates, self.graph.names, "node or edge")
        found = {}
        for name in self.graph.names:
            value = numbers(f"gates[{name!r}]", gates.get(name, 1.0))
            if value.shape not in ((), (contexts,)):
                raise InputError(
                    f"gates[{name!r}] must be a number or have shape ({contexts},), one for each context; "
                    f"got {value.shape}"
                )
            xp = jnp if isinstance(value, jax.Array) else np
            found[name] = xp.broadcast_to(value, (contexts,))
        return found


def _carried(link: _Link, count: int, weights: Any, h: list[Any], gates: Any) -> Any:
    """Sum over the edges of a link, at the nodes of its target group: `(nodes, contexts, rows, size)`."""
    offset, shape = link.stack
    stack = weights[offset : offset + prod(shape)].reshape(shape)
    w, signal = _taken(stack, link.places), h[link.source]
    if len(set(link.sources)) == 1:
        passed = jnp.einsum("eoi,cri->ecro", w, signal[link.sources[0]])
    else:
        passed = jnp.einsum("eoi,ecri->ecro", w, _taken(signal, link.sources))
    passed = _taken(gates, link.edges)[..., None, None] * passed
    if count == 1:
        return passed.sum(axis=0, keepdims=True)
    if link.targets == tuple(range(count)):
        return passed
    return jnp.zeros((count, *passed.shape[1:]), passed.dtype).at[jnp.array(link.targets)].add(passed)


def _taken(values: Any, places: tuple[int, ...]) -> Any:
    """`values[places]`, without a copy where these are all of them in order."""
    return values if places == tuple(range(len(values))) else values[jnp.array(places)]


def numbers(name: str, value: Any) -> Any:
    """A JAX array or tracer as it is, anything else as a finite float64 array."""
    return value if isinstance(value, jax.Array) else array(name, value)


def _named(name: str, given: Any, names: Any, what: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InputError(f"{name} must be a dict from each {what} to an array, got {type(given).__name__}")
    known(name, given, names, what)
    missing = [n for n in names if n not in given]
    if missing:
        raise InputError(f"{name} must hold every {what}; {missing[0]!r} is missing")
    return {n: numbers(f"{name}[{n!r}]", given[n]) for n in names}


def _fit(name: str, value: Any, shape: tuple[int, ...]) -> None:
    if value.shape != shape:
        raise InputError(f"{name} must have shape {shape}, got {value.shape}")
