"""The gated linear network that a ReLU network is, and gated networks with constant gates beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, array, choice
from neuralrace.graph import Graph
from neuralrace.network import predict
from neuralrace.relu.training import ReluNetwork, relu_chain, step_gates
from neuralrace.task import Task

Layer = tuple[np.ndarray, np.ndarray | None]


def as_gdln(net: Any, i: int = -1, X: Any = None, Y: Any = None) -> tuple[Task, dict[str, np.ndarray]]:
    """The linear network, gated neuron by neuron, that a ReLU network is at one moment: `(task, weights)`.

    `nr.predict(task, weights)` are the outputs of the network and `nr.gradient` its gradient on the mean loss
    (times `net.scale`, on the loss it was trained on). `net` is what `train` returned, at save index `i`; or
    your own weights with inputs `X` `(n, in)` and targets `Y` `(n, out)`: matrices `(out, in)` in layer order
    in a list or dict, pairs of matrix and bias, or a torch `Sequential` of `Linear` and `ReLU` layers.

    >>> task, w = as_gdln([[[1.0], [-1.0]], [[1.0, 2.0]]], X=[[3.0], [-2.0]], Y=[[0.0], [0.0]])
    >>> task.samples.gates["h1"].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if isinstance(net, ReluNetwork):
        if net.many:
            raise InputError("net holds several seeds; choose one, as in net.run(0)")
        weights, graph = net.at(i), net.task.graph
        x, y = net.task.arrays
    else:
        if X is None or Y is None:
            raise InputError("X and Y, the inputs and targets, are needed with weights or a torch module")
        weights, graph = own_network(net)
        x, y = array("X", X, (None, graph.nodes["x"])), array("Y", Y, (None, graph.nodes["y"]))
    linear = Graph(graph.nodes, graph.edges, biases=graph.biases)
    gates = dict(zip(graph.hidden, step_gates(graph, weights, x), strict=True))
    return Task(linear, x, y, gates), weights


@dataclass(frozen=True, eq=False)
class Imitation:
    """A constant-gate network beside a ReLU network: `t`, `distance`, `loss` and `relu_loss`, all `(save,)`.

    `distance` is that of the outputs, root of the sum of squares over samples and outputs, relative to the
    targets. Losses are on the scale of the ReLU network. `members` says how many of its units each pathway
    took over, `trajectory` is that of the gated network.
    """

    t: np.ndarray
    distance: np.ndarray
    loss: np.ndarray
    relu_loss: np.ndarray
    members: dict[str, int]
    task: Task
    trajectory: Trajectory

    def __repr__(self) -> str:
        return (
            f"Imitation({len(self.t)} times to t = {self.t[-1]:g}, "
            f"largest distance {self.distance.max():.3g} at t = {self.t[self.distance.argmax()]:.3g}, "
            f"{self.trajectory.outcome})"
        )


def imitate(net: ReluNetwork, task: Task, matching: str = "members", at: int = -1) -> Imitation:
    """Train the gated linear network of `task` beside a ReLU network with one hidden layer.

    `task` holds the samples of the network and pathways of one hidden node each, with constant gates; a
    pathway may see some of the inputs only. It is trained as the network was, from the network's own initial
    weights. With `matching="members"` each unit belongs to the pathway whose gates agree with the unit's own,
    at save index `at`, on most samples (to the first of several equal ones), and each pathway has the initial
    weights of its units. With `matching="all"` every pathway starts with those of all units. Hidden sizes of
    the task do not matter.
    """
    if not isinstance(net, ReluNetwork) or net.many:
        raise InputError("net must be a network trained from one seed, as train returns; or net.run(0)")
    choice("matching", matching, ("members", "all"))
    if len(net.task.graph.hidden) != 1 or net.task.graph.biases:
        raise InputError("net must have one hidden layer and no biases for imitate")
    columns = _columns(net, task)
    g = task.graph
    w1, w2 = (net.at(0)[e] for e in ("x->h1", "h1->y"))
    patterns = np.stack([np.broadcast_to(task.samples.gates.get(p, 1.0), len(net.X)) for p in g.hidden])
    if matching == "all":
        units = {p: np.arange(len(w1)) for p in g.hidden}
    else:
        active = net.gates(at)[0].T  # (units, n)
        apart = np.abs(active[:, None] - patterns[None]).sum(axis=2)
        units = {p: np.flatnonzero(apart.argmin(axis=1) == k) for k, p in enumerate(g.hidden)}
    # A pathway without units has one that is zero, and stays so.
    small = task.on(g.resized({p: max(1, len(units[p])) for p in g.hidden}))
    weights = {}
    for e, (source, target) in g.edges.items():
        given = w1[units[target]][:, columns[source]] if source in g.inputs else w2[:, units[source]]
        weights[e] = given if given.size else np.zeros(small.graph.shapes[e])
    path = net.beside(small, weights)
    n = len(path.t)
    apart = predict(small, path.weights)[g.outputs[0]] - predict(net.task, _first(net.weights, n))["y"]
    distance = np.sqrt((apart**2).sum(axis=(1, 2)) / (net.Y**2).sum())
    members = {p: len(u) for p, u in units.items()}
    return Imitation(
        path.t, distance, net.scale * path.loss, net.loss[:n], members, small, path
    )  # fmt: skip


def _first(weights: Mapping[str, np.ndarray], n: int) -> dict[str, np.ndarray]:
    return {e: w[:n] for e, w in weights.items()}


def _columns(net: ReluNetwork, task: Any) -> dict[str, list[int]]:
    """Which column of the network's inputs each column of the task's inputs is."""
    if not isinstance(task, Task) or task.n_samples != len(net.X):
        raise InputError(f"task must be a Task with the {len(net.X)} samples of the network, got {task!r}")
    g, s = task.graph, task.samples
    if not g.is_linear or any(g.levels[p] != 1 or len(g.outgoing[p]) != 1 for p in g.hidden):
        raise InputError("task must have linear pathways of one hidden node each for imitate")
    if len(g.outputs) != 1 or not np.array_equal(s.targets[g.outputs[0]], net.Y):
        raise InputError("task must have the targets of the network, in the same order of samples")
    if any(name not in g.hidden or np.ndim(gate) > 1 for name, gate in s.gates.items()):
        raise InputError("task must have one gate per pathway and sample, on hidden nodes, for imitate")
    found = {}
    for x in g.inputs:
        equal = (s.inputs[x][:, :, None] == net.X[:, None, :]).all(axis=0)
        if not equal.any(axis=1).all():
            raise InputError(f"task must have columns of the network's inputs at {x!r}")
        found[x] = equal.argmax(axis=1).tolist()
    return found


# -- weights from elsewhere ------------------------------------------------------------------


def own_network(net: Any) -> tuple[dict[str, np.ndarray], Graph]:
    """Weights by name, and the chain they belong to."""
    layers = layers_of(net)
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


def layers_of(net: Any) -> list[Layer]:
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
    found: list[Layer] = []
    for k, given in enumerate(net):
        pair = isinstance(given, (tuple, list)) and len(given) == 2 and np.ndim(given[0]) == 2
        w, b = given if pair else (given, None)
        found.append(
            (array(f"net[{k}]", w, (None, None)), None if b is None else array(f"net[{k}]", b, (None,)))
        )
    return found


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
