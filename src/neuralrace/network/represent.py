"""What the network of a task is compiled from, whichever costs least by a count.

A *reading* is an output that is compared with targets. Each context has its own readings. Contexts that
differ in their data but not in the gates of hidden nodes share one map of the inputs, of which each mixes its
own rows. And where contexts are many but their gate patterns are few, or span little, all of them are mixed
from a basis of gatings at once (see `gatings`): then their number does not matter any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from neuralrace.graph import Graph
from neuralrace.task import Task
from neuralrace.task.contexts import Block, Blocks, Context, gate_bytes
from neuralrace.task.gatings import MOST_PATHS, Basis, Gatings, single_paths, spanning

_FEWEST = 16  # gatings of which a basis may be worth its making
_EVALUATIONS = 1000  # of loss and gradient, about, for which a network is compiled
_VISIT = 50_000  # multiplications that take as long as to compile one edge of a context
_CHUNK = 2_000_000  # numbers of features that are summed at a time


class Reading(NamedTuple):
    """An output of some contexts, mixed into rows that are compared with targets."""

    output: str
    contexts: tuple[int, ...]
    target: Block
    weight: Block | None = None  # of each row
    mix: Block | None = None  # (rows, rows of all these contexts, one after the other); None: as they are


@dataclass(frozen=True)
class Described:
    """Contexts that run through a network, what is read of them, and the loss that no weights remove."""

    contexts: Sequence[Context]
    readings: Sequence[Reading]
    constant: float = 0.0
    how: str = "contexts"

    @classmethod
    def of(cls, contexts: Sequence[Context]) -> Described:
        """Every context with its own rows."""
        readings = [
            Reading(o, (k,), target, c.weight_block)
            for k, c in enumerate(contexts)
            for o, target in c.target_blocks.items()
        ]
        return cls(contexts, readings, sum(c.irreducible_loss for c in contexts))


def described(task: Task) -> Described:
    """A linear network and its squared loss, in the form that costs least."""
    graph, gatings = task.graph, task.data.gatings
    if gatings is not None and not graph.biases and len(gatings) > _FEWEST:
        bases = _bases(graph, gatings)
        if bases is not None and _by_bases_costs(graph, bases) < _by_contexts_costs(task, gatings):
            return by_bases(task, bases)
    return shared_maps(graph, task.moment_contexts)


# -- contexts, and maps that they share ------------------------------------------------------------


def shared_maps(graph: Graph, contexts: Sequence[Context]) -> Described:
    """Propagate the map from inputs to nodes, instead of rows, where that is less work.

    Contexts that differ in their data but not in the gates of hidden nodes then share one map, whose
    rows are unit vectors; each context's own rows are mixed in at its outputs.
    """
    plain = Described.of(contexts)
    late = {e for o in graph.outputs for e in graph.incoming[o]} | set(graph.outputs)
    groups: dict[tuple[str, ...], list[int]] = {}
    for k, c in enumerate(contexts):
        groups.setdefault(tuple(c.input_blocks), []).append(k)
    mapped: dict[int, tuple[Context, Block]] = {}
    for xs, members in groups.items():
        distinct: dict[Any, int] = {}
        for k in members:
            c = contexts[k]
            gates = tuple((n, gate_bytes(g)) for n, g in sorted(c.gates.items()) if n not in late)
            distinct[gates, _data(c)] = c.rows
        sizes = [graph.nodes[x] for x in xs] + ([1] if graph.biases else [])
        width, maps = sum(sizes), len({gates for gates, _ in distinct})
        if width and maps * width < sum(distinct.values()):
            found = _map_rows(graph, [contexts[k] for k in members], xs, sizes)
            mapped.update(zip(members, found, strict=True))
    readings = []
    for r in plain.readings:
        known = mapped.get(r.contexts[0])
        readings.append(r if known is None else r._replace(mix=known[1]))
    shown = [mapped[k][0] if k in mapped else c for k, c in enumerate(contexts)]
    return replace(plain, contexts=shown, readings=readings)


def _data(c: Context) -> tuple[Block | None, ...]:
    """The blocks that come into a context."""
    return (*c.input_blocks.values(), c.ones_block)


def _map_rows(
    graph: Graph, contexts: list[Context], xs: tuple[str, ...], sizes: list[int]
) -> list[tuple[Context, Block]]:
    """Contexts with unit vectors as inputs, and their own rows as the mix at the outputs."""
    blocks, mixes = Blocks(), {}
    units = np.split(np.eye(sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
    ones = blocks.add(units.pop()[:, 0]) if graph.biases else None
    inputs = {x: blocks.add(u) for x, u in zip(xs, units, strict=True)}
    for c in contexts:
        if _data(c) not in mixes:
            rows = [*c.inputs.values(), *([] if c.ones is None else [c.ones[:, None]])]
            mixes[_data(c)] = blocks.add(np.concatenate(rows, axis=1))
    return [(replace(c, input_blocks=inputs, ones_block=ones), mixes[_data(c)]) for c in contexts]


# -- a basis of gatings ----------------------------------------------------------------------------


def _bases(graph: Graph, gatings: Gatings) -> dict[str, Basis] | None:
    """A basis for each output; None where there is none of few gatings."""
    found, few = {}, graph.n_paths <= MOST_PATHS
    for o in graph.outputs:
        basis = single_paths(graph, gatings, o) if few else spanning(graph, gatings, o)
        if basis is None:
            return None
        found[o] = basis
    return found


def _contexts_of(
    graph: Graph, bases: Mapping[str, Basis]
) -> tuple[list[Context], dict[str, tuple[int, ...]]]:
    """The contexts of all bases, each shown unit vectors, and those of each output."""
    contexts, of, blocks = [], {}, Blocks()
    width = max([1, *(b.width(graph) for b in bases.values())])
    units: dict[Any, dict[str, Block]] = {}
    for o, basis in bases.items():
        of[o] = tuple(range(len(contexts), len(contexts) + len(basis.gatings)))
        for gates, xs in zip(basis.gatings, basis.inputs, strict=True):
            if xs not in units:
                sizes = [graph.nodes[x] for x in xs]
                parts = np.split(np.eye(width, sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
                units[xs] = {x: blocks.add(part) for x, part in zip(xs, parts, strict=True)}
            contexts.append(Context(dict(gates), units[xs], {}))
    return contexts, of


def by_bases(task: Task, bases: Mapping[str, Basis]) -> Described:
    """All rows of each output at once, mixed from the outputs of its basis."""
    graph, blocks = task.graph, Blocks()
    contexts, of = _contexts_of(graph, bases)
    readings, constant = [], task.data.irreducible_loss
    for o, basis in bases.items():
        rows, left = _summed(task, basis, o, max([1, *(b.width(graph) for b in bases.values())]))
        constant += left
        if len(rows):
            n = graph.nodes[o]
            mix, target = blocks.add(rows[:, :-n]), blocks.add(rows[:, -n:])
            readings.append(Reading(o, of[o], target, None, mix))
    return Described(contexts, readings, constant, "paths")


def _summed(task: Task, basis: Basis, o: str, width: int) -> tuple[np.ndarray, float]:
    """Few rows of features and targets with the moments of all rows, and the loss that no weights remove."""
    x, y, gating, root = task.data.rows(o)
    n, columns = y.shape[1], width * len(basis.gatings) + y.shape[1]
    triangle, size = np.zeros((0, columns)), max(2 * columns, _CHUNK // columns)
    for at in range(0, len(y), size):
        some, of = slice(at, at + size), gating[at : at + size]
        part = np.zeros((len(of), len(basis.gatings), width))
        for k, xs in enumerate(basis.inputs):
            first = 0
            for name in xs:
                rows = x[name][some]
                part[:, k, first : first + rows.shape[1]] = basis.shares[name][k, of][:, None] * rows
                first += rows.shape[1]
        both = np.concatenate([part.reshape(len(of), -1), y[some]], axis=1) * root[some, None]
        triangle = np.concatenate([triangle, both])
        if len(triangle) > columns:
            triangle = np.asarray(np.linalg.qr(triangle, mode="r"))
    live = triangle[:, :-n].any(axis=1)
    return triangle[live], 0.5 * float((triangle[~live, -n:] ** 2).sum())


# -- what they cost --------------------------------------------------------------------------------


def _by_bases_costs(graph: Graph, bases: Mapping[str, Basis]) -> float:
    """Multiplications to compile the bases, and then to run them forwards many times."""
    width, steps, mixed = max([1, *(b.width(graph) for b in bases.values())]), set(), 0
    work = visits = 0
    for o, basis in bases.items():
        features = width * len(basis.gatings)
        mixed += features**2 * graph.nodes[o]
        visits += len(basis.gatings) * len(graph.edges)
        if basis.paths is None:
            codes = Gatings.of_dicts(basis.gatings).codes(graph)
            work += width * _products(graph, codes, Gatings.of_dicts(basis.gatings))
        else:
            steps |= {path[:k] for path in basis.paths for k in range(1, len(path) + 1)}
    ends = (graph.edges[step[-1]] for step in steps)
    work += sum(width * graph.nodes[s] * graph.nodes[t] for s, t in ends)
    return _EVALUATIONS * (work + mixed) + _VISIT * visits


def _by_contexts_costs(task: Task, gatings: Gatings) -> float:
    """The same of contexts, which may share maps."""
    graph = task.graph
    width = sum(graph.nodes[x] for x in graph.inputs)
    samples = np.bincount(gatings.of, task.data.counts, len(gatings))
    rows = np.minimum(samples, width) if task.data.contexts is None else samples
    codes = gatings.codes(graph)
    late = [
        n for n in gatings.names if n in graph.outputs or graph.edges.get(n, ("", ""))[1] in graph.outputs
    ]
    early = [k for k, n in enumerate(gatings.names) if n not in late]
    maps = len(np.unique(gatings.values[:, early], axis=0)) if early else 1
    if maps * width < rows.sum():
        outputs = sum(graph.nodes[o] for o in graph.outputs)
        work = width * _products(graph, codes, gatings) + float(rows.sum()) * width * outputs
    else:
        work = 0.0
        for e, (source, target) in graph.edges.items():
            live = _live(graph, codes, gatings, e)
            work += float(rows[live].sum()) * graph.nodes[source] * graph.nodes[target]
    return _EVALUATIONS * work + _VISIT * len(gatings) * len(graph.edges)


def _products(graph: Graph, codes: Mapping[str, np.ndarray], gatings: Gatings) -> int:
    """Multiplications of one row through all that is distinct."""
    total = 0
    for e, (source, target) in graph.edges.items():
        distinct = len(np.unique(codes[target][_live(graph, codes, gatings, e)]))
        total += distinct * graph.nodes[source] * graph.nodes[target]
    return total


def _live(graph: Graph, codes: Mapping[str, np.ndarray], gatings: Gatings, edge: str) -> np.ndarray:
    """Gatings in which something passes an edge."""
    source, target = graph.edges[edge]
    return (codes[source] > 0) & (codes[target] > 0) & (gatings.gate(edge) != 0)
