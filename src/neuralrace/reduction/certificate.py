"""How exact a reduction is: the part of the full gradient that leaves the family (theory section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from neuralrace.network import gradient
from neuralrace.reduction.family import Family
from neuralrace.task import Task


def leaving(task: Task, family: Family, points: Iterable[Mapping[str, np.ndarray]]) -> dict[str, float]:
    """Per edge, the largest entry of `grad - P grad` over the points, relative to the largest gradient."""
    worst = dict.fromkeys(task.graph.edges, 0.0)
    largest = 0.0
    for b in points:
        grad = gradient(task, family.lift(b))
        inside = family.lift(family.project(grad))
        for e, g in grad.items():
            worst[e] = max(worst[e], float(np.abs(g - inside[e]).max()))
            largest = max(largest, float(np.abs(g).max()))
    return {e: w / largest if largest else 0.0 for e, w in worst.items()}


def random_points(family: Family, rng: np.random.Generator, n: int = 2) -> list[dict[str, np.ndarray]]:
    return [
        {e: rng.uniform(0.3, 1.2, s) * rng.choice([-1, 1], s) for e, s in family.shape.items()}
        for _ in range(n)
    ]
