"""Wide layers in small spaces (theory section 3).

Updates of a layer lie in the span of what flows into it forwards and backwards. Where a hidden node touches
only inputs and outputs, that span is the columns of its incoming and the rows of its outgoing initial
weights, and it never changes: with an orthonormal frame Q of it the flow on `Q^T W` is the true flow.
With more hidden layers the spaces are those of the signals along a solution, which `dynamics` refines.
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
    for node in _turnable(task):
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


def _turnable(task: Task) -> list[str]:
    """Hidden nodes whose neurons may be mixed: linear, gated together, without diagonal edges."""
    g = task.graph
    split = {name for c in task.moment_contexts for name, gate in c.gates.items() if np.ndim(gate)}
    split |= {n for e in g.diagonal for n in g.edges[e]}
    return [n for n in g.hidden if n not in split and g.is_linear]


def signals(
    task: Task, weights: Mapping[str, np.ndarray], frames: Frames, moved: Mapping[str, np.ndarray]
) -> Frames:
    """What flows into every hidden node forwards and backwards at the weights `W(0) + Q_t moved Q_s^T`.

    One run: `moved` has an axis of k times in front. Per node `(columns, size)`, every column of length 1:
    the activities of all (pseudo-)samples, and what comes back from their targets and from their errors.
    """
    g, hidden = task.graph, _turnable(task)
    k = len(next(iter(moved.values())))
    found: dict[str, list[np.ndarray]] = {n: [] for n in hidden}

    def through(edge: str, h: np.ndarray, back: bool = False) -> np.ndarray:
        """`h (k, rows, size)` through an edge, or back through it."""
        w, dw = weights[edge], moved[edge]
        if edge in g.diagonal:
            return h * (w + dw)[:, None]
        turn = np.swapaxes if back else lambda a, *_: a
        fixed = (h.reshape(-1, h.shape[-1]) @ turn(w, 0, 1).T).reshape(k, -1, w.shape[1 if back else 0])
        a, b = (frames.get(n) for n in (g.edges[edge][::-1] if back else g.edges[edge]))
        inner = (h if a is None else h @ a) @ np.swapaxes(turn(dw, 1, 2), 1, 2)
        return fixed + (inner if b is None else inner @ b.T)

    for c in task.moment_contexts:
        h: dict[str, Any] = {}
        for node in g.order:
            total: Any = 0.0
            if node in c.inputs:
                total = np.broadcast_to(c.inputs[node], (k, *c.inputs[node].shape))
            for e in g.incoming[node]:
                if g.edges[e][0] in h and np.any(c.gate(e)):
                    total = total + c.gate(e) * through(e, h[g.edges[e][0]])
            if node in g.biases:
                change = moved[node] if node not in frames else moved[node] @ frames[node].T
                total = total + (weights[node] + change)[:, None] * np.asarray(c.ones, float)[None, :, None]
            if np.ndim(total) and np.any(c.gate(node)):
                h[node] = c.gate(node) * total
        for target in (0.0, 1.0):
            back: dict[str, Any] = {}
            for node in reversed(g.order):
                total = 0.0
                if node in c.targets and node in h:
                    total = c.targets[node] - target * h[node]
                for e in g.outgoing[node]:
                    if g.edges[e][1] in back and np.any(c.gate(e)):
                        total = total + c.gate(e) * through(e, back[g.edges[e][1]], back=True)
                if np.ndim(total) and np.any(c.gate(node)):
                    back[node] = c.gate(node) * np.broadcast_to(total, (k, *np.shape(total)[-2:]))
            for n in hidden:
                found[n] += [back[n]] if n in back else []
        for n in hidden:
            found[n] += [h[n]] if n in h else []
    return {n: _unit(np.concatenate(v, axis=1).reshape(-1, g.nodes[n])) for n, v in found.items() if v}


def _unit(rows: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, size, out=np.zeros_like(rows), where=size > 0)


def spanning(found: list[Frames], tolerance: float) -> Frames:
    """Frames of the spaces that hold the signals of each run up to `tolerance`, of equal size in all runs."""
    frames = {}
    for node in found[0]:
        rows = [f[node] for f in found]
        parts = [np.linalg.eigh(r @ r.T if len(r) < r.shape[1] else r.T @ r) for r in rows]
        keep = max(int((values > tolerance**2 * values[-1]).sum()) for values, _ in parts)
        keep = -(-keep // 4) * 4  # a little more, so that fewer shapes are compiled
        size = rows[0].shape[1]
        if keep < size:
            spans = [
                r.T @ v[:, -keep:] if len(r) < size else v[:, -keep:]
                for r, (_, v) in zip(rows, parts, strict=True)
            ]
            frames[node] = np.stack([np.linalg.qr(s)[0] for s in spans])
    return frames


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
