"""How trajectories look: a figure, which may move, and a small page in a notebook."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace import plot
from neuralrace.drawing import table_html
from neuralrace.errors import InputError, distinct_names, listed, number, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuralrace.dynamics.trajectory import Trajectory

_MOST_PANELS = 9
_MOST_VALUES = 8  # singular values per panel
_COLOURS = [*plot.COLOURS[:6], "#777777", plot.BLACK]  # one for each of them


def trajectory_figure(traj: Trajectory, over: Trajectory | None = None, edges: Any = None) -> Figure:
    """The loss over time, then the singular values of weight matrices, largest first.

    Several runs are a band from least to most around their median. Over another trajectory, which is pale,
    this one is drawn in lines. Where no edges are chosen, a title names the weights that are not drawn:
    of more than eight matrices those that move least, diagonal edges and biases.
    """
    _check_over(traj, over)
    matrices = _drawn(traj, edges)
    columns = min(3, 1 + len(matrices))
    rows = -(-(1 + len(matrices)) // columns)
    fig, axes = plot.figure(rows, columns, squeeze=False)
    panels = list(axes.flat)
    layers = [(traj, traj.many)] if over is None else [(over, True), (traj, False)]
    with plot.style():
        for run, below in layers:
            _curves(panels[0], run, run.loss[..., None], "loss", [plot.BLACK], below)
            for ax, edge in zip(panels[1:], matrices, strict=False):
                if edge in run.weights:
                    values = run.singular_values(edge)[..., :_MOST_VALUES]
                    _curves(ax, run, values, "singular values", _COLOURS, below)
                    ax.set(title=edge)
                    ax.set_ylim(bottom=0)
        panels[0].set_ylim(bottom=min(0.0, *(float(np.min(run.loss)) for run, _ in layers)))
        if over is not None or traj.many:
            _tell_which_is_which(fig, panels[0], layers)
    for ax in panels[1 + len(matrices) :]:
        ax.set_visible(False)
    left = [e for e in traj.weights if e not in matrices]
    if left and edges is None:
        fig.suptitle(
            f"Not drawn: {listed(left)} (traj.weights has them)", fontsize=plot.sized("legend.fontsize")
        )
    return fig


def _drawn(traj: Trajectory, edges: Any) -> list[str]:
    """The matrices that a figure shows: those asked for, or those whose singular values move most."""
    ndim = 4 if traj.many else 3
    matrices = [e for e, w in traj.weights.items() if np.ndim(w) == ndim]
    if edges is not None:
        return list(distinct_names("edges", edges, matrices, "saved weight matrix"))
    if len(matrices) < _MOST_PANELS:
        return matrices
    moves = {e: np.ptp(traj.singular_values(e), axis=-2).max() for e in matrices}
    most = sorted(matrices, key=lambda e: -moves[e])[: _MOST_PANELS - 1]
    return [e for e in matrices if e in most]


def animate(traj: Trajectory, path: str | Path, over: Trajectory | None, edges: Any, seconds: float) -> Path:
    """Write the figure of a trajectory as a GIF in which time goes on."""
    path, seconds = plot.gif(path), number("seconds", seconds, above=0, most=60)
    fig = trajectory_figure(traj, over, edges)
    frames = max(2, round(plot.FRAMES_PER_SECOND * seconds))
    with plot.style():
        from matplotlib.patches import Rectangle

        panels = [ax for ax in fig.axes if ax.get_visible()]
        drawn = [[*ax.lines, *ax.collections] for ax in panels]
        now = [ax.axvline(0.0, color="0.6", lw=plot.sized("lines.linewidth", 0.6)) for ax in panels]

    def draw(k: int) -> None:
        for ax, artists, line in zip(panels, drawn, now, strict=True):
            low, high = ax.get_xlim()
            t = traj.t[-1] * k / (frames - 1)
            shown = Rectangle(
                (low, 0), max(t - low, 1e-9 * (high - low)), 1, transform=ax.get_xaxis_transform()
            )
            for artist in artists:
                artist.set_clip_path(shown)
            line.set_xdata([t, t])

    return plot.save_animation(fig, path, frames, draw, seconds)


def _check_over(traj: Trajectory, over: Any) -> None:
    if over is None:
        return
    if not isinstance(over, type(traj)):
        raise InputError(f"over must be a Trajectory, got {short(over)}")
    if over.loss_scale != traj.loss_scale:
        raise InputError(
            f"over must have its loss on the same scale, got {over.loss_scale:g} and {traj.loss_scale:g}: "
            "see Trajectory.rescaled"
        )


def _tell_which_is_which(fig: Figure, ax: Any, layers: Any) -> None:
    """The legend: what is theory and what are networks, and what bands are."""
    names: list[str] = []
    for run, below in layers:
        kind = "network" if run.source is None else "theory"
        count = f"{len(run.endings)} {kind}s" if kind == "network" else f"{kind}, {len(run.endings)} runs"
        name = f"{count}: median and range" if run.many else kind
        name = f"other {name}" if name in names else name
        names.append(name)
        plot.key(ax, {name: "runs" if below else "theory"})
    plot.legend_below(fig, ax, 2)


def _curves(
    ax: Any, traj: Trajectory, values: np.ndarray, label: str, colours: list[str], below: bool
) -> None:
    """Curves (..., save, k) of one run or several; those below others are pale."""
    for k in range(values.shape[-1]):
        colour, curve = colours[k % len(colours)], values[..., k]
        if traj.many and not below:
            plot.theory(ax, traj.t, np.median(curve, axis=0), colour)
            for edge in (curve.min(axis=0), curve.max(axis=0)):
                plot.theory(ax, traj.t, edge, colour, ls=":", lw=plot.sized("lines.linewidth", 0.7))
        elif below:
            plot.runs(ax, traj.t, curve, colour)
        else:
            plot.theory(ax, traj.t, curve, colour)
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
        _curves(ax, traj, traj.loss[..., None], "loss", [plot.BLUE], traj.many)
        text = io.StringIO()
        fig.savefig(text, format="svg", metadata={"Date": None})
    picture = text.getvalue()
    return picture[picture.index("<svg") :]
