"""Routing between many input and output domains (neural_race section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np

from neuralrace.errors import InputError, affordable, array, integer, sequence
from neuralrace.graph import Graph
from neuralrace.init import random_frame
from neuralrace.task import Context, Task
from neuralrace.tasks.structured import tree_features

MAX_EDGES = 1_000_000


_NUMBERS = 2000  # that a context takes in memory, about


def circulant(domains: int, trained: int, shift: int = 0, seed: int | None = None) -> np.ndarray:
    """Which pairs are trained, booleans: input i with `trained` outputs, from number i + shift on.

    Every input and every output is then trained equally often.

    Parameters
    ----------
    domains : int
        Number of inputs, and of outputs.
    trained : int
        Number of outputs that each input is trained with, at most `domains`.
    shift : int
        First output of input 0, at least -domains; outputs are counted modulo `domains`.
    seed : int, optional
        Renumber the outputs at random.

    Returns
    -------
    ndarray of bool, shape (domains, domains)
        Input by output.

    Examples
    --------
    >>> import neuralrace as nr
    >>> nr.tasks.circulant(3, 2).astype(int)
    array([[1, 1, 0],
           [0, 1, 1],
           [1, 0, 1]])
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
    size = integer("domains", domains)
    if trained is None or isinstance(trained, (str, bytes, int, np.integer)):
        count = integer("trained", trained)
        if count > size:
            raise InputError(f"trained must be at most domains = {size}, got {count}")
        affordable("domains", size, _NUMBERS * float(size) * count)
        # As `circulant`, whose matrix is large where domains are many.
        return [(i, j) for i in range(size) for j in sorted((i + k) % size for k in range(count))]
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
    domains are off. All trained pairs are equally frequent (neural_race Eq. 11-12).

    Parameters
    ----------
    domains : int
        Number of input domains, and of output domains.
    trained : int or array_like, shape (domains, domains)
        Number of output domains for each input domain, or a matrix that marks the pairs, input by output
        (see `circulant`).
    items : int
        Number of items, and neurons of each input. A power of two unless `targets` are given.
    hidden : sequence of int
        Neurons of the shared layers.
    seed : int
        Draws the items.
    targets : array_like, shape (items, features), optional
        Features of the items; by default a binary tree over them, `2 items - 1` features.
    inputs : array_like, shape (items, items), optional
        The items, one per row; by default random orthonormal vectors.
    graph : Graph, optional
        A graph of your own with inputs x0, x1, ... and outputs y0, y1, ...; by default `Graph.routing`.

    Returns
    -------
    Task
        One context per trained pair, as moments.

    Examples
    --------
    >>> import neuralrace as nr
    >>> nr.tasks.routing(domains=7, trained=4).n_contexts
    28
    """
    pairs = trained_pairs(domains, trained)
    moments, size_out = _items(items, seed, targets, inputs)
    if graph is not None:
        return Task.from_moments(graph, (moments(i, j, len(pairs)) for i, j in pairs))
    graph = Graph.routing(domains, items, hidden, size_out)
    one = Task.from_moments(graph, [moments(0, 0, len(pairs))]).moment_contexts[0]
    x, y, rest = one.input_blocks["x0"], one.target_blocks["y0"], one.irreducible_loss
    return Task.from_contexts(  # moments are the same on all routes
        graph, [Context({}, {f"x{i}": x}, {f"y{j}": y}, irreducible_loss=rest) for i, j in pairs]
    )


def on_each_domain(items: Any, domains: int) -> dict[str, np.ndarray]:
    """Inputs that show each item on each input domain in turn; for `activity` of a routing network.

    Parameters
    ----------
    items : array_like, shape (items, size)
        The items, one per row.
    domains : int
        Number of input domains.

    Returns
    -------
    dict of str to ndarray, shape (domains * items, size)
        For x0, x1, ...: rows are the items on the first domain, then on the next; zero on other domains.

    Examples
    --------
    >>> import neuralrace as nr
    >>> nr.tasks.on_each_domain([[3.0], [4.0]], domains=2)["x1"].ravel()
    array([0., 0., 3., 4.])
    """
    x, domains = array("items", items, (None, None)), integer("domains", domains)
    affordable("domains", domains, float(domains) ** 2 * x.size)
    return {f"x{i}": np.kron(column[:, None], x) for i, column in enumerate(np.eye(domains))}


def sharing(
    domains: int,
    group: int | Sequence[int],
    items: int = 4,
    hidden: Sequence[int] = (64, 64),
    seed: int = 0,
    targets: Any = None,
    trained: Any = None,
    inputs: Any = None,
) -> Task:
    """Routing where groups of domains share a hidden pathway (neural_race 4.2).

    Each pair of an input group and an output group has a hidden pathway of its own, through which
    P = group^2 routes run. With several sizes of groups all these pathways lie in one network, and their
    outputs add up: they race each other.

    Parameters
    ----------
    domains : int
        Number of input domains, and of output domains.
    group : int or sequence of int
        Domains in a group; must divide `domains`. 1 gives each route a pathway of its own, `domains` one
        that all routes share.
    items, seed, targets, inputs
        As in `routing`.
    hidden : sequence of int
        Neurons of the layers of each pathway.
    trained : int or array_like, shape (domains, domains), optional
        As in `routing`; by default all pairs.

    Returns
    -------
    Task
        One context per trained pair of domains, in which the pathways of its two groups alone are open. Nodes
        of the pathway from group a to group b are ga.bh1, ga.bh2, ...; for several sizes s, s2ga.bh1 and so
        on.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.sharing(domains=4, group=2, hidden=[64])
    >>> task.n_contexts, task.graph.hidden
    (16, ('g0.0h1', 'g0.1h1', 'g1.0h1', 'g1.1h1'))
    >>> len(nr.tasks.sharing(domains=4, group=(1, 2, 4), hidden=[8]).graph.hidden)  # 16 + 4 + 1
    21
    """
    domains, one = integer("domains", domains), isinstance(group, (int, np.integer))
    groups = [group] if one else sequence("group", group, "sizes of groups")
    sizes = [integer("group", size) for size in groups]
    for size in sizes:
        if domains % size:
            raise InputError(f"group must divide domains = {domains}, got {size}")
    if len(set(sizes)) != len(sizes) or not sizes:
        raise InputError(f"group must list each size once, got {sizes}")
    hidden = sequence("hidden", hidden, "layer sizes")
    if not hidden:
        raise InputError("hidden must list at least one hidden size")
    count = sum(2 * domains * domains // size for size in sizes)
    if count > 2 * MAX_EDGES:
        raise InputError(f"domains = {domains} in groups of {group} is too large: it has {count:,} edges")
    pairs = trained_pairs(domains, domains if trained is None else trained)
    moments, size_out = _items(items, seed, targets, inputs)

    def row(size: int, a: int, b: int) -> list[str]:
        """Hidden nodes of a pathway."""
        return [f"{'' if one else f's{size}'}g{a}.{b}h{k + 1}" for k in range(len(hidden))]

    nodes: dict[str, int] = {f"x{i}": items for i in range(domains)}
    edges: list[tuple[str, str]] = []
    for size in sizes:
        for a, b in product(range(domains // size), repeat=2):
            own = row(size, a, b)
            nodes.update(zip(own, hidden, strict=True))
            edges += [(f"x{i}", own[0]) for i in range(a * size, (a + 1) * size)]
            edges += pairwise(own)
            edges += [(own[-1], f"y{j}") for j in range(b * size, (b + 1) * size)]
    graph = Graph({**nodes, **{f"y{j}": size_out for j in range(domains)}}, edges)

    def context(i: int, j: int) -> dict[str, Any]:
        opened = {node: 1.0 for size in sizes for node in row(size, i // size, j // size)}
        return {**moments(i, j, len(pairs)), "gates": opened, "default_gate": 0.0}

    return Task.from_moments(graph, (context(i, j) for i, j in pairs))


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

    return lambda i, j, n: route_moments(i, j, n, sxx, syx, syy), y.shape[1]


def route_moments(i: int, j: int, n: int, sxx: np.ndarray, syx: np.ndarray, syy: float) -> dict[str, Any]:
    """A context of `Task.from_moments`: input i with output j, one of n equally frequent routes."""
    x, y = f"x{i}", f"y{j}"
    return {"sxx": {x: sxx}, "syx": {(y, x): syx}, "syy": {y: syy}, "probability": 1 / n}
