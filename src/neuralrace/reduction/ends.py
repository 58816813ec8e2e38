"""How a solved reduction ended: whether it rests, and whether networks do too (theory.md section 10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from neuralrace.dynamics.status import Ending, Status
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.measure import learning_time
from neuralrace.network import gradient
from neuralrace.reduction.attainable import UNLEARNED
from neuralrace.reduction.family import Strengths
from neuralrace.reduction.solution import Solution
from neuralrace.task import Task

if TYPE_CHECKING:
    from neuralrace.reduction.reduction import Reduction


_MOVES = 0.03  # logarithm of the change of a strength, over as long as the solution took, that counts as rest
_DECAYED = 1e-3  # factor by which a decaying strength is made smaller to see that nothing depends on it
_NOTHING = 1e-10  # of the largest singular value of a block: smaller ones are rounding
_SPARE = 1e-3  # of the largest weight: a direction with less is free
_PULL = 1e-6  # of the correlation of the data: a gradient that is larger is none of rounding


def judged(sol: Trajectory) -> Trajectory:
    """A solved reduction whose runs that came to their end say how they rest there."""
    source, endings, losses = sol.source, list(sol.endings), np.atleast_2d(sol.loss)[:, -1]
    assert isinstance(source, Solution)
    for k, end in enumerate(endings):
        if end.status is Status.FINISHED:
            last = source.at((k, -1) if sol.many else -1)
            rests = bool(np.broadcast_to(source.held, len(endings))[k])
            status, why = judge(source.reduction, last, float(losses[k]), end.t, rests)
            endings[k] = Ending(status, end.t, why=why) if why else end
    stats = {**sol.stats, "attainable": source.reduction.attainable.loss}
    return replace(sol, endings=tuple(endings), stats=stats)


def judge(r: Reduction, b: Strengths, loss: float, t: float, held: bool = False) -> tuple[Status, str]:
    """How a run ended that came to the strengths b and this loss at time t, and what else is said of it."""
    least, untrained = r.attainable.loss, r.untrained_loss
    if loss <= least + UNLEARNED * max(untrained - least, 0.0):
        return (Status.FINISHED, "")
    bound = f"no weights go below {least:.4g}"
    moving = None if held else _movement(r, b, loss, t, UNLEARNED * (untrained - least), loss - least)
    if moving is not None:
        return (Status.UNSETTLED, f"loss {loss:.4g}, {bound}; {moving}")
    if r.rates.decays(r.family.graph):
        return (Status.UNDECIDED, f"at rest at loss {loss:.4g}, with weight decay; without it {bound}")
    if not r.rates.frozen and _networks_leave(r, b):
        known = f"they can reach {least:.4g}" if r.attainable.tight else bound
        return (Status.SADDLE, f"at loss {loss:.4g}, which networks leave: {known}; {r.way_on}")
    narrow = " that networks of these widths do not reach" if r.attainable.tight is False else ""
    return (
        Status.UNDECIDED,
        f"at rest at loss {loss:.4g}, above the bound {least:.4g}{narrow}: whether networks leave is not "
        "known; nr.reduce(task, weights=...) follows a network",
    )


def _movement(r: Reduction, b: Strengths, loss: float, t: float, little: float, left: float) -> str | None:
    """What still moves, in words; None where the strengths are at rest.

    `little` is a change of the loss that does not count, `left` what could still be learned.
    """
    state = _State.of(r, b)
    moves = state.moves(state.sizes, t)
    smaller = {
        e: np.where(m < 0, _DECAYED * s, s) for (e, s), m in zip(state.sizes.items(), moves, strict=True)
    }
    if any((m < 0).any() for m in moves):
        if abs(r.loss(state.strengths(smaller)) - loss) > little:
            return "strengths still decay"
        # What decays to nothing moves no more; without it, nothing else may.
        moves = [np.where(m < 0, 0, now) for m, now in zip(moves, state.moves(smaller, t), strict=True)]
    if any(m.any() for m in moves):
        growth = state.growth(smaller)
        fastest = max(np.abs(np.where(m, g, 0.0)).max() for m, g in zip(moves, growth, strict=True))
        return f"strengths still move, by their own size in a time of about {1 / fastest:.3g}"
    slope, v = r.slope(b), r.velocity(b)
    falls = -sum(float(np.vdot(slope[e], v[e])) for e in b)
    if t * falls <= little:
        return None
    return f"the loss still falls: at this speed, what is left takes a time of about {left / falls:.3g}"


@dataclass(frozen=True)
class _State:
    """Strengths as sizes along fixed directions: themselves, or the singular values of blocks."""

    r: Reduction
    frames: dict[str, tuple[np.ndarray, np.ndarray]]  # of blocks: singular vectors
    sizes: Strengths

    @classmethod
    def of(cls, r: Reduction, b: Strengths) -> _State:
        if r.basis != "block":  # the edges of a class are alike
            return cls(r, {}, {c[0]: b[c[0]] for c in r.classes} if r.is_tied(b) else b)
        found = {e: np.linalg.svd(v, full_matrices=False) for e, v in b.items()}
        return cls(
            r, {e: (u, vt) for e, (u, _, vt) in found.items()}, {e: s for e, (_, s, _) in found.items()}
        )

    def strengths(self, sizes: Strengths) -> Strengths:
        if self.frames:
            return {e: (u * sizes[e]) @ vt for e, (u, vt) in self.frames.items()}
        return sizes | {e: sizes[c[0]] for c in self.r.classes if c[0] in sizes for e in c if e not in sizes}

    def growth(self, sizes: Strengths) -> list[np.ndarray]:
        """Logarithmic derivative of each size in time."""
        v = self.r.velocity(self.strengths(sizes))
        if self.frames:
            v = {e: ((u.T @ v[e]) * vt).sum(axis=1) for e, (u, vt) in self.frames.items()}
        with np.errstate(divide="ignore", invalid="ignore"):
            return [np.where(np.abs(s) > _NOTHING * np.abs(s).max(), v[e] / s, 0.0) for e, s in sizes.items()]

    def moves(self, sizes: Strengths, t: float) -> list[np.ndarray]:
        """1 where a size grows by more than `_MOVES` in a time as long as t, -1 where it decays, else 0.

        A fast one that is near its rest does not: a little further it would come back.
        """
        signs = [np.sign(g) * (t * np.abs(g) >= _MOVES) for g in self.growth(sizes)]
        if not any(m.any() for m in signs):
            return signs
        further = {e: s * (1 + _MOVES * m) for (e, s), m in zip(sizes.items(), signs, strict=True)}
        return [np.where(np.sign(g) == m, m, 0) for m, g in zip(signs, self.growth(further), strict=True)]


def _networks_leave(r: Reduction, b: Mapping[str, np.ndarray]) -> bool:
    """Whether the gradient by the map of a path is not 0 whose hidden nodes each have a free direction.

    Small weights along such a path change its map alone, and the loss falls (theory.md section 10). In the
    free directions all edges but those from the inputs are given random weights, which changes no output. The
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


def settled_time(run: Trajectory) -> float:
    """Time at which all runs have learned all but 1e-4 of what they learn by their end.

    Runs that stopped at the loss that was their goal have learned all at their end.

    Parameters
    ----------
    run : Trajectory
        One run or several.

    Returns
    -------
    float
        Flow time; 0 where nothing is learned.

    Examples
    --------
    >>> import neuralrace as nr
    >>> sol = nr.reduce(nr.tasks.xor()).solve(0.05, t1=1000.0)
    >>> round(settled_time(sol), 1)
    14.5
    """
    if set(run.statuses) == {Status.REACHED_LOSS}:
        return float(np.max(run.end))
    assert run.history is not None
    first, last = run.history.loss[..., 0], run.history.loss.min(axis=-1)
    return float(np.max(learning_time(run, last + UNLEARNED * (first - last))))


def strongest_correlation(task: Task) -> float:
    """The largest correlation of an input with a target in a context, which says how fast learning can be."""
    pairs = ((x, y) for c in task.moment_contexts for x in c.inputs.values() for y in c.targets.values())
    return max(float(np.linalg.norm(y.T @ x)) for x, y in pairs)
