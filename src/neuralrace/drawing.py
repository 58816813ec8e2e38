"""Drawings of graphs for notebooks: inline SVG in the colour of the text around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from neuralrace.graph import Graph

MAX_NODES = 40  # a graph with more is drawn in part
MAX_IN_COLUMN = 5  # nodes of a layer that are then shown
MAX_COLUMNS = 8
GAP_X, GAP_Y, HEIGHT = 56, 14, 34  # between boxes, and of a box, in pixels
LETTER, SMALL_LETTER = 7.2, 5.6  # width of a letter in names and in the smaller line below, about
LONGEST_NAME = 14
MAX_PIXELS = 900  # width above which a drawing is scaled down


class Box(NamedTuple):
    """A node where it is drawn; `size` None for a box that stands for others."""

    x: float
    y: float
    name: str
    size: int | None


def graph_svg(graph: Graph) -> str:
    """The graph as SVG: layers from left to right, nodes as boxes with name and size, edges as curves."""
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
    curves, highest, lowest = _curves(graph, boxes, width, {n: k for k, c in enumerate(columns) for n in c})
    top, bottom = min(highest, 0.0) - 4, max(lowest, tallest) + 4
    full = len(columns) * (width + GAP_X) - GAP_X + 8
    shown = min(1.0, MAX_PIXELS / full)
    parts = [*curves, *(_box(graph, name, box, width) for name, box in boxes.items())]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(repr(graph))}" '
        f'viewBox="-4 {top:.0f} {full:.0f} {bottom - top:.0f}" width="{full * shown:.0f}" '
        f'height="{(bottom - top) * shown:.0f}" font-family="system-ui, sans-serif" font-size="12" '
        f'fill="currentColor" stroke="currentColor">{"".join(parts)}</svg>'
    )


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


def _curves(
    graph: Graph, boxes: Mapping[str, Box], width: float, column: Mapping[str, int]
) -> tuple[list[str], float, float]:
    """Edges between nodes that are shown; how far up and down they reach."""
    drawn: list[str] = []
    seen: dict[tuple[str, str], int] = {}
    highest, lowest = 0.0, 0.0
    faint = 0.55 if len(graph.edges) <= MAX_NODES else 0.3
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
        highest, lowest = min(highest, min(y0, y1) + bow), max(lowest, max(y0, y1) + bow)
        dash = ' stroke-dasharray="4 3"' if edge in graph.diagonal else ""
        dash = ' stroke-dasharray="1 3"' if edge in graph.fixed else dash
        drawn.append(
            f'<path d="M{x0:.0f},{y0:.0f} C{x0 + pull:.0f},{y0 + bow:.0f} {x1 - pull:.0f},{y1 + bow:.0f} '
            f'{x1:.0f},{y1:.0f}" fill="none" stroke-opacity="{faint}"{dash}>'
            f"<title>{escape(edge)}</title></path>"
        )
    return drawn, highest, lowest


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
