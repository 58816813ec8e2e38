"""Both fits of the theory of two points, as the paper makes it and with the start fitted too; what is read
off them, and how they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from neuralrace import Trajectory, plot
from neuralrace.measure import crossing, half_time
from neuralrace_papers.framework import along
from neuralrace_papers.zoo import fit_runs

SERIES = {
    "dh2": ("|dh|² over its largest value", plot.BLUE),
    "dy2": ("|dy|²", plot.ORANGE),
    "w": ("w", plot.GREEN),
}
COLOURS = dict(SERIES.values())
WAYS = {"rates": ("two rates fitted (Eq. 49)", "--"), "start": ("rates and start fitted", "-")}
NETWORK: dict[str, Any] = {"lw": 3.2, "alpha": 0.35}
TIMES = 301


def both_ways(run: Trajectory, **options: Any) -> xr.Dataset:
    """`fit_runs` of the rates alone, from the observed start, and of rates and start, along `fit`."""
    ways = {way: fit_runs(run, times=TIMES, observed=way == "rates", **options) for way in WAYS}
    fits = along(ways, "fit")
    return fits.assign(measured=fits.measured.isel(fit=0))


def left_over(fits: xr.Dataset) -> xr.DataArray:
    """What the fit of two rates leaves of the three curves by Eq. 49, as a share of their size; 1 without."""
    measured = fits.measured.isel(series=slice(3))
    off, size = (
        np.sqrt((v**2).sum(("series", "t"), skipna=False))
        for v in (fits.theory.sel(fit="rates") - measured, measured)
    )
    return (off / size).fillna(1.0)


def plateau(fits: xr.Dataset, series: str) -> np.ndarray:
    """Time to a tenth over time to nine tenths of the way to the end, of each run; nan where not learned."""
    values = fits.measured.sel(series=series)
    tenth, most = (half_time(fits.epoch, values, share=share) for share in (0.1, 0.9))
    return np.where(fits.learned, tenth / most, np.nan)


def loss_plateau(fits: xr.Dataset, dy2: float) -> np.ndarray:
    """Time at which the loss falls below 1/2 over that below 3/2 of dy^2/8, the loss of the mean target."""
    values = fits.measured.sel(series="loss").values
    late, early = (crossing(fits.epoch.values, values, s * dy2 / 8) for s in (0.5, 1.5))
    with np.errstate(divide="ignore", invalid="ignore"):  # where it starts below
        return np.asarray(late / early)


def early_over_late(fits: xr.Dataset, dy2: float) -> np.ndarray:
    """Error of the fit of two rates before outputs are half as far apart as targets / after, of each run."""
    measured = fits.measured.isel(series=slice(3))
    off = (fits.theory.sel(fit="rates") - measured) / np.abs(measured).max("t")
    square = (off**2).mean("series")
    before = (measured.sel(series="dy2") >= dy2 / 2).cumsum("t") == 0
    return np.sqrt(square.where(before).mean("t") / square.where(~before).mean("t")).values


def draw_series(ax: Axes, x: Any, one: xr.Dataset, series: str, colour: str, size: float = 1.0) -> None:
    """A series of one run over x, as measured (thick) and as fitted, in units of `size`."""
    one = one.sel(series=series)
    ax.plot(x, one.measured / size, color=colour, **NETWORK)
    for way, (_, line) in WAYS.items():
        plot.theory(ax, x, one.theory.sel(fit=way) / size, colour, lw=0.9, ls=line)


def key(colours: Mapping[str, str]) -> list[Line2D]:
    """The legend: labels of series with their colours, then the kinds of line."""
    return [
        *(Line2D([], [], color=colour, lw=2, label=label) for label, colour in colours.items()),
        Line2D([], [], color="0.3", label="network", **NETWORK),
        *(Line2D([], [], color="0.3", lw=0.9, ls=line, label=label) for label, line in WAYS.values()),
    ]
