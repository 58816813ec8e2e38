"""How weights grow while they are small: by the correlations alone, as if no output were learned yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from neuralrace.graph import Graph
from neuralrace.task import Context


class FirstOrder:
    """The velocity of some edges of a network, in one vector, to first order in the outputs."""

    def __init__(self, graph: Graph, start: Mapping[str, np.ndarray], contexts: Sequence[Context]) -> None:
        self.order = graph.order
        self.ends = {e: graph.edges[e] for e in start}
        self.incoming = {n: [e for e in graph.incoming[n] if e in start] for n in graph.order}
        self.outgoing = {n: [e for e in graph.outgoing[n] if e in start] for n in graph.order}
        self.shapes = {e: v.shape for e, v in start.items()}
        self.at = np.cumsum([0, *(v.size for v in start.values())])
        self.start = np.concatenate([v.ravel() for v in start.values()])
        nodes = {n for ends in self.ends.values() for n in ends}
        self.gates = {name: _gates([(c.gate(name), c.rows) for c in contexts]) for name in (*nodes, *start)}
        rows = [c.rows for c in contexts]
        self.inputs = {
            x: [_stacked([c.inputs.get(x) for c in contexts], rows)] for x in graph.inputs if x in nodes
        }
        self.targets = {
            o: [_stacked([c.targets.get(o) for c in contexts], rows)] for o in graph.outputs if o in nodes
        }

    def force(self, weights: np.ndarray) -> np.ndarray:
        """The gradient of `<targets, outputs>`."""
        parts = zip(self.shapes.items(), self.at, self.at[1:], strict=False)
        w = {e: weights[a:b].reshape(shape) for (e, shape), a, b in parts}
        forward: dict[str, np.ndarray] = {}
        backward: dict[str, np.ndarray] = {}
        for n in self.order:
            sent = [self.gates[e] * _sent(forward[self.ends[e][0]], w[e].T) for e in self.incoming[n]]
            _arrive(forward, n, self.gates, [*sent, *self.inputs.get(n, [])])
        for n in reversed(self.order):
            sent = [self.gates[e] * _sent(backward[self.ends[e][1]], w[e]) for e in self.outgoing[n]]
            _arrive(backward, n, self.gates, [*sent, *self.targets.get(n, [])])
        found = []
        for e, (source, target) in self.ends.items():
            f, b = forward[source], self.gates[e] * backward[target]
            found.append((b * f).sum(0) if w[e].ndim == 1 else (b.T @ f).ravel())
        return np.concatenate(found)


def _arrive(
    signals: dict[str, np.ndarray], node: str, gates: Mapping[str, np.ndarray], arriving: list[np.ndarray]
) -> None:
    """What arrives at a node, through its gate."""
    if arriving:
        signals[node] = gates[node] * sum(arriving)


def _sent(signal: np.ndarray, w: np.ndarray) -> np.ndarray:
    """What an edge makes of a signal; its weights may be diagonal."""
    return signal * w if w.ndim == 1 else signal @ w


def _gates(gates: list[tuple[float | np.ndarray, int]]) -> np.ndarray:
    """The gate of each row: (rows, 1), or (rows, size) where neurons have their own."""
    width = max(np.size(g) for g, _ in gates)
    return np.concatenate([np.broadcast_to(np.reshape(g, (1, -1)), (n, width)) for g, n in gates])


def _stacked(data: list[np.ndarray | None], rows: list[int]) -> np.ndarray:
    """Rows of all contexts; zeros where a node is off."""
    width = max((v.shape[1] for v in data if v is not None), default=1)
    parts = zip(data, rows, strict=True)
    return np.concatenate([np.zeros((n, width)) if v is None else v for v, n in parts])


def wide_start(small: Graph, network: Graph, edges: frozenset[str]) -> dict[str, np.ndarray]:
    """Weights that stand for gaussian ones of standard deviation 1 in a wide network.

    There all signals that arrive at a hidden node, forwards from the inputs and backwards from the outputs,
    are orthogonal. So each has units of its own here. An edge makes signals longer by the square root of the
    number of units at which they arrive.
    """
    down = {n: small.nodes[n] for n in small.inputs}  # dimensions of the signals from the inputs
    up = {n: small.nodes[n] for n in small.outputs}
    place_down, place_up = {}, {}
    hidden = [n for n in small.order if n in small.hidden]
    for n in hidden:
        down[n] = 0
        for e in small.incoming[n]:
            place_down[e] = slice(down[n], down[n] + down[small.edges[e][0]])
            down[n] = place_down[e].stop
    for n in reversed(hidden):
        end = down[n]
        for e in small.outgoing[n]:
            place_up[e] = slice(end, end + up[small.edges[e][1]])
            end = place_up[e].stop
        up[n] = end - down[n]
    size = {n: down[n] + up[n] if n in hidden else small.nodes[n] for n in small.nodes}
    start = {}
    for e, (source, target) in small.edges.items():
        if e not in edges:
            continue
        w = np.zeros((size[target], size[source]))
        if target in hidden:
            w[place_down[e], : down[source]] = np.eye(down[source]) * np.sqrt(network.nodes[target])
        if source in hidden:
            first = down[target] if target in hidden else 0
            w[first : first + up[target], place_up[e]] = np.eye(up[target]) * np.sqrt(network.nodes[source])
        start[e] = w
    return start
