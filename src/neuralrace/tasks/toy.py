"""Small nonlinear classification tasks."""

from __future__ import annotations

import numpy as np

from neuralrace.errors import affordable, choice, integer, number
from neuralrace.graph import Graph
from neuralrace.task import Task
from neuralrace.tasks.items_in_contexts import gated


def xor(hidden: int = 32, graph: Graph | None = None) -> Task:
    """Exclusive or of two bits of +-1 (neural_race A.1).

    The target is 1 where the bits differ, else -1.

    Parameters
    ----------
    hidden : int
        Neurons of each of four pathways, each open for one of the four samples.
    graph : Graph, optional
        A graph of your own, without gates.

    Returns
    -------
    Task
        Inputs `(4, 2)`, targets `(4, 1)`.

    Examples
    --------
    >>> import neuralrace as nr
    >>> x, y = nr.tasks.xor().arrays
    >>> np.hstack([x, y])
    array([[ 1.,  1., -1.],
           [ 1., -1.,  1.],
           [-1.,  1.,  1.],
           [-1., -1., -1.]])
    """
    x = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    y = -x[:, :1] * x[:, 1:]
    if graph is not None:
        return Task(graph, x, y)
    return gated(x, y, np.eye(4), hidden)


def separability(delta: float, gating: str = "xor", hidden: int = 32, graph: Graph | None = None) -> Task:
    """Exclusive or in two inputs, and a third, `delta` times the target, that separates it linearly
    (make_haste_slowly Eq. 11-12).

    Parameters
    ----------
    delta : float
        Size of the third input, at least 0.
    gating : {"xor", "linear"}
        By default four pathways, each open for one sample; with "linear" two, one open for the positive and
        one for the negative samples.
    hidden : int
        Neurons of each pathway.
    graph : Graph, optional
        A graph of your own, without gates.

    Returns
    -------
    Task
        Inputs `(4, 3)`, targets `(4, 1)` of +-1.

    Examples
    --------
    >>> import neuralrace as nr
    >>> nr.tasks.separability(delta=0.5).arrays[0]
    array([[-1. , -1. , -0.5],
           [ 1. , -1. ,  0.5],
           [-1. ,  1. ,  0.5],
           [ 1. ,  1. , -0.5]])
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

    Parameters
    ----------
    n : int
        Number of samples: the first half is of one context, the rest of the other.
    seed : int
        Draws the inputs.
    hidden : int
        Neurons of each of two pathways, one per context.
    graph : Graph, optional
        A graph of your own, without gates.

    Returns
    -------
    Task
        Inputs `(n, 2)`, targets `(n, 1)`.

    Examples
    --------
    >>> import neuralrace as nr
    >>> x, y = nr.tasks.contextual_classification(4).arrays
    >>> bool((y[:2, 0] == x[:2, 0]).all()), bool((y[2:, 0] == x[2:, 1]).all())
    (True, True)
    """
    n = integer("n", n, least=2)
    affordable("n", n, 4.0 * n)
    x = np.random.default_rng(integer("seed", seed, least=0)).uniform(-1, 1, (n, 2))
    second = np.arange(n) >= n // 2
    y = np.where(second, x[:, 1], x[:, 0])[:, None]
    if graph is not None:
        return Task(graph, x, y)
    return gated(x, y, np.stack([~second, second]), hidden)
