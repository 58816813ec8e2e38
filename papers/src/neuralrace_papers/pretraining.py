"""Greedy pretraining: each layer of a linear network first learns to encode its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from neuralrace import Graph, Task, descend, init
from neuralrace.errors import array, integer, number


class Pretrained(NamedTuple):
    """Layers that have been pretrained, as `pretrain` returns them.

    Attributes
    ----------
    layers : list of ndarray, shapes (width, inputs)
        Weights of the encoders, the first layer first.
    steps : int
        Steps of gradient descent that all of them took.
    """

    layers: list[np.ndarray]
    steps: int


def pretrain(
    x: ArrayLike,
    widths: Sequence[int],
    std: float,
    lr: float,
    *,
    share: float = 1e-4,
    max_steps: int = 200_000,
    seed: int = 0,
) -> Pretrained:
    """Train each layer as the encoder of a linear autoencoder on the outputs of the layers before it.

    Parameters
    ----------
    x : array_like, shape (samples, inputs)
        Inputs of the first layer.
    widths : list of int
        Units of each layer.
    std : float
        Standard deviation of the initial weights of the autoencoders.
    lr : float
        Learning rate of full-batch gradient descent on the mean loss.
    share : float
        Share of the mean squared input at which an autoencoder is learned.
    max_steps : int
        Steps after which an autoencoder is taken as it is.
    seed : int
        Of the initial weights.

    Returns
    -------
    Pretrained
        The encoders, and the steps that they took.

    Examples
    --------
    >>> found = pretrain(np.sqrt(2) * np.eye(2), [3, 3], std=0.1, lr=0.1)
    >>> through = found.layers[1] @ found.layers[0]
    >>> bool(np.allclose(through.T @ through, np.eye(2), atol=0.05))  # keeps the data's shape
    True
    """
    rows, share = array("x", x, (None, None)), number("share", share, above=0, below=1)
    layers, steps = [], 0
    for k, width in enumerate(widths, 1):
        size = rows.shape[1]
        graph = Graph.chain([size, integer("widths", width), size])
        start = init.gaussian(graph, std, seed=1000 * k + integer("seed", seed, least=0))
        loss = share * 0.5 * (rows**2).sum() / len(rows)
        run = descend(Task(graph, rows, rows), start, lr, max_steps, save=2, stop_loss=loss)
        layers.append(run.weights["x->h1"][-1])
        steps += round(float(run.end) / lr)
        rows = rows @ layers[-1].T
    return Pretrained(layers, steps)
