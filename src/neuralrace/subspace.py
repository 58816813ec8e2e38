"""Wide layers in small spaces (theory.md section 3).

Updates of a layer lie in the span of what flows into it forwards and backwards. Where a hidden node touches
only inputs and outputs, that span is the columns of its incoming and the rows of its outgoing initial
weights, and it never changes: with an orthonormal frame Q of it the flow on `Q^T W` is the true flow.
With more hidden layers see `lowrank`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from neuralrace.graph import Graph
from neuralrace.task import Task

Frames = dict[str, np.ndarray]  # node -> (..., size, dimension), orthonormal columns


def closed_frames(task: Task, weights: Mapping[str, np.ndarray]) -> Frames:
    """Frames of the hidden nodes whose flow closes exactly in fewer dimensions than they have neurons."""
    g, frames = task.graph, {}
    for node in rotation_invariant_nodes(task):
        neighbours = {g.edges[e][0] for e in g.incoming[node]} | {g.edges[e][1] for e in g.outgoing[node]}
        if any(n in g.hidden for n in neighbours):
            continue
        spans = [weights[e] for e in g.incoming[node]]
        spans += [np.swapaxes(weights[e], -1, -2) for e in g.outgoing[node]]
        spans += [weights[node][..., None]] if node in g.biases else []
        span = np.concatenate(spans, axis=-1)
        if span.shape[-1] < g.nodes[node]:
            frames[node] = np.linalg.qr(span)[0]
    return frames


def rotation_invariant_nodes(task: Task) -> list[str]:
    """Hidden nodes whose neurons may be mixed: linear, gated together, without diagonal and fixed edges."""
    g = task.graph
    split = task.data.neuron_gated | {n for e in (*g.diagonal, *g.fixed) for n in g.edges[e]}
    return [n for n in g.hidden if n not in split and g.is_linear]


def shrink(graph: Graph, weights: Mapping[str, Any], frames: Frames) -> dict[str, Any]:
    """Weights in the coordinates of the frames, `Q_t^T W Q_s`."""
    turned = {node: np.swapaxes(q, -1, -2) for node, q in frames.items()}
    return _sandwich(graph, weights, turned)


def expand(graph: Graph, weights: Mapping[str, Any], frames: Mapping[str, Any]) -> dict[str, Any]:
    """Back to full weights, `Q_t B Q_s^T`."""
    return _sandwich(graph, weights, frames)


def _sandwich(graph: Graph, weights: Mapping[str, Any], frames: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, w in weights.items():
        if name in graph.edges:
            source, target = graph.edges[name]
            w = _fit(frames[target], w) @ w if target in frames else w
            w = w @ _fit(frames[source], w).swapaxes(-1, -2) if source in frames else w
        elif name in frames:  # a bias is a column
            w = (_fit(frames[name], w[..., None]) @ w[..., None])[..., 0]
        found[name] = w
    return found


def _fit(frame: Any, w: Any) -> Any:
    """A frame (runs, size, dimension) with a time axis where the weights have one."""
    return frame if frame.ndim in (2, w.ndim) else frame[:, None]
