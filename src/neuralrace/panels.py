"""What panels of figures have in common: labels, scales, legends, and keys of line styles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from neuralrace.errors import choice
from neuralrace.plot import BLACK, logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Where the legend of a panel stands, as matplotlib says it: outside the axes, or in the place that it names.
LEGENDS: dict[str, dict[str, Any]] = {
    "below": {"loc": "upper center", "bbox_to_anchor": (0.5, -0.22)},
    "beside": {"loc": "center left", "bbox_to_anchor": (1, 0.5)},
    "above": {"loc": "lower center", "bbox_to_anchor": (0.5, 1)},
}


def label(
    ax: Axes,
    x: str = "",
    y: str = "",
    title: str = "",
    *,
    log: str = "",
    legend: str = "",
    ticks: Mapping[float, Any] | None = None,
    key: Mapping[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Label a panel: axes, title, scales and legend in one call.

    Parameters
    ----------
    ax : Axes
    x, y, title : str
        What stands at the axes and above them; what is empty is left as it is.
    log : {"", "x", "y", "xy"}
        Logarithmic axes.
    legend : str
        Where the legend stands: "below", "beside" or "above" the axes, or a place within them as matplotlib
        names it, such as "upper left". None by default.
    ticks : dict of float to text, optional
        Names of places along x, instead of numbers.
    key : dict, optional
        Options of the legend, such as ``{"ncols": 2}``.
    **settings
        Those of `Axes.set`, such as ``ylim``.

    Examples
    --------
    >>> from neuralrace import plot
    >>> fig, ax = plot.figure()
    >>> plot.theory(ax, [1, 2], [1.0, 0.1], label="theory")
    >>> label(ax, "time", "loss", log="y", legend="below", xlim=(1, 2))
    >>> ax.get_xlabel(), ax.get_yscale(), ax.get_legend() is not None
    ('time', 'log', True)
    """
    choice("log", log, ("", "x", "y", "xy"))
    words = {"xlabel": x, "ylabel": y, "title": title}
    scales = {f"{axis}scale": "log" for axis in log}
    ax.set(**{name: text for name, text in words.items() if text}, **scales, **settings)
    if ticks is not None:
        ax.set_xticks(list(ticks), [str(name) for name in ticks.values()])
    if legend:
        ax.legend(**{**LEGENDS.get(legend, {"loc": legend}), **(key or {})})


def line_styles(ax: Axes, styles: Mapping[str, str], colour: Any = BLACK, **keywords: Any) -> None:
    """Add kinds of line or marker to the legend of a panel, without drawing anything.

    Parameters
    ----------
    ax : Axes
    styles : dict of str to str
        Labels, with their format as in `Axes.plot`: "-", "--", ":", "o", ...
    colour : colour
    **keywords
        Those of `Axes.plot`.

    Examples
    --------
    >>> from neuralrace import plot
    >>> fig, ax = plot.figure()
    >>> line_styles(ax, {"network": "o", "theory": "--"})
    >>> ax.get_legend_handles_labels()[1]
    ['network', 'theory']
    """
    for name, style in styles.items():
        ax.plot([], [], style, color=colour, label=name, **keywords)
