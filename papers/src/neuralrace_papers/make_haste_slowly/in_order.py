"""Pathways that learn in order: some alone, the others on what those leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace import Task, Trajectory, gradient, loss
from neuralrace.errors import InputError, distinct_names


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
