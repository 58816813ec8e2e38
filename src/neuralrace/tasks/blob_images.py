"""Images of a blob whose position along one axis is asked for, the axis depending on context."""

from __future__ import annotations

import numpy as np

from neuralrace.errors import affordable, integer, number
from neuralrace.graph import Graph
from neuralrace.task import Task
from neuralrace.tasks.structured import chain_or


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
