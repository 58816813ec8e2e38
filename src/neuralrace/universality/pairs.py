"""Two of many samples while a network learns them all."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, array, short
from neuralrace.universality.recording import pair_distances, pair_series, samples
from neuralrace.universality.trajectory import Training


def follow_pair(trajectory: Trajectory, x: Any, y: Any, pair: tuple[int, int] = (0, 1)) -> Training:
    """Distances of two samples in every run of a trajectory that was recorded with `watch`.

    Parameters
    ----------
    trajectory : Trajectory
        Several runs, of a network recorded with `watch`.
    x, y : array_like, shape (samples, size)
        The inputs that were watched, and their targets.
    pair : tuple of int
        Which two of the samples.

    Returns
    -------
    Training
        With `dh2` (runs, times, 1), `dy2` and `w` (runs, times), and the loss of the two samples.

    Examples
    --------
    >>> import neuralrace as nr
    >>> from neuralrace.universality import follow_pair, watch
    >>> x, y = np.eye(3), np.array([[1.0], [-1.0], [0.5]])
    >>> task = nr.Task(nr.Graph.chain([3, 4, 1]), x, y)
    >>> start = nr.init.gaussian(task.graph, 0.1, seed=range(2))
    >>> run = nr.flow(task, start, 50.0, 20, record=watch(task.graph, x, "h1"))
    >>> follow_pair(run, x, y, (0, 1)).recorded["dy2"][:, -1].round(2)
    array([4., 4.])
    """
    if not isinstance(trajectory, Trajectory):
        raise InputError(f"trajectory must be a Trajectory, got {short(trajectory)}")
    hidden, output = (trajectory.recorded.get(name) for name in ("hidden", "output"))
    if hidden is None or output is None or not trajectory.many:
        raise InputError("trajectory must hold several runs, recorded with universality.watch")
    hidden, output = (np.asarray(v, np.float64) for v in (hidden, output))
    x, y = samples("x", x), samples("y", y)
    n = hidden.shape[2]
    if len(x) != n or y.shape != (n, output.shape[-1]):
        shape = (n, output.shape[-1])
        raise InputError(f"x must have the {n} samples that were watched and y the shape {shape}, "
                         f"got {len(x)} and {y.shape}")  # fmt: skip
    if not np.isin(array("pair", pair, (2,)), np.arange(n)).all():
        raise InputError(f"pair must be two sample numbers from 0 to {n - 1}, got {short(pair)}")
    a, b = map(int, pair)
    dx, dy = (np.repeat(v, len(hidden)) for v in pair_distances(x, y, np.array([[a, b]])))
    dh2, dy2, w, loss = pair_series(hidden, output, y, a, b)
    return Training(
        t=trajectory.t,
        loss=loss,
        statuses=trajectory.statuses,
        outcomes=trajectory.outcomes,
        end=trajectory.end,
        recorded={"dh2": dh2[..., None], "dy2": dy2, "w": w},
        settings=trajectory.settings,
        runs={**trajectory.runs, "dx": dx, "dy": dy},
        dims={"recorded:dh2": ("layer",)},
    )
