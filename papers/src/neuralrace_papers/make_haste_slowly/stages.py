"""Learning in stages: the loss of a ReLU network predicted in two; pathways trained one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace import Graph, Task, Trajectory, activity, descend, gradient, loss, unit_sizes
from neuralrace.errors import InputError, distinct_names
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


def train_in_order(
    net: Trajectory, task: Task, weights: Mapping[str, Any], first: Sequence[str]
) -> Trajectory:
    """Train pathways with the learning rate and steps of `net`, some of them as if they were alone.

    The pathways named by `first` descend the loss that they have without the others. The others descend the
    loss of the whole network, on what the first ones leave at the time. So the first ones do not see what
    the others have learned: the procedure of the authors of make_haste_slowly, where one always-open pathway
    is first. It is not the gradient of any loss; `train_like` follows that of the whole loss.

    Parameters
    ----------
    net : Trajectory
        What `train` returned, trained by plain descent on all samples.
    task : Task
        Pathways, and the same samples.
    weights : dict
        Their initial weights, edge name -> (out, in).
    first : list of str
        Hidden nodes of the pathways that learn alone.

    Returns
    -------
    Trajectory
        Its loss on the scale of `net.loss`, its weights at the times of `net`.

    Examples
    --------
    >>> import neuralrace as nr
    >>> x, y = np.eye(2), np.array([[1.0], [-1.0]])
    >>> net = nr.relu.train(x, y, [4], std=0.1, lr=0.1, steps=200, save=5)
    >>> task = nr.tasks.gated(x, y, [[1, 1], [1, 0]], hidden=2)
    >>> train_in_order(net, task, nr.init.gaussian(task.graph, 0.1, seed=0), ["p0h1"]).loss.shape
    (5,)
    """
    s = net.settings
    if s.get("process") != "descend" or s["optimizer"] != "sgd" or s["momentum"] or s["batch_size"]:
        raise InputError("net must be trained by nr.relu.train, by plain descent on all samples")
    nodes = distinct_names("first", first, task.graph.hidden, "hidden node")
    if not nodes:
        raise InputError(f"first must list hidden nodes of {', '.join(task.graph.hidden)}; got none")
    if task.graph.biases or task.graph.fixed:
        raise InputError("task must have no biases and fixed edges for train_in_order")
    start = task.graph.check_weights(weights)
    alone = {e: float(bool({*ends} & {*nodes})) for e, ends in task.graph.edges.items()}
    rate, counts = s["lr"], np.diff(np.round(net.t / s["lr"]).astype(int))

    def step(_: Any, w: dict[str, Any]) -> dict[str, Any]:
        of_first = gradient(task, {e: alone[e] * v for e, v in w.items()})
        of_all = gradient(task, w)
        return {e: v - rate * (of_first if alone[e] else of_all)[e] for e, v in w.items()}

    def until_next(w: dict[str, Any], count: Any) -> tuple[Any, Any]:
        later = jax.lax.fori_loop(0, count, step, w)
        return later, later

    with jax.enable_x64(True):
        given = jax.tree.map(jnp.asarray, start)
        _, path = jax.jit(lambda w, n: jax.lax.scan(until_next, w, n))(given, counts)
    saved = {e: np.concatenate([start[e][None], np.asarray(w)]) for e, w in path.items()}
    return Trajectory(net.t, net.loss_scale * loss(task, saved), saved, loss_scale=net.loss_scale)
