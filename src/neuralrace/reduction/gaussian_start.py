"""The strength that stands for small gaussian weights, at the widths of a network.

In a wide network with weights of standard deviation std, the signals that arrive at a hidden node with n
units through its k edges are orthogonal, each of length `std sqrt(n)`. Along their mean, which grows, each
has the length `std sqrt(n/k)`. For two layers that is the strength. In longer chains the edges between hidden
nodes start larger, by `sqrt(2)`, and both signs of the path take part (see `directions`). The equal strengths
that blow up at the same time stand for such a start.

Blocks, and families with several directions per mode, hold signals that are not parallel. How far these are
from orthogonal depends on the data. There the start of the family and that of a wide network are both
followed until they blow up, on the correlations of the task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from neuralrace.graph import Graph
from neuralrace.reduction.basis import components
from neuralrace.reduction.family import Family, block
from neuralrace.task import Context, Task


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


_FAR = 20.0  # a logarithm: what is left of the time is smaller by its exponential
_LONGEST = 300.0  # in units of the first growth: a start that rests does not blow up
_LARGE = 3e6  # numbers touched in a step, beyond which the wide start is not followed


def gaussian_strength(family: Family, task: Task) -> dict[str, float]:
    """Strength of each edge for gaussian weights of standard deviation 1; one for all edges of a pathway."""
    graph, found = task.graph, {}
    for edges in components(graph):
        nodes = {n for e in edges for n in graph.edges[e] if n in graph.hidden}
        sizes = [graph.nodes[n] / (len(graph.incoming[n]) + len(graph.outgoing[n])) for n in sorted(nodes)]
        size = float(np.exp(0.5 * np.mean(np.log(sizes)))) if sizes else 1.0
        depths = _depths(graph, edges)
        strength = size * _equal_strength(max(depths), min(family.directions, 2))
        if (family.basis == "block" or family.directions > 1) and len(depths) == 1 and min(depths) > 2:
            strength = _followed(family, task, edges, min(depths)) or strength
        found |= dict.fromkeys(edges, strength)
    return found


def _depths(graph: Graph, edges: frozenset[str]) -> set[int]:
    """Numbers of edges of the paths."""
    depths: dict[str, set[int]] = {}
    for n in graph.order:
        before = [graph.edges[e][0] for e in graph.incoming[n] if e in edges]
        depths[n] = {d + 1 for s in before for d in depths[s]} or {0}
    return {d for n in graph.outputs for d in depths[n]} - {0}


def _followed(family: Family, task: Task, edges: frozenset[str], depth: int) -> float | None:
    """The strength of the family that blows up when a wide network does; None where one of them does not."""
    small = family.small if family.basis == "block" else block(task, np.random.default_rng(0)).small
    start = wide_start(small.graph, task.graph, edges)
    rows = sum(c.rows for c in small.moment_contexts)
    if rows * sum(v.size for v in start.values()) > _LARGE:
        return None
    own = {e: np.asarray(v, float) for e, v in family.start.items() if family.edge_of(e) in edges}
    times = []
    for contexts, w in ((small, start), (family.small, own)):
        first = FirstOrder(contexts.graph, w, contexts.moment_contexts)
        times.append(_blow_up(first.force, first.start, depth))
    wide, narrow = times
    return (narrow / wide) ** (1 / (depth - 2)) if np.isfinite(times).all() else None


@cache
def _equal_strength(depth: int, directions: int) -> float:
    """The strength of all edges of a chain that blows up when the pair does that stands for gaussian weights.

    The outer edges of the pair start at 1, the inner ones at `sqrt(2)`.
    """
    if depth < 3:
        return 1.0
    own = 1 / (depth - 2) if directions == 1 else _chain_blow_up(depth, 1.0)
    return (own / _chain_blow_up(depth, float(np.sqrt(2)))) ** (1 / (depth - 2))


def _chain_blow_up(depth: int, inner: float) -> float:
    """When the weights of a chain of pairs with a constant correlation of 1 become infinite."""
    w = [np.ones((2, 1)), *(inner * np.eye(2) for _ in range(depth - 2)), np.array([[1.0, -1.0]])]
    ends = np.cumsum([0, *(v.size for v in w)])

    def force(u: np.ndarray) -> np.ndarray:
        parts = [u[a:b].reshape(v.shape) for a, b, v in zip(ends, ends[1:], w, strict=False)]
        before, after = [np.eye(1)], [np.eye(1)]
        for p in parts[:-1]:
            before.append(p @ before[-1])
        for p in parts[:0:-1]:
            after.append(after[-1] @ p)
        return np.concatenate([(a.T @ b.T).ravel() for a, b in zip(after[::-1], before, strict=True)])

    return _blow_up(force, np.concatenate([v.ravel() for v in w]), depth)


def _blow_up(force: Callable[[np.ndarray], np.ndarray], start: np.ndarray, depth: int) -> float:
    """When weights become infinite whose velocity F is homogeneous of degree depth - 1; inf if never.

    Directions U move by themselves: with `W = exp(r) U`, `|U| = 1` and `ds = exp((depth - 2) r) dt`,
    `dr/ds = <U, F>` and `dU/ds = F(U) - dr/ds U`.
    """
    from scipy.integrate import solve_ivp  # slow to import

    size, power = float(np.linalg.norm(start)), depth - 2

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        u, r = state[:-2] / np.linalg.norm(state[:-2]), state[-2]
        f = force(u)
        growth = u @ f
        return np.concatenate([f - growth * u, [growth, np.exp(-power * r)]])

    def far(_: float, state: np.ndarray) -> float:
        return power * abs(state[-2]) - _FAR

    far.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    speed = float(np.linalg.norm(force(start / size)))
    if not speed:
        return np.inf
    begin = np.concatenate([start / size, [0.0, 0.0]])
    run = solve_ivp(velocity, (0.0, _LONGEST / speed), begin, events=far, rtol=1e-6, atol=1e-9)
    grows = run.status == 1 and run.y[-2, -1] > 0
    return float(run.y[-1, -1]) * size**-power if grows else np.inf
