"""Training of networks on two samples, with everything recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import InputError, array, choice, integer, number
from neuralrace.network import precision
from neuralrace.universality.descent import run_descent
from neuralrace.universality.fit import Fit, fit
from neuralrace.universality.zoo import Network

OPTIMIZERS = ("sgd", "adam")


@dataclass(frozen=True, eq=False)
class Training:
    """What `train` recorded before every step, and after the last, for each of several runs.

    `t` (times,) is the learning rate times the step; `dh2` (runs, hidden layers, times); `dy2`, `w`, `loss`
    (runs, times); `dx`, `dy` (runs,). A run that diverged is not finite from there on.
    """

    network: Network
    t: np.ndarray
    dh2: np.ndarray
    dy2: np.ndarray
    w: np.ndarray
    loss: np.ndarray
    dx: np.ndarray
    dy: np.ndarray

    def converged(self, share: float = 0.01) -> np.ndarray:
        """Whether the loss of each run ended below that share of its first value, (runs,)."""
        return self.loss[:, -1] < number("share", share, above=0) * self.loss[:, 0]

    def fit(
        self, run: int = 0, layer: int | None = None, *, loss: bool = False, times: int = 300,
        level: float = 0.95,
    ) -> Fit:  # fmt: skip
        """`universality.fit` of one run at a hidden layer counted from 1, by default half way, at so many
        of the times."""
        if integer("run", run, 0) >= len(self.loss):
            raise InputError(f"run must be below {len(self.loss)}, the number of runs; got {run}")
        layer = self.network.half if layer is None else integer("layer", layer)
        if layer > self.network.depth:
            raise InputError(f"layer must be at most {self.network.depth}, the hidden layers; got {layer}")
        if not np.isfinite(self.loss[run]).all():
            at = int(np.argmin(np.isfinite(self.loss[run])))
            raise InputError(f"run {run} diverged at step {at}: there is nothing to fit; try a smaller lr")
        keep = np.unique(np.linspace(0, len(self.t) - 1, integer("times", times)).round().astype(int))
        h, out, w, last = (v[run, keep] for v in (self.dh2[:, layer - 1], self.dy2, self.w, self.loss))
        extra = last if loss else None
        return fit(self.t[keep], h, out, w, self.dx[run], self.dy[run], loss=extra, level=level)


def train(
    network: Network, x: Any, y: Any, lr: float, steps: int, seeds: int | Iterable[int] = 0, *,
    optimizer: str = "sgd", dtype: Any = np.float32,
) -> Training:  # fmt: skip
    """Train on two samples, inputs `x` (2, in) and targets `y` (2, out), by full steps on half the mean
    squared error (representations_align Eq. 1).

    One run per seed; `x` and `y` may have a leading axis, which is that of runs too. In single precision
    unless `dtype` says otherwise, one after the other on a CPU and side by side on a GPU. What is recorded is
    of the network without dropout. Where outputs are the targets but for rounding, steps of descent on a CPU
    are no longer taken (fully connected, no dropout), as they would change nothing.

    >>> x, y = two_points()
    >>> run = train(Network(depth=4, width=30, gain=0.9), x, y, lr=0.1, steps=600, seeds=range(2))
    >>> run.dh2.shape, run.converged().tolist()
    ((2, 4, 601), [True, True])
    """
    if not isinstance(network, Network):
        raise InputError(f"network must be a universality.Network, got {network!r}")
    lr, steps = number("lr", lr, above=0), integer("steps", steps)
    choice("optimizer", optimizer, OPTIMIZERS)
    seeds = [integer("seeds", s, 0) for s in (seeds if isinstance(seeds, Iterable) else [seeds])]
    if not seeds:
        raise InputError("seeds must name at least one seed, got none")
    if max(seeds) >= 2**32:
        raise InputError(f"seeds must be below 2^32, got {max(seeds)}")
    data = []
    for name, value in (("x", x), ("y", y)):
        value = array(name, value)
        if value.ndim not in (2, 3) or value.shape[-2] != 2:
            raise InputError(f"{name} must be two samples, (2, size) or (runs, 2, size); got {value.shape}")
        data.append(value if value.ndim == 3 else value[None])
    runs = max(len(seeds), *map(len, data))
    for name, value in (("seeds", seeds), ("x", data[0]), ("y", data[1])):
        if len(value) not in (1, runs):
            raise InputError(f"{name} has {len(value)} runs where others have {runs}; give one, or as many")
    x, y = (np.broadcast_to(v, (runs, *v.shape[1:])) for v in data)
    dx, dy = (np.linalg.norm(v[:, 1] - v[:, 0], axis=1) for v in (x, y))
    if (dx == 0).any():
        raise InputError("x holds two identical inputs, which can have no different representations")
    dtype = np.dtype(choice("dtype", getattr(dtype, "__name__", str(dtype)), ("float32", "float64")))
    # GPUs would multiply single-precision matrices with ten bits.
    with precision(dtype), jax.default_matmul_precision("highest"):
        keys = jnp.asarray(np.broadcast_to(seeds, runs), jnp.uint32)
        given = keys, jnp.asarray(x, dtype), jnp.asarray(y, dtype)
        # Networks that differ in their gain share a compiled function.
        found = run_descent(replace(network, gain=1.0), optimizer, steps, given, network.gain, lr)
        dh2, dy2, w, loss = (np.asarray(v, np.float64) for v in found)
    return Training(network, lr * np.arange(steps + 1), dh2.swapaxes(1, 2), dy2, w, loss, dx, dy)
