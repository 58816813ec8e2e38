"""The loss of a ReLU network predicted from its initial weights, in two stages."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuralrace import Graph, Task, Trajectory, activity, descend, unit_sizes
from neuralrace.errors import InputError
from neuralrace.relu import train_like

ALIGNED = 0.99  # share of the weight that units open everywhere must have


def two_stage_loss(net: Trajectory, context: Any) -> np.ndarray:
    """The loss of a ReLU network predicted from its initial weights, without training it.

    First all units that a linear network makes always open are one linear pathway. That lasts as long as it
    agrees with itself: while all but 1% of its weight is in units that it has open everywhere. From then on
    each unit is open in the contexts in which the linear network ends up exciting it.

    Parameters
    ----------
    net : Trajectory
        One network with one hidden layer that `train` trained from small weights; of its weights only the
        initial ones are used.
    context : array, shape (n,)
        Label of each sample.

    Returns
    -------
    ndarray, shape (save,)
        At the saved times of `net` and on the scale of its loss.

    Examples
    --------
    >>> import neuralrace as nr
    >>> net = nr.relu.train(*nr.tasks.contexts(3).arrays, [60], 1e-4, 1e-3, 600, 31, seed=0)
    >>> bool(np.abs(two_stage_loss(net, np.repeat([0, 1, 2], 8)) - net.loss).max() < 0.03 * net.loss[0])
    True
    """
    if len(net.task.graph.hidden) != 1 or net.task.graph.biases:
        raise InputError("net must have one hidden layer and no biases")
    (x, y), graph = net.task.arrays, Graph.chain(list(net.task.graph.nodes.values()))
    labels, plain = np.asarray(context), Task(graph, x, y)

    linear = train_like(net, plain, net.at(0))
    always, never, size = _open_units(plain, linear)
    aligned = np.flatnonzero(((always | never) * size).sum(axis=1) >= ALIGNED * size.sum(axis=1))
    if not len(aligned):
        raise InputError("std must be smaller: no time at which all units are open or closed")
    live = always[aligned[-1]]
    open_ = np.repeat(live[None], len(x), axis=0)
    linear = train_like(net, Task(graph, x, y, gates={"h1": open_.astype(float)}), net.at(0))

    always, _, size = _open_units(plain, linear)
    first = np.flatnonzero((always * size * live).sum(axis=1) >= ALIGNED * (size * live).sum(axis=1))[-1]
    left = round(net.time("steps")[-1] - net.time("steps")[first])
    if not left:
        return linear.loss
    excited = activity(plain, {e: w[-1] for e, w in linear.weights.items()}, "h1")
    gates = np.zeros(open_.shape, bool)
    for label in np.unique(labels):
        gates[labels == label] = excited[labels == label].mean(axis=0) > 0
    task = Task(graph, x, y, gates={"h1": (gates & open_).astype(float)})
    start = {e: w[first] for e, w in linear.weights.items()}
    rest = descend(task, start, net.settings["lr"], left, net.t[: len(net.t) - first])
    return np.append(linear.loss[:first], net.loss_scale * rest.loss)


def _open_units(task: Task, path: Trajectory) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which units are excited on all samples, which on none, and their sizes; each `(save, units)`."""
    excited = activity(task, path.weights, "h1") > 0
    return (
        excited.all(axis=1),
        ~excited.any(axis=1),
        unit_sizes(path.weights["x->h1"], path.weights["h1->y"]),
    )
