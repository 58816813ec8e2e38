"""Weights of a graph as one flat vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.errors import InputError, array, known
from neuralrace.graph.parts import some

WeightsLike = Mapping[str, ArrayLike]
"""Weights as a user gives them: edge name -> (target size, source size)."""


_SLOW_TO_COPY = 10_000  # numbers in a weight matrix: to copy it takes longer than a call


class WeightStack(NamedTuple):
    """Weights of equal shape, side by side from `offset` on in the flat vector."""

    shape: tuple[int, ...]
    offset: int
    names: tuple[str, ...]


class WeightLayout:
    """Shapes of a graph's weights, and their places in a flat vector."""

    nodes: dict[str, int]
    edges: dict[str, tuple[str, str]]
    biases: tuple[str, ...]
    diagonal: frozenset[str]
    fixed: dict[str, np.ndarray]
    levels: dict[str, int]

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of weights that learn: (target size, source size), or (size,) for diagonal edges and biases.

        A bias is named after its node.
        """
        shapes: dict[str, tuple[int, ...]] = {}
        for edge, (source, target) in self.edges.items():
            if edge in self.fixed:
                continue
            size = self.nodes[target]
            shapes[edge] = (size,) if edge in self.diagonal else (size, self.nodes[source])
        return {**shapes, **{n: (self.nodes[n],) for n in self.biases}}

    @cached_property
    def stacks(self) -> tuple[WeightStack, ...]:
        """Weights side by side in the flat vector: of equal shape; if large, between equal levels too."""
        names: dict[Any, list[str]] = {}
        for name, shape in self.shapes.items():
            ends = self.edges.get(name, (name, name))
            key = tuple(self.levels[n] for n in ends) if prod(shape) >= _SLOW_TO_COPY else ()
            names.setdefault((shape, key), []).append(name)
        return _stacked([(shape, members) for (shape, _), members in names.items()], 0)

    @cached_property
    def fixed_stacks(self) -> tuple[WeightStack, ...]:
        """Weights of fixed edges, of equal shape; they would follow the flat vector."""
        names: dict[tuple[int, ...], list[str]] = {}
        for name, w in self.fixed.items():
            names.setdefault(w.shape, []).append(name)
        return _stacked(names.items(), self.n_weights)

    @cached_property
    def place_in_stacks(self) -> dict[str, tuple[int, int]]:
        """Weight -> number of its stack, and its place in it; those of fixed edges come last."""
        stacks = enumerate((*self.stacks, *self.fixed_stacks))
        return {name: (k, i) for k, stack in stacks for i, name in enumerate(stack.names)}

    def with_fixed(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        """Weights of every edge and bias: those that learn, and the constant ones.

        Parameters
        ----------
        weights : dict of str to array
            Those that learn, as `check_weights` gives them.

        Returns
        -------
        dict of str to array
            In the order of the edges, then biases. Those of fixed edges have no leading axes.
        """
        return {n: self.fixed[n] if n in self.fixed else weights[n] for n in (*self.edges, *self.biases)}

    @cached_property
    def n_weights(self) -> int:
        """Number of weights and biases that learn."""
        return sum(prod(shape) for shape in self.shapes.values())

    def check_weights(
        self, weights: Any, convert: Callable[[str, Any], Any] = array, most_axes: int = 1
    ) -> dict[str, Any]:
        """The weights as arrays that fit this graph, all with the same leading axes.

        Parameters
        ----------
        weights : dict of str to array_like
            One for each edge and bias.
        convert : callable
            `convert(name, value)` makes an array of each, by default a finite one of float64.
        most_axes : int
            How many leading axes there may be.

        Returns
        -------
        dict of str to ndarray
        """
        if not isinstance(weights, Mapping):
            raise InputError(f"weights must be a dict from edge names to arrays, got {type(weights)}")
        known("weights", weights, self.shapes, "edge or bias that learns")
        missing = [n for n in self.shapes if n not in weights]
        if missing:
            raise InputError(f"weights lack {some(missing)}; nr.init makes a full set for a graph")
        out, leading = {}, None
        for name, shape in self.shapes.items():
            value = convert(f"weights[{name!r}]", weights[name])
            lead = value.shape[: max(value.ndim - len(shape), 0)]
            if value.shape[len(lead) :] != shape or len(lead) > most_axes:
                raise InputError(
                    f"weights[{name!r}] must have shape {shape}, or that with a leading axis of "
                    f"seeds, got {value.shape}"
                )
            if 0 in lead:
                raise InputError(f"weights[{name!r}] must have at least one run, got shape {value.shape}")
            if leading is not None and lead != leading:
                raise InputError(
                    f"weights must all have the same leading axis: {name!r} has {lead}, "
                    f"those before it {leading}"
                )
            out[name], leading = value, lead
        return out

    def flatten(self, weights: Mapping[str, Any], xp: Any = np) -> Any:
        """Weights as one vector (..., n_weights) in the order of `stacks`."""
        parts = []
        for shape, _, names in self.stacks:
            for name in names:
                value = weights[name]
                parts.append(value.reshape(*value.shape[: value.ndim - len(shape)], -1))
        return xp.concatenate(parts, axis=-1)

    def unflatten(self, flat: Any) -> dict[str, Any]:
        """The inverse of `flatten`: views of a vector (..., n_weights)."""
        weights = {}
        for shape, offset, names in self.stacks:
            size = prod(shape)
            for k, name in enumerate(names):
                start = offset + k * size
                weights[name] = flat[..., start : start + size].reshape(*flat.shape[:-1], *shape)
        return {name: weights[name] for name in self.shapes}


def _stacked(groups: Iterable[tuple[tuple[int, ...], list[str]]], offset: int) -> tuple[WeightStack, ...]:
    """Stacks of names by shape, one after the other from an offset on."""
    stacks = []
    for shape, names in groups:
        stacks.append(WeightStack(shape, offset, tuple(names)))
        offset += len(names) * prod(shape)
    return tuple(stacks)
