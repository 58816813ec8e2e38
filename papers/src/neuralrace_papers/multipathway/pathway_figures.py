"""What pathways carry over time, above their final matrices, as in multipathway Fig. 5-8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace_papers.multipathway.networks import GROUPS, S, leading

COLOURS = dict(zip(GROUPS, (plot.BLUE, plot.ORANGE, plot.GREEN, plot.PINK), strict=True))
STYLES = ("-", "--", ":", "-.")
READ = (
    "Above, what each pathway carries of every mode; of modes of equal strength the eigenvalues of their "
    "block, which do not depend on the choice of modes within it. Below, the final matrices K_a, in those "
    "modes of each group (between thin lines) in which K_1 is diagonal."
)


def learning(runs: Mapping[str, xr.Dataset], epoch: float) -> Figure:
    """A column for each of `runs` (by title), of which the first network is shown; `epoch` is a flow time."""
    n = min(run.sizes["pathway"] for run in runs.values())
    fig, axes = plot.figure(1 + n, len(runs), height=1.9 + 1.45 * n, squeeze=False)
    for column, (title, run) in zip(axes.T, runs.items(), strict=True):
        k = run.outputs[0].values
        strengths = nr.measure.group_strengths(k, list(GROUPS.values()))
        for group, colour in COLOURS.items():
            for a in range(k.shape[1]):
                drawn, style = strengths[:, a, GROUPS[group]], STYLES[a % 4]
                name = f"{group}, pathway {a + 1}"
                column[0].plot(run.t / epoch, drawn, style, color=colour, lw=1, label=name)
        plot.label(column[0], "epoch", title=title, xlim=(0, last_epoch(run, epoch)))
        column[0].locator_params(axis="x", nbins=4)
        final = aligned_modes(k[-1])
        for a, ax in enumerate(column[1:]):
            draw_matrix(ax, final[a], f"pathway {a + 1}, end")
    plot.label(axes[0, 0], y="K of a pathway")
    plot.label(axes[1:, 0], y="output mode")
    plot.label(axes[-1], "input mode")
    fig.colorbar(axes[1, 0].images[0], ax=axes[1:], label="entry of K", shrink=0.6, aspect=25)
    plot.legend_below(fig, axes[0, 0], len(GROUPS))
    return fig


def aligned_modes(k: np.ndarray) -> np.ndarray:
    """Contributions `(pathway, mode, mode)` in those modes of each group in which the first pathway's block
    (its symmetric part) is diagonal: any other basis of a group would be as good."""
    turn = np.zeros((len(S), len(S)))
    for group in GROUPS.values():
        block = k[0][np.ix_(group, group)]
        turn[np.ix_(group, group)] = np.linalg.eigh(block + block.T)[1][:, ::-1]
    return turn.T @ k @ turn


def first_steps(k: np.ndarray) -> tuple[Figure, Any]:
    """K of a pathway `(step, mode, mode)` in a row, and an empty panel below."""
    fig, grid = plot.figure(2, len(k), height=3.3, height_ratios=[1, 3])
    for n, ax in enumerate(grid[0]):
        plot.matrix(ax, k[n], f"step {n}" if n else "start", float(np.abs(k).max()))
        ax.set_aspect("equal")
    grid[0, 0].set(ylabel="output\nmode", xlabel="input mode")
    fig.colorbar(grid[0, 0].images[0], ax=grid[0], label="entry of K", shrink=0.9, pad=0.01)
    for ax in grid[1]:
        ax.remove()
    return fig, fig.add_subplot(grid[1, 0].get_gridspec()[1, :])


def draw_matrix(ax: Any, values: np.ndarray, title: str) -> None:
    """K of a pathway, with thin lines between groups of modes of equal strength."""
    plot.matrix(ax, values, title, limit=float(S[0]))
    for edge in np.cumsum([len(group) for group in GROUPS.values()])[:-1] - 0.5:
        ax.axhline(edge, color="0.7", lw=0.4)
        ax.axvline(edge, color="0.7", lw=0.4)
    ax.set(xticks=range(len(S)), yticks=range(len(S)), xticklabels=range(1, 9), yticklabels=range(1, 9))
    ax.tick_params(length=0, labelsize=5)


def predicted(chosen: Sequence[tuple[str, xr.Dataset, int]], epoch: float) -> Figure:
    """Modes 1 and 2 in some networks and as predicted: a panel for each title, runs and which of them."""
    fig, axes = plot.figure(1, len(chosen), height=2.8)
    styles = (("o", "-"), ("s", "--"))  # of each mode: network, predicted
    for ax, (title, run, seed) in zip(axes, chosen, strict=True):
        epochs, k = run.t / epoch, leading(run.outputs[seed])
        for a, colour in zip(range(k.shape[1]), plot.COLOURS, strict=False):
            for mode, (marker, style) in enumerate(styles):
                plot.theory(ax, epochs, run.signals[seed, :, a, mode], colour, ls=style, lw=1)
                ax.plot(epochs, k[:, a, mode], marker, color=colour, ms=2.5, alpha=0.5)
        plot.label(ax, "epoch", title=title, xlim=(0, last_epoch(run, epoch)))
    most = max(run.sizes["pathway"] for _, run, _ in chosen)
    for a, colour in zip(range(most), plot.COLOURS, strict=False):
        plot.key(axes[-1], {f"pathway {a + 1}": "theory"}, colour)
    for mode, (marker, style) in enumerate(styles, 1):
        plot.key(axes[-1], {f"mode {mode}, network": marker, f"mode {mode}, predicted": style})
    plot.legend_below(fig, axes[-1], 4)
    plot.label(axes[0], y="K of a pathway")
    return fig


def last_epoch(run: xr.Dataset, epoch: float) -> float:
    """An epoch by which all networks have long learned 99% of what they ever learn, or the last one."""
    left = run.loss - run.loss.isel(t=-1, drop=True)
    late = np.flatnonzero((left > 0.01 * left.isel(t=0, drop=True)).any("run"))[-1]
    return float(run.t[min(int(1.3 * late) + 1, run.sizes["t"] - 1)]) / epoch
