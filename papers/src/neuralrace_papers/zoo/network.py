"""The networks of representations_align (Table 1)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import InputError, choice, flag, integer, number
from neuralrace.tables import ACTIVATIONS


@dataclass(frozen=True)
class Network:
    """`depth` hidden layers of `width` units between a linear input and a linear output layer, with biases.

    Weights start normal with variance `gain^2 2/(fan in + fan out)`, biases at zero.

    Parameters
    ----------
    depth : int
        Number of hidden layers.
    width : int
        Units of each.
    activation : str, default "leaky_relu_torch"
        Of the hidden layers: "linear", "relu", "leaky_relu", "elu", "tanh" or "swish". It
        matters how steep a leaky ReLU is at exactly 0: an input 0 without biases puts all units there.
        "leaky_relu_torch" has PyTorch's slope, 0.01, "leaky_relu" that of JAX, 1.
    gain : float
        Scale of the initial weights.
    skip : bool
        Add to every hidden layer, from the third on, the one two before it.
    dropout : float
        Probability that an input or a hidden unit is off in a step, below 1. The others are divided by
        `1 - dropout`.
    channels : int
        If not 0, a layer of `width` units is followed by `depth` layers of that many channels and one of a
        single channel, all by convolutions without padding; so there are `depth + 2` hidden layers.
    kernel : int
        Units that a convolution spans; each leaves `kernel - 1` positions less.

    Examples
    --------
    >>> from neuralrace_papers.zoo import Network
    >>> net = Network(depth=3, width=4, activation="tanh")
    >>> net.half, net.shapes(inputs=2, outputs=1)
    (2, [(2, 4), (4, 4), (4, 4), (4, 1)])
    """

    depth: int = 20
    width: int = 500
    activation: str = "leaky_relu_torch"
    gain: float = 1.0
    skip: bool = False
    dropout: float = 0.0
    channels: int = 0
    kernel: int = 11

    def __post_init__(self) -> None:
        integer("depth", self.depth)
        integer("width", self.width)
        choice("activation", self.activation, ACTIVATIONS)
        number("gain", self.gain, above=0)
        flag("skip", self.skip)
        number("dropout", self.dropout, least=0, below=1)
        lost = (integer("kernel", self.kernel) - 1) * (self.depth + 1)
        if integer("channels", self.channels, 0) and self.width <= lost:
            raise InputError(
                f"width must be above {lost}, which {self.depth + 1} convolutions take; got {self.width}"
            )

    @property
    def half(self) -> int:
        """The hidden layer half way, counted from 1: layer L/2 + 1 where L, `depth`, is even."""
        return self.depth // 2 + 1

    @property
    def hidden(self) -> int:
        """The number of hidden layers."""
        return self.depth + 2 if self.channels else self.depth

    def shapes(self, inputs: int, outputs: int) -> list[tuple[int, ...]]:
        """Shapes of the weights, first layer first.

        Parameters
        ----------
        inputs, outputs : int
            Sizes of an input and of an output.

        Returns
        -------
        list of tuple of int
            `hidden + 1` shapes, (in, out) each; of a convolution (kernel, in, out).
        """
        if not self.channels:
            return [
                (inputs, self.width),
                *[(self.width, self.width)] * (self.depth - 1),
                (self.width, outputs),
            ]
        channels = [1, *[self.channels] * self.depth, 1]
        maps = [(self.kernel, a, b) for a, b in itertools.pairwise(channels)]
        return [(inputs, self.width), *maps, (self.width - (self.kernel - 1) * len(maps), outputs)]

    def start(self, key: Any, inputs: int, outputs: int, gain: Any = 1.0) -> tuple[list[Any], list[Any]]:
        """Weights and biases at the start of learning.

        Parameters
        ----------
        key : jax.Array
            A random key of JAX.
        inputs, outputs : int
            Sizes of an input and of an output.
        gain : float
            Multiplies the gain of the network.

        Returns
        -------
        weights, biases : list of jax.Array
            `hidden + 1` each. Weights have the `shapes`, biases (out,).

        Examples
        --------
        >>> weights, biases = Network(depth=2, width=4).start(jax.random.key(0), inputs=2, outputs=1)
        >>> [w.shape for w in weights], [b.shape for b in biases]
        ([(2, 4), (4, 4), (4, 1)], [(4,), (4,), (1,)])
        """
        shapes = self.shapes(inputs, outputs)
        sizes = [int(np.prod(s)) for s in shapes]
        fans = [int(np.prod(s[:-2])) * (s[-2] + s[-1]) for s in shapes]  # in and out, each times the kernel
        drawn = jnp.split(
            jax.random.normal(key, (sum(sizes),)), np.cumsum(sizes)[:-1]
        )  # at once: compiles faster
        deviations = [self.gain * gain * (2 / fan) ** 0.5 for fan in fans]
        weights = [d * v.reshape(s) for v, s, d in zip(drawn, shapes, deviations, strict=True)]
        return weights, [jnp.zeros(s[-1]) for s in shapes]

    def layers(self, x: Any, affine: Callable[[int, Any], Any], key: Any = None) -> list[Any]:
        """The activity of all layers from the inputs to the outputs; dropout where there is a key.

        Parameters
        ----------
        x : array, shape (samples, inputs)
            Inputs.
        affine : callable
            `affine(k, h)` is what enters layer k + 1 where layer k has the activity h; see the method
            `affine`.
        key : jax.Array, optional
            A random key of JAX, for dropout.

        Returns
        -------
        list of array
            `hidden + 2` activities: (samples, inputs), (samples, width), ..., (samples, outputs); positions
            and channels of a convolution side by side. Where there is dropout, inputs are those that stay.

        Examples
        --------
        >>> net = Network(depth=2, width=4, activation="linear")
        >>> weights = [np.ones(shape) for shape in net.shapes(inputs=2, outputs=1)]
        >>> activities = net.layers(np.ones((5, 2)), net.affine(weights, biases=[0.0] * 3))
        >>> [h.shape for h in activities]
        [(5, 2), (5, 4), (5, 4), (5, 1)]
        """

        def dropped(k: int, h: Any) -> Any:
            if not self.dropout or key is None:
                return h
            on = jax.random.bernoulli(jax.random.fold_in(key, k), 1 - self.dropout, h.shape)
            return h * on / (1 - self.dropout)

        activities = [dropped(self.hidden, x)]
        for k in range(self.hidden):
            h = dropped(k, ACTIVATIONS[self.activation](affine(k, activities[-1])))
            activities.append(h + activities[k - 1] if self.skip and k > 1 else h)
        return [*activities, affine(self.hidden, activities[-1])]

    def affine(self, weights: list[Any], biases: list[Any]) -> Callable[[int, Any], Any]:
        """The affine maps between layers, as `layers` takes them.

        Parameters
        ----------
        weights, biases : list of array
            As `start` returns them.

        Returns
        -------
        callable
            `affine(k, h)`, from the activity (samples, in) of layer k, the inputs being layer 0, to what
            enters layer k + 1, (samples, out).
        """

        def convolved(k: int, h: Any) -> Any:
            # As a product of matrices: side by side on a GPU, runs have different kernels.
            h = h.reshape(len(h), -1, weights[k].shape[1])
            left = h.shape[1] - self.kernel + 1
            windows = jnp.concatenate([h[:, j : j + left] for j in range(self.kernel)], -1)
            return (windows @ weights[k].reshape(-1, weights[k].shape[2]) + biases[k]).reshape(len(h), -1)

        return lambda k, h: convolved(k, h) if weights[k].ndim == 3 else h @ weights[k] + biases[k]


ZOO: Mapping[str, tuple[Network, float]] = MappingProxyType({
    "default": (Network(), 0.005),
    "convolution": (Network(depth=10, channels=20, gain=0.95), 0.002),
    "skip": (Network(skip=True, gain=0.1), 0.01),
    "shallow": (Network(depth=2, gain=0.35), 0.01),
    "narrow": (Network(width=50, gain=1.05), 0.005),
    "dropout": (Network(depth=10, dropout=0.1), 0.005),
    "linear": (Network(activation="linear", gain=0.85), 0.00125),
    "relu": (Network(activation="relu"), 0.005),
    "elu": (Network(activation="elu", gain=0.95), 0.00045),
    "tanh": (Network(activation="tanh", gain=0.85), 0.00125),
    "swish": (Network(activation="swish", gain=1.7), 0.0025),
    "low": (Network(gain=0.9), 0.015),
    "intermediate": (Network(gain=1.1), 0.0025),
    "high": (Network(gain=1.3), 0.00075),
    "very-high": (Network(gain=1.4), 0.00025),
})  # fmt: skip
"""Networks and learning rates of representations_align, Table 1, for the loss of Eq. 1 and samples at the
squared distances 1 and 1/2 (`nr.tasks.two_points`); the last four are the default with other initial
weights."""
