"""The networks of representations_align (Table 1) and its two samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.activations import ACTIVATIONS
from neuralrace.errors import InputError, array, choice, flag, integer, number


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
    activation : str
        Of the hidden layers: "linear", "relu", "leaky_relu", "elu", "tanh", ... (`Graph` takes the same).
    gain : float
        Scale of the initial weights.
    skip : bool
        Add to every hidden layer, from the third on, the one two before it.
    dropout : float
        Probability that a hidden unit is off in a step, below 1. The others are divided by `1 - dropout`.
    channels : int
        If not 0, hidden layers are that many channels of `width/channels` units side by side, and the maps
        between them convolutions; must divide `width`.
    kernel : int
        Units that a convolution spans, odd; there are zeros beyond both ends.

    Examples
    --------
    >>> from neuralrace.universality import Network
    >>> net = Network(depth=3, width=4, activation="tanh")
    >>> net.half, net.shapes(inputs=2, outputs=1)
    (2, [(2, 4), (4, 4), (4, 4), (4, 1)])
    """

    depth: int = 20
    width: int = 500
    activation: str = "leaky_relu"
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
        if integer("channels", self.channels, 0) and self.width % self.channels:
            raise InputError(f"channels must divide width, {self.width}; got {self.channels}")
        if integer("kernel", self.kernel) % 2 == 0:
            raise InputError(f"kernel must be odd, got {self.kernel}")

    @property
    def half(self) -> int:
        """The hidden layer half way, counted from 1."""
        return (self.depth + 1) // 2

    def shapes(self, inputs: int, outputs: int) -> list[tuple[int, ...]]:
        """Shapes of the weights, first layer first.

        Parameters
        ----------
        inputs, outputs : int
            Sizes of an input and of an output.

        Returns
        -------
        list of tuple of int
            `depth + 1` shapes, (in, out) each; of a convolution (kernel, in, out).
        """
        hidden = (self.kernel, self.channels, self.channels) if self.channels else (self.width, self.width)
        return [(inputs, self.width), *[hidden] * (self.depth - 1), (self.width, outputs)]

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
            `depth + 1` each. Weights have the `shapes`, biases (out,).

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
            `depth + 2` activities: (samples, inputs), (samples, width), ..., (samples, outputs).

        Examples
        --------
        >>> net = Network(depth=2, width=4, activation="linear")
        >>> weights = [np.ones(shape) for shape in net.shapes(inputs=2, outputs=1)]
        >>> activities = net.layers(np.ones((5, 2)), net.affine(weights, biases=[0.0] * 3))
        >>> [h.shape for h in activities]
        [(5, 2), (5, 4), (5, 4), (5, 1)]
        """
        activities = [x]
        for k in range(self.depth):
            h = ACTIVATIONS[self.activation](affine(k, activities[-1]))
            if self.dropout and key is not None:
                on = jax.random.bernoulli(jax.random.fold_in(key, k), 1 - self.dropout, h.shape)
                h = h * on / (1 - self.dropout)
            activities.append(h + activities[k - 1] if self.skip and k > 1 else h)
        return [*activities, affine(self.depth, activities[-1])]

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
            h = h.reshape(len(h), -1, self.channels)
            axes = jax.lax.conv_dimension_numbers(h.shape, weights[k].shape, ("NWC", "WIO", "NWC"))
            out = jax.lax.conv_general_dilated(h, weights[k], (1,), "SAME", dimension_numbers=axes)
            return (out + biases[k]).reshape(len(h), -1)

        return lambda k, h: convolved(k, h) if weights[k].ndim == 3 else h @ weights[k] + biases[k]


ZOO: Mapping[str, tuple[Network, float]] = MappingProxyType({
    "default": (Network(), 0.01),
    "convolution": (Network(depth=10, channels=20, gain=0.95), 0.004),
    "skip": (Network(skip=True, gain=0.1), 0.02),
    "shallow": (Network(depth=2, gain=0.35), 0.02),
    "narrow": (Network(width=50, gain=1.05), 0.01),
    "dropout": (Network(depth=10, dropout=0.1), 0.01),
    "linear": (Network(activation="linear", gain=0.85), 0.0025),
    "relu": (Network(activation="relu"), 0.01),
    "elu": (Network(activation="elu", gain=0.95), 0.0009),
    "tanh": (Network(activation="tanh", gain=0.85), 0.0025),
    "swish": (Network(activation="swish", gain=1.7), 0.005),
    "low": (Network(gain=0.9), 0.03),
    "intermediate": (Network(gain=1.1), 0.005),
    "high": (Network(gain=1.3), 0.0015),
    "very-high": (Network(gain=1.4), 0.0005),
})  # fmt: skip
"""Networks and learning rates of representations_align, Table 1; the last four are the default with other
initial weights. The rates are twice those printed, which must be for the squared error without the half of
Eq. 1: the default network else hardly starts to learn in the 6000 steps."""


def two_points(dx: Any = 0.5, dy: Any = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs -1 and -1 + dx, targets .6 and .6 + dy (representations_align B.1).

    Parameters
    ----------
    dx, dy : array_like
        Differences of the two inputs and of the two targets; they broadcast.

    Returns
    -------
    x, y : ndarray, shape (..., 2, 1)
        Inputs and targets, with the shape of dx and dy first.

    Examples
    --------
    >>> from neuralrace.universality import two_points
    >>> x, y = two_points(dx=0.5, dy=1.0)
    >>> x.tolist(), y.tolist()
    ([[-1.0], [-0.5]], [[0.6], [1.6]])
    """
    far = np.broadcast_arrays(array("dx", dx), array("dy", dy))
    x, y = (first + np.stack([0 * d, d], -1)[..., None] for first, d in zip((-1.0, 0.6), far, strict=True))
    return x, y
