"""Ties: edges that start equal and have equal gradients stay equal (theory.md section 5)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from neuralrace.network import gradient
from neuralrace.reduction.family import Family

Classes = tuple[tuple[str, ...], ...]


def refine(family: Family, start: Mapping[str, Hashable], rng: np.random.Generator) -> Classes:
    """The coarsest partition of the edges that the flow keeps, from one class per value of `start`.

    Edges with different values (initial condition, learning rate, weight decay) are in different classes. The
    gradient is a polynomial, so one random tied point separates classes with probability one.
    """
    classes: dict[Hashable, list[str]] = {}
    for edge in family.shape:
        classes.setdefault((family.shape[edge], start[edge]), []).append(edge)
    current = [tuple(members) for members in classes.values()]
    while True:
        b = {}
        for members in current:
            value = rng.uniform(0.5, 1.0, family.shape[members[0]])
            b.update(dict.fromkeys(members, value))
        grad = gradient(family.small, b)
        scale = max(np.abs(grad[e]).max() for e in family.shape)
        new = [part for members in current for part in _split(members, grad, 1e-8 * scale)]
        if len(new) == len(current):
            rank = {e: k for k, e in enumerate(family.shape)}
            return tuple(sorted(new, key=lambda members: rank[members[0]]))
        current = new


def _split(
    members: tuple[str, ...], grad: Mapping[str, np.ndarray], tolerance: float
) -> list[tuple[str, ...]]:
    left, parts = list(members), []
    values = {e: grad[e].ravel() for e in members}
    while left:
        table = np.stack([values[e] for e in left])
        same = np.abs(table - table[0]).max(axis=1) <= tolerance
        parts.append(tuple(e for e, s in zip(left, same, strict=True) if s))
        left = [e for e, s in zip(left, same, strict=True) if not s]
    return parts
