"""The gated linear network that a ReLU network is, and gated networks with constant gates beside it.

A ReLU network is one that `train` returned, or the weights of one that was made elsewhere: in lists, dicts
and torch modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.dynamics import Trajectory
from neuralrace.errors import InputError, array, choice, short
from neuralrace.graph import Graph
from neuralrace.measure import unit_sizes
from neuralrace.network import activity, loss, predict
from neuralrace.reduction import reduce
from neuralrace.relu.patterns import nearest_pattern
from neuralrace.relu.training import check_network, is_network, relu_chain, target_rows, train_like
from neuralrace.task import Task

Layer = tuple[np.ndarray, np.ndarray | None]


def as_gdln(
    net: Any, i: int = -1, X: ArrayLike | None = None, Y: ArrayLike | None = None
) -> tuple[Task, dict[str, np.ndarray]]:
    """The linear network, gated neuron by neuron, that a ReLU network is at one moment.

    It has the outputs of the network, and its gradient on the mean loss (that of the objective divided by
    `net.loss_scale`).

    Parameters
    ----------
    net : Trajectory, or weights of your own
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
    gates = {h: np.asarray(activity(task, weights, h) > 0, float) for h in graph.hidden}
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


def imitate(net: Trajectory, task: Task, matching: str = "members", at: int = -1) -> Imitation:
    """Train the gated linear network of `task` as a ReLU network with one hidden layer was trained.

    It starts from the ReLU network's own initial weights.

    Parameters
    ----------
    net : Trajectory
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
    distance = np.sqrt((apart**2).sum(axis=(1, 2)) / (net.task.arrays[1] ** 2).sum())
    return Imitation(path, distance, net.loss[:n], {p: len(u) for p, u in units.items()}, small)


def _units(net: Trajectory, task: Task, at: int | None) -> dict[str, np.ndarray]:
    """The units of the network that each pathway takes over; all of them where `at` is None."""
    paths, n = task.graph.hidden, net.task.graph.nodes["h1"]
    if at is None:
        return {p: np.arange(n) for p in paths}
    gates, samples = task.samples.gates, len(net.task.arrays[0])
    patterns = np.stack([np.broadcast_to(gates.get(p, 1.0), samples) for p in paths])
    nearest = nearest_pattern(net.gates(at)[0].T, patterns)
    return {p: np.flatnonzero(nearest == k) for k, p in enumerate(paths)}


def _columns(net: Trajectory, task: Any) -> dict[str, list[int]]:
    """Which column of the network's inputs each column of the task's inputs is."""
    x_all, y_all = net.task.arrays
    if not isinstance(task, Task) or task.n_samples != len(x_all):
        raise InputError(
            f"task must be a Task with the {len(x_all)} samples of the network, got {short(task)}"
        )
    g, s = task.graph, task.samples
    if not g.is_linear or any(g.levels[p] != 1 or len(g.outgoing[p]) != 1 for p in g.hidden):
        raise InputError("task must have linear pathways of one hidden node each for imitate")
    if len(g.outputs) != 1 or not np.array_equal(s.targets[g.outputs[0]], y_all):
        raise InputError("task must have the targets of the network, in the same order of samples")
    if any(name not in g.hidden or np.ndim(gate) > 1 for name, gate in s.gates.items()):
        raise InputError("task must have one gate per pathway and sample, on hidden nodes, for imitate")
    columns = {}
    for x in g.inputs:
        equal = (s.inputs[x][:, :, None] == x_all[:, None, :]).all(axis=0)
        if not equal.any(axis=1).all():
            raise InputError(f"task must have columns of the network's inputs at {x!r}")
        columns[x] = equal.argmax(axis=1).tolist()
    return columns


def reduction_conditions(net: Trajectory, patterns: Any) -> dict[str, np.ndarray]:
    """How far ReLU networks are from what makes the reduction to gated pathways exact.

    A unit belongs to the pathway with which its last gates agree on most samples, and counts by its size at
    the time (`nr.unit_sizes`).

    Parameters
    ----------
    net : Trajectory
        Several networks with one hidden layer and no biases, as `train` returned them for several seeds.
    patterns : array, shape (pathways, n)
        Gates of the pathways, 0 and 1.

    Returns
    -------
    dict of str to ndarray, shape (runs, save)
        "match": share of all gates, one per unit and sample, that are those of the unit's pathway; 1 where
        the reduction is exact. "moved": share of all gates that are not what they were at the start; 0 where
        it is exact. "coupled": share of the squared weights outside the modes of an always open network, in
        whichever hidden directions fit best (`Reduction.off_manifold_fraction`); 0 if layers are aligned, one
        hidden direction for each mode.

    Examples
    --------
    >>> import neuralrace as nr
    >>> net = nr.relu.train(*nr.tasks.contexts(2).arrays, [20], 1e-3, 1e-3, 50, save=3, seed=range(2))
    >>> shares = reduction_conditions(net, np.ones((1, 16)))
    >>> shares["match"].shape, shares["moved"][:, 0]
    ((2, 3), array([0., 0.]))
    """
    if len(check_network(net, many=True).task.graph.hidden) != 1 or net.task.graph.biases:
        raise InputError("net must have one hidden layer and no biases")
    patterns = array("patterns", patterns, (None, len(net.task.arrays[0])))
    linear = Task(Graph.chain(list(net.task.graph.nodes.values())), net.task.arrays[0], net.task.arrays[1])
    modes, shares = reduce(linear, "pathwise"), []
    for one in (net[k] for k in range(len(net))):
        w1, w2 = one.weights.values()
        gates = activity(one.task, one.weights, "h1") > 0  # (save, n, units)
        size = unit_sizes(w1, w2, normalise=True)
        own = patterns[nearest_pattern(gates[-1].T, patterns)].T
        match, moved = ((size * g.mean(axis=1)).sum(axis=-1) for g in (gates == own, gates != gates[0]))
        shares.append([match, moved, modes.off_manifold_fraction(one.weights)])
    return dict(zip(("match", "moved", "coupled"), np.stack(shares, axis=1), strict=True))


def as_relu_network(net: Any, X: Any, Y: Any, need_targets: bool = True) -> Trajectory:
    """`net` as `train` returns it.

    Weights from elsewhere become a network with the mean loss and a saved time t = 0, 1, ... for each state.
    Targets are zero where they are neither given nor needed.
    """
    if is_network(net):
        if not net.weights:
            raise InputError("net must have its weights saved: train with save_weights=True")
        return net
    if X is None or (Y is None and need_targets):
        needed = "X and Y, the inputs and targets, are" if need_targets else "X, the inputs, is"
        raise InputError(f"{needed} needed with weights or a torch module")
    states = [_named_weights(state) for state in _states(net)]
    graph = states[0][1]
    if any(g != graph for _, g in states):
        raise InputError("net must have the same layers at all times")
    x = array("X", X, (None, graph.nodes["x"]))
    if not len(x):
        raise InputError("X must hold at least one sample, got none")
    y = np.zeros((len(x), graph.nodes["y"])) if Y is None else target_rows(Y, (len(x), graph.nodes["y"]))
    task, weights = Task(graph, x, y), {n: np.stack([w[n] for w, _ in states]) for n in graph.shapes}
    return Trajectory(np.arange(float(len(states))), loss(task, weights), weights, task=task)


def _named_weights(net: Any) -> tuple[dict[str, np.ndarray], Graph]:
    """Weights by name, and the chain they belong to."""
    layers = _layers(net)
    if len(layers) < 2:
        raise InputError(f"net must have a ReLU layer, so at least two layers of weights; got {len(layers)}")
    sizes = [layers[0][0].shape[1], *(len(w) for w, _ in layers)]
    for k, (w, b) in enumerate(layers):
        if w.shape[1] != sizes[k]:
            raise InputError(f"layer {k} of net must have {sizes[k]} inputs, got shape {w.shape}")
        if b is not None and b.shape != (len(w),):
            raise InputError(f"the bias of layer {k} of net must have shape ({len(w)},), got {b.shape}")
    bias = any(b is not None for _, b in layers)
    graph = relu_chain(sizes, bias)
    weights = {e: w for e, (w, _) in zip(graph.edges, layers, strict=True)}
    if bias:
        nodes = list(graph.nodes)[1:]
        weights |= {n: np.zeros(len(w)) if b is None else b for n, (w, b) in zip(nodes, layers, strict=True)}
    return weights, graph


def _layers(net: Any) -> list[Layer]:
    """Matrices and biases, in layer order, of a list, a dict or a torch module."""
    if type(net).__module__.split(".")[0] == "torch" or hasattr(net, "named_parameters"):
        return _torch_layers(net)
    if isinstance(net, Mapping):
        arrays = [array(f"net[{name!r}]", v) for name, v in net.items()]
        matrices, biases = ([a for a in arrays if a.ndim == d] for d in (2, 1))
        if len(matrices) + len(biases) != len(arrays) or (biases and len(biases) != len(matrices)):
            raise InputError("net must hold a matrix (out, in) per layer, and a bias for every layer or none")
        return list(zip(matrices, biases or [None] * len(matrices), strict=True))
    if not isinstance(net, Sequence) or isinstance(net, str):
        raise InputError(
            f"net must be a trained network, weights in layer order or a torch module, got {type(net)}"
        )
    layers: list[Layer] = []
    for k, given in enumerate(net):
        pair = isinstance(given, (tuple, list)) and len(given) == 2 and np.ndim(given[0]) == 2
        w, b = given if pair else (given, None)
        layers.append(
            (array(f"net[{k}]", w, (None, None)), None if b is None else array(f"net[{k}]", b, (None,)))
        )
    return layers


def _torch_layers(net: Any) -> list[Layer]:
    import torch  # pyright: ignore[reportMissingImports]

    def flat(module: Any) -> list[Any]:
        if isinstance(module, torch.nn.Sequential):
            return [m for child in module for m in flat(child)]
        return [] if isinstance(module, (torch.nn.Identity, torch.nn.Flatten)) else [module]

    parts = flat(net)
    kinds = [type(m).__name__ for m in parts]
    if kinds != ["Linear", "ReLU"] * (len(parts) // 2) + ["Linear"] or len(parts) < 3:
        raise InputError(
            f"net must be a torch Sequential of Linear, ReLU, ..., Linear; got {type(net).__name__} of "
            f"{', '.join(kinds)}"
        )
    numbers = lambda p: None if p is None else p.detach().cpu().double().numpy()  # noqa: E731
    return [(np.asarray(numbers(m.weight)), numbers(m.bias)) for m in parts[::2]]


def _states(net: Any) -> list[Any]:
    """The weights at each time, each in one of the forms that `_layers` takes."""
    if isinstance(net, Mapping):
        series = {n: array(f"net[{n!r}]", w) for n, w in net.items()}
        if not any(w.ndim == 3 for w in series.values()):
            return [net]
        return [{n: w[t] for n, w in series.items()} for t in range(_length(series.values()))]
    if isinstance(net, Sequence) and not isinstance(net, str) and len(net):
        if all(isinstance(w, Mapping) or hasattr(w, "named_parameters") for w in net):
            return list(net)
        pairs = [
            w if isinstance(w, (tuple, list)) and len(w) == 2 and _axes(w[0]) == 3 else (w,) for w in net
        ]
        if all(_axes(p[0]) == 3 for p in pairs):
            flat = [[array(f"net[{k}]", a) for a in p if a is not None] for k, p in enumerate(pairs)]
            length = _length([a for p in flat for a in p])
            return [[p[0][t] if len(p) == 1 else (p[0][t], p[1][t]) for p in flat] for t in range(length)]
    return [net]


def _axes(value: Any) -> int:
    """Number of axes; -1 of what is no array."""
    try:
        return np.ndim(value)
    except ValueError:
        return -1


def _length(series: Iterable[np.ndarray]) -> int:
    """The number of times, which must be the same for all weights."""
    lengths = {len(w) if w.ndim else 0 for w in series}
    if len(lengths) != 1 or not min(lengths):
        raise InputError(f"net must have its weights at the same times, got {sorted(lengths)} of them")
    return lengths.pop()
