"""How strong each mode of a task is in each layer of a network, over learning."""

from __future__ import annotations

import numpy as np

from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, short
from neuralrace.reduction.certificate import EXACT, gradient_residual, random_points
from neuralrace.reduction.family import Family, pathwise, shared
from neuralrace.reduction.growth import growing_frames, strengths_along
from neuralrace.task import Task

_ROUNDS = 20  # at most, at each time; from one time to the next directions hardly turn
_TURN = 1e-6  # change of a direction in a round at which the search stops


def mode_strengths(trajectory: Trajectory, task: Task) -> dict[str, np.ndarray]:
    """Strength of each mode of a task in each edge of a network, over time.

    At every hidden node, mode and time the direction r is chosen that makes the sum of the strengths
    `r_t^T W_e r_s` over all edges largest. At inputs and outputs the directions are the modes of the task.
    Where all paths have common modes, those of different modes at a node are orthogonal. In a network that is
    aligned with its task these are the strengths of the reduction; from random weights they are those of the
    growing part.

    Parameters
    ----------
    trajectory : Trajectory
        With saved weights; one run or several.
    task : Task
        On a linear graph without biases.

    Returns
    -------
    dict of str to ndarray, shape (save, modes) or (runs, save, modes)
        The strongest mode of the data first.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 20, 20, 7]))
    >>> run = nr.flow(task, nr.init.xavier(task.graph, 0.5), t1=30.0, save=10)
    >>> {e: b.shape for e, b in mode_strengths(run, task).items()}
    {'x->h1': (10, 4), 'h1->h2': (10, 4), 'h2->y': (10, 4)}
    """
    if not isinstance(task, Task) or not isinstance(trajectory, Trajectory):
        raise InputError(
            f"trajectory must be a Trajectory and task a Task, got {short(trajectory)} and {short(task)}"
        )
    g = task.graph
    if not g.is_linear or g.biases or g.diagonal:
        raise InputError("task must be on a linear graph, without biases and diagonal edges, to have modes")
    if not set(g.shapes) <= set(trajectory.weights):
        raise InputError("trajectory must have the weights of the task's graph: was it saved without them?")
    family, common = modes_of(task)
    strengths: dict[str, list[np.ndarray]] = {e: [] for e in g.shapes}
    frames = None
    for k in range(len(trajectory.t)):
        w = trajectory.at(k)
        frames = growing_frames(family, w, _ROUNDS if k else 10 * _ROUNDS, _TURN, frames, common)
        for e, b in strengths_along(family, frames, w).items():
            strengths[e].append(b)
    return {e: np.stack(b, axis=-2) for e, b in strengths.items()}


def modes_of(task: Task) -> tuple[Family, bool]:
    """The modes of all paths together if they have common ones, else of each pathway; and which it is."""
    rng = np.random.default_rng(0)
    family = shared(task, rng)
    exact = max(gradient_residual(task, family, random_points(family, rng)).values()) < EXACT
    if exact or task.graph.fixed:
        return family, exact
    return pathwise(task, np.random.default_rng(0)), False
