"""Structured worlds (the talk's part 1): items whose many features come from a partition, tree, ring or grid.

In the limit of many features a linear network sees such a world only through the covariance of its items,
whose eigenvalues and eigenvectors are known in closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from neuralrace.errors import InputError, affordable, array, integer, number, short
from neuralrace.graph import Graph
from neuralrace.task import Task
from neuralrace.tasks.structured import chain_or

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
