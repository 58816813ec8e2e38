"""Distances of representations and outputs of pairs of samples while a network learns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from neuralrace.dynamics.status import Ending, Status
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, array, flag, integer, number, short
from neuralrace.torch_modules import is_module, measure_module
from neuralrace.universality.fitting import Fit, fit


class Record:
    """Follows pairs of samples while a network learns: call it with the time during training.

    Made by `record`. `trajectory` is what it has recorded so far.

    Attributes
    ----------
    pairs : ndarray of int, shape (pairs, 2)
        Numbers of the samples.
    dx, dy : ndarray, shape (pairs,)
        Distances of the two inputs and of the two targets, not squared.
    layer : str or None
        Name of the layer of a torch module.

    Examples
    --------
    >>> from neuralrace.universality import record
    >>> x = np.array([[0.0], [1.0]])
    >>> rec = record(lambda scale, x: (scale * x, scale * x), x, y=x)
    >>> for t in range(3):
    ...     rec(t, t / 2)
    >>> run = rec.trajectory[0]  # of the first pair
    >>> run.recorded["dh2"][:, 0].tolist(), run.loss.tolist()
    ([0.0, 0.25, 1.0], [0.25, 0.0625, 0.0])
    """

    def __init__(
        self,
        measure: Callable[..., Any],
        x: np.ndarray,
        y: np.ndarray,
        pairs: np.ndarray,
        layer: str | None,
    ) -> None:
        self.pairs: np.ndarray = pairs
        self.layer: str | None = layer
        self.dx, self.dy = pair_distances(x, y, pairs)
        self._measure, self._targets = measure, y
        self._rows: list[np.ndarray] = []
        self._times: list[float] = []

    def __call__(self, t: float, *state: Any) -> None:
        """Measure now, at time t.

        Parameters
        ----------
        t : float
            The time, in any unit; it must increase from call to call.
        *state
            For a function: its arguments before the inputs, such as the parameters.
        """
        t = number("t", t)
        if self._times and t <= self._times[-1]:
            raise InputError(f"t must increase from call to call; got {t:g} after {self._times[-1]:g}")
        hidden, output = (np.asarray(v, np.float64) for v in self._measure(*state))
        n = len(self._targets)
        for name, v in (("representation", hidden), ("output", output)):
            if v.ndim == 0 or v.shape[0] != n:
                raise InputError(
                    f"the {name} must have one row per sample, {n}; its shape is {v.shape}; "
                    "`pick` chooses the right array and axis order of a layer"
                )
            if not np.isfinite(v).all():
                raise InputError(
                    f"the network diverged: its {name} at t = {t:g} is not finite; "
                    "what was recorded before is kept; try a smaller learning rate"
                )
        hidden, output = hidden.reshape(n, -1), output.reshape(n, -1)
        if output.shape != self._targets.shape:
            raise InputError(f"y must have the {output.shape[1]} outputs per sample that the model has, "
                             f"got {self._targets.shape[1]}")  # fmt: skip
        self._rows.append(np.stack(pair_series(hidden, output, self._targets, *self.pairs.T)))
        self._times.append(t)

    @property
    def trajectory(self) -> Trajectory:
        """What was recorded, one run for each pair: `loss`, and `dh2`, `dy2`, `w` under `recorded`."""
        if not self._times:
            raise InputError("nothing is recorded yet: call the record with the time during training")
        endings = (Ending(Status.FINISHED, self._times[-1]),) * len(self.pairs)
        runs = {"first": self.pairs[:, 0], "second": self.pairs[:, 1], "dx": self.dx, "dy": self.dy}
        series = np.stack(self._rows, axis=-1)  # (pairs, times) each
        return _trajectory(np.array(self._times), series, endings, {"layer": self.layer}, runs)

    def fit(
        self, pair: int = 0, *, with_loss: bool = False, confidence: float = 0.95, strict: bool = True
    ) -> Fit:
        """Effective learning rates of one pair: `universality.fit` of its series, at all times.

        Parameters
        ----------
        pair : int, default 0
            Its place among the pairs.
        with_loss : bool, default False
            Whether to fit the loss too, for the rate of the mean output.
        confidence, strict
            As in `universality.fit`.

        Returns
        -------
        Fit
            Rates per unit of `t`.
        """
        if integer("pair", pair, 0) >= len(self.pairs):
            raise InputError(f"pair must be below {len(self.pairs)}, the number of pairs; got {pair}")
        times = max(1, len(self._times))
        return fit_recorded(
            self.trajectory, pair, with_loss=with_loss, times=times, confidence=confidence, strict=strict
        )


def fit_recorded(
    trajectory: Trajectory, run: int = 0, layer: int | None = None, *, with_loss: bool = False,
    times: int = 300, confidence: float = 0.95, strict: bool = True,
) -> Fit:  # fmt: skip
    """Effective learning rates of one run of a trajectory that was recorded: `fit` of its series.

    Parameters
    ----------
    trajectory : Trajectory
        As of `Record.trajectory` or `follow_pair`: `recorded` has `dh2` (runs, times, layers), `dy2` and `w`
        (runs, times), and `runs` the distances `dx` and `dy`.
    run : int, default 0
        Its place among the runs.
    layer : int, optional
        The layer among those recorded, counted from 1; by default ``settings["half"]``, or the one half way.
    with_loss : bool, default False
        Whether to fit the loss too, for the rate of the mean output.
    times : int, default 300
        How many of the times to use, evenly spaced.
    confidence, strict
        As in `universality.fit`.

    Returns
    -------
    Fit
        Rates per unit of `t`.
    """
    if not isinstance(trajectory, Trajectory) or not {"dh2", "dy2", "w"} <= trajectory.recorded.keys():
        raise InputError(
            f"trajectory must be one of universality.record, with distances dh2; got {short(trajectory)}"
        )
    if integer("run", run, 0) >= (n := len(trajectory.loss) if trajectory.many else 1):
        raise InputError(f"run must be below {n}, the number of runs; got {run}")
    one = trajectory[run] if trajectory.many else trajectory
    dh2, layers = one.recorded["dh2"], one.recorded["dh2"].shape[-1]
    chosen = one.settings.get("half", layers // 2 + 1) if layer is None else integer("layer", layer)
    if chosen > layers:
        raise InputError(f"layer must be at most {layers}, the hidden layers; got {layer}")
    if one.status is Status.DIVERGED:
        raise InputError(f"run {run} {one.outcome}; there is nothing to fit")
    keep = np.linspace(0, len(one.t) - 1, min(integer("times", times), len(one.t)))
    keep = np.unique(keep.round().astype(int))
    dh2, dy2, w = (v[keep] for v in (dh2[:, chosen - 1], one.recorded["dy2"], one.recorded["w"]))
    dx, dy = float(one.runs["dx"]), float(one.runs["dy"])
    losses = one.loss[keep] if flag("with_loss", with_loss) else None
    return fit(one.t[keep], dh2, dy2, w, dx, dy, loss=losses, confidence=confidence, strict=strict)


def record(
    model: Any, x: Any, y: Any, *, layer: str | int | None = None,
    pairs: Sequence[tuple[int, int]] | str | None = None, pick: Callable[[Any], Any] | None = None,
) -> Record:  # fmt: skip
    """Follow how the representations of samples x with targets y move while `model` learns.

    Call the result with the time in your own training loop: `rec(t)`, or `rec(t, params)` for a function. A
    module is measured in evaluation mode, without gradients, and left as it was.

    Parameters
    ----------
    model : torch.nn.Module or callable
        The network, or a function that returns a representation and an output for (params, x), each with
        one row per sample.
    x, y : array_like or torch.Tensor, shape (samples, ...)
        Inputs and targets. A function gets x as it is given here.
    layer : str or int, optional
        Of a module: the name of a submodule, or its place among the modules without children in the order
        in which they run (negative from the end); by default the one half way.
    pairs : sequence of (int, int), or "all", optional
        Which samples to compare; needed where there are more than two.
    pick : callable, optional
        Of a module: takes the representation from what the layer returns (its first tensor by default),
        samples first.

    Returns
    -------
    Record
        To be called with the time. Its `trajectory` has a run for each pair.

    Examples
    --------
    >>> from neuralrace.universality import record
    >>> def model(weights, x):
    ...     hidden = x @ weights[0]
    ...     return hidden, hidden @ weights[1]
    >>> rec = record(model, np.eye(2), [[0.0], [1.0]])
    >>> rec(0.0, (np.eye(2), np.ones((2, 1))))
    >>> run = rec.trajectory
    >>> run.recorded["dh2"].ravel(), run.recorded["dy2"].ravel(), run.loss.ravel()
    (array([2.]), array([0.]), array([0.25]))
    """
    flat, targets = (samples(name, v) for name, v in (("x", x), ("y", y)))
    if len(targets) != len(flat):
        raise InputError(f"y must have {len(flat)} rows, as many as x, got {len(targets)}")
    if is_module(model):
        measure, name = measure_module(model, x, layer, pick)
        return Record(measure, flat, targets, _pairs(pairs, len(flat)), name)
    if not callable(model):
        raise InputError(f"model must be a torch.nn.Module or a function, got {type(model).__name__}")
    for name, v in (("layer", layer), ("pick", pick)):
        if v is not None:
            raise InputError(f"{name} is for a torch.nn.Module; a function returns (representation, output)")

    def measure_function(*state: Any) -> Any:
        out = model(*state, x)
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise InputError(f"the function must return (representation, output), got {type(out).__name__}")
        return out

    return Record(measure_function, flat, targets, _pairs(pairs, len(flat)), None)


def pair_distances(x: np.ndarray, y: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances of inputs and of targets of each of the pairs, `(pairs,)`; inputs must differ."""
    first, second = pairs.T
    dx, dy = (np.linalg.norm(v[second] - v[first], axis=1) for v in (x, y))
    if (dx == 0).any():
        i, j = pairs[np.argmin(dx)]
        raise InputError(
            f"samples {i} and {j} have identical inputs, so they can have no different representations; "
            "choose other pairs"
        )
    return dx, dy


def pair_series(
    hidden: np.ndarray, output: np.ndarray, y: np.ndarray, first: Any, second: Any
) -> tuple[np.ndarray, ...]:
    """dh2, dy2, w and the loss of pairs, `(..., pairs)`, from activities `(..., samples, size)`."""
    dh, dy, goal = (v[..., second, :] - v[..., first, :] for v in (hidden, output, y))
    square = ((output - y) ** 2).sum(-1)
    loss = (square[..., first] + square[..., second]) / 4
    return (dh**2).sum(-1), (dy**2).sum(-1), (dy * (dy - goal)).sum(-1), loss


def samples(name: str, value: Any) -> np.ndarray:
    """One row of numbers per sample, of which there must be two or more."""
    out = array(name, value)
    if out.ndim == 0 or len(out) < 2:
        raise InputError(f"{name} must hold at least two samples, got {len(out) if out.ndim else 'a number'}")
    return out.reshape(len(out), -1)


def _pairs(pairs: Any, n: int) -> np.ndarray:
    if pairs is None and n > 2:
        raise InputError(f'pairs must say which of the {n} samples to compare, as [(0, 1), ...] or "all"')
    if pairs is None or (isinstance(pairs, str) and pairs == "all"):
        return np.array(list(combinations(range(n), 2)))
    out = array("pairs", pairs, (None, 2))
    if not len(out) or not np.isin(out, np.arange(n)).all() or (out[:, 0] == out[:, 1]).any():
        raise InputError(f"pairs must hold pairs of different sample numbers from 0 to {n - 1}")
    return out.astype(int)


def follow_pair(trajectory: Trajectory, x: Any, y: Any, pair: tuple[int, int] = (0, 1)) -> Trajectory:
    """Distances of two samples in every run of a trajectory that was recorded with `watch`.

    Parameters
    ----------
    trajectory : Trajectory
        Several runs, of a network recorded with `watch`.
    x, y : array_like, shape (samples, size)
        The inputs that were watched, and their targets.
    pair : tuple of int
        Which two of the samples.

    Returns
    -------
    Trajectory
        With `dh2` (runs, times, 1), `dy2` and `w` (runs, times), and the loss of the two samples.

    Examples
    --------
    >>> import neuralrace as nr
    >>> from neuralrace.universality import follow_pair, watch
    >>> x, y = np.eye(3), np.array([[1.0], [-1.0], [0.5]])
    >>> task = nr.Task(nr.Graph.chain([3, 4, 1]), x, y)
    >>> start = nr.init.gaussian(task.graph, 0.1, seed=range(2))
    >>> run = nr.flow(task, start, 50.0, 20, record=watch(task.graph, x, "h1"))
    >>> follow_pair(run, x, y, (0, 1)).recorded["dy2"][:, -1].round(2)
    array([4., 4.])
    """
    if not isinstance(trajectory, Trajectory):
        raise InputError(f"trajectory must be a Trajectory, got {short(trajectory)}")
    hidden, output = (trajectory.recorded.get(name) for name in ("hidden", "output"))
    if hidden is None or output is None or not trajectory.many:
        raise InputError("trajectory must hold several runs, recorded with universality.watch")
    hidden, output = (np.asarray(v, np.float64) for v in (hidden, output))
    x, y = samples("x", x), samples("y", y)
    n = hidden.shape[2]
    if len(x) != n or y.shape != (n, output.shape[-1]):
        shape = (n, output.shape[-1])
        raise InputError(f"x must have the {n} samples that were watched and y the shape {shape}, "
                         f"got {len(x)} and {y.shape}")  # fmt: skip
    if not np.isin(array("pair", pair, (2,)), np.arange(n)).all():
        raise InputError(f"pair must be two sample numbers from 0 to {n - 1}, got {short(pair)}")
    a, b = map(int, pair)
    dx, dy = (np.repeat(v, len(hidden)) for v in pair_distances(x, y, np.array([[a, b]])))
    series, runs = pair_series(hidden, output, y, a, b), {**trajectory.runs, "dx": dx, "dy": dy}
    return _trajectory(trajectory.t, series, trajectory.endings, trajectory.settings, runs)


def _trajectory(t: np.ndarray, series: Any, endings: Any, settings: Any, runs: dict[str, Any]) -> Trajectory:
    """Series of pairs, as `pair_series` has them, as a trajectory with a run for each pair."""
    dh2, dy2, w, loss = series
    recorded = {"dh2": dh2[..., None], "dy2": dy2, "w": w}
    dims = {"recorded:dh2": ("layer",)}
    return Trajectory(t, loss, endings=endings, recorded=recorded, settings=settings, runs=runs, dims=dims)
