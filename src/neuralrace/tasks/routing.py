"""Routing between many input and output domains (neural_race section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralrace.errors import InputError, array, integer
from neuralrace.graph import Graph
from neuralrace.init import _frame
from neuralrace.task import Task
from neuralrace.tasks.structured import tree_features


def routing(
    domains: int,
    trained: int,
    items: int = 4,
    hidden: Sequence[int] = (64, 64),
    seed: int = 0,
    targets: Any = None,
    graph: Graph | None = None,
) -> Task:
    """Every input domain is trained with `trained` output domains: input i with outputs i, i+1, ...

    A sample shows one item on one input domain and asks for its features on one output domain; all other
    domains are off. Items are random orthonormal vectors (`seed`), features a binary tree over the items,
    or the rows of `targets`.
    """
    domains, trained, items = (
        integer("domains", domains), integer("trained", trained), integer("items", items)
    )  # fmt: skip
    if trained > domains:
        raise InputError(f"trained must be at most domains = {domains}, got {trained}")
    if targets is None:
        if items & (items - 1):
            raise InputError(f"items must be a power of two for a binary tree of features, got {items}")
        targets = tree_features(items.bit_length())
    y = array("targets", targets, (items, None))
    x = _frame(np.random.default_rng(integer("seed", seed, least=0)), items, items)
    graph = graph or Graph.routing(domains, items, hidden, y.shape[1])
    sxx, syx, syy = x.T @ x / items, y.T @ x / items, float((y**2).sum()) / items
    return Task.from_moments(
        graph,
        (
            {
                "sxx": {f"x{i}": sxx},
                "syx": {(f"y{j % domains}", f"x{i}"): syx},
                "syy": {f"y{j % domains}": syy},
                "probability": 1 / (domains * trained),
            }
            for i in range(domains)
            for j in range(i, i + trained)
        ),
    )
