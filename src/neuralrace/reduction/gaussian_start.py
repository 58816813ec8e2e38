"""The strength that stands for small gaussian weights, at the widths of a network.

In a wide network with weights of standard deviation std, the signals that arrive at a hidden node with n
units through its k edges are orthogonal, each of length `std sqrt(n)`. Along their mean, which grows, each
has the length `std sqrt(n/k)`. For two layers that is the strength. In longer chains the edges between hidden
nodes start larger, by `sqrt(2)`, and both signs of the path take part (see `directions`). The equal strengths
that blow up at the same time stand for such a start.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.integrate import solve_ivp

from neuralrace.graph import Graph
from neuralrace.reduction.basis import components

_LENGTH = 16.0  # of an integral that converges exponentially


def gaussian_strength(graph: Graph, directions: int) -> dict[str, float]:
    """Strength of each edge for gaussian weights of standard deviation 1; one for all edges of a pathway."""
    found = {}
    for edges in components(graph):
        nodes = {n for e in edges for n in graph.edges[e] if n in graph.hidden}
        sizes = [graph.nodes[n] / (len(graph.incoming[n]) + len(graph.outgoing[n])) for n in sorted(nodes)]
        size = float(np.exp(0.5 * np.mean(np.log(sizes)))) if sizes else 1.0
        found |= dict.fromkeys(edges, size * _equal_strength(_depth(graph, edges), min(directions, 2)))
    return found


def _depth(graph: Graph, edges: frozenset[str]) -> int:
    """Edges of the longest path."""
    depth = dict.fromkeys(graph.nodes, 0)
    for n in graph.order:
        depth[n] = max([1 + depth[graph.edges[e][0]] for e in graph.incoming[n] if e in edges], default=0)
    return max(depth.values())


@cache
def _equal_strength(depth: int, directions: int) -> float:
    """The strength of all edges of a chain that blows up when the pair does that stands for gaussian weights.

    The outer edges of the pair start at 1, the inner ones at `sqrt(2)`.
    """
    if depth < 3:
        return 1.0
    own = 1 / (depth - 2) if directions == 1 else _blow_up(depth, 1.0)
    return (own / _blow_up(depth, float(np.sqrt(2)))) ** (1 / (depth - 2))


def _blow_up(depth: int, inner: float) -> float:
    """When the weights of a chain of pairs with a constant correlation of 1 become infinite.

    The velocity F is homogeneous of degree depth - 1, so directions U move by themselves: with
    `W = exp(r) U`, `|U|^2 = depth` and `ds = exp((depth - 2) r) dt`, `dr/ds = <U, F>/depth` and
    `dU/ds = F(U) - dr/ds U`.
    """
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

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        u, r = state[:-2], state[-2]
        f = force(u)
        growth = u @ f / depth
        return np.concatenate([f - growth * u, [growth, np.exp(-(depth - 2) * r)]])

    start = np.concatenate([v.ravel() for v in w])
    size = np.linalg.norm(start) / np.sqrt(depth)
    begin = np.concatenate([start / size, [np.log(size), 0.0]])
    return float(solve_ivp(velocity, (0.0, _LENGTH), begin, method="DOP853", rtol=1e-10).y[-1, -1])
