"""Small nonlinear classification tasks."""

from __future__ import annotations

import numpy as np

from neuralrace.graph import Graph
from neuralrace.task import Task


def xor(hidden: int = 32, graph: Graph | None = None) -> Task:
    """Exclusive or of two bits of +-1 (neural_race A.1).

    By default four pathways of `hidden` neurons, each open for one of the four samples; on a `graph` of
    your own there are no gates.
    """
    x = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    y = -x[:, :1] * x[:, 1:]
    if graph is not None:
        return Task(graph, x, y)
    graph = Graph.pathways(2, 1, [[hidden]] * 4)
    return Task(graph, x, y, gates={f"p{k}h1": np.eye(4)[k] for k in range(4)})
