"""One style for all figures: theory is a line, simulation is points or a band.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart; sizes fit a paper's column.
Nothing here touches matplotlib's global state.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.4, 7.0  # inches
BLUE, ORANGE, GREEN, PINK, SKY, RED, YELLOW, BLACK = COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000",
)  # fmt: skip
FORMATS = ("svg", "pdf", "png")
STYLE: Any = {
    "font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "legend.fontsize": 7, "xtick.labelsize": 7,
    "ytick.labelsize": 7, "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.7,
    "lines.linewidth": 1.3, "lines.markersize": 3, "legend.frameon": False, "legend.handlelength": 1.5,
    "axes.titlelocation": "left", "image.cmap": "viridis", "savefig.dpi": 200, "svg.hashsalt": "neuralrace",
    "figure.constrained_layout.use": True,
}  # fmt: skip


def style() -> AbstractContextManager[None]:
    """The common style while figures are drawn: legends, titles and texts read it when they are made.

    Returns
    -------
    context manager

    Examples
    --------
    >>> with style():
    ...     fig, ax = figure()
    ...     _ = ax.set_title("loss")
    """
    import matplotlib

    return matplotlib.rc_context(STYLE)


def figure(
    rows: int = 1, columns: int = 1, width: float | None = None, height: float | None = None, **keywords: Any
) -> tuple[Figure, Any]:
    """A figure with its axes.

    Parameters
    ----------
    rows, columns : int
        Number of panels.
    width, height : float, optional
        In inches. By default one panel is as wide as a column of a paper, several as a page.
    **keywords
        Those of matplotlib's `Figure.subplots`.

    Returns
    -------
    fig : matplotlib.figure.Figure
    axes : Axes, or ndarray of Axes
        One, or one for each panel.

    Examples
    --------
    >>> fig, (left, right) = figure(columns=2)
    >>> fig.get_size_inches().tolist()
    [7.0, 2.5]
    """
    from matplotlib.figure import Figure

    width = width or (COLUMN if columns == 1 else PAGE)
    with style():
        fig = Figure(figsize=(width, height or rows * min(2.5, 0.72 * width / columns)))
        return fig, fig.subplots(rows, columns, **keywords)


def theory(ax: Axes, x: Any, y: Any, colour: str = BLACK, label: str | None = None, **keywords: Any) -> None:
    """Draw what the theory says, as a line.

    Parameters
    ----------
    ax : Axes
    x, y : array_like, shape (points,)
    colour, label : str
    **keywords
        Those of `Axes.plot`.

    Examples
    --------
    >>> fig, ax = figure()
    >>> theory(ax, [0, 1, 2], [1.0, 0.5, 0.25], label="theory")
    """
    ax.plot(x, y, color=colour, label=label, **{"lw": 1.3, "zorder": 3, **keywords})


def runs(ax: Axes, x: Any, y: Any, colour: str = BLUE, label: str | None = None, **keywords: Any) -> None:
    """Draw what networks did: the median as a pale line, in a band from the least to the greatest.

    Parameters
    ----------
    ax : Axes
    x : array_like, shape (points,)
    y : array_like, shape (runs, points)
    colour, label : str
    **keywords
        Those of `Axes.plot`, for the median.

    Examples
    --------
    >>> fig, ax = figure()
    >>> runs(ax, [0, 1], [[1.0, 0.5], [1.1, 0.4]], label="networks")
    """
    y = np.atleast_2d(np.asarray(y, float))
    ax.fill_between(x, y.min(axis=0), y.max(axis=0), color=colour, alpha=0.25, lw=0)
    ax.plot(x, np.median(y, axis=0), color=colour, label=label, **{"lw": 2.6, "alpha": 0.5, **keywords})


def points(ax: Axes, x: Any, y: Any, colour: str = BLUE, label: str | None = None, **keywords: Any) -> None:
    """Draw what networks did: dots at the mean, with bars of one standard deviation over runs.

    Parameters
    ----------
    ax : Axes
    x : array_like, shape (points,)
    y : array_like, shape (points,) or (runs, points)
    colour, label : str
    **keywords
        Those of `Axes.errorbar`.

    Examples
    --------
    >>> fig, ax = figure()
    >>> points(ax, [0, 1], [[1.0, 0.5], [1.1, 0.4]], label="networks")
    """
    y = np.atleast_2d(np.asarray(y, float))
    spread = y.std(axis=0, ddof=1) if len(y) > 1 else None
    style = {"fmt": "o", "ms": 3.5, "lw": 0.9, "capsize": 1.5, **keywords}
    ax.errorbar(x, y.mean(axis=0), spread, color=colour, label=label, **style)


def logarithmic(axis: Any) -> None:
    """Make an axis logarithmic, with plain numbers at 1, 2, 5, 10, ...

    Parameters
    ----------
    axis : matplotlib axis
        `ax.xaxis` or `ax.yaxis`.

    Examples
    --------
    >>> fig, ax = figure()
    >>> logarithmic(ax.xaxis)
    >>> ax.get_xscale()
    'log'
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def matrix(ax: Axes, values: Any, title: str = "", limit: float | None = None) -> Any:
    """Draw a matrix as an image without ticks; zero is white, and the colours are symmetric about it.

    Parameters
    ----------
    ax : Axes
    values : array_like, shape (rows, columns)
    title : str
    limit : float, optional
        Value of the strongest colour; by default the largest size of an entry.

    Returns
    -------
    matplotlib.image.AxesImage

    Examples
    --------
    >>> fig, ax = figure()
    >>> matrix(ax, [[1.0, 0.0], [0.0, -2.0]]).get_clim()
    (-2.0, 2.0)
    """
    values = np.asarray(values, float)
    limit = limit or float(np.abs(values).max()) or 1.0
    image = ax.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="none", aspect="auto")
    ax.set(xticks=[], yticks=[], title=title)
    ax.spines[["top", "right"]].set_visible(True)
    return image


def save(fig: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as SVG, PDF and PNG.

    Parameters
    ----------
    fig : matplotlib.figure.Figure
    folder : Path
        Made if it does not exist.
    name : str
        Of the files, without suffix.

    Returns
    -------
    list of Path
        The files.
    """
    paths = []
    folder.mkdir(parents=True, exist_ok=True)
    with style():
        for suffix in FORMATS:
            date: Mapping[str, Any] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(suffix, {})
            paths.append(folder / f"{name}.{suffix}")
            fig.savefig(paths[-1], metadata=dict(date))
    return paths
