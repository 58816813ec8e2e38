"""Small nonlinear tasks: classification, modular addition, images of blobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neuralrace.errors import InputError, affordable, choice, integer, number, sequence
from neuralrace.graph import Graph
from neuralrace.task import Task
from neuralrace.tasks.structured import chain_or, gated


def xor(hidden: int = 32, graph: Graph | None = None) -> Task:
    """Exclusive or of two bits of +-1 (neural_race Eq. 18-20).

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
    n: int | None = 1000, seed: int = 0, hidden: int = 32, graph: Graph | None = None
) -> Task:
    """Report one of two inputs, uniform in -1..1: the first in one context, the second in the other
    (neural_race A.2).

    Parameters
    ----------
    n : int or None
        Number of samples: the first half is of one context, the rest of the other. None for infinitely many:
        a task from their moments (neural_race Eq. 24-29).
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
    own = graph is not None
    graph = graph if own else Graph.pathways(2, 1, [[hidden]] * 2)
    if n is None:
        covariance, contexts = np.eye(2) / 6, []
        for c in (0, 1):
            gates = {} if own else {"p0h1": 1 - c, "p1h1": c}
            contexts.append({"sxx": covariance, "syx": covariance[c : c + 1], "syy": 1 / 6, "gates": gates})
        return Task.from_moments(graph, contexts)
    n = integer("n", n, least=2)
    affordable("n", n, 4.0 * n)
    x = np.random.default_rng(integer("seed", seed, least=0)).uniform(-1, 1, (n, 2))
    second = np.arange(n) >= n // 2
    y = np.where(second, x[:, 1], x[:, 0])[:, None]
    return Task(graph, x, y, None if own else {"p0h1": ~second, "p1h1": second})


def modular_addition(
    modulus: int = 13, share: float = 0.8, part: str = "train", hidden: int = 128, graph: Graph | None = None
) -> Task:
    """Sums of two one-hot numbers modulo a third, some of them left out: the task of grokking.

    Parameters
    ----------
    modulus : int
        Numbers are 0 to modulus - 1.
    share : float
        Share of all sums that is for training, drawn once and for all.
    part : str
        "train", or "test" for the sums that are left out.
    hidden : int
        Neurons of a hidden layer of ReLUs.
    graph : Graph, optional
        A graph of your own.

    Returns
    -------
    Task
        Inputs `(n, 2 modulus)`, targets `(n, modulus)`, one-hot as well.

    Examples
    --------
    >>> x, y = modular_addition(5, part="test").arrays
    >>> x.shape, y.shape
    ((5, 10), (5, 5))
    """
    n, share = integer("modulus", modulus, least=2), number("share", share, above=0, below=1)
    choice("part", part, ("train", "test"))
    affordable("modulus", n, 3.0 * n**3)
    order = np.random.default_rng(0).permutation(n**2)
    cut = int(share * n**2)
    a, b = np.divmod(order[:cut] if part == "train" else order[cut:], n)
    if not len(a):
        raise InputError(f"share must leave sums for both parts, got {share:g} of {n**2} sums")
    x, y = np.concatenate([np.eye(n)[a], np.eye(n)[b]], axis=1), np.eye(n)[(a + b) % n]
    return Task(graph or Graph.chain([2 * n, hidden, n], activations={"h1": "relu"}), x, y)


def two_points(
    dx2: float = 1.0, dy2: float = 0.5, hidden: Sequence[int] = (100, 100), graph: Graph | None = None
) -> Task:
    """Two samples at given distances: inputs -1, `-1 + dx`, targets .6, `.6 + dy` (representations_align).

    Parameters
    ----------
    dx2, dy2 : float
        Squared distance of the two inputs, and of the two targets.
    hidden : sequence of int
        Sizes of the hidden layers of leaky ReLUs with biases.
    graph : Graph, optional
        A graph of your own.

    Returns
    -------
    Task
        Inputs and targets `(2, 1)`.

    Examples
    --------
    >>> x, y = two_points(dx2=1.0, dy2=0.25).arrays
    >>> x.tolist(), y.tolist()
    ([[-1.0], [0.0]], [[0.6], [1.1]])
    """
    dx, dy = (number(name, v, least=0) ** 0.5 for name, v in (("dx2", dx2), ("dy2", dy2)))
    if graph is None:
        sizes = [integer("hidden", size) for size in sequence("hidden", hidden, "sizes")]
        graph = Graph.chain([1, *sizes, 1], activations="leaky_relu_torch", biases=True)
    return Task(graph, [[-1.0], [dx - 1.0]], [[0.6], [0.6 + dy]])


def blobs(
    side: int = 30, pixels: int = 5, width: float = 1.0, hidden: int = 100, graph: Graph | None = None
) -> Task:
    """Images of Gaussian blobs and a context: report the x position in one context, y in the other
    (representations_align Fig. 7).

    Parameters
    ----------
    side : int
        Places of a blob along each axis, evenly spaced from -1 to 1.
    pixels : int
        Pixels of an image along each axis, evenly spaced from -1 to 1.
    width : float
        Standard deviation of a blob, in units of half the image.
    hidden : int
        Neurons of the hidden layer.
    graph : Graph, optional
        A graph of your own; by default a chain with one hidden layer.

    Returns
    -------
    Task
        Samples in the order (context, x position, y position). Inputs `(2 side^2, pixels^2 + 2)`: an image
        row by row (rows are y), which sums to 1, then the context, one-hot. Targets `(2 side^2, 1)`.

    Examples
    --------
    >>> import neuralrace as nr
    >>> x, y = nr.tasks.blobs(side=3, pixels=2).arrays
    >>> x[0].round(2)
    array([0.78, 0.1 , 0.1 , 0.01, 1.  , 0.  ])
    >>> y[:9, 0].tolist(), y[9:, 0].tolist()
    ([-1.0, -1.0, -1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0], [-1.0, 0.0, 1.0, -1.0, 0.0, 1.0, -1.0, 0.0, 1.0])
    """
    side, pixels = integer("side", side, least=2), integer("pixels", pixels, least=2)
    width = number("width", width, least=1e-3, most=1e6)
    affordable("side", side, 2.0 * side**2 * (pixels**2 + 3))
    grid, centres = np.linspace(-1, 1, pixels), np.linspace(-1, 1, side)
    along = np.exp(-((grid - centres[:, None]) ** 2) / (2 * width**2))
    image = (along[:, None, None, :] * along[None, :, :, None]).reshape(side**2, -1)
    image /= image.sum(axis=1, keepdims=True)
    position = np.stack(np.meshgrid(centres, centres, indexing="ij")).reshape(2, -1)
    x = np.hstack([np.tile(image, (2, 1)), np.repeat(np.eye(2), side**2, axis=0)])
    return Task(chain_or(graph, x.shape[1], hidden, 1), x, position.reshape(-1, 1))
