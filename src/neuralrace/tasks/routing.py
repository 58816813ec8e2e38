"""Routing between many input and output domains (neural_race section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from neuralrace.errors import InputError, affordable, array, integer, sequence
from neuralrace.graph import Graph
from neuralrace.init import random_frame
from neuralrace.task import Task
from neuralrace.tasks.structured import tree_features

MOST_EDGES = 1_000_000


def circulant(domains: int, trained: int, shift: int = 0, seed: int | None = None) -> np.ndarray:
    """Which pairs are trained, booleans: input i with `trained` outputs, from number i + shift on.

    Every input and every output is then trained equally often; with `seed` the outputs are renumbered at
    random.
    """
    domains, trained = integer("domains", domains), integer("trained", trained)
    affordable("domains", domains, float(domains) ** 2)
    if trained > domains:
        raise InputError(f"trained must be at most domains = {domains}, got {trained}")
    i, j = np.indices((domains, domains))
    pairs = (j - i - integer("shift", shift, least=-domains)) % domains < trained
    if seed is None:
        return pairs
    return pairs[:, np.random.default_rng(integer("seed", seed, least=0)).permutation(domains)]


def trained_pairs(domains: int, trained: Any) -> list[tuple[int, int]]:
    """Pairs of input and output domain, from their number per input or from a matrix of booleans."""
    if trained is None or isinstance(trained, (str, bytes, int, np.integer)):
        trained = circulant(domains, integer("trained", trained))
    size = integer("domains", domains)
    pairs = array("trained", trained, (size, size))
    if not pairs.any():
        raise InputError("trained must mark at least one pair, got none")
    return [(int(i), int(j)) for i, j in np.argwhere(pairs)]


def routing(
    domains: int,
    trained: Any,
    items: int = 4,
    hidden: Sequence[int] = (64, 64),
    seed: int = 0,
    targets: Any = None,
    inputs: Any = None,
    graph: Graph | None = None,
) -> Task:
    """Every input domain is trained with `trained` output domains: input i with outputs i, i+1, ...

    A sample shows one item on one input domain and asks for its features on one output domain; all other
    domains are off. Items are the rows of `inputs` or random orthonormal vectors (`seed`), features the rows
    of `targets` or a binary tree over the items. `trained` may also be a matrix that marks the pairs, input
    by output (see `circulant`).
    """
    pairs = trained_pairs(domains, trained)
    moments, size_out = _items(items, seed, targets, inputs)
    graph = Graph.routing(domains, items, hidden, size_out) if graph is None else graph
    return Task.from_moments(graph, (moments(i, j, len(pairs)) for i, j in pairs))


def sharing(
    domains: int,
    group: int,
    items: int = 4,
    hidden: Sequence[int] = (64, 64),
    seed: int = 0,
    targets: Any = None,
) -> Task:
    """Routing with all pairs trained, where groups of domains share a hidden pathway (neural_race 4.2).

    Domains come in groups of `group`, which must divide `domains`; each pair of an input group and an output
    group has a hidden pathway of its own, through which P = group^2 routes run.
    """
    domains, group = integer("domains", domains), integer("group", group)
    if domains % group:
        raise InputError(f"group must divide domains = {domains}, got {group}")
    moments, size_out = _items(items, seed, targets, None)
    hidden = sequence("hidden", hidden, "layer sizes")
    if not hidden:
        raise InputError("hidden must list at least one hidden size")
    n = domains // group
    if domains * n > MOST_EDGES:
        raise InputError(
            f"domains = {domains} in groups of {group} is too large: it has {2 * domains * n:,} edges"
        )
    nodes: dict[str, int] = {f"x{i}": items for i in range(domains)}
    edges: list[tuple[str, str]] = []
    for a in range(n):
        for b in range(n):
            row = [f"g{a}.{b}h{k + 1}" for k in range(len(hidden))]
            nodes.update(zip(row, hidden, strict=True))
            edges += [(f"x{i}", row[0]) for i in range(a * group, (a + 1) * group)]
            edges += pairwise(row)
            edges += [(row[-1], f"y{j}") for j in range(b * group, (b + 1) * group)]
    graph = Graph({**nodes, **{f"y{j}": size_out for j in range(domains)}}, edges)

    def context(i: int, j: int) -> dict[str, Any]:
        open_nodes = {f"g{i // group}.{j // group}h{k + 1}": 1.0 for k in range(len(hidden))}
        return {**moments(i, j, domains**2), "gates": open_nodes, "default_gate": 0.0}

    return Task.from_moments(graph, (context(i, j) for i in range(domains) for j in range(domains)))


def _items(
    items: int, seed: int, targets: Any, inputs: Any
) -> tuple[Callable[[int, int, int], dict[str, Any]], int]:
    """Moments of the items on one route among n, and the number of their features."""
    items = integer("items", items)
    affordable("items", items, 4.0 * float(items) ** 2)
    if targets is None:
        if items & (items - 1):
            raise InputError(f"items must be a power of two for a binary tree of features, got {items}")
        targets = tree_features(items.bit_length())
    y = array("targets", targets, (items, None))
    if inputs is None:
        inputs = random_frame(np.random.default_rng(integer("seed", seed, least=0)), items, items)
    x = array("inputs", inputs, (items, items))
    sxx, syx, syy = x.T @ x / items, y.T @ x / items, float((y**2).sum()) / items

    def moments(i: int, j: int, n: int) -> dict[str, Any]:
        return {
            "sxx": {f"x{i}": sxx},
            "syx": {(f"y{j}", f"x{i}"): syx},
            "syy": {f"y{j}": syy},
            "probability": 1 / n,
        }

    return moments, y.shape[1]
