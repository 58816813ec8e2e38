"""Training of networks on two samples, with everything recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.dynamics.trajectory import Status, Trajectory
from neuralrace.errors import InputError, array, choice, flag, integer, number
from neuralrace.network import precision
from neuralrace.universality.descent import run_descent
from neuralrace.universality.fitting import Fit, fit
from neuralrace.universality.zoo import Network

if TYPE_CHECKING:
    import xarray

OPTIMIZERS = ("sgd", "adam")


@dataclass(frozen=True, eq=False, repr=False)
class Training(Trajectory):
    """Networks that learn two samples: a `Trajectory` of one or more runs with the distances of both samples.

    Made by `train`. It has all that a trajectory has, of every step from before the first to after the last.
    Weights are not kept. A run that diverged is not finite from there on.

    Attributes
    ----------
    t : ndarray, shape (times,)
        Step number times the learning rate.
    loss : ndarray, shape (runs, times)
        One half of the mean squared error of both samples.
    recorded : dict
        `dh2` (runs, times, hidden layers), `dy2` and `w` (runs, times).
    runs : dict
        The `seed`, `dx` and `dy` of each run, (runs,).
    settings : dict
        The network and how it was trained.

    Examples
    --------
    >>> from neuralrace.universality import Network, train, two_points
    >>> run = train(Network(depth=4, width=30, gain=0.9), *two_points(), lr=0.1, steps=600)
    >>> run.network.half, run.converged().tolist()
    (2, [True])
    """

    @property
    def network(self) -> Network:
        """The network that was trained."""
        return Network(**self.settings["network"])

    def converged(self, share: float = 0.01) -> Any:
        """Whether the loss of each run ended below that share of its first value.

        Parameters
        ----------
        share : float, default 0.01
            Of the first loss, above 0.

        Returns
        -------
        ndarray of bool, shape (runs,)
            Or one bool, of one run taken out (`run[0]`).
        """
        return self.loss[..., -1] < number("share", share, above=0) * self.loss[..., 0]

    def fit(
        self, run: int = 0, layer: int | None = None, *, loss: bool = False, times: int = 300,
        level: float = 0.95, strict: bool = True,
    ) -> Fit:  # fmt: skip
        """Effective learning rates of one run: `universality.fit` of its series.

        Parameters
        ----------
        run : int, default 0
            Its place among the runs.
        layer : int, optional
            The hidden layer, counted from 1; by default the one half way.
        loss : bool, default False
            Whether to fit the loss too, for the rate of the mean output.
        times : int, default 300
            How many of the times to use, evenly spaced.
        level, strict
            As in `universality.fit`.

        Returns
        -------
        Fit
            Rates per unit of `t`.
        """
        if integer("run", run, 0) >= (n := len(self.loss) if self.many else 1):
            raise InputError(f"run must be below {n}, the number of runs; got {run}")
        one, network = self[run] if self.many else self, self.network
        layer = network.half if layer is None else integer("layer", layer)
        if layer > network.depth:
            raise InputError(f"layer must be at most {network.depth}, the hidden layers; got {layer}")
        if one.status is Status.DIVERGED:
            raise InputError(f"run {run} {one.outcome}; there is nothing to fit")
        keep = np.unique(
            np.linspace(0, len(one.t) - 1, min(integer("times", times), len(one.t))).round().astype(int)
        )
        series = one.recorded["dh2"][:, layer - 1], one.recorded["dy2"], one.recorded["w"]
        dx, dy = float(one.runs["dx"]), float(one.runs["dy"])
        extra = one.loss[keep] if flag("loss", loss) else None
        dh2, dy2, w = (v[keep] for v in series)
        return fit(one.t[keep], dh2, dy2, w, dx, dy, loss=extra, level=level, strict=strict)

    @classmethod
    def from_xarray(cls, ds: xarray.Dataset) -> Training:
        """The inverse of `to_xarray`.

        Parameters
        ----------
        ds : xarray.Dataset
            As `to_xarray` returned it.

        Returns
        -------
        Training
        """
        return cls._of(Trajectory.from_xarray(ds))

    @classmethod
    def load(cls, path: str | Path) -> Training:
        """Read what `save` wrote.

        Parameters
        ----------
        path : str or Path
            The zarr folder that was written.

        Returns
        -------
        Training
        """
        return cls._of(Trajectory.load(path))

    @classmethod
    def _of(cls, found: Trajectory) -> Training:
        if "network" not in found.settings:
            raise InputError("the trajectory must be one of universality.train; its settings have no network")
        return cls(**{f.name: getattr(found, f.name) for f in dataclasses.fields(found)})


def train(
    network: Network, x: Any, y: Any, lr: float, steps: int, seeds: int | Iterable[int] = 0, *,
    optimizer: str = "sgd", dtype: Any = np.float32,
) -> Training:  # fmt: skip
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
    Training
        A trajectory with `t` (steps + 1,), `loss` (runs, steps + 1) and what is `recorded`: `dh2` (runs,
        steps + 1, hidden layers), `dy2` and `w` (runs, steps + 1), of the network without dropout.

    Examples
    --------
    >>> from neuralrace.universality import Network, train, two_points
    >>> x, y = two_points()
    >>> run = train(Network(depth=4, width=30, gain=0.9), x, y, lr=0.1, steps=600, seeds=range(2))
    >>> run.recorded["dh2"].shape, run.converged().tolist()
    ((2, 601, 4), [True, True])
    """
    given = _checked(network, x, y, lr, steps, seeds, optimizer, dtype)
    # GPUs would multiply single-precision matrices with ten bits.
    with precision(given.dtype), jax.default_matmul_precision("highest"):
        runs = jnp.asarray(given.seeds, jnp.uint32), *(jnp.asarray(v, given.dtype) for v in given.data)
        # Networks that differ in their gain share a compiled function.
        found = run_descent(replace(network, gain=1.0), optimizer, steps, runs, network.gain, given.lr)
    return _training(network, given, steps, optimizer, [np.asarray(v, np.float64) for v in found])


def _training(
    network: Network, given: _Given, steps: int, optimizer: str, found: list[np.ndarray]
) -> Training:
    """What was found, as a trajectory."""
    dh2, dy2, w, loss = found
    t = given.lr * np.arange(steps + 1)
    finite = np.isfinite(loss)
    whole = np.all(finite, axis=1).tolist()
    last = [steps if ok else int(k) for ok, k in zip(whole, finite.argmin(axis=1), strict=True)]
    ended = [Status.FINISHED if ok else Status.DIVERGED for ok in whole]
    dx, dy = given.distances
    return Training(
        t=t,
        loss=loss,
        statuses=tuple(ended),
        outcomes=tuple(_outcome(status, k, given.lr) for status, k in zip(ended, last, strict=True)),
        end=t[last],
        recorded={"dh2": dh2, "dy2": dy2, "w": w},
        settings={
            "network": dataclasses.asdict(network), "lr": given.lr, "steps": steps, "optimizer": optimizer,
            "seeds": given.seeds.tolist(), "dtype": given.dtype.name,
        },
        runs={"seed": given.seeds, "dx": dx, "dy": dy},
        dims={"recorded:dh2": ("layer",)},
    )  # fmt: skip


def _outcome(status: Status, step: int, lr: float) -> str:
    if status is Status.FINISHED:
        return "finished"
    return f"diverged at step {step}; try a smaller lr than {lr:g}"


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
        raise InputError(f"network must be a universality.Network, got {network!r}")
    lr = number("lr", lr, above=0)
    integer("steps", steps, most=2**31 - 2)
    choice("optimizer", optimizer, OPTIMIZERS)
    name = dtype.name if isinstance(dtype, np.dtype) else getattr(dtype, "__name__", dtype)
    dtype = np.dtype(choice("dtype", name, ("float32", "float64")))
    seeds = _seeds(seeds)
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


def _seeds(seeds: Any) -> list[int]:
    if isinstance(seeds, (str, bytes)) or not isinstance(seeds, Iterable):
        seeds = [seeds]
    found = [integer("seeds", s, 0) for s in seeds]
    if not found:
        raise InputError("seeds must name at least one seed, got none")
    if max(found) >= 2**32:
        raise InputError(f"seeds must be below 2^32, got {max(found)}")
    return found
