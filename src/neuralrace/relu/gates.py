"""The gated linear network that a ReLU network is, and gated networks with constant gates beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.dynamics import Trajectory
from neuralrace.errors import InputError, choice, short
from neuralrace.graph import Graph
from neuralrace.network import predict
from neuralrace.relu.own_weights import as_relu_network
from neuralrace.relu.patterns import nearest_pattern
from neuralrace.relu.training import ReluNetwork, check_network, train_like, unit_gates
from neuralrace.task import Task


def as_gdln(
    net: Any, i: int = -1, X: ArrayLike | None = None, Y: ArrayLike | None = None
) -> tuple[Task, dict[str, np.ndarray]]:
    """The linear network, gated neuron by neuron, that a ReLU network is at one moment.

    It has the outputs of the network, and its gradient on the mean loss (that of the objective divided by
    `net.loss_scale`).

    Parameters
    ----------
    net : ReluNetwork, or weights of your own
        One network that `train` returned (`net[0]` of several); matrices (out, in) in layer order in a list
        or dict; pairs of matrix and bias; or a torch `Sequential` of `Linear` and `ReLU` layers.
    i : int
        Index of the saved time, of what `train` returned; -1 is the last.
    X : array, shape (n, in), optional
        Inputs; needed with weights of your own.
    Y : array, shape (n, out), optional
        Targets; needed with weights of your own.

    Returns
    -------
    task : Task
        With a gate for every unit and sample.
    weights : dict
        Edge name -> (out, in).

    Examples
    --------
    >>> task, w = as_gdln([[[1.0], [-1.0]], [[1.0, 2.0]]], X=[[3.0], [-2.0]], Y=[[0.0], [0.0]])
    >>> task.samples.gates["h1"].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    task, weights = network_at(net, i, X, Y)
    graph = task.graph
    linear = Graph(graph.nodes, graph.given_edges(), biases=graph.biases)
    gates = dict(zip(graph.hidden, unit_gates(task, weights), strict=True))
    return Task(linear, *task.arrays, gates), weights


def network_at(
    net: Any, i: int, X: ArrayLike | None, Y: ArrayLike | None, need_targets: bool = True
) -> tuple[Task, dict[str, np.ndarray]]:
    """The task and the weights of one ReLU network at one time."""
    network = as_relu_network(net, X, Y, need_targets)
    if network.many:
        raise InputError(f"net holds {len(network)} networks; choose one, as in net[0]")
    return network.task, network.at(i)


@dataclass(frozen=True, eq=False)
class Imitation:
    """A network with constant gates, trained beside a ReLU network.

    Attributes
    ----------
    trajectory : Trajectory
        Of the gated network, its loss on the scale of the ReLU network.
    distance : ndarray, shape (save,)
        Of the outputs: root of the sum of squares over samples and outputs, relative to the targets.
    relu_loss : ndarray, shape (save,)
        Loss of the ReLU network at the same times.
    members : dict
        How many units of the ReLU network each pathway took over.
    task : Task
        The gated network.

    Examples
    --------
    >>> import neuralrace as nr
    >>> x, y = np.eye(2), np.array([[1.0], [-1.0]])
    >>> net = nr.relu.train(x, y, [20], std=1e-3, lr=0.1, steps=300, save=11)
    >>> imitate(net, nr.tasks.gated(x, y, np.eye(2)))
    Imitation(11 times to t = 60, largest distance 0.106 at t = 12, finished after 300 steps, t = 60)
    """

    trajectory: Trajectory
    distance: np.ndarray
    relu_loss: np.ndarray
    members: dict[str, int]
    task: Task

    @property
    def t(self) -> np.ndarray:
        """Flow time, `(save,)`."""
        return self.trajectory.t

    @property
    def loss(self) -> np.ndarray:
        """Loss of the gated network, `(save,)`."""
        return self.trajectory.loss

    def __repr__(self) -> str:
        return (
            f"Imitation({len(self.t)} times to t = {self.t[-1]:g}, "
            f"largest distance {self.distance.max():.3g} at t = {self.t[self.distance.argmax()]:.3g}, "
            f"{self.trajectory.outcome})"
        )


def imitate(net: ReluNetwork, task: Task, matching: str = "members", at: int = -1) -> Imitation:
    """Train the gated linear network of `task` as a ReLU network with one hidden layer was trained.

    It starts from the ReLU network's own initial weights.

    Parameters
    ----------
    net : ReluNetwork
        One network that `train` returned, with one hidden layer and no biases.
    task : Task
        The samples of the network, and pathways of one hidden node each with constant gates. A pathway may
        see some of the inputs only. Hidden sizes do not matter.
    matching : {"members", "all"}
        With "members" each unit belongs to the pathway whose gates agree with the unit's own on most samples
        (the first of several equal ones), and each pathway starts with the weights of its units. With "all"
        every pathway starts with those of all units.
    at : int
        Index of the saved time at which gates are compared; -1 is the last.

    Returns
    -------
    Imitation
        Distance of outputs over time, both losses, and the trajectory of the gated network.

    Examples
    --------
    >>> import neuralrace as nr
    >>> x, y = np.eye(2), np.array([[1.0], [-1.0]])
    >>> net = nr.relu.train(x, y, [20], std=1e-3, lr=0.1, steps=300, save=11)
    >>> imitation = imitate(net, nr.tasks.gated(x, y, np.eye(2)))
    >>> imitation.members, bool(imitation.distance.max() < 0.2)
    ({'p0h1': 14, 'p1h1': 6}, True)
    """
    check_network(net, many=False)
    choice("matching", matching, ("members", "all"))
    if len(net.task.graph.hidden) != 1 or net.task.graph.biases:
        raise InputError("net must have one hidden layer and no biases for imitate")
    columns = _columns(net, task)
    units = _units(net, task, None if matching == "all" else at)
    g = task.graph
    w1, w2 = (net.at(0)[e] for e in ("x->h1", "h1->y"))
    # A pathway without units has one that is zero, and stays so.
    small = task.on(g.resized({p: max(1, len(units[p])) for p in g.hidden}))
    weights = {}
    for e, (source, target) in g.edges.items():
        given = w1[units[target]][:, columns[source]] if source in g.inputs else w2[:, units[source]]
        weights[e] = given if given.size else np.zeros(small.graph.shapes[e])
    path = train_like(net, small, weights)
    n = len(path.t)
    apart = predict(small, path.weights)[g.outputs[0]] - predict(net.task, net.weights)["y"][:n]
    distance = np.sqrt((apart**2).sum(axis=(1, 2)) / (net.Y**2).sum())
    return Imitation(path, distance, net.loss[:n], {p: len(u) for p, u in units.items()}, small)


def _units(net: ReluNetwork, task: Task, at: int | None) -> dict[str, np.ndarray]:
    """The units of the network that each pathway takes over; all of them where `at` is None."""
    paths, n = task.graph.hidden, net.task.graph.nodes["h1"]
    if at is None:
        return {p: np.arange(n) for p in paths}
    patterns = np.stack([np.broadcast_to(task.samples.gates.get(p, 1.0), len(net.X)) for p in paths])
    nearest = nearest_pattern(net.gates(at)[0].T, patterns)
    return {p: np.flatnonzero(nearest == k) for k, p in enumerate(paths)}


def _columns(net: ReluNetwork, task: Any) -> dict[str, list[int]]:
    """Which column of the network's inputs each column of the task's inputs is."""
    if not isinstance(task, Task) or task.n_samples != len(net.X):
        raise InputError(
            f"task must be a Task with the {len(net.X)} samples of the network, got {short(task)}"
        )
    g, s = task.graph, task.samples
    if not g.is_linear or any(g.levels[p] != 1 or len(g.outgoing[p]) != 1 for p in g.hidden):
        raise InputError("task must have linear pathways of one hidden node each for imitate")
    if len(g.outputs) != 1 or not np.array_equal(s.targets[g.outputs[0]], net.Y):
        raise InputError("task must have the targets of the network, in the same order of samples")
    if any(name not in g.hidden or np.ndim(gate) > 1 for name, gate in s.gates.items()):
        raise InputError("task must have one gate per pathway and sample, on hidden nodes, for imitate")
    columns = {}
    for x in g.inputs:
        equal = (s.inputs[x][:, :, None] == net.X[:, None, :]).all(axis=0)
        if not equal.any(axis=1).all():
            raise InputError(f"task must have columns of the network's inputs at {x!r}")
        columns[x] = equal.argmax(axis=1).tolist()
    return columns
