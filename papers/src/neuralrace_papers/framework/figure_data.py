"""The numbers that a figure shows, read back from what was drawn."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.quiver import Quiver

from neuralrace.files import write

LARGE = 20_000  # rows from which on a table is compressed
LABELS = {"x": "get_xlabel", "y": "get_ylabel", "z": "get_zlabel"}
Columns = dict[str, Any]


def figure_data(fig: Figure) -> pd.DataFrame:
    """What a figure shows, as a table in long form.

    Parameters
    ----------
    fig : Figure
        Lines, points, error bars, bands, bars, images, contours and arrows are read; texts, patches and
        filled contours are not.

    Returns
    -------
    DataFrame
        A row for each point. `panel` counts the axes from 1, and `title` is that of the axes. `series` is
        the label in the legend; without one, that of what has the same colour. `mark` says what was drawn,
        `item` counts what was drawn within a panel. `x`, `y` (and `z`) are coordinates, `x_label`, `y_label`
        and `z_label` what stands at the axes. Other columns are there where they are needed: `low` and
        `high` of error bars and bands; `value` of images and contours; `dx` and `dy` of arrows.

    Examples
    --------
    >>> from neuralrace import plot
    >>> fig, ax = plot.figure()
    >>> plot.theory(ax, [0, 1], [2.0, 3.0], label="loss")
    >>> figure_data(fig)[["panel", "series", "x", "y"]].values.tolist()
    [[1, 'loss', 0.0, 2.0], [1, 'loss', 1.0, 3.0]]
    """
    axes = [ax for ax in fig.axes if ax.get_label() != "<colorbar>"]
    names: dict[str, str] = {}
    for ax in axes:
        for artist, _, _ in _drawn(ax):
            if (label := _label(artist)) and (colour := _colour(artist)):
                names.setdefault(colour, label)
    tables = []
    for panel, ax in enumerate(axes, 1):
        own = {_colour(a): label for a, _, _ in _drawn(ax) if (label := _label(a))}
        for item, (artist, mark, columns) in enumerate(_drawn(ax), 1):
            colour = _colour(artist)
            series = _label(artist) or own.get(colour) or names.get(colour or "", "")
            head = {"panel": panel, "title": _title(ax), "series": series, "mark": mark, "item": item}
            labels = {f"{k}_label": getattr(ax, get)() for k, get in LABELS.items() if hasattr(ax, get)}
            columns = {k: np.ravel(v) for k, v in columns.items()}
            tables.append(pd.DataFrame({**head, **columns, **labels}))
    return _ordered(tables)


def write_figure_data(fig: Figure, folder: Path, name: str) -> Path:
    """Write `figure_data` beside a figure, as `name.csv`, or `name.csv.gz` where it is large; its path."""
    table = figure_data(fig)
    large = len(table) > LARGE
    paths = folder / f"{name}.csv", folder / f"{name}.csv.gz"
    text = table.to_csv(index=False).encode()
    data = gzip.compress(text, mtime=0) if large else text
    write(paths[large], lambda file: file.write(data))
    paths[not large].unlink(missing_ok=True)
    return paths[large]


def _ordered(tables: list[pd.DataFrame]) -> pd.DataFrame:
    first = ["panel", "title", "series", "mark", "item", "x_label", "x", "y_label", "y", "z_label", "z"]
    first += ["low", "high", "value_label", "value", "dx", "dy"]
    filled = [t for t in tables if len(t)]
    if not filled:
        return pd.DataFrame(columns=pd.Index(["panel", "title", "series", "mark", "item", "x", "y"]))
    found = pd.concat(filled, ignore_index=True)
    return found.loc[:, [c for c in first if c in found]]


def _drawn(ax: Any) -> Iterator[tuple[Any, str, Columns]]:
    """Each thing in the axes that shows data: the artist, what it is, and its numbers."""
    parts = {id(part) for c in ax.containers for part in _members(c)}
    for container in ax.containers:
        if isinstance(container, ErrorbarContainer):
            yield container, "error bars", _error_bars(container)
        elif isinstance(container, BarContainer):
            yield container, "bars", _bars(container)
    for line in ax.lines:
        if id(line) not in parts:
            yield line, *_line(ax, line)
    for shown in ax.collections:
        if id(shown) in parts:
            continue
        if isinstance(shown, ContourSet):
            if not shown.filled:
                yield shown, "contour", _contour(shown)
        elif isinstance(shown, Quiver):
            (x, y), u, v = np.asarray(shown.XY, float).T, shown.U, shown.V
            yield shown, "arrows", {"x": x, "y": y, "dx": np.asarray(u, float), "dy": np.asarray(v, float)}
        elif isinstance(shown, PathCollection):
            x, y = np.asarray(shown.get_offsets(), float).T
            yield shown, "points", {"x": x, "y": y}
        elif isinstance(shown, LineCollection):
            x, y = np.concatenate(shown.get_segments()).T
            yield shown, "lines", {"x": x, "y": y}
        elif isinstance(shown, PolyCollection):
            yield shown, "band", _band(shown)
    for image in ax.images:
        yield image, "image", _image(image)


def _members(container: Any) -> Iterator[Artist]:
    """The artists that a container is made of."""
    for part in container:
        if isinstance(part, Artist):
            yield part
        elif isinstance(part, tuple):
            yield from part


def _line(ax: Any, line: Line2D) -> tuple[str, Columns]:
    """A line or points; of a line across the axes only where it lies."""
    mark = "points" if line.get_linestyle() == "None" else "line"
    if hasattr(line, "get_data_3d"):
        x, y, z = (np.asarray(v, float) for v in line.get_data_3d())  # pyright: ignore[reportAttributeAccessIssue]
        return mark, {"x": x, "y": y, "z": z}
    x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
    if line.get_transform() == ax.get_yaxis_transform():
        return "horizontal line", {"x": [np.nan], "y": y[:1]}
    if line.get_transform() == ax.get_xaxis_transform():
        return "vertical line", {"x": x[:1], "y": [np.nan]}
    return mark, {"x": x, "y": y}


def _error_bars(container: ErrorbarContainer) -> Columns:
    line, _, bars = container
    found: Columns = {}
    if line is not None:
        found = {"x": np.asarray(line.get_xdata(), float), "y": np.asarray(line.get_ydata(), float)}
    for bar in bars:
        if isinstance(bar, LineCollection) and container.has_yerr and len(bar.get_segments()):
            # A bar that is not a number has no ends.
            ends = np.array([s[:, 1] if np.ndim(s) == 2 else (np.nan, np.nan) for s in bar.get_segments()])
            found |= {"low": ends.min(axis=1), "high": ends.max(axis=1)}
    return found


def _bars(container: BarContainer) -> Columns:
    boxes = [patch.get_bbox() for patch in container]
    middle = np.array([[(b.x0 + b.x1) / 2, (b.y0 + b.y1) / 2] for b in boxes]).reshape(-1, 2)
    if container.orientation == "horizontal":
        return {"x": [b.x1 for b in boxes], "y": middle[:, 1]}
    return {"x": middle[:, 0], "y": [b.y1 for b in boxes]}


def _band(shown: PolyCollection) -> Columns:
    """What lies between two curves: `fill_between` draws along one and back along the other."""
    found = {"x": [], "low": [], "high": []}
    for path in shown.get_paths():
        v = np.asarray(path.vertices, float)
        n = (len(v) - 3) // 2  # corners at both ends, and the first one again
        if len(v) != 2 * n + 3 or n < 1:
            continue
        one, other = v[1 : n + 1], v[n + 2 : 2 * n + 2][::-1]
        both = np.stack([one[:, 1], other[:, 1]])
        for key, value in (("x", one[:, 0]), ("low", both.min(axis=0)), ("high", both.max(axis=0))):
            found[key] += value.tolist()
    return found


def _contour(shown: ContourSet) -> Columns:
    paths = list(zip(shown.levels, shown.get_paths(), strict=False))
    points = [np.asarray(path.vertices, float).reshape(-1, 2) for _, path in paths]
    xy = np.concatenate([np.empty((0, 2)), *points])
    level = np.concatenate(
        [np.empty(0), *(np.full(len(v), lv) for (lv, _), v in zip(paths, points, strict=True))]
    )
    return {"x": xy[:, 0], "y": xy[:, 1], "value": level}


def _image(image: Any) -> Columns:
    """Every pixel, where its middle lies; of one with colours, their mean is the value."""
    values = np.ma.filled(np.ma.asarray(image.get_array(), float), np.nan)
    values = values.mean(axis=2) if values.ndim == 3 else values
    rows, columns = values.shape
    left, right, bottom, top = image.get_extent()
    if image.origin == "upper":
        bottom, top = top, bottom
    x = left + (right - left) * (np.arange(columns) + 0.5) / columns
    y = bottom + (top - bottom) * (np.arange(rows) + 0.5) / rows
    x, y = np.meshgrid(x, y)
    found: Columns = {"x": x, "y": y, "value": values}
    if image.colorbar is not None:
        bar = image.colorbar.ax
        found["value_label"] = np.full(values.size, bar.get_ylabel() or bar.get_xlabel())
    return found


def _title(ax: Any) -> str:
    return next((t for where in ("left", "center", "right") if (t := ax.get_title(where))), "")


def _label(artist: Any) -> str:
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else label


def _colour(artist: Any) -> str | None:
    """The colour of a line, of points, of a band or of bars; None where there is none, or several."""
    if isinstance(artist, ErrorbarContainer):
        artist = artist[0]
    if isinstance(artist, BarContainer):
        artist = artist[0] if len(artist) else None
    if isinstance(artist, Line2D):
        return to_hex(artist.get_color())
    if isinstance(artist, (PathCollection, PolyCollection)):
        faces: Any = artist.get_facecolor()
        return to_hex(faces[0]) if len(faces) == 1 else None
    return to_hex(artist.get_facecolor()) if isinstance(artist, Patch) else None
