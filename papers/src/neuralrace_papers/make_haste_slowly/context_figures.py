"""Figures of a ReLU network and of its pathways on items in three contexts."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.linalg import orthogonal_procrustes

from neuralrace import plot
from neuralrace_papers.make_haste_slowly.modes import CONTEXT, ITEMS

VALUES = 6  # singular values that are shown
PUBLISHED = {
    "two": ("pathways open in two contexts", plot.BLUE, "-"),
    "six": ("pathways open in two and in one", plot.SKY, "--"),
    "one": ("pathways open in one context", plot.ORANGE, "-"),
    "race": ("race reduction (appendix F)", plot.GREEN, "--"),
}
WHOLE = {
    "imitation": ("four pathways", plot.PINK, "-"),
    "staged": ("predicted from initial weights in two stages", "grey", "--"),
    "own": ("the last gates of the ReLU network, constant", plot.RED, ":"),
}


def losses(d: xr.Dataset, race: xr.DataArray) -> Figure:
    """Losses over epochs, `d` with an axis of seeds: pathways as published, and by the whole gradient."""
    fig, axes = plot.figure(1, 2, height=4.1, sharey=True)
    mean = {**d.mean("seed"), "race": race}
    panels = {"trained as published": PUBLISHED, "trained by the gradient of the whole loss": WHOLE}
    near = {**plot.BELOW, "bbox_to_anchor": (0.5, -0.15)}
    for ax, (title, lines) in zip(axes, panels.items(), strict=True):
        plot.runs(ax, d.epoch, d.relu, plot.BLACK, "ReLU networks")
        for name, (label, colour, style) in lines.items():
            plot.theory(ax, d.epoch, mean[name], colour, label, ls=style)
        plot.label(ax, "epoch", title=title, yscale="log", legend=near, ylim=(1e-2, 200))
    axes[0].set_ylabel("loss, summed over samples")
    return fig


def race(d: xr.Dataset, epoch: xr.DataArray, trained: xr.DataArray) -> Figure:
    """Singular values of each pathway by context, of networks and by the race reduction."""
    fig, axes = plot.figure(1, 3, height=2.7, sharey=True)
    for pathway, ax in enumerate(axes):
        for k, colour in enumerate(plot.shades(VALUES)):
            ax.plot(epoch[::8], trained[pathway, ::8, k], "o", color=colour, ms=2.2, alpha=0.6)
            plot.theory(ax, epoch, d["values"][0, pathway, :, k], colour, f"mode {k + 1}", lw=0.9)
        open_ = " and ".join(str(c + 1) for c in range(3) if c != pathway)
        plot.label(ax, "epoch", title=f"open in contexts {open_}")
    axes[0].set_ylabel("singular value")
    plot.key(axes[2], {"race reduction": "-", "networks": "o"}, "grey")
    plot.label(axes[2], legend=plot.BESIDE)
    return fig


def outputs(d: xr.Dataset) -> Figure:
    """Outputs of both networks at some epochs, and the targets."""
    fig, axes = plot.figure(2, d.sizes["shown"] + 1, height=4.2)
    image: Any = None
    for row, each, name in zip(axes, d.outputs, ("ReLU network", "four pathways"), strict=True):
        for ax, values in zip(row, (*each, d.targets), strict=True):
            image = plot.matrix(ax, values.T, "", 1.0)
            by_context(ax)
            for edge in (14.5, 29.5, 44.5):
                ax.axhline(edge, color=plot.BLACK, lw=0.4)
        row[0].set_yticks((7, 22, 37, 52), ("all", "1", "2", "3"))
        row[0].set_ylabel(f"{name}:\nproperties of context")
    plot.label(axes[0], x="", xticks=[])
    for ax, title in zip(axes[0], (*(f"epoch {e:.0f}" for e in d.shown), "targets"), strict=True):
        ax.set_title(title)
    fig.colorbar(image, ax=axes, label="output", shrink=0.6)
    return fig


def by_context(ax: Axes) -> None:
    """Lines between the contexts of samples along x, and their numbers below."""
    for edge in (ITEMS - 0.5, 2 * ITEMS - 0.5):
        ax.axvline(edge, color=plot.BLACK, lw=0.4)
    plot.label(ax, "items in context", xticks=(3.5, 11.5, 19.5), xticklabels=("1", "2", "3"))


def hidden(d: xr.Dataset) -> Figure:
    """How alike hidden distances are in both networks, `d` with an axis of seeds; the first in the plane."""
    fig, (course, *axes) = plot.figure(1, 3, height=2.8)
    plot.runs(course, d.epoch[2::2], d.similar, plot.BLACK)
    plot.label(course, "epoch", "correlation of distances", "ReLU network, four pathways", ylim=(0, 1.02))
    relu, gated = d.hidden[0].values
    turn, _ = orthogonal_procrustes(gated.reshape(-1, 2), relu.reshape(-1, 2))
    limits = 1.1 * np.abs(d.hidden[0].values).max() * np.array([-1, 1])
    square: dict[str, Any] = {"xlim": limits, "ylim": limits, "xticks": [], "yticks": [], "aspect": "equal"}
    for ax, points, name in zip(axes, (relu, gated @ turn), ("ReLU network", "four pathways"), strict=True):
        for sample, context in enumerate(CONTEXT):
            colour = plot.COLOURS[sample % ITEMS]
            ax.plot(*points[:, sample].T, color=colour, lw=0.5, alpha=0.6)
            ax.plot(*points[-1, sample], "os^"[context], color=colour, ms=3)
        plot.label(ax, "first coordinate", "second coordinate", name, **square)
    for item, colour in enumerate(plot.COLOURS[:ITEMS], 1):
        plot.key(axes[-1], {f"item {item}": "-"}, colour)
    plot.key(axes[-1], {f"context {k}": marker for k, marker in enumerate("os^", 1)}, "grey")
    plot.label(axes[-1], legend=plot.BESIDE)
    return fig
