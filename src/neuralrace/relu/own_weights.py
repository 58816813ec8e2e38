"""Weights of networks that were made elsewhere, as layers: lists, dicts and torch modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuralrace.errors import InputError, array
from neuralrace.graph import Graph
from neuralrace.relu.training import relu_chain

Layer = tuple[np.ndarray, np.ndarray | None]


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
