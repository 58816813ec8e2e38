"""Random graphs, gates and data for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import neuralrace as nr

seeds = st.integers(0, 2**32 - 1)


@st.composite
def graphs(draw, inputs=5, outputs=4, depth=6, activations=("linear",), biases=False):
    """Layers of one or two hidden nodes with skips and parallel edges; few sizes, so few compilations."""
    n_in, n_out = draw(st.integers(1, inputs)), draw(st.integers(1, outputs))
    n_hidden = draw(st.integers(0, depth - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    xs, ys = [f"x{i}" for i in range(n_in)], [f"y{i}" for i in range(n_out)]
    hs = [f"h{i}" for i in range(n_hidden)]
    sizes = {n: int(rng.integers(1, 4)) for n in (*xs, *hs, *ys)}
    edges = {}

    def connect(source, target):
        edges[f"e{len(edges)}"] = (source, target)
        if rng.random() < 0.15:
            edges[f"e{len(edges)}"] = (source, target)

    for k, node in enumerate(hs):
        earlier = xs + hs[:k]
        for source in rng.permutation(earlier)[: rng.integers(1, 4)]:
            connect(str(source), node)
    for source in (*xs, *hs):
        if not any(s == source for s, _ in edges.values()):
            later = hs[hs.index(source) + 1 :] if source in hs else []
            connect(source, str(rng.choice(later + ys)))
    for target in ys:
        if not any(t == target for _, t in edges.values()):
            connect(str(rng.choice(xs + hs)), target)
    acts = {n: str(rng.choice(activations)) for n in hs}
    return nr.Graph(sizes, edges, activations=acts, biases=biases)


def data(graph, rng, n=12, patterns=4, neuron_gates=False):
    """Samples, real gates with zeros among them in a few patterns, sample weights.

    Gates are of order one, so that products along a path neither vanish nor make the loss steep.
    """
    inputs = {x: rng.normal(size=(n, graph.nodes[x])) for x in graph.inputs}
    targets = {y: rng.normal(size=(n, graph.nodes[y])) for y in graph.outputs}
    which = rng.integers(0, patterns, n)
    gates = {}
    for name in (*graph.nodes, *graph.edges):
        if rng.random() < 0.5:
            shape = (patterns, graph.nodes[name]) if neuron_gates and name in graph.nodes else (patterns,)
            values = rng.choice([-1, 0, 1], shape, p=[0.35, 0.3, 0.35]) * rng.uniform(0.5, 1.5, shape)
            gates[name] = values[which]
    return inputs, targets, gates, rng.random(n) + 0.1


def random_weights(graph, rng, scale=0.7):
    return {n: scale * rng.normal(size=s) for n, s in graph.shapes.items()}


def some_fixed(graph, rng, share=0.4):
    """The graph with some of its edges constant; at least one of them, and not all, where there are two."""
    chosen = [e for e in graph.edges if rng.random() < share] or [rng.choice(list(graph.edges))]
    chosen = chosen[: max(len(graph.shapes) - 1, 0)]
    shape = {e: (graph.nodes[t], graph.nodes[s]) for e, (s, t) in graph.edges.items()}
    edges = graph.given_edges({e: 0.7 * rng.normal(size=shape[e]) for e in chosen})
    return nr.Graph(graph.nodes, edges, graph.activations, graph.biases)
