"""A figure of one measure of a sweep, against one or two of its axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace import plot
from neuralrace.errors import InputError, choice, sequence, short

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


def sweep_figure(ds: xarray.Dataset, measure: str, against: Sequence[str] | str | None = None) -> Figure:
    """A measure against one axis (mean and range over the others), or two (a line for each value).

    Where values are missing (nan), means are those of the others, and the legend has their number.

    Parameters
    ----------
    ds : xarray.Dataset
        The result of `sweep`.
    measure : str
        A number of each run.
    against : str or two of them, optional
        Axes; by default the first two that are not `seed`.

    Returns
    -------
    matplotlib Figure
    """
    import xarray as xr

    if not isinstance(ds, xr.Dataset):
        raise InputError(f"ds must be the result of a sweep, got {short(ds)}")
    choice("measure", measure, tuple(map(str, ds.data_vars)))
    values = ds[measure]
    if values.dtype.kind not in "biuf":
        raise InputError(f"measure must be a number of each run; {measure!r} is text")
    dims = [str(d) for d in values.dims]
    own = [d for d in dims if d.startswith(f"{measure}_")]
    if own:
        raise InputError(f"measure must be a number of each run; {measure!r} has further axes {own}")
    if against is None:
        against = [d for d in dims if d != "seed"][:2] or dims
    given = [against] if isinstance(against, str) else sequence("against", against, "one or two axes")
    for axis in given:
        choice("against", axis, tuple(dims))
    if not 1 <= len(given) <= 2 or len(set(given)) < len(given):
        raise InputError(f"against must name one or two different axes of the sweep, got {short(given)}")
    x, *other = given
    spread = [d for d in dims if d not in given]
    with plot.style():
        fig, ax = plot.figure(1, 1, width=5.4 if other else 4.2, height=2.8)
        deviation = None if spread else ds.get(f"spread:{measure}")  # over the seeds of an experiment
        middle = values.mean(spread)
        bands = (values.min(spread), values.max(spread)) if spread else ()
        bands = bands if deviation is None else (values - deviation, values + deviation)
        for k, colour in enumerate(plot.shades(values.sizes[other[0]]) if other else [plot.BLUE]):
            place = {other[0]: k} if other else {}
            label = f"{other[0]} = {_told(values[other[0]][k].item())}" if other else "mean"
            _line(ax, [v.isel(place) for v in (middle, *bands)], x, colour, label)
        if _geometric(np.asarray(ds[x])):
            ax.set_xscale("log")
            plot.logarithmic(ax.xaxis)
        elif np.asarray(ds[x]).dtype.kind in "iu":
            ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set(xlabel=x, ylabel=measure.replace("_", " "))
        told = [f"band: range over {', '.join(spread)}"] if spread else []
        told += ["band: standard deviation over seeds"] if deviation is not None else []
        missing = int(np.isnan(np.asarray(values, float)).sum())
        told += [f"{missing} of {values.size} values are missing"] if missing else []
        if other:
            ax.legend(title="\n".join(told) or None, loc="upper left", bbox_to_anchor=(1.02, 1.0))
        elif told:
            ax.legend(title="\n".join(told))
    return fig


def _line(ax: Any, curves: list[Any], x: str, colour: Any, label: str) -> None:
    """The first curve, and a band between the two others where there are any."""
    middle, *band = curves
    at = np.asarray(middle[x])
    at = at if at.dtype.kind in "iuf" else at.astype(str)
    ax.plot(at, middle, color=colour, label=label, marker="o", ms=3)
    if band:
        ax.fill_between(at, *band, color=colour, alpha=0.2, lw=0)


def _geometric(values: np.ndarray) -> bool:
    """Whether values are spaced evenly in their logarithm."""
    if values.dtype.kind not in "iuf" or len(values) < 3 or (values <= 0).any():
        return False
    steps = np.diff(np.log(values.astype(float)))
    return bool(np.ptp(steps) < 1e-6 * np.abs(steps).max())


def _told(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
