"""The theory fitted to every run of a trajectory, at one layer or several."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from neuralrace import Trajectory
from neuralrace.errors import InputError, flag, integer
from neuralrace.universality import fit, fit_rates

if TYPE_CHECKING:
    import xarray

SERIES = ("dh2", "dy2", "w", "loss")
NUMBERS = ("rate_h", "rate_y", "rate_mean", "error", "largest_error", "final")


def fit_runs(
    training: Trajectory,
    layers: Sequence[int] | None = None,
    *,
    loss: bool = False,
    times: int = 300,
    observed: bool = False,
) -> xarray.Dataset:
    """Effective learning rates of every run, as `fit` or `fit_rates` finds them.

    Nothing is refused: where a run diverged, or its series do not move as the theory can, numbers are nan.

    Parameters
    ----------
    training : Trajectory
        Several runs, as of `train` or `follow_pair`.
    layers : sequence of int, optional
        Layers among those recorded, counted from 1; by default the one half way.
    loss : bool, default False
        Whether to fit the loss too, for the rate of the mean output.
    times : int, default 300
        How many of the times to use, evenly spaced.
    observed : bool, default False
        Take the start as it was observed and fit the rates alone, as the paper does (`fit_rates`).

    Returns
    -------
    xarray.Dataset
        For each `run` and `layer`: `rate_h`, `rate_y`, `rate_mean` (nan without the loss) and `final`
        (Eq. 10); errors of dh2, dy2 and w, as shares of their largest values: `error`, root mean square, and
        `largest_error`, at any time. For each `series` (dh2, dy2, w and perhaps loss): `errors`, root mean
        square. At each `t`: `measured` and fitted (`theory`) values.

    Examples
    --------
    >>> import neuralrace as nr
    >>> from neuralrace_papers.zoo import Network, fit_runs, train
    >>> x, y = nr.tasks.two_points().arrays
    >>> run = train(Network(depth=4, width=30, gain=0.9), x, y, lr=0.1, steps=600, seeds=range(2))
    >>> fits = fit_runs(run, layers=(2, 3))
    >>> dict(fits.sizes), bool((fits.error < 0.1).all())
    ({'run': 2, 'layer': 2, 'series': 3, 't': 300}, True)
    """
    import xarray as xr

    if not isinstance(training, Trajectory) or not training.many:
        raise InputError("training must be a Trajectory of several runs, as of zoo.train")
    n, depth = training.recorded["dh2"].shape[::2]
    half = training.settings.get("half", depth // 2 + 1)
    layers = [half] if layers is None else [integer("layers", k, most=depth) for k in layers]
    keep = np.linspace(0, len(training.t) - 1, min(integer("times", times), len(training.t)))
    keep = np.unique(keep.round().astype(int))
    t, names = training.t[keep], SERIES if flag("loss", loss) else SERIES[:3]
    dy2, w, losses = (v[:, keep] for v in (training.recorded["dy2"], training.recorded["w"], training.loss))
    numbers = {name: np.full((n, len(layers)), np.nan) for name in NUMBERS}
    errors = np.full((n, len(layers), len(names)), np.nan)
    measured, theory = (np.full((*errors.shape, len(t)), np.nan) for _ in range(2))
    method = fit_rates if flag("observed", observed) else partial(fit, strict=False)
    for at in product(range(n), range(len(layers))):
        run, layer = at
        three = training.recorded["dh2"][run, keep, layers[layer] - 1], dy2[run], w[run]
        dx, dy = (float(training.runs[name][run]) for name in ("dx", "dy"))
        measured[at] = [*three, losses[run]][: len(names)]
        try:
            found = method(t, *three, dx, dy, loss=losses[run] if loss else None)
        except InputError:
            continue
        errors[at] = found.errors
        theory[at] = [*found.curves(t), found.loss(t)][: len(names)]
        off = np.abs(theory[at] - measured[at])[:3] / np.abs(measured[at]).max(axis=1, keepdims=True)[:3]
        mean = np.nan if found.rate_mean is None else found.rate_mean
        error = np.sqrt((errors[at][:3] ** 2).mean())
        values = found.rate_h, found.rate_y, mean, error, off.max(), found.final
        for name, value in zip(NUMBERS, values, strict=True):
            numbers[name][at] = value
    dims = ("run", "layer", "series", "t")
    by_series = {"errors": (dims[:3], errors), "measured": (dims, measured), "theory": (dims, theory)}
    coordinates = {"layer": layers, "series": list(names), "t": t}
    return xr.Dataset({**{k: (dims[:2], v) for k, v in numbers.items()}, **by_series}, coordinates)
