"""What the network of a task can be compiled from; `programs` takes what costs least by a count.

A *reading* is an output that is compared with targets. Each context has its own readings. Contexts that
differ in their data but not in the gates of hidden nodes share one map of the inputs, of which each mixes its
own rows. And where contexts are many but their gate patterns are few, or span little, all of them are mixed
from a basis of gatings at once (see `gatings`): then their number does not matter any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from neuralrace.graph import Graph
from neuralrace.task import Task
from neuralrace.task.contexts import Block, Blocks, Context, gate_bytes
from neuralrace.task.gatings import MOST_PATHS, Basis, Gatings, single_paths, spanning

_MANY = 20_000  # edges of contexts that are visited in less than .1 s
_WIDEST = 4096  # features whose products are held
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
    whole: Callable[[], Described] | None = None  # the same with its numbers, where these are zeros as yet

    @classmethod
    def of(cls, contexts: Sequence[Context]) -> Described:
        """Every context with its own rows."""
        readings = [
            Reading(o, (k,), target, c.weight_block)
            for k, c in enumerate(contexts)
            for o, target in c.target_blocks.items()
        ]
        return cls(contexts, readings, sum(c.irreducible_loss for c in contexts))


def forms(task: Task) -> list[Described]:
    """All that the linear network of a task may be compiled from, for its squared loss.

    Contexts alone where these have one gating; bases of gatings alone where contexts are too many to try.
    """
    graph, gatings, found = task.graph, task.data.gatings, []
    if gatings is not None and not graph.biases and len(gatings) > 1:
        many = len(gatings) * len(graph.edges) > _MANY
        few = graph.n_paths <= MOST_PATHS
        for make in ([single_paths] if few else []) + ([spanning] if not (few and many) else []):
            bases = _bases(graph, gatings, make)
            if bases is not None and all(b.width(graph) * len(b.gatings) <= _WIDEST for b in bases.values()):
                found.append(by_bases(task, bases, summed=False))
        if found and many:
            return found
    return [shared_maps(graph, task.moment_contexts), *found]


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


def _bases(graph: Graph, gatings: Gatings, make: Callable[..., Basis | None]) -> dict[str, Basis] | None:
    """A basis for each output; None where one has none of few gatings."""
    found = {}
    for o in graph.outputs:
        found[o] = make(graph, gatings, o)
        if found[o] is None:
            return None
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


def by_bases(task: Task, bases: Mapping[str, Basis], summed: bool = True) -> Described:
    """All rows of each output at once, mixed from the outputs of its basis; zeros unless `summed`."""
    graph, blocks = task.graph, Blocks()
    contexts, of = _contexts_of(graph, bases)
    readings, constant = [], task.data.irreducible_loss
    width = max([1, *(b.width(graph) for b in bases.values())])
    for o, basis in bases.items():
        n, columns = graph.nodes[o], width * len(basis.gatings) + graph.nodes[o]
        rows, left = np.zeros((columns, columns)), 0.0
        if summed:
            rows, left = _summed(task, basis, o, width)
        constant += left
        if len(rows):
            mix, target = blocks.add(rows[:, :-n]), blocks.add(rows[:, -n:])
            readings.append(Reading(o, of[o], target, None, mix))
    whole = None if summed else partial(by_bases, task, bases)
    return Described(contexts, readings, constant, "paths", whole)


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
