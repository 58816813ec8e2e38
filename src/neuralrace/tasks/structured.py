"""Linear tasks: targets with the features of a hierarchy, and targets with a given map."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.errors import affordable, array, integer, listable, sequence
from neuralrace.graph import Graph
from neuralrace.task import Task


def tree_features(levels: int, branching: int = 2) -> np.ndarray:
    """One row per item, one column per node of a tree: 1 where the item lies below the node.

    `levels` counts from the root (one feature that all items share) to the items themselves.
    """
    levels, branching = integer("levels", levels), integer("branching", branching, least=2)
    nodes = sum(float(branching) ** k for k in range(min(levels, 64)))
    affordable("levels", levels, float(branching) ** (min(levels, 64) - 1) * nodes)
    items = branching ** (levels - 1)
    rows = [np.repeat(np.eye(branching**k), items // branching**k, axis=1) for k in range(levels)]
    return np.concatenate(rows).T


def chain_or(graph: Graph | None, inputs: int, hidden: int, outputs: int) -> Graph:
    """The graph given, or a chain with one hidden layer."""
    return Graph.chain([inputs, integer("hidden", hidden), outputs]) if graph is None else graph


def hierarchy(levels: int = 4, branching: int = 2, hidden: int = 32, graph: Graph | None = None) -> Task:
    """One-hot items with the features of a tree as targets.

    Parameters
    ----------
    levels : int
        From the root, one feature that all items share, to the items themselves.
    branching : int
        Children of each node.
    hidden : int
        Neurons of the hidden layer.
    graph : Graph, optional
        A graph of your own; by default a chain with one hidden layer.

    Returns
    -------
    Task
        With `branching**(levels - 1)` samples.

    Examples
    --------
    >>> x, y = hierarchy(4).arrays
    >>> x.shape, y.shape
    ((8, 8), (8, 15))
    """
    y = tree_features(levels, branching)
    return Task(chain_or(graph, len(y), hidden, y.shape[1]), np.eye(len(y)), y)


def linear(syx: ArrayLike, hidden: int | Sequence[int] = 32, graph: Graph | None = None) -> Task:
    """White inputs, whose second moment is the identity, and targets that a linear map makes of them.

    Parameters
    ----------
    syx : array_like, shape (outputs, inputs)
        The map, which is the correlation of targets and inputs.
    hidden : int or list of int
        Neurons of the hidden layer, or of each of several.
    graph : Graph, optional
        A graph of your own; by default a chain.

    Returns
    -------
    Task
        With one sample for each input.

    Examples
    --------
    >>> task = linear([[2.0, 0.0], [0.0, 1.0]])
    >>> task.syx(("x->h1", "h1->y"))
    array([[2., 0.],
           [0., 1.]])
    """
    syx = array("syx", syx, (None, None))
    outputs, inputs = syx.shape
    rows = np.sqrt(inputs) * np.eye(inputs)
    sizes = sequence("hidden", hidden, "sizes") if listable(hidden) else [hidden]
    layers = [integer("hidden", size) for size in sizes]
    return Task(graph or Graph.chain([inputs, *layers, outputs]), rows, rows @ syx.T)
