"""Representations over time as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace import plot
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, integer, known, need_extra, sequence, short
from neuralrace.measure.arrays import Floats
from neuralrace.measure.representations import gram, multidimensional_scaling
from neuralrace.network import activity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_SAMPLES = 64
_PATH_TIMES = 25  # along the paths


def plot_representations(
    trajectory: Trajectory, node: str, times: int = 4, labels: Sequence[str] | None = None
) -> Figure:
    """How a layer represents the samples of the task while it learns.

    Similarity matrices (inner products) at a few times, on one scale, and the paths of the samples in the
    plane, by multidimensional scaling. Times are evenly spaced in how far the representations have moved.

    Parameters
    ----------
    trajectory : Trajectory
        A single run with its weights and its task, of at most 64 samples.
    node : str
        The layer.
    times : int
        Number of matrices, from 2 to 6; the first is of the start, the last of the end.
    labels : sequence of str, optional
        Names of the samples, at the ends of their paths.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import neuralrace as nr
    >>> sol = nr.reduce(nr.tasks.hierarchy(3)).solve(strengths=0.05, t1=40.0)
    >>> figure = plot_representations(sol, "h1", times=3)
    >>> len(figure.axes)  # three matrices, the paths, and the bar of colours
    5
    """
    h, names = _activities(trajectory, node, labels)
    times = integer("times", times, least=2, most=6)
    need_extra("sklearn", "sklearn")
    moved = np.append(0.0, np.linalg.norm(np.diff(h, axis=0), axis=(1, 2)).cumsum())
    at = [int(np.argmin(np.abs(moved - share * moved[-1]))) for share in np.linspace(0, 1, times)]
    path = np.unique(
        [np.argmin(np.abs(moved - share * moved[-1])) for share in np.linspace(0, 1, _PATH_TIMES)]
    )
    centred = h[path] - h[path].mean(axis=1, keepdims=True)
    if not np.linalg.norm(centred[-1], axis=-1).all() or len(path) < 2:
        raise InputError(
            f"node must be a layer whose representations change and tell samples apart, got {node!r}"
        )
    places = multidimensional_scaling(centred)
    fig, axes = plot.figure(
        1, times + 1, width=1.5 * times + 2.6, height=2.3, width_ratios=[1] * times + [1.6]
    )
    grams = gram(h[at])
    with plot.style():
        limit = float(np.abs(grams).max())
        images = [
            plot.matrix(ax, values, f"t = {trajectory.t[k]:.3g}", limit)
            for ax, k, values in zip(axes, at, grams, strict=False)
        ]
        for ax in axes[:-1]:
            ax.set_aspect("equal")
        fig.colorbar(images[-1], ax=list(axes[:-1]), label="inner product", location="bottom", shrink=0.5)
        _paths(axes[-1], places, names)
    return fig


def _activities(trajectory: Any, node: Any, labels: Any) -> tuple[Floats, list[str]]:
    """Activity of a layer (times, samples, units), and names of the samples."""
    if not isinstance(trajectory, Trajectory) or trajectory.many:
        raise InputError(f"trajectory must be a single run; of several take traj[0]; got {short(trajectory)}")
    if trajectory.task is None or not trajectory.weights:
        raise InputError(
            "trajectory must have its weights and its task: it was saved, or trained without them"
        )
    known("node", [node], trajectory.task.graph.nodes, "node")
    h = np.stack([activity(trajectory.task, trajectory.at(k), node) for k in range(len(trajectory.t))])
    if h.shape[1] > MAX_SAMPLES:
        raise InputError(f"trajectory must be of at most {MAX_SAMPLES} samples to be drawn, got {h.shape[1]}")
    names = (
        [str(n) for n in range(1, h.shape[1] + 1)] if labels is None else sequence("labels", labels, "names")
    )
    if len(names) != h.shape[1]:
        raise InputError(f"labels must name {h.shape[1]} samples, got {len(names)}")
    return h, [str(name) for name in names]


def _paths(ax: Any, places: Floats, names: list[str]) -> None:
    """Paths of the samples in the plane, with dots and names at their ends."""
    reach = 1.4 * np.abs(places).max()
    for path, name, colour in zip(places.swapaxes(0, 1), names, plot.shades(len(names)), strict=True):
        ax.plot(*path.T, color=colour)
        ax.plot(*path[-1], "o", color=colour)
        x, y = path[-1] / np.linalg.norm(path[-1])  # names stand outwards
        side = "left" if x > 0.3 else "right" if x < -0.3 else "center"
        height = "bottom" if y > 0.7 else "top" if y < -0.7 else "center"
        away = np.array([x, y]) * plot.sized("lines.markersize", 1.2)
        where = {"xytext": away, "textcoords": "offset points", "ha": side, "va": height}
        ax.annotate(name, path[-1], fontsize=plot.sized("legend.fontsize"), **where)
    ax.set(title="paths in the plane", xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.axis("off")
