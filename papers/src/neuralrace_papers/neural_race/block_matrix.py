"""Matrices between domains, drawn block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace import plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def block_matrix(
    ax: Axes,
    values: Any,
    block: tuple[int, int],
    title: str = "",
    limit: float | None = None,
    framed: Any = None,
) -> Any:
    """A matrix of blocks of `block` (rows, columns), numbered from 1 at the sides; some of them framed.

    `framed` marks blocks, a boolean for each. Returns the image, as `matrix` does.
    """
    from matplotlib.patches import Rectangle

    image = plot.matrix(ax, values, title, limit)
    rows, columns = block
    for axis, length, step in zip((ax.yaxis, ax.xaxis), np.shape(values), block, strict=True):
        number = np.arange(length // step)
        axis.set_ticks(number * step + (step - 1) / 2, [str(n + 1) for n in number])
        axis.set_tick_params(length=0)
    for i, j in np.argwhere([] if framed is None else framed):
        corner = (j * columns - 0.35, i * rows - 0.35)
        ax.add_patch(Rectangle(corner, columns - 0.3, rows - 0.3, fill=False, lw=0.7, ec=plot.GREEN))
    return image
