"""How trajectories look: a figure, and a small page in a notebook."""

from __future__ import annotations

import io
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace import plot
from neuralrace.drawing import table_html
from neuralrace.errors import listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuralrace.dynamics.trajectory import Trajectory

_MOST_PANELS = 6
_MOST_VALUES = 8  # singular values per panel


def trajectory_figure(traj: Trajectory) -> Figure:
    """The loss over time, then the singular values of each saved weight matrix, largest first.

    Several runs are a band from least to most around their median. A title names the weights that are not
    drawn: those of more than five matrices, diagonal edges and biases.
    """
    ndim = 4 if traj.many else 3
    matrices = [e for e, w in traj.weights.items() if np.ndim(w) == ndim][: _MOST_PANELS - 1]
    columns = min(3, 1 + len(matrices))
    rows = -(-(1 + len(matrices)) // columns)
    fig, axes = plot.figure(rows, columns, squeeze=False)
    panels = list(axes.flat)
    with plot.style():
        _curves(panels[0], traj, traj.loss[..., None], "loss", [plot.BLACK])
        panels[0].set_ylim(bottom=min(0.0, float(np.min(traj.loss))))
        for ax, edge in zip(panels[1:], matrices, strict=False):
            values = traj.singular_values(edge)[..., :_MOST_VALUES]
            _curves(ax, traj, values, "singular values", [*plot.COLOURS[:6], "#777777", "#BBBBBB"])
            ax.set(title=edge)
            ax.set_ylim(bottom=0)
    for ax in panels[1 + len(matrices) :]:
        ax.set_visible(False)
    left = [e for e in traj.weights if e not in matrices]
    if left:
        fig.suptitle(
            f"Not drawn: {listed(left)} (traj.weights has them)", fontsize=plot.sized("legend.fontsize")
        )
    return fig


def _curves(ax: Any, traj: Trajectory, values: np.ndarray, label: str, colours: list[str]) -> None:
    for k in range(values.shape[-1]):
        if traj.many:
            plot.runs(ax, traj.t, values[..., k], colours[k % len(colours)])
        else:
            plot.theory(ax, traj.t, values[:, k], colours[k % len(colours)])
    ax.set(xlabel=r"time ($\tau = 1$)", ylabel=label)


def trajectory_html(traj: Trajectory) -> str:
    """A table of the contents of a trajectory, above its loss curve."""
    rows = [
        ("runs", str(len(traj.loss)) if traj.many else "1"),
        ("times", f"{len(traj.t)}, to t = {traj.t[-1]:g}"),
        ("loss", f"{np.mean(traj.loss[..., 0]):.4g} to {np.mean(traj.loss[..., -1]):.4g}"),
        ("outcome", traj.outcome),
        ("method", str(traj.settings.get("method") or traj.settings.get("optimizer") or "")),
        ("weights", ", ".join(traj.weights) or "not saved"),
        ("recorded", ", ".join(traj.recorded)),
    ]
    curve = _curve_svg(traj) if find_spec("matplotlib") else ""
    return table_html(type(traj).__name__, [row for row in rows if row[1]], curve)


def _curve_svg(traj: Trajectory) -> str:
    fig, ax = plot.figure(height=1.8)
    with plot.style():
        _curves(ax, traj, traj.loss[..., None], "loss", [plot.BLUE])
        text = io.StringIO()
        fig.savefig(text, format="svg", metadata={"Date": None})
    picture = text.getvalue()
    return picture[picture.index("<svg") :]
