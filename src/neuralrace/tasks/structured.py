"""Tasks whose targets have structure: hierarchies of items."""

from __future__ import annotations

import numpy as np

from neuralrace.errors import integer
from neuralrace.graph import Graph
from neuralrace.task import Task


def tree_features(levels: int, branching: int = 2) -> np.ndarray:
    """One row per item, one column per node of a tree: 1 where the item lies below the node.

    `levels` counts from the root (one feature that all items share) to the items themselves.
    """
    levels, branching = integer("levels", levels), integer("branching", branching, least=2)
    items = branching ** (levels - 1)
    rows = [np.repeat(np.eye(branching**k), items // branching**k, axis=1) for k in range(levels)]
    return np.concatenate(rows).T


def hierarchy(levels: int = 4, branching: int = 2, hidden: int = 32, graph: Graph | None = None) -> Task:
    """One-hot items with the features of a tree as targets; a two-layer chain by default."""
    y = tree_features(levels, branching)
    return Task(graph or Graph.chain([len(y), hidden, y.shape[1]]), np.eye(len(y)), y)
