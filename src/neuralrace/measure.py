"""Quantities read off weights and trajectories."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuralrace.errors import InputError, number
from neuralrace.graph import Graph
from neuralrace.task import Task


def learning_time(trajectory: Any, loss: float) -> Any:
    """First time at which the loss is at or below `loss`, linear between saved times; nan if never.

    A float, or an array `(runs,)`; any object with `t` and `loss` will do.
    """
    level = number("loss", loss)
    t, values = np.asarray(trajectory.t, float), np.asarray(trajectory.loss, float)

    def first(v: np.ndarray) -> float:
        below = np.flatnonzero(v <= level)
        if not len(below):
            return float("nan")
        k = below[0]
        if k == 0 or v[k - 1] == v[k]:
            return float(t[k])
        return float(t[k - 1] + (t[k] - t[k - 1]) * (v[k - 1] - level) / (v[k - 1] - v[k]))

    return first(values) if values.ndim == 1 else np.array([first(v) for v in values])


def conserved(task: Task, weights: Any) -> dict[str, np.ndarray]:
    """What gradient flow keeps constant at each hidden node: `sum_out W^T W - sum_in W W^T - b b^T`.

    The law holds between neurons that are gated alike in every sample, for linear nodes; with relu and
    leaky_relu only for each neuron with itself. Entries where it does not hold are zero, and nodes with
    other activations are left out (theory section 5). Shapes `(size, size)`, with the weights' leading axes.
    """
    if not isinstance(task, Task):
        raise InputError(f"task must be a Task, got {type(task)}")
    g, found = task.graph, {}
    contexts = task.sample_contexts if task.n_samples is not None else task.moment_contexts
    for node in g.hidden:
        activation = g.activations.get(node, "linear")
        if activation not in ("linear", "relu", "leaky_relu"):
            continue
        holds = np.eye(g.nodes[node], dtype=bool)
        if activation == "linear":
            gates = [c.gate(node) for c in contexts]
            single = np.array([gate for gate in gates if np.ndim(gate)]).reshape(-1, g.nodes[node])
            holds = (single[:, :, None] == single[:, None, :]).all(axis=0)
        full = {e: _matrix(g, e, np.asarray(weights[e])) for e in (*g.outgoing[node], *g.incoming[node])}
        out = sum(np.swapaxes(full[e], -1, -2) @ full[e] for e in g.outgoing[node])
        into = sum(full[e] @ np.swapaxes(full[e], -1, -2) for e in g.incoming[node])
        if node in g.biases:
            into = into + np.asarray(weights[node])[..., :, None] * np.asarray(weights[node])[..., None, :]
        found[node] = np.where(holds, out - into, 0.0)
    return found


def _matrix(graph: Graph, edge: str, w: np.ndarray) -> np.ndarray:
    return w[..., None] * np.eye(w.shape[-1]) if edge in graph.diagonal else w
