"""The gates of a task as one table, and what a linear network sees of the data through its paths.

Gradients see nothing of the data but the statistics of pairs of paths (neural_race Eq. 3-6). Where contexts
are many and paths few, or the gate patterns of many paths span few dimensions, these are far fewer numbers:
the output of every context is a sum of the outputs of a few gatings, those of single paths or a basis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from neuralrace.graph import Graph
from neuralrace.task.contexts import Gate, distinct_rows

MOST_PATHS = 128  # that are followed one by one
MOST_PATTERNS = 256  # dimensions of the span of patterns that are looked for
_NEW = 1e-12  # share of a pattern outside the span of others that is new
_SPREAD = 1e-3  # least ratio of the sizes in a basis: outputs are sums of its outputs, with their rounding


@dataclass(frozen=True, eq=False)
class Gatings:
    """The distinct gatings of a task: numbers for what has a gate, `(gatings, names)`."""

    names: tuple[str, ...]
    values: np.ndarray
    of: np.ndarray  # the gating of each sample or context

    @classmethod
    def distinct(cls, names: Sequence[str], table: np.ndarray) -> Gatings:
        """From the gates of all samples or contexts, `(n, names)`."""
        first, of = distinct_rows(table)
        return cls(tuple(names), table[first], of)

    @classmethod
    def of_dicts(cls, gates: Sequence[Mapping[str, Gate]]) -> Gatings:
        """From dicts of what is not 1."""
        names = list(dict.fromkeys(n for own in gates for n in own))
        table = [[own.get(n, 1.0) for n in names] for own in gates]
        return cls.distinct(names, np.array(table, float).reshape(len(gates), -1))

    def __len__(self) -> int:
        return len(self.values)

    def gate(self, name: str) -> np.ndarray | float:
        """The gates of a node or an edge, `(gatings,)`; 1 where it has none."""
        return self.values[:, self.names.index(name)] if name in self.names else 1.0

    def gates(self, k: int) -> dict[str, Gate]:
        """What is not 1 in a gating."""
        return {n: v for n, v in zip(self.names, self.values[k].tolist(), strict=True) if v != 1.0}


class Basis(NamedTuple):
    """Gatings whose outputs give those of all gatings at one output node.

    The output of gating g is `sum_k share[x][k, g]` times that of the basis for input x.
    """

    gatings: list[dict[str, Gate]]
    shares: Mapping[str, np.ndarray]  # input -> (basis, gatings)
    inputs: list[tuple[str, ...]]  # that each of the basis is shown
    paths: list[tuple[str, ...]] | None = None  # that are open alone

    def width(self, graph: Graph) -> int:
        """Numbers of the inputs that a gating is shown, at most."""
        return max((sum(graph.nodes[x] for x in xs) for xs in self.inputs), default=0)


def single_paths(graph: Graph, gatings: Gatings, output: str) -> Basis:
    """The basis of the paths to an output, each open alone."""
    found: list[dict[str, Gate]] = []
    shares: dict[str, list[np.ndarray]] = {x: [] for x in graph.inputs}
    inputs, paths = [], []
    for path in graph.paths_into(output):
        nodes = [graph.edges[path[0]][0], *(graph.edges[e][1] for e in path)]
        share = np.prod([np.ones(len(gatings)) * gatings.gate(n) for n in (*nodes, *path)], axis=0)
        if not share.any():
            continue
        found.append({e: 0.0 for e in graph.edges if e not in path})
        inputs.append((nodes[0],))
        paths.append(path)
        for x, rows in shares.items():
            rows.append(share if x == nodes[0] else np.zeros(len(gatings)))
    table = {x: np.array(rows).reshape(len(found), len(gatings)) for x, rows in shares.items()}
    return Basis(found, table, inputs, paths)


def spanning(graph: Graph, gatings: Gatings, output: str) -> Basis | None:
    """Some of the gatings themselves as a basis; None where there is no good one of few."""
    patterns: dict[str, np.ndarray] = {}
    whole = []
    for x in graph.inputs:
        spans = {x: np.ones((1, len(gatings))) * gatings.gate(x)}
        for node in graph.order:
            into = [(e, graph.edges[e][0]) for e in graph.incoming[node]]
            rows = [gatings.gate(e) * spans[s] for e, s in into if s in spans]
            if rows:
                span = _independent(gatings.gate(node) * np.concatenate(rows))
                if len(span) > MOST_PATTERNS:
                    return None
                spans[node] = span
        if output in spans and len(spans[output]):
            patterns[x] = spans[output]
            whole.append(spans[output])
    if not whole:
        return Basis([], {}, [])
    left, chosen, sizes = np.concatenate(whole), [], []
    while not sizes or sizes[-1] > _NEW * sizes[0]:  # QR by columns, the largest one first
        size = np.linalg.norm(left, axis=0)
        chosen.append(int(size.argmax()))
        sizes.append(size[chosen[-1]])
        q = left[:, chosen[-1]] / sizes[-1] if sizes[-1] else left[:, 0]
        left = left - np.outer(q, q @ left)
    chosen, sizes = chosen[:-1], sizes[:-1]
    if sizes[-1] < _SPREAD * sizes[0]:
        return None
    shares = {x: np.linalg.lstsq(b[:, chosen], b, rcond=None)[0] for x, b in patterns.items()}
    return Basis([gatings.gates(k) for k in chosen], shares, [tuple(patterns)] * len(chosen))


def _independent(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the span of some rows."""
    if not rows.any():
        return rows[:0]
    _, size, basis = np.linalg.svd(rows, full_matrices=False)
    basis[np.abs(basis) < _NEW] = 0.0  # rounding, which would be a pattern where gates leave nothing else
    return basis[size > _NEW * size[0]]
