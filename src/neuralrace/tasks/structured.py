"""Items with features: of a tree, also in contexts, and of structured worlds; gated networks; linear maps.

The worlds are those of the talk's part 1: the many features of their items come from a partition, tree, ring
or grid. In the limit of many features a linear network sees such a world only through the covariance of its
items, whose eigenvalues and eigenvectors are known in closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.errors import (
    InputError,
    affordable,
    array,
    choice,
    integer,
    listable,
    number,
    sequence,
    short,
)
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


# -- structured worlds ------------------------------------------------------------------------------


Draw = Callable[[np.random.Generator, int], np.ndarray]


class World(Task):
    r"""One-hot items with features as targets, and the covariance that these features have.

    Made by `partition`, `tree`, `ring` and `grid`. Targets are divided by the root of their number, so that
    $Y Y^\top$ tends to the covariance; where `features` is None it is the covariance, with one feature for
    each eigenvector.

    Parameters
    ----------
    covariance : ndarray, shape (items, items)
        Mean of $f_i f_j$ over features $f$.
    values : ndarray, shape (items,)
        Its eigenvalues in closed form, in any order.
    vectors : ndarray, shape (items, items)
        Its eigenvectors in closed form, one column each.
    draw : callable
        `draw(rng, n)` returns n random features, `(items, n)`.
    features : int or None
        Number of features to draw; None for the limit of many.
    seed : int
        Draws the features.
    hidden : int
        Neurons of the hidden layer.
    graph : Graph or None
        A graph of your own; None for a chain with one hidden layer.

    Attributes
    ----------
    covariance : ndarray, shape (items, items)
    values : ndarray, shape (items,)
        Eigenvalues, largest first.
    vectors : ndarray, shape (items, items)
        Eigenvectors in the order of `values`.

    Examples
    --------
    >>> import neuralrace as nr
    >>> world = nr.tasks.ring(8)
    >>> x, y = world.arrays
    >>> bool(np.allclose(y @ y.T, world.covariance))
    True
    """

    def __init__(
        self, covariance: np.ndarray, values: np.ndarray, vectors: np.ndarray, draw: Draw,
        features: int | None, seed: int, hidden: int, graph: Graph | None,
    ) -> None:  # fmt: skip
        order = np.argsort(-values, kind="stable")
        self.covariance: np.ndarray = covariance
        self.values: np.ndarray = values[order]
        self.vectors: np.ndarray = vectors[:, order]
        rng, hidden = np.random.default_rng(integer("seed", seed, least=0)), integer("hidden", hidden)
        if features is None:
            y = self.vectors * np.sqrt(self.values)
        else:
            affordable("features", features, float(integer("features", features)) * len(values))
            y = draw(rng, features) / np.sqrt(features)
        super().__init__(chain_or(graph, len(y), hidden, y.shape[1]), np.eye(len(y)), y)

    @property
    def singular_values(self) -> np.ndarray:
        r"""Those of `Syx`, $\sqrt{\text{values}} / \text{items}$ in the limit of many features, `(items,)`.

        Examples
        --------
        >>> import neuralrace as nr
        >>> nr.tasks.partition(2, 2).singular_values.round(2).tolist()
        [0.32, 0.32, 0.15, 0.15]
        """
        return np.sqrt(self.values) / len(self.values)

    @cached_property
    def stages(self) -> np.ndarray:
        """Number of the distinct eigenvalue that each of `values` is, `(items,)`: 0, then 1, ...

        Examples
        --------
        >>> import neuralrace as nr
        >>> nr.tasks.partition(2, 2).stages.tolist()
        [0, 0, 1, 1]
        """
        return np.append(0, np.cumsum(np.diff(self.values) < -1e-9 * self.values[0]))


def partition(
    classes: int, per_class: int | Sequence[int], flip: float = 0.1,
    features: int | None = None, seed: int = 0, hidden: int = 32, graph: Graph | None = None,
) -> World:  # fmt: skip
    r"""Classes of `per_class` items (or a number for each): a feature is +-1 by class, then flipped by item.

    With $r = (1 - 2\, \text{flip})^2$ a class of $m$ items has the eigenvalue $1 + (m-1) r$ (the class as a
    whole) and $m - 1$ times $1 - r$.

    Parameters
    ----------
    classes : int
        Number of classes.
    per_class : int or sequence of int
        Items in every class, or in each.
    flip : float
        Probability that an item differs from its class, above 0 and below 0.5.
    features : int, optional
        Number of features to draw; by default the limit of many.
    seed : int
        Draws the features.
    hidden : int
        Neurons of the hidden layer.
    graph : Graph, optional
        A graph of your own; by default a chain with one hidden layer.

    Returns
    -------
    World
        With `classes * per_class` items, or the sum of `per_class`.

    Examples
    --------
    >>> import neuralrace as nr
    >>> nr.tasks.partition(2, 2, flip=0.1).values.round(2).tolist()
    [1.64, 1.64, 0.36, 0.36]
    """
    from scipy.linalg import block_diag

    classes = integer("classes", classes)
    if isinstance(per_class, Sequence) and not isinstance(per_class, str):
        sizes = [integer("per_class", m) for m in per_class]
        if len(sizes) != classes:
            raise InputError(f"per_class must be one number or {classes}, one per class, got {len(sizes)}")
    else:
        affordable("classes", classes, float(classes) ** 2)
        sizes = [integer("per_class", per_class)] * classes
    affordable("per_class", per_class, float(sum(sizes)) ** 2)
    r, items = (1 - 2 * _flips(flip, 1)[0]) ** 2, sum(sizes)
    whole = [np.full((m, 1), 1 / np.sqrt(m)) for m in sizes]
    vectors = np.hstack([np.asarray(block_diag(*v)) for v in (whole, [_differences(m) for m in sizes])])
    values = np.append(1 + (np.array(sizes) - 1) * r, np.full(items - classes, 1 - r))
    same = block_diag(*(np.ones((m, m)) for m in sizes))

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return _flipped(rng, np.repeat(_signs(rng, classes, n), sizes, axis=0), flip)

    return World(r * same + (1 - r) * np.eye(items), values, vectors, draw, features, seed, hidden, graph)


def tree(
    branching: Sequence[int] = (2, 2, 2), flip: float | Sequence[float] = 0.1,
    features: int | None = None, seed: int = 0, hidden: int = 32, graph: Graph | None = None,
) -> World:  # fmt: skip
    r"""Leaves of a tree with `branching[k]` children at level k: +-1 at the root, flipped on the way down.

    Items that part at level $k$ have the covariance $q_k$, the product of $(1 - 2\, \text{flip})^2$ over the
    levels below. Differences between children of a node at level $k - 1$ have the eigenvalue $\sum_{j \ge k}
    M_j (q_j - q_{j-1})$, where $M_j$ items lie below a node of level $j$ and $q_{-1} = 0$. This eigenvalue
    falls with every level.

    Parameters
    ----------
    branching : sequence of int
        Children of each node, level by level from the root; at least 2.
    flip : float or sequence of float
        Probability that a feature flips at a branch, above 0 and below 0.5; one for each level where there
        are several.
    features, seed, hidden, graph
        As in `partition`.

    Returns
    -------
    World
        With `prod(branching)` items.

    Examples
    --------
    >>> import neuralrace as nr
    >>> nr.tasks.tree((2, 2), flip=0.1).values.round(4).tolist()
    [2.4592, 0.8208, 0.36, 0.36]
    """
    if not isinstance(branching, Sequence) or isinstance(branching, str) or not len(branching):
        raise InputError(
            f"branching must be a list of numbers of children, level by level, got {short(branching)}"
        )
    sizes = [integer("branching", b, least=2) for b in branching]
    affordable("branching", branching, float(prod(sizes)) ** 2 if prod(sizes) < 2**60 else 2.0**120)
    flips = _flips(flip, len(sizes))
    nodes = np.cumprod([1, *sizes])
    items, below = int(nodes[-1]), nodes[-1] // nodes
    q = np.append(np.cumprod((1 - 2 * flips[::-1]) ** 2)[::-1], 1.0)
    steps = below * np.diff(q, prepend=0)
    levels = np.cumsum(steps[::-1])[::-1]
    vectors, values = [np.full((items, 1), items**-0.5)], [levels[:1]]
    for k, b in enumerate(sizes, start=1):
        m = below[k]
        children = np.kron(_differences(b), np.full((m, 1), m**-0.5))
        vectors.append(np.kron(np.eye(nodes[k - 1]), children))
        values.append(np.full(vectors[-1].shape[1], levels[k]))
    leaf = np.arange(items)
    parted = sum((leaf[:, None] // m == leaf // m).astype(int) for m in below[1:])

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        f = _signs(rng, 1, n)
        for b, p in zip(sizes, flips, strict=True):
            f = _flipped(rng, np.repeat(f, b, axis=0), p)
        return f

    return World(q[parted], np.concatenate(values), np.hstack(vectors), draw, features, seed, hidden, graph)


def ring(
    n: int, sigma: float = 2.0,
    features: int | None = None, seed: int = 0, hidden: int = 32, graph: Graph | None = None,
) -> World:  # fmt: skip
    r"""Items on a ring: normal features, correlated over a length.

    Their covariance is $(L + \sigma^{-2})^{-1}$ with the ring's Laplacian $L$. Eigenvectors are waves of $k =
    0, 1, \dots, n/2$ periods, with the eigenvalues $1 / \bigl(\sigma^{-2} + 2 - 2 \cos(2 \pi k/n)\bigr)$.

    Parameters
    ----------
    n : int
        Number of items, at least 3.
    sigma : float
        Correlation length of the features, in steps along the ring, from 1e-6 to 1e6. The largest
        eigenvalue is $\sigma^2$.
    features, seed, hidden, graph
        As in `partition`.

    Returns
    -------
    World
        With `n` items.

    Examples
    --------
    >>> import neuralrace as nr
    >>> nr.tasks.ring(4, sigma=1.0).values.round(4).tolist()
    [1.0, 0.3333, 0.3333, 0.2]
    """
    n = integer("n", n, least=3)
    affordable("n", n, float(n) ** 2)
    k, place = (np.arange(n) + 1) // 2, np.arange(n)[:, None]
    angle = 2 * np.pi * k * place / n
    waves = np.where(np.arange(n) % 2, np.sin(angle), np.cos(angle))
    if n % 2 == 0:
        waves[:, -1] = np.cos(np.pi * place[:, 0])
    shift = np.roll(np.eye(n), 1, axis=0)
    return _gaussian(
        2 * np.eye(n) - shift - shift.T, 2 - 2 * np.cos(2 * np.pi * k / n), waves, sigma,
        features, seed, hidden, graph,
    )  # fmt: skip


def grid(
    rows: int, cols: int, sigma: float = 2.0,
    features: int | None = None, seed: int = 0, hidden: int = 32, graph: Graph | None = None,
) -> World:  # fmt: skip
    r"""Items on a grid, row by row, neighbours joined: normal features as in `ring`.

    Eigenvectors are products of half waves $\cos\bigl(\pi j (x + \frac12) / \text{rows}\bigr)$ and the same
    in columns. The Laplacian's eigenvalues are sums of $2 - 2 \cos(\pi j / \text{rows})$ and the same in
    columns.

    Parameters
    ----------
    rows, cols : int
        Size of the grid, at least two items in all.
    sigma : float
        Correlation length of the features, in steps along the grid, from 1e-6 to 1e6. The largest
        eigenvalue is $\sigma^2$.
    features, seed, hidden, graph
        As in `partition`.

    Returns
    -------
    World
        With `rows * cols` items.

    Examples
    --------
    >>> import neuralrace as nr
    >>> nr.tasks.grid(2, 2, sigma=1.0).values.round(4).tolist()
    [1.0, 0.3333, 0.3333, 0.2]
    """
    rows, cols = integer("rows", rows), integer("cols", cols)
    if rows * cols < 2:
        raise InputError("rows and cols must give at least 2 items, got 1 x 1")
    affordable("rows x cols", (rows, cols), (float(rows) * cols) ** 2)
    (a, av, aw), (b, bv, bw) = _line(rows), _line(cols)
    laplacian = np.kron(a, np.eye(cols)) + np.kron(np.eye(rows), b)
    values = (av[:, None] + bv).ravel()
    return _gaussian(laplacian, values, np.kron(aw, bw), sigma, features, seed, hidden, graph)


def _line(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The Laplacian of a line of n items, its eigenvalues and eigenvectors."""
    step = np.diff(np.eye(n), axis=0)
    k = np.arange(n)
    return step.T @ step, 2 - 2 * np.cos(np.pi * k / n), np.cos(np.pi * k * (k[:, None] + 0.5) / n)


def _gaussian(
    laplacian: np.ndarray, values: np.ndarray, vectors: np.ndarray, sigma: float,
    features: int | None, seed: int, hidden: int, graph: Graph | None,
) -> World:  # fmt: skip
    sigma = number("sigma", sigma, above=0)
    if not 1e-6 <= sigma <= 1e6:  # else the covariance is singular in double precision
        raise InputError(f"sigma must lie between 1e-6 and 1e6, got {sigma:g}")
    ridge = sigma**-2
    precision = laplacian + ridge * np.eye(len(laplacian))
    root = np.linalg.cholesky(precision)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        from scipy.linalg import solve_triangular

        return solve_triangular(root, rng.standard_normal((len(root), n)), lower=True, trans=1)

    vectors = vectors / np.linalg.norm(vectors, axis=0)
    return World(np.linalg.inv(precision), 1 / (values + ridge), vectors, draw, features, seed, hidden, graph)


def _flips(flip: Any, levels: int) -> np.ndarray:
    p = array("flip", flip)
    if p.shape not in ((), (levels,)):
        raise InputError(f"flip must be one number or {levels}, one per level, got shape {p.shape}")
    if not ((p > 0) & (p < 0.5)).all():
        raise InputError(f"flip must be above 0 and below 0.5, got {flip}")
    return np.broadcast_to(p, levels)


def _differences(n: int) -> np.ndarray:
    """Orthonormal columns `(n, n - 1)` that sum to zero."""
    from scipy.linalg import helmert

    return helmert(n).T if n > 1 else np.zeros((1, 0))


def _signs(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape)


def _flipped(rng: np.random.Generator, f: np.ndarray, p: float) -> np.ndarray:
    return np.where(rng.random(f.shape) < p, -f, f)
