"""How a solved reduction ended: whether it rests, and whether networks do too (theory section 5b)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from neuralrace.dynamics.status import Status
from neuralrace.network import gradient
from neuralrace.reduction.family import Strengths

if TYPE_CHECKING:
    from neuralrace.reduction.reduction import Reduction
    from neuralrace.reduction.solution import Solution

LEFT = 1e-4  # share of what can be learned that may be left of a finished solution
_MOVES = 0.03  # logarithm of the change of a strength, over as long as the solution took, that counts as rest
_DECAYED = 1e-3  # factor by which a decaying strength is made smaller to see that nothing depends on it
_NOTHING = 1e-10  # of the largest singular value of a block: smaller ones are rounding
_SPARE = 1e-3  # of the largest weight: a direction with less is free
_PULL = 1e-6  # of the correlation of the data: a gradient that is larger is none of rounding


def judged(sol: Solution) -> Solution:
    """A solution whose runs that came to their end say how they rest there."""
    statuses, outcomes = list(sol.statuses), list(sol.outcomes)
    ends, losses = np.atleast_1d(sol.end), np.atleast_2d(sol.loss)[:, -1]
    for k, status in enumerate(statuses):
        if status is Status.FINISHED:
            last = {e: np.asarray(v)[k, -1] if sol.many else np.asarray(v)[-1] for e, v in sol.b.items()}
            rests = bool(np.broadcast_to(sol.held, len(statuses))[k])
            statuses[k], text = judge(sol.reduction, last, float(losses[k]), float(ends[k]), rests)
            outcomes[k] = f"{statuses[k].value} at t = {ends[k]:g}" + (f": {text}" if text else "")
    stats = {**sol.stats, "attainable": sol.reduction.attainable.loss}
    return replace(sol, statuses=tuple(statuses), outcomes=tuple(outcomes), stats=stats)


def judge(r: Reduction, b: Strengths, loss: float, t: float, held: bool = False) -> tuple[Status, str]:
    """How a run ended that came to the strengths b and this loss at time t, and what else is said of it."""
    least, untrained = r.attainable.loss, r.untrained_loss
    if loss <= least + LEFT * max(untrained - least, 0.0):
        return (Status.FINISHED, "")
    bound = f"no weights go below {least:.4g}"
    moving = None if held else _movement(r, b, loss, t, LEFT * (untrained - least))
    if moving is not None:
        return (Status.UNSETTLED, f"loss {loss:.4g}, {bound}; {moving}")
    if r.rates.decays(r.family.graph):
        return (Status.UNDECIDED, f"at rest at loss {loss:.4g}, with weight decay; without it {bound}")
    if not r.rates.frozen and _networks_leave(r, b):
        known = f"they can reach {least:.4g}" if r.attainable.tight else bound
        return (Status.SADDLE, f"at loss {loss:.4g}, which networks leave: {known}; {r.way_on}")
    return (
        Status.UNDECIDED,
        f"at rest at loss {loss:.4g}, above the bound {least:.4g}: whether networks leave is not known; "
        "nr.reduce(task, weights=...) follows a network",
    )


def _movement(r: Reduction, b: Mapping[str, np.ndarray], loss: float, t: float, little: float) -> str | None:
    """What still moves, in words; None where the strengths are at rest."""
    if r.basis == "block":
        return _movement_of_blocks(r, b, t, little)
    growth = _growth(r, b)
    decaying = {e: (g < 0) & (t * np.abs(g) >= _MOVES) for e, g in growth.items()}
    if any(d.any() for d in decaying.values()):
        smaller = {e: np.where(decaying[e], _DECAYED * v, v) for e, v in b.items()}
        if abs(float(r.loss(smaller)) - loss) > little:
            return "strengths still decay"
        growth = _growth(r, smaller)
        growth = {e: np.where(decaying[e], np.maximum(g, 0.0), g) for e, g in growth.items()}
    fastest = max(float(np.abs(g).max()) for g in growth.values())
    if t * fastest < _MOVES:
        return None
    return f"strengths still move, by their own size in a time of about {1 / fastest:.3g}"


def _growth(r: Reduction, b: Mapping[str, np.ndarray]) -> Strengths:
    """Logarithmic derivative of each strength in time."""
    v = r.velocity(b)
    with np.errstate(divide="ignore", invalid="ignore"):
        return {e: np.where(v[e] == 0, 0.0, v[e] / b[e]) for e in v}


def _movement_of_blocks(r: Reduction, b: Mapping[str, np.ndarray], t: float, little: float) -> str | None:
    """Blocks rest where no singular value grows, and the loss falls no longer."""
    v = r.velocity(b)
    fastest = 0.0
    for e, block in b.items():
        left, s, right = np.linalg.svd(block, full_matrices=False)
        some = s > _NOTHING * s.max(initial=0.0)
        growth = ((left.T @ v[e]) * right).sum(axis=1)[some] / s[some]
        fastest = max(fastest, float(growth.max(initial=0.0)))
    if t * fastest >= _MOVES:
        return f"blocks still grow, by their own size in a time of about {1 / fastest:.3g}"
    falls = -sum(float(np.vdot(r.slope(b)[e], x)) for e, x in v.items())
    return "the loss still falls" if t * falls > little else None


def _networks_leave(r: Reduction, b: Mapping[str, np.ndarray]) -> bool:
    """Whether the gradient by the map of a path is not 0 whose hidden nodes each have a free direction.

    Small weights along such a path change its map alone, and the loss falls (theory section 5b). In the free
    directions all edges but those from the inputs are given random weights, which changes no output. The
    gradient by the weights from the inputs into these directions is then a random combination of those of all
    such paths.
    """
    g, weights = r.task.graph, r.family.lift(b)
    every = g.with_fixed(weights)
    largest = max(float(np.abs(w).max()) for w in weights.values())
    free: dict[str, np.ndarray] = {}
    for n in g.hidden:
        parts = [every[e] for e in g.incoming[n]] + [every[e].T for e in g.outgoing[n]]
        u, s, _ = np.linalg.svd(np.concatenate(parts, axis=1))
        if len(s) < len(u) or s[-1] <= _SPARE * largest:
            free[n] = u[:, -1]
    if len(free) == len(g.hidden) and not g.fixed:
        return True
    rng = np.random.default_rng(0)
    probed = dict(weights)
    for e in g.shapes:
        source, target = g.edges[e]
        if source in free and (target in free or target in g.outputs):
            end = free[target] if target in free else rng.standard_normal(g.nodes[target])
            probed[e] = probed[e] + rng.uniform(0.5, 1.5) * np.outer(end, free[source])
    into = {e: free[g.edges[e][1]] for e in g.shapes if g.edges[e][0] in g.inputs and g.edges[e][1] in free}

    def pull(w: Mapping[str, np.ndarray]) -> float:
        slope = gradient(r.task, w)
        return max((float(np.abs(q @ slope[e]).max()) for e, q in into.items()), default=0.0)

    closed = {e: np.zeros_like(w) for e, w in weights.items() if g.edges[e][0] in g.inputs}
    return pull(probed) > _PULL * pull({**probed, **closed})
