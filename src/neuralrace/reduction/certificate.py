"""How exact a reduction is: the part of the full gradient outside the family (theory.md section 4)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from neuralrace.dynamics.rates import Rates
from neuralrace.network import gradient, loss
from neuralrace.reduction.family import FAMILIES, Classes, Family, refine, with_directions
from neuralrace.task import Task

EXACT = 1e-8  # residual below which a reduction is called exact
MOST_PATHS = 1000


def gradient_residual(
    task: Task, family: Family, points: Iterable[Mapping[str, np.ndarray]]
) -> dict[str, float]:
    """Per edge, the largest entry of `grad - P grad` over the points, relative to the largest gradient.

    Of fixed edges, the largest difference of the loss from that of the small network, relative to the loss.
    """
    worst = dict.fromkeys(task.graph.shapes, 0.0)
    largest = missed = 0.0
    for b in points:
        weights = family.lift(b)
        grad = gradient(task, weights)
        if task.graph.fixed:
            true = loss(task, weights)
            missed = max(missed, abs(true - loss(family.small, b)) / max(true, 1e-300))
        inside = family.lift(family.project(grad))
        for e, g in grad.items():
            worst[e] = max(worst[e], float(np.abs(g - inside[e]).max()))
            largest = max(largest, float(np.abs(g).max()))
    found = {e: w / largest if largest else 0.0 for e, w in worst.items()}
    return found | dict.fromkeys(task.graph.fixed, missed)


def random_points(family: Family, rng: np.random.Generator) -> list[dict[str, np.ndarray]]:
    return [
        {e: rng.uniform(0.3, 1.2, s) * rng.choice([-1, 1], s) for e, s in family.shape.items()}
        for _ in range(2)
    ]


def share_outside(family: Family, w: Mapping[str, np.ndarray], together: bool = False) -> Any:
    """Share of the squared norm of weights outside the family, of each run or of all together."""
    near = family.project(w)
    axis = None if together else (-1, -2)
    off = sum(((w[e] - family.lift_edge(e, near)) ** 2).sum(axis=axis) for e in w)
    return off / np.maximum(sum((v**2).sum(axis=axis) for v in w.values()), 1e-300)


def omitted_modes(family: Family) -> int:
    """How many modes no path can carry to an output, as hidden layers are too narrow."""
    if family.basis == "block":
        return 0
    g = family.graph
    reached = {n: np.full(family.modes, n in g.inputs) for n in g.nodes}
    for n in g.order:
        for e in g.outgoing[n]:
            lives = (family.right[e] != 0).any(axis=0) & (family.left[e] != 0).any(axis=0)
            reached[g.edges[e][1]] = reached[g.edges[e][1]] | (reached[n] & lives)
    return int((~np.any([reached[o] for o in g.outputs], axis=0)).sum())


def inexact_paths(task: Task, family: Family, tolerance: float) -> list[str]:
    """The paths, three at most, whose statistics the frames diagonalise worst; none where paths are many."""
    worst = {}
    few = family.split is None and task.graph.n_paths <= MOST_PATHS
    for p in task.graph.paths() if few else ():
        u, r = family.left[p[-1]], family.right[p[0]]
        s, x = task.syx(p), task.sxx(p, p)
        inside, inner = u.T @ s @ r, r.T @ x @ r
        if family.basis != "block":
            inside, inner = (np.diag(np.diagonal(m)) for m in (inside, inner))
        worst[" ".join(p)] = max(
            np.abs(s - u @ inside @ r.T).max() / max(np.abs(s).max(), 1e-300),
            np.abs(x @ r - r @ inner).max() / max(np.abs(x).max(), 1e-300),
        )
    return [p for p in sorted(worst, key=lambda p: -worst[p])[:3] if worst[p] > tolerance]


def choose(
    task: Task,
    bases: Iterable[str],
    start: Mapping[str, Hashable],
    rates: Rates,
    directions: int = 1,
    seed: int = 0,
) -> tuple[Family, Classes, dict[str, float], Rates]:
    """The first family that the gradient does not leave, or else the first; what a `Reduction` holds of it.

    Edges whose value in `start` differs are in different classes.
    """
    found = None
    for name in bases:
        if name == "block" and directions > 1:
            break
        rng = np.random.default_rng(seed)
        family = FAMILIES[name](task, rng)
        family = family if directions == 1 else with_directions(family, directions)
        left = gradient_residual(task, family, random_points(family, rng))
        if found is None or max(left.values()) < EXACT:
            found = (family, left)
        if max(left.values()) < EXACT:
            break
    assert found is not None
    family, left = found
    apart: dict[str, Hashable] = {e: (v, rates.of(e)) for e, v in start.items()}
    if (split := family.split) is not None:
        rates = split.rates(rates)
        apart = {n: (apart[e], family.start[n].tobytes()) for n, (e, _, _) in split.edge_of.items()}
    return family, refine(family, apart, np.random.default_rng(seed)), left, rates
