"""Training of networks on two samples, with everything recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace import Status, Trajectory
from neuralrace.dynamics import Ending
from neuralrace.errors import InputError, array, choice, integer, listable, number, short
from neuralrace_papers.zoo.descent import run_descent
from neuralrace_papers.zoo.network import Network

OPTIMIZERS = ("sgd", "adam")


def train(
    network: Network, x: Any, y: Any, lr: float, steps: int, seeds: int | Iterable[int] = 0, *,
    optimizer: str = "sgd", dtype: Any = np.float32,
) -> Trajectory:  # fmt: skip
    """Train on two samples by full steps on half the mean squared error (representations_align Eq. 1).

    On a CPU runs go one after the other, on a GPU side by side. Where outputs are the targets but for
    rounding, steps of descent on a CPU are no longer taken (fully connected, no dropout), as they would
    change nothing.

    Parameters
    ----------
    network : Network
        What to train.
    x, y : array_like, shape (2, size) or (runs, 2, size)
        Inputs and targets of both samples.
    lr : float
        Learning rate; step k is at the time `lr k`.
    steps : int
        Number of steps.
    seeds : int or iterable of int, default 0
        Of initial weights and dropout, one run per seed; below 2^32.
    optimizer : {"sgd", "adam"}
        Gradient descent, or optax's Adam.
    dtype : {numpy.float32, numpy.float64}
        Precision of the network.

    Returns
    -------
    Trajectory
        A trajectory with `t` (steps + 1,), `loss` (runs, steps + 1) and what is `recorded`: `dh2` (runs,
        steps + 1, hidden layers), `dy2` and `w` (runs, steps + 1), of the network without dropout.

    Examples
    --------
    >>> import neuralrace as nr
    >>> from neuralrace_papers.zoo import Network, train
    >>> x, y = nr.tasks.two_points().arrays
    >>> run = train(Network(depth=4, width=30, gain=0.9), x, y, lr=0.1, steps=600, seeds=range(2))
    >>> run.recorded["dh2"].shape, (run.loss[:, -1] < 0.01 * run.loss[:, 0]).tolist()
    ((2, 601, 4), [True, True])
    """
    given = _checked(network, x, y, lr, steps, seeds, optimizer, dtype)
    # GPUs would multiply single-precision matrices with ten bits.
    with jax.enable_x64(given.dtype == np.float64), jax.default_matmul_precision("highest"):
        runs = jnp.asarray(given.seeds, jnp.uint32), *(jnp.asarray(v, given.dtype) for v in given.data)
        # Networks that differ in their gain share a compiled function.
        series = run_descent(
            dataclasses.replace(network, gain=1.0), optimizer, steps, runs, network.gain, given.lr
        )
    return _training(network, given, steps, optimizer, [np.asarray(v, np.float64) for v in series])


def _training(
    network: Network, given: _Given, steps: int, optimizer: str, series: list[np.ndarray]
) -> Trajectory:
    """What was series, as a trajectory."""
    dh2, dy2, w, loss = series
    t = given.lr * np.arange(steps + 1)
    finite = np.isfinite(loss)
    whole = np.all(finite, axis=1).tolist()
    last = [steps if ok else int(k) for ok, k in zip(whole, finite.argmin(axis=1), strict=True)]
    ended = [Status.FINISHED if ok else Status.DIVERGED for ok in whole]
    dx, dy = given.distances
    return Trajectory(
        t=t,
        loss=loss,
        endings=tuple(
            Ending(status, float(t[k]), step=k, lr=given.lr, loss=np.nan)
            for status, k in zip(ended, last, strict=True)
        ),
        recorded={"dh2": dh2, "dy2": dy2, "w": w},
        settings={
            "network": dataclasses.asdict(network), "half": network.half, "lr": given.lr, "steps": steps,
            "optimizer": optimizer, "seeds": given.seeds.tolist(), "dtype": given.dtype.name,
        },
        runs={"seed": given.seeds, "dx": dx, "dy": dy},
        dims={"recorded:dh2": ("layer",)},
    )  # fmt: skip


class _Given(NamedTuple):
    """Arguments of `train`, checked: one entry per run."""

    seeds: np.ndarray
    data: tuple[np.ndarray, ...]
    distances: tuple[np.ndarray, ...]
    lr: float
    dtype: np.dtype


def _checked(
    network: Any, x: Any, y: Any, lr: Any, steps: Any, seeds: Any, optimizer: Any, dtype: Any
) -> _Given:
    if not isinstance(network, Network):
        raise InputError(f"network must be a zoo.Network, got {short(network)}")
    lr = number("lr", lr, above=0)
    integer("steps", steps, most=2**31 - 2)
    choice("optimizer", optimizer, OPTIMIZERS)
    name = dtype.name if isinstance(dtype, np.dtype) else getattr(dtype, "__name__", dtype)
    dtype = np.dtype(choice("dtype", name, ("float32", "float64")))
    given = seeds if listable(seeds) else [seeds]
    seeds = [integer("seeds", s, 0, 2**32 - 1) for s in given]
    if not seeds:
        raise InputError("seeds must name at least one seed, got none")
    data = []
    for name, value in (("x", x), ("y", y)):
        value = array(name, value)
        if value.ndim not in (2, 3) or value.shape[-2] != 2 or not value.size:
            raise InputError(f"{name} must be two samples, (2, size) or (runs, 2, size); got {value.shape}")
        data.append(value if value.ndim == 3 else value[None])
    runs = max(len(seeds), *map(len, data))
    for name, value in (("seeds", seeds), ("x", data[0]), ("y", data[1])):
        if len(value) not in (1, runs):
            raise InputError(f"{name} has {len(value)} runs where others have {runs}; give one, or as many")
    data = tuple(np.broadcast_to(v, (runs, *v.shape[1:])) for v in data)
    distances = tuple(np.linalg.norm(v[:, 1] - v[:, 0], axis=1) for v in data)
    if (distances[0] == 0).any():
        raise InputError("x holds two identical inputs, which can have no different representations")
    return _Given(np.broadcast_to(np.array(seeds), runs).copy(), data, distances, lr, dtype)
