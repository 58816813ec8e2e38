"""Small nonlinear classification tasks."""

from __future__ import annotations

import numpy as np

from neuralrace.errors import affordable, choice, integer, number
from neuralrace.graph import Graph
from neuralrace.task import Task
from neuralrace.tasks.contexts import gated


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


def separability(delta: float, gating: str = "xor", hidden: int = 32, graph: Graph | None = None) -> Task:
    """Exclusive or in two inputs, and a third, `delta` times the target, that separates it linearly
    (make_haste_slowly Eq. 11-12).

    By default four pathways of `hidden` neurons, each open for one sample; with `gating="linear"` two, one
    open for the positive and one for the negative samples. On a `graph` of your own there are no gates.
    """
    delta = number("delta", delta, least=0)
    choice("gating", gating, ("linear", "xor"))
    y = np.array([[-1.0], [1.0], [1.0], [-1.0]])
    x = np.concatenate([[[-1, -1], [1, -1], [-1, 1], [1, 1]], delta * y], axis=1)
    if graph is not None:
        return Task(graph, x, y)
    return gated(x, y, np.eye(4) if gating == "xor" else np.stack([y[:, 0] > 0, y[:, 0] < 0]), hidden)


def contextual_classification(
    n: int = 1000, seed: int = 0, hidden: int = 32, graph: Graph | None = None
) -> Task:
    """Report one of two inputs, uniform in -1..1: the first in one context, the second in the other
    (neural_race A.2).

    Half of the `n` samples, first one context, then the other. By default two pathways of `hidden` neurons,
    one per context; on a `graph` of your own there are no gates.
    """
    n = integer("n", n, least=2)
    affordable("n", n, 4.0 * n)
    x = np.random.default_rng(integer("seed", seed, least=0)).uniform(-1, 1, (n, 2))
    second = np.arange(n) >= n // 2
    y = np.where(second, x[:, 1], x[:, 0])[:, None]
    if graph is not None:
        return Task(graph, x, y)
    graph = Graph.pathways(2, 1, [[hidden]] * 2)
    return Task(graph, x, y, gates={"p0h1": ~second, "p1h1": second})
