"""Solving a reduction: a few numbers per mode where its modes decouple, else a small network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.dynamics.explicit import slope
from neuralrace.dynamics.field import InNumPy
from neuralrace.dynamics.gradient_flow import follow
from neuralrace.dynamics.history import History, curve
from neuralrace.dynamics.methods import Method
from neuralrace.dynamics.run import Problem
from neuralrace.dynamics.setup import FLOW_TIME, Setup, weight_dims
from neuralrace.dynamics.status import Ending, Status
from neuralrace.dynamics.trajectory import LazyWeights, Trajectory
from neuralrace.measure import learning_time
from neuralrace.network import gradient
from neuralrace.reduction import constants
from neuralrace.reduction.certificate import gradient_residual
from neuralrace.reduction.family import Family, Strengths
from neuralrace.reduction.path_classes import TiedLoss
from neuralrace.task import Task

if TYPE_CHECKING:
    from neuralrace.reduction.reduction import Reduction


# -- what a solution is ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Solution:
    """A reduction, solved: the `source` of a trajectory.

    Attributes
    ----------
    reduction : Reduction
        The reduction that was solved.
    b : mapping
        Edge name -> (save, modes), or (save, rows, columns) for blocks; runs are a leading axis.
    held : bool or ndarray, shape (runs,)
        Whether a run stays at a saddle that it would have left by rounding alone.
    """

    reduction: Reduction
    b: Mapping[str, np.ndarray]
    held: Any = False

    def strengths(self, traj: Trajectory) -> np.ndarray:
        """Strength of each mode in each class, (save, modes, classes); singular values for blocks."""
        first = [np.asarray(self.b[members[0]]) for members in self.reduction.classes]
        if self.reduction.basis == "block":
            n = self.reduction.n_modes
            values = [np.linalg.svd(b, compute_uv=False) for b in first]
            first = [np.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, n - v.shape[-1])]) for v in values]
        return np.stack(first, axis=-1)

    def at(self, index: Any) -> Strengths:
        """Strengths at one of the saved times, `(i,)`, or of one run there, `(run, i)`."""
        return _each(self.b, lambda v: v[index])

    def residual(self, traj: Trajectory) -> float:
        """The certificate along a solution, at ten of its times (see `Reduction.residual`)."""
        at = np.unique(np.linspace(0, len(traj.t) - 1, 10).round().astype(int))
        points = [{e: np.take(v, k, axis=int(traj.many)) for e, v in self.b.items()} for k in at]
        return max(gradient_residual(self.reduction.task, self.reduction.family, points).values())

    def picked(self, k: Any) -> Solution:
        """One run, or several."""
        held = np.asarray(self.held)[k] if np.ndim(self.held) else self.held
        return Solution(self.reduction, _each(self.b, lambda v: v[k]), held)

    def words(self, traj: Trajectory) -> str:
        """What it is."""
        return repr(self.reduction)


def _each(b: Mapping[str, np.ndarray], part: Callable[[np.ndarray], np.ndarray]) -> Strengths:
    """A part of the strengths of each edge; edges that share an array share it too."""
    edges, made = list(b.items()), {}
    for _, v in edges:
        if id(v) not in made:
            made[id(v)] = part(np.asarray(v))
    return {e: made[id(v)] for e, v in edges}


class FamilyWeights(LazyWeights):
    """Weights (..., save, out, in) of each edge, computed from strengths on demand."""

    def __init__(self, family: Family, b: Mapping[str, np.ndarray], many: bool):
        self.names = family.network.shapes
        self.family, self.b, self.many = family, b, many

    def lift(self, edge: str) -> np.ndarray:
        return self.family.lift_edge(edge, self.b)

    def picked(self, k: int | np.ndarray) -> FamilyWeights:
        return FamilyWeights(self.family, _each(self.b, lambda v: v[k]), np.ndim(k) > 0)

    def at(self, i: int) -> dict[str, np.ndarray]:
        return self.family.lift(_each(self.b, lambda v: v[:, i] if self.many else v[i]))


# -- solving ---------------------------------------------------------------------------------------


def solve_small(
    r: Reduction, b: Mapping[str, np.ndarray], t1: float, ts: np.ndarray, choose: bool, method: Method,
    stop: float | None, rest: float, runs: dict[str, np.ndarray],
) -> Trajectory:  # fmt: skip
    """By the flow of the small network whose weights are the strengths.

    A run that leaves a saddle by rounding alone stays there instead.
    """

    def solved(b: Mapping[str, np.ndarray], ts: np.ndarray, choose: bool = False) -> Trajectory:
        setup = Setup.prepare(r.family.small, b, "squared", r.rates, None, np.float64, None, True, True)
        return follow([setup], t1, ts, choose, stop, method, rest=rest)[0]

    run = solved(b, ts, choose)
    held = np.zeros(len(run.statuses), bool)
    if run.history is not None and _rested(run):
        rng = np.random.default_rng(0)
        near = {e: v + constants.NUDGE * np.abs(v).max() * rng.standard_normal(v.shape) for e, v in b.items()}
        run, held = _held(run, solved(near, ts[[0, -1]]), partial(solved, b))
    settings = {**run.settings, "process": "reduction"}
    del settings["dimensions"]
    return _of(r, run, run.weights, runs, settings, held if run.many else bool(held[0]))


def _of(
    r: Reduction, run: Trajectory, b: Mapping[str, np.ndarray], runs: dict[str, np.ndarray],
    settings: dict[str, Any], held: Any = False,
) -> Trajectory:  # fmt: skip
    """The trajectory of a solved reduction."""
    return replace(
        run, settings=settings, dims=weight_dims(r.family.network), runs=runs, task=r.task,
        weights=FamilyWeights(r.family, b, run.many), source=Solution(r, b, held),
    )  # fmt: skip


def _rested(run: Trajectory) -> bool:
    """Whether the loss of a run came to rest, for good or until it fell again, as rounding may be why."""
    speed = _speed(run)
    before = np.maximum.accumulate(speed, axis=1)
    after = np.maximum.accumulate(speed[:, ::-1], axis=1)[:, ::-1]
    again = (speed < constants.REST * np.minimum(before, after)).any()
    return bool(again or (speed[:, -1] < constants.REST * before[:, -1]).any())


def _speed(run: Trajectory) -> np.ndarray:
    assert run.history is not None
    assert run.history.slope is not None
    return np.abs(np.atleast_2d(run.history.slope))


def _held(
    run: Trajectory, nudged: Trajectory, solved: Callable[..., Trajectory]
) -> tuple[Trajectory, np.ndarray]:
    """Runs stay at a saddle that they leave at another time from a start that differs by rounding."""
    assert run.history is not None
    assert nudged.history is not None
    one, other = run.history, nudged.history
    if run.many:
        parting = np.array([_parting(one.run(k), other.run(k)) for k in range(len(run.statuses))])
    else:
        parting = np.array([_parting(one, other)])
    ends = np.stack([_speed(r)[:, -1] for r in (run, nudged)])
    # Runs that move at different speeds in the end move by what rounding left.
    held = (parting < np.inf) | (ends.max(axis=0) > 2 * ends.min(axis=0))
    if not held.any():
        return run, held
    until = np.minimum(parting, run.t[-1])
    fine = solved(np.union1d(run.t, until))
    index = np.searchsorted(fine.t, np.minimum(run.t, until[:, None]))  # it repeats its state at the saddle
    rows = np.arange(len(until))[:, None]
    pick = lambda v: v[rows, index] if run.many else v[index[0]]  # noqa: E731
    t, losses, slopes = (np.atleast_2d(np.asarray(v)) for v in run.history)
    late = (t > until[:, None]) & held[:, None]
    rest = np.atleast_2d(fine.loss)[rows, index[:, -1:]]
    history = History(t, np.where(late, rest, losses), np.where(late, 0.0, slopes))
    t1 = run.settings["t1"]
    return replace(
        run,
        loss=pick(fine.loss),
        weights={e: pick(np.asarray(w)) for e, w in fine.weights.items()},
        history=history if run.many else history.run(0),
        endings=tuple(
            Ending(Status.FINISHED, t1) if h else e for h, e in zip(held, run.endings, strict=True)
        ),
    ), held


def _parting(one: History, other: History) -> float:
    """The time until which two losses are the same, up to a part of what they still change; else infinite."""
    t = np.union1d(one.t, other.t)
    t = t[t <= min(one.t[-1], other.t[-1])]
    a, b = curve(one, t), curve(other, t)
    high, low = np.maximum(a, b)[::-1], np.minimum(a, b)[::-1]
    still = (np.maximum.accumulate(high) - np.minimum.accumulate(low))[::-1]
    differ = np.abs(a - b) > constants.DIFFERENT * still + constants.LITTLE * still[0]
    return float(t[max(int(differ.argmax()) - 1, 0)]) if differ.any() else np.inf


def solve_tied(
    r: Reduction, b: Mapping[str, np.ndarray], t1: float, ts: np.ndarray, choose: bool, method: Method,
    stop: float | None, rest: float, runs: dict[str, np.ndarray],
) -> Trajectory:  # fmt: skip
    """By the equations of the classes."""
    assert r.tied is not None
    start = np.stack([b[members[0]] for members in r.classes], axis=-2)
    many, field = start.ndim == 3, TiedField(r.tied, start.shape[-2:])
    flat = start.reshape(len(start) if many else 1, -1)
    units = np.abs(flat).max(axis=1, initial=0.0)
    system = InNumPy(field, field.keep)
    path = method.solve(
        Problem(system, flat, units, t1, ts, choose, stop, rest, decays=r.rates.decays(r.family.graph))
    )
    kept = np.moveaxis(path.kept if many else path.kept[0], -2, 0)
    found = {e: v for c, v in zip(r.classes, kept, strict=True) for e in c}
    settings = path.settings | {
        "process": "reduction", "t1": t1, "stop_loss": stop, "time": FLOW_TIME,
        **r.rates.settings(r.family.graph),
    }  # fmt: skip
    return _of(r, Trajectory(**path.fields(many)), found, runs, settings)


class TiedField:
    """The equations of motion of classes of edges; a state has the strengths (classes, modes) in a row."""

    def __init__(self, tied: TiedLoss, shape: tuple[int, ...]) -> None:
        self.tied, self.shape = tied, shape
        speed = (tied.rates / tied.sizes)[:, None]
        self.speed: np.ndarray = np.broadcast_to(speed, shape).ravel()
        self.decay: np.ndarray = np.broadcast_to((tied.sizes * tied.decays)[:, None], shape).ravel()

    def velocity(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        loss, g = self.tied.loss_and_gradient(y.reshape(-1, *self.shape))
        return -self.speed * (g.reshape(y.shape) + self.decay * y), loss

    def slope(self, y: np.ndarray, v: np.ndarray) -> np.ndarray:
        return slope(y, v, self.speed, self.decay)

    def keep(self, run: int, ts: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        b = y.reshape(-1, *self.shape)
        return self.tied.loss(b), b


# -- how a solution ended: whether it rests, and whether networks do too (theory.md section 10) ----


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
    if loss <= least + constants.UNLEARNED * max(untrained - least, 0.0):
        return (Status.FINISHED, "")
    bound = f"no weights go below {least:.4g}"
    moving = (
        None if held else _movement(r, b, loss, t, constants.UNLEARNED * (untrained - least), loss - least)
    )
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
        e: np.where(m < 0, constants.DECAYED * s, s)
        for (e, s), m in zip(state.sizes.items(), moves, strict=True)
    }
    if any((m < 0).any() for m in moves):
        if abs(r.loss(state.strengths(smaller)) - loss) > little:
            return "some strengths still shrink"
        # What decays to nothing moves no more; without it, nothing else may.
        moves = [np.where(m < 0, 0, now) for m, now in zip(moves, state.moves(smaller, t), strict=True)]
    if any(m.any() for m in moves):
        growth = state.growth(smaller)
        fastest = max(np.abs(np.where(m, g, 0.0)).max() for m, g in zip(moves, growth, strict=True))
        return f"strengths still change, the fastest by its own size in a time of about {1 / fastest:.3g}"
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
            return [
                np.where(np.abs(s) > constants.NOTHING * np.abs(s).max(), v[e] / s, 0.0)
                for e, s in sizes.items()
            ]

    def moves(self, sizes: Strengths, t: float) -> list[np.ndarray]:
        """1 where a size grows by more than `MOVES` in a time as long as t, -1 where it decays, else 0.

        A fast one that is near its rest does not: a little further it would come back.
        """
        signs = [np.sign(g) * (t * np.abs(g) >= constants.MOVES) for g in self.growth(sizes)]
        if not any(m.any() for m in signs):
            return signs
        further = {e: s * (1 + constants.MOVES * m) for (e, s), m in zip(sizes.items(), signs, strict=True)}
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
        if len(s) < len(u) or s[-1] <= constants.SPARE * largest:
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
    return pull(probed) > constants.PULL * pull({**probed, **closed})


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
    return float(np.max(learning_time(run, last + constants.UNLEARNED * (first - last))))


def strongest_correlation(task: Task) -> float:
    """The largest correlation of an input with a target in a context, which says how fast learning can be."""
    pairs = ((x, y) for c in task.moment_contexts for x in c.inputs.values() for y in c.targets.values())
    return max(float(np.linalg.norm(y.T @ x)) for x, y in pairs)
