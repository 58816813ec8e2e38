"""Figures of a ReLU network and of its pathways on items in three contexts."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.linalg import orthogonal_procrustes

from neuralrace import plot
from neuralrace_papers.make_haste_slowly.modes import CONTEXT

VALUES = 6  # singular values that are shown
Lines = dict[str, tuple[str, str, dict[str, float | str]]]
PUBLISHED_LINES: Lines = {
    "published": ("pathways, two contexts", plot.BLUE, {}),
    "published_single": ("pathways, one context", plot.ORANGE, {}),
    "race": ("race reduction (App. F), published start", plot.GREEN, {"ls": "--"}),
}
LINES: Lines = {
    "shared": ("pathways, two contexts", plot.BLUE, {"lw": 0.9}),
    "single": ("pathways, one context", plot.ORANGE, {"lw": 0.9}),
    "both": ("pathways, both kinds", plot.GREEN, {"lw": 0.9}),
    "imitation": ("two contexts, weights of the ReLU network", plot.BLUE, {"ls": "--"}),
    "staged": ("predicted: always open, then by context", plot.RED, {}),
    "own": ("gates of the ReLU network's last epoch", plot.PINK, {"ls": ":"}),
}


def losses(d: xr.Dataset, race: xr.DataArray) -> Figure:
    """Losses over epochs, `d` with an axis of seeds: pathways as published, and by the whole gradient."""
    fig, axes = plot.figure(1, 2, height=4.1, sharey=True)
    mean = {**d.mean("seed"), "race": race}
    titles = ("as published", "by the gradient of the whole loss")
    near = {**plot.BELOW, "bbox_to_anchor": (0.5, -0.15)}
    for ax, lines, title in zip(axes, (PUBLISHED_LINES, LINES), titles, strict=True):
        plot.runs(ax, d.epoch, d.relu, plot.BLACK, "ReLU network")
        for name, (label, colour, style) in lines.items():
            plot.theory(ax, d.epoch, mean[name], colour, label, **style)
        plot.label(ax, "epoch", title=title, yscale="log", legend=near, ylim=(1e-2, 200))
    axes[0].set_ylabel("loss, summed over samples")
    return fig


def modes(ax: Axes, epoch: xr.DataArray, dots: xr.DataArray, line: xr.DataArray) -> None:
    """Leading singular values (epoch, mode) over epochs, as dots and as lines."""
    for k, colour in enumerate(plot.COLOURS[:VALUES]):
        ax.plot(epoch[::8], dots[::8, k], "o", color=colour, ms=2.2, alpha=0.6)
        plot.theory(ax, epoch, line[:, k], colour, f"mode {k + 1}", lw=0.9)
    ax.set_xlabel("epoch")


def key_of_modes(ax: Axes, line: str, dots: str) -> None:
    """The legend of such panels, beside them."""
    plot.key(ax, {line: "-", dots: "o"}, "grey")
    plot.label(ax, legend=plot.BESIDE)


def race(d: xr.Dataset, epoch: xr.DataArray) -> Figure:
    """Singular values of each pathway on what the always open one leaves."""
    fig, axes = plot.figure(1, 3, height=2.7, sharey=True)
    solved, flow = d["values"]
    for pathway, ax in enumerate(axes):
        modes(ax, epoch, flow[pathway], solved[pathway])
        open_ = " and ".join(str(c + 1) for c in range(3) if c != pathway)
        ax.set_title(f"open in contexts {open_}")
    axes[0].set_ylabel("singular value")
    key_of_modes(axes[2], "race reduction", "flow")
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
    for edge in (7.5, 15.5):
        ax.axvline(edge, color=plot.BLACK, lw=0.4)
    plot.label(ax, "items in context", xticks=(3.5, 11.5, 19.5), xticklabels=("1", "2", "3"))


def hidden(d: xr.Dataset) -> Figure:
    """Singular values of the pathways, and hidden representations of both networks in the plane."""
    fig, ((first, second), maps) = plot.figure(2, 2, width=5.6, height=5.2)
    trained, theory = d["values"]
    kinds = {"always open": (first, slice(0, 1)), "open in two contexts": (second, slice(1, None))}
    for name, (ax, chosen) in kinds.items():
        modes(ax, d.epoch, *(values[chosen].mean("pathway") for values in (trained, theory)))
        ax.set(ylabel="singular value", title=name)
    key_of_modes(second, "block reduction", "as trained")
    relu, gated = d.hidden.values
    turn, _ = orthogonal_procrustes(gated.reshape(-1, 2), relu.reshape(-1, 2))
    limits = 1.1 * np.abs(d.hidden.values).max() * np.array([-1, 1])
    square: dict[str, Any] = {"xlim": limits, "ylim": limits, "xticks": [], "yticks": [], "aspect": "equal"}
    for ax, points, name in zip(maps, (relu, gated @ turn), ("ReLU network", "four pathways"), strict=True):
        for sample, context in enumerate(CONTEXT):
            colour = plot.COLOURS[sample % 8]
            ax.plot(*points[:, sample].T, color=colour, lw=0.5, alpha=0.6)
            ax.plot(*points[-1, sample], "os^"[context], color=colour, ms=3)
        plot.label(ax, "first coordinate", "second coordinate", f"hidden layer, {name}", **square)
    for item, colour in enumerate(plot.COLOURS, 1):
        plot.key(maps[-1], {f"item {item}": "-"}, colour)
    plot.key(maps[-1], {f"context {k}": marker for k, marker in enumerate("os^", 1)}, "grey")
    plot.label(maps[-1], legend=plot.BESIDE)
    return fig
