"""What pathways carry over time, above their final matrices, as in multipathway Fig. 5-8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments.multipathway.networks import GROUPS, S, aligned_modes

COLOURS = dict(zip(GROUPS, (plot.BLUE, plot.ORANGE, plot.GREEN, plot.PINK), strict=True))
STYLES = ("-", "--", ":", "-.")
READ = (
    "Above, what each pathway carries of every mode; of modes of equal strength the eigenvalues of their "
    "block, which do not depend on the choice of modes within it. Below, the final matrices K_a, in those "
    "modes of each group (between thin lines) in which K_1 is diagonal."
)


def learning(runs: Mapping[str, xr.Dataset], epoch: float) -> Figure:
    """A column for each of `runs`, of which the first network is shown.

    Parameters
    ----------
    runs : dict of str to Dataset
        By title; with t, loss `(run, t)` and outputs `(run, t, pathway, mode, mode)`.
    epoch : float
        Flow time of an epoch.
    """
    n = min(run.sizes["pathway"] for run in runs.values())
    fig, axes = plot.figure(1 + n, len(runs), height=1.9 + 1.45 * n, squeeze=False)
    for column, (title, run) in zip(axes.T, runs.items(), strict=True):
        k = run.outputs[0].values
        strengths = nr.measure.group_strengths(k, list(GROUPS.values()))
        for group, colour in COLOURS.items():
            for a in range(k.shape[1]):
                lines = column[0].plot(
                    run.t / epoch, strengths[:, a, GROUPS[group]], STYLES[a % 4], color=colour, lw=1
                )
                lines[0].set_label(f"{group}, pathway {a + 1}")
        column[0].set(title=title, xlabel="epoch", xlim=(0, last_epoch(run, epoch)))
        final = aligned_modes(k[-1])
        for a, ax in enumerate(column[1:]):
            draw_matrix(ax, final[a], f"pathway {a + 1}, end")
    axes[0, 0].set(ylabel="K of a pathway")
    for row in axes[1:]:
        row[0].set(ylabel="output mode")
    for ax in axes[-1]:
        ax.set(xlabel="input mode")
    fig.colorbar(axes[1, 0].images[0], ax=axes[1:], label="entry of K", shrink=0.6, aspect=25)
    plot.legend_below(fig, axes[0, 0], len(GROUPS))
    return fig


def draw_matrix(ax: Any, values: np.ndarray, title: str) -> None:
    """K of a pathway, with thin lines between groups of modes of equal strength."""
    plot.matrix(ax, values, title, limit=float(S[0]))
    for edge in np.cumsum([len(group) for group in GROUPS.values()])[:-1] - 0.5:
        ax.axhline(edge, color="0.7", lw=0.4)
        ax.axvline(edge, color="0.7", lw=0.4)
    ax.set(xticks=range(len(S)), yticks=range(len(S)), xticklabels=range(1, 9), yticklabels=range(1, 9))
    ax.tick_params(length=0, labelsize=5)


def last_epoch(run: xr.Dataset, epoch: float) -> float:
    """An epoch by which the loss of all networks has long been below a hundredth, or the last one."""
    late = np.flatnonzero((run.loss > 0.01 * run.loss.isel(t=0, drop=True)).any("run"))[-1]
    return float(run.t[min(int(1.3 * late) + 1, run.sizes["t"] - 1)]) / epoch
