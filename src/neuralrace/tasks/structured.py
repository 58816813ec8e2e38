"""Items with the features of a tree, also in contexts; gated networks on given data; linear maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.errors import InputError, affordable, array, choice, integer, listable, sequence, short
from neuralrace.graph import Graph
from neuralrace.task import Task

ITEMS = 8
STRUCTURES = ("hierarchy", "ring", "cross")
GATINGS = ("relu", "shared", "single", "both")


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


def contexts(
    n: int,
    structures: Sequence[str] | None = None,
    gating: str = "relu",
    hidden: int | None = None,
    graph: Graph | None = None,
) -> Task:
    """Eight items, each in each of `n` contexts: `8n` samples context by context, `15(n + 1)` targets.

    Inputs `(8n, 8 + n)` are one-hot items, then one-hot contexts. Targets are a hierarchy that holds in every
    context, then one block per context, zero in the others.

    Parameters
    ----------
    n : int
        Number of contexts, at least 2. Data grow with its square, and are refused above half of the memory.
    structures : sequence of str, optional
        What each context has for itself: "hierarchy" (all, by default), "ring" or "cross".
    gating : {"relu", "shared", "single", "both"}
        "relu" is a chain with one ReLU layer. The others are linear pathways: p0 is always open and sees
        everything, the rest see items only and are open in all contexts but one ("shared"), in one
        ("single"), or both kinds ("both"); inputs are then x and x1, the items.
    hidden : int, optional
        Neurons of a layer; 700 for "relu", 100 for pathways.
    graph : Graph, optional
        A graph of your own, without gates.

    Returns
    -------
    Task

    Examples
    --------
    >>> x, y = contexts(3).arrays
    >>> x.shape, y.shape, 0.5 * (y**2).sum()
    ((24, 11), (24, 60), np.float64(96.0))
    """
    n = integer("n", n, least=2)
    choice("gating", gating, GATINGS)
    affordable("n", n, ITEMS * n * (15 * (n + 1) + 3 * n + ITEMS))
    x, y = _data(n, structures)
    if graph is not None:
        return Task(graph, x, y)
    if gating == "relu":
        width = 700 if hidden is None else integer("hidden", hidden)
        return Task(Graph.chain([x.shape[1], width, y.shape[1]], activations={"h1": "relu"}), x, y)
    one = np.eye(n)
    kinds = {"shared": 1 - one[::-1], "single": one, "both": np.concatenate([1 - one[::-1], one])}
    patterns = np.repeat(np.concatenate([np.ones((1, n)), kinds[gating]]), ITEMS, axis=1)
    columns = {k: range(ITEMS) for k in range(1, len(patterns))}
    return gated(x, y, patterns, 100 if hidden is None else hidden, columns)


def gated(
    inputs: ArrayLike,
    targets: ArrayLike,
    patterns: ArrayLike,
    hidden: int = 32,
    columns: Mapping[int, Sequence[int]] | None = None,
) -> Task:
    """Linear pathways p0, p1, ... from x to y, open by patterns over the samples.

    Parameters
    ----------
    inputs, targets : array_like
        `(n, size)` each.
    patterns : array_like
        Gates of the pathways, `(pathways, n)`.
    hidden : int
        Neurons of each pathway.
    columns : dict of int to sequence of int, optional
        Which columns of the inputs a pathway sees where it does not see them all; every such choice is an
        input node of its own, x1, x2, ...

    Returns
    -------
    Task

    Examples
    --------
    >>> gated([[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]], [[1, 1], [1, 0]]).graph.n_paths
    2
    """
    x, y = array("inputs", inputs, (None, None)), array("targets", targets, (None, None))
    gates = array("patterns", patterns, (None, None))
    if not len(gates) or gates.shape[1] != len(x):
        raise InputError(f"patterns must have shape (pathways, {len(x)} samples), got {gates.shape}")
    hidden = integer("hidden", hidden)
    everything = tuple(range(x.shape[1]))
    seen = [everything] * len(gates)
    if columns is not None and not isinstance(columns, Mapping):
        raise InputError(f"columns must be a dict from pathways to columns, got {short(columns)}")
    for k, chosen in (columns or {}).items():
        if integer("key of columns", k, least=0) >= len(gates):
            raise InputError(f"columns names pathway {k}; there are {len(gates)}")
        seen[k] = tuple(
            integer(f"columns[{k}]", c, least=0) for c in sequence(f"columns[{k}]", chosen, "columns")
        )
        if not seen[k] or max(seen[k]) >= x.shape[1]:
            raise InputError(f"columns[{k}] must list columns of the inputs, 0 to {x.shape[1] - 1}")
    some = [c for c in dict.fromkeys(seen) if c != everything]
    name = {everything: "x", **{c: f"x{k + 1}" for k, c in enumerate(some)}}
    kinds = [c for c in name if c in seen]
    nodes = {name[c]: len(c) for c in kinds} | {f"p{k}h1": hidden for k in range(len(gates))}
    edges = [pair for k, c in enumerate(seen) for pair in ((name[c], f"p{k}h1"), (f"p{k}h1", "y"))]
    return Task(
        Graph({**nodes, "y": y.shape[1]}, edges),
        {name[c]: x[:, list(c)] for c in kinds},
        y,
        gates={f"p{k}h1": g for k, g in enumerate(gates)},
    )


def _data(n: int, structures: Sequence[str] | None) -> tuple[np.ndarray, np.ndarray]:
    names = ["hierarchy"] * n if structures is None else sequence("structures", structures, "structures")
    if len(names) != n:
        raise InputError(f"structures must name {n} of {', '.join(STRUCTURES)}, got {short(structures)}")
    blocks = [_block(choice(f"structures[{k}]", s, STRUCTURES)) for k, s in enumerate(names)]
    features = blocks[0].shape[1]
    x = np.concatenate([np.tile(np.eye(ITEMS), (n, 1)), np.repeat(np.eye(n), ITEMS, axis=0)], axis=1)
    y = np.zeros((n * ITEMS, features * (n + 1)))
    y[:, :features] = np.tile(_block("hierarchy"), (n, 1))
    for c, block in enumerate(blocks):
        y[c * ITEMS : (c + 1) * ITEMS, (c + 1) * features : (c + 2) * features] = block
    return x, y


def _block(structure: str) -> np.ndarray:
    """Features of the items `(8, 15)`."""
    features = tree_features(4)
    if structure == "ring":
        bump = np.array([0, 0.33, 0.66, 1, 1, 0.66, 0.33, 0])
        turns = [np.roll(bump, -k) for k in range(8)]
        return np.stack([np.ones(8), *turns, *turns[:6]], axis=1)
    if structure == "cross":
        pairs = [(0, 2), (1, 3), (4, 6), (5, 7)]
        features[:, 3:7] = np.stack([np.isin(np.arange(8), p) for p in pairs], axis=1)
    return features
