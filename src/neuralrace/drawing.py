"""Drawings of graphs: inline SVG for notebooks, in the colour of the text around it, and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neuralrace import plot
from neuralrace.errors import InputError, array, known, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuralrace.graph import Graph

MAX_NODES = 40  # a graph with more is drawn in part
MAX_IN_COLUMN = 5  # nodes of a layer that are then shown
MAX_COLUMNS = 8
GAP_X, GAP_Y, HEIGHT = 56, 14, 34  # between boxes, and of a box, in pixels
LETTER, SMALL_LETTER = 7.2, 5.6  # width of a letter in names and in the smaller line below, about
LONGEST_NAME = 14
MAX_PIXELS = 900  # width above which a drawing is scaled down
LETTERS, MOST_LETTERS = 12, 22  # size of names in pixels, and the most in points on a slide
MAX_CONTEXTS = 12  # whose gates are drawn one by one
_SVG_DASH = {"full": "", "diagonal": ' stroke-dasharray="4 3"', "fixed": ' stroke-dasharray="1 3"'}
_DASH = {"full": "-", "diagonal": "--", "fixed": ":"}


class Box(NamedTuple):
    """A node where it is drawn; `size` None for a box that stands for others."""

    x: float
    y: float
    name: str
    size: int | None


class Curve(NamedTuple):
    """An edge where it is drawn: four points of a Bezier curve, and what kind of edge it is."""

    name: str
    points: tuple[tuple[float, float], ...]
    kind: str


class Layout(NamedTuple):
    """Where the parts of a graph are drawn, in pixels."""

    boxes: dict[str, Box]
    curves: list[Curve]
    box_width: float
    left: float
    top: float
    width: float
    height: float


def layout(graph: Graph) -> Layout:
    """Layers from left to right, nodes as boxes, edges as curves."""
    columns = _columns(graph)
    named = [name for column in columns for name in column]
    width = max(
        44.0,
        *(LETTER * len(_label(n)) + 16 for n in named),
        *(SMALL_LETTER * len(_details(graph, n)) + 12 for n in named),
    )
    tallest = max(len(column) for column in columns) * (HEIGHT + GAP_Y) - GAP_Y
    boxes: dict[str, Box] = {}
    for k, column in enumerate(columns):
        top = (tallest - len(column) * (HEIGHT + GAP_Y) + GAP_Y) / 2
        for i, name in enumerate(column):
            place = k * (width + GAP_X), top + i * (HEIGHT + GAP_Y)
            boxes[name] = Box(*place, _label(name), graph.nodes.get(name))
    curves = _curves(graph, boxes, width, {n: k for k, c in enumerate(columns) for n in c})
    reach = [y for curve in curves for _, y in curve.points]
    top, bottom = min([0.0, *reach]) - 4, max([tallest, *reach]) + 4
    full = len(columns) * (width + GAP_X) - GAP_X + 8
    return Layout(boxes, curves, width, -4.0, top, full, bottom - top)


def graph_svg(graph: Graph) -> str:
    """The graph as SVG: layers from left to right, nodes as boxes with name and size, edges as curves."""
    at = layout(graph)
    shown = min(1.0, MAX_PIXELS / at.width)
    faint = _faint(graph)
    curves = [
        f'<path d="M{x0:.0f},{y0:.0f} C{x1:.0f},{y1:.0f} {x2:.0f},{y2:.0f} {x3:.0f},{y3:.0f}" fill="none" '
        f'stroke-opacity="{faint}"{_SVG_DASH[kind]}><title>{escape(name)}</title></path>'
        for name, ((x0, y0), (x1, y1), (x2, y2), (x3, y3)), kind in at.curves
    ]
    parts = [*curves, *(_box(graph, name, box, at.box_width) for name, box in at.boxes.items())]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(repr(graph))}" '
        f'viewBox="{at.left:.0f} {at.top:.0f} {at.width:.0f} {at.height:.0f}" width="{at.width * shown:.0f}" '
        f'height="{at.height * shown:.0f}" font-family="system-ui, sans-serif" font-size="{LETTERS}" '
        f'fill="currentColor" stroke="currentColor">{"".join(parts)}</svg>'
    )


def graph_figure(graph: Graph, gates: Mapping[str, Any] | None = None) -> Figure:
    """The same drawing as a figure; gated nodes with a square for each context, filled where it is open."""
    contexts = _contexts(graph, {} if gates is None else gates)
    at = layout(graph)
    points = LETTERS * 72 / 96  # on paper letters have their size in pixels
    fig, ax = plot.figure(width=at.width * points / 72 / LETTERS, height=at.height * points / 72 / LETTERS)
    width, height = fig.get_size_inches()
    scale = min(width / at.width, height / at.height, MOST_LETTERS / 72 / LETTERS) * 72  # points per pixel
    with plot.style():
        from matplotlib.patches import FancyBboxPatch, PathPatch
        from matplotlib.path import Path

        for curve in at.curves:
            path = Path(curve.points, [Path.MOVETO, *[Path.CURVE4] * 3])
            line = {"ls": _DASH[curve.kind], "lw": scale, "alpha": _faint(graph), "gid": curve.name}
            ax.add_patch(PathPatch(path, fc="none", ec=plot.BLACK, **line))
        for name, box in at.boxes.items():
            middle, own = box.x + at.box_width / 2, contexts.get(name)
            write = {"ha": "center", "va": "center"}
            if box.size is None:
                ax.text(middle, box.y + HEIGHT / 2, box.name, fontsize=LETTERS * scale, **write)
                continue
            colour = plot.BLUE if own is None else plot.RED
            frame = FancyBboxPatch(
                (box.x, box.y), at.box_width, HEIGHT, "round,pad=0,rounding_size=6",
                fc="white", ec=colour, lw=1.2 * scale, gid=name,
            )  # fmt: skip
            ax.add_patch(frame)
            ax.text(middle, box.y + 11, box.name, fontsize=LETTERS * scale, **write)
            ax.text(middle, box.y + 24, _details(graph, name), fontsize=10 * scale, color="0.35", **write)
            if own is not None:
                _squares(ax, middle, box.y, own, scale)
        ax.set(xlim=(at.left, at.left + at.width), ylim=(at.top + at.height, at.top), aspect="equal")
        ax.axis("off")
    return fig


def _squares(ax: Any, middle: float, top: float, gate: np.ndarray, scale: float) -> None:
    """The gate of a node in each context: a square on the upper edge of its box, as dark as it is open."""
    from matplotlib.colors import to_rgb

    x = middle + 7 * (np.arange(len(gate)) - (len(gate) - 1) / 2)
    strong = np.clip(gate / max(1.0, np.abs(gate).max()), 0, 1)
    faces = 1 - strong[:, None] * (1 - np.array(to_rgb(plot.RED)))
    marks = {"marker": "s", "s": (5.5 * scale) ** 2, "lw": 0.7 * scale, "zorder": 5, "clip_on": False}
    ax.scatter(x, np.full(len(x), top), c=faces, edgecolors=plot.RED, **marks)


def _contexts(graph: Graph, gates: Any) -> dict[str, np.ndarray]:
    """The gates of nodes in each distinct context, in the order in which these appear."""
    if not isinstance(gates, Mapping):
        raise InputError(f"gates must be a dict from nodes to gates, as in nr.Task, got {short(gates)}")
    known("gates", gates, graph.nodes, "node")
    rows = {name: array(f"gates[{name!r}]", gate, (None,)) for name, gate in gates.items()}
    if len({len(row) for row in rows.values()}) > 1:
        raise InputError(f"gates must have equally many samples, got {[len(row) for row in rows.values()]}")
    if not rows:
        return {}
    table, first = np.unique(np.stack(list(rows.values())), axis=1, return_index=True)
    if len(first) > MAX_CONTEXTS:
        raise InputError(f"gates must make at most {MAX_CONTEXTS} contexts to be drawn, got {len(first)}")
    return dict(zip(rows, table[:, np.argsort(first)], strict=True))


def _faint(graph: Graph) -> float:
    return 0.55 if len(graph.edges) <= MAX_NODES else 0.3


def _columns(graph: Graph) -> list[list[str]]:
    """Nodes by level, outputs last; those that are left out become one box, whose name starts with a dot."""
    levels = {**graph.levels, **dict.fromkeys(graph.outputs, max(graph.levels.values()))}
    columns: list[list[str]] = [[] for _ in range(max(levels.values()) + 1)]
    for node in graph.nodes:
        columns[levels[node]].append(node)
    columns = [column for column in columns if column]
    if len(columns) > MAX_COLUMNS:
        half = MAX_COLUMNS // 2
        between = columns[half : 1 - half]
        columns = [*columns[:half], [f"/{len(between)} layers"], *columns[1 - half :]]
    if len(graph.nodes) > MAX_NODES:
        columns = [
            c
            if len(c) <= MAX_IN_COLUMN
            else [*c[: MAX_IN_COLUMN - 1], f"/{len(c) - MAX_IN_COLUMN + 1} more {k}"]
            for k, c in enumerate(columns)
        ]  # names of nodes hold no slash
    return columns


def _label(name: str) -> str:
    if name.startswith("/"):
        return "… " + " ".join(name[1:].split()[:2])
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _details(graph: Graph, name: str) -> str:
    """Size of a node, its activation and bias."""
    if name not in graph.nodes:
        return ""
    activation = graph.activations.get(name)
    parts = [str(graph.nodes[name]), activation or "", "+ bias" if name in graph.biases else ""]
    return " ".join(p for p in parts if p)


def _box(graph: Graph, name: str, box: Box, width: float) -> str:
    """A rounded box with the name of a node, its size, and its activation where it has one."""
    middle = box.x + width / 2
    if box.size is None:
        return (
            f'<text x="{middle:.0f}" y="{box.y + 21:.0f}" text-anchor="middle" stroke="none" '
            f'fill-opacity="0.7">{escape(box.name)}</text>'
        )
    more = _details(graph, name)
    return (
        f"<g><title>{escape(name)}: {escape(more)}</title>"
        f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{width:.0f}" height="{HEIGHT}" rx="6" '
        f'fill-opacity="0.07"/>'
        f'<text x="{middle:.0f}" y="{box.y + 15:.0f}" text-anchor="middle" stroke="none">'
        f"{escape(box.name)}</text>"
        f'<text x="{middle:.0f}" y="{box.y + 28:.0f}" text-anchor="middle" stroke="none" font-size="10" '
        f'fill-opacity="0.7">{escape(more)}</text></g>'
    )


def _curves(graph: Graph, boxes: Mapping[str, Box], width: float, column: Mapping[str, int]) -> list[Curve]:
    """Edges between nodes that are shown."""
    drawn: list[Curve] = []
    seen: dict[tuple[str, str], int] = {}
    for edge, (source, target) in graph.edges.items():
        if source not in boxes or target not in boxes:
            continue
        k = seen[source, target] = seen.get((source, target), -1) + 1
        a, b = boxes[source], boxes[target]
        x0, y0, x1, y1 = a.x + width, a.y + HEIGHT / 2, b.x, b.y + HEIGHT / 2
        span = column[target] - column[source]
        bow = 9.0 * k * (-1) ** k  # parallel edges side by side
        if span > 1:  # around the boxes between
            below = y0 + y1 > max(box.y for box in boxes.values()) + HEIGHT + 1
            bow += (1 if below else -1) * ((HEIGHT + GAP_Y) * 0.85 + 6 * (span - 2))
        pull = max((x1 - x0) / 2, 20.0)
        kind = "fixed" if edge in graph.fixed else "diagonal" if edge in graph.diagonal else "full"
        points = ((x0, y0), (x0 + pull, y0 + bow), (x1 - pull, y1 + bow), (x1, y1))
        drawn.append(Curve(edge, points, kind))
    return drawn


def table_html(title: str, rows: Sequence[tuple[str, str]], drawing: str) -> str:
    """A small table of what something holds, above a drawing."""
    style = "text-align:left; padding:1px 12px 1px 0; vertical-align:top"
    lines = "".join(
        f'<tr><th style="{style}; font-weight:600">{escape(name)}</th>'
        f'<td style="{style}">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return (
        f"<div><div><b>{escape(title)}</b></div>"
        f'<table style="border-collapse:collapse; margin:4px 0 8px"><tbody>{lines}</tbody></table>'
        f"{drawing}</div>"
    )
