"""ReLU networks that were made elsewhere: weights in lists, dicts and torch modules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from neuralrace.errors import InputError, array
from neuralrace.graph import Graph
from neuralrace.network import loss
from neuralrace.relu.given import target_rows
from neuralrace.relu.training import ReluNetwork, relu_chain
from neuralrace.task import Task

Layer = tuple[np.ndarray, np.ndarray | None]


def as_relu_network(net: Any, X: Any, Y: Any, need_targets: bool = True) -> ReluNetwork:
    """`net` as `train` returns it.

    Weights from elsewhere become a network with the mean loss and a saved time t = 0, 1, ... for each state.
    Targets are zero where they are neither given nor needed.
    """
    if isinstance(net, ReluNetwork):
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
    return ReluNetwork(
        t=np.arange(float(len(states))),
        loss=loss(task, weights),
        weights=weights,
        task=task,
        objective="mean",
        lr=np.nan,
    )


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
