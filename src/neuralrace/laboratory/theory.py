"""Theory of a model: its reductions, solved on one time axis, as a picture for the page."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace import init
from neuralrace.dynamics import Adaptive, Trajectory
from neuralrace.errors import InputError
from neuralrace.laboratory.model import Model, std_of
from neuralrace.laboratory.protocol import DrawnEdge, Group, Lane, Node, Picture, Racer
from neuralrace.laboratory.racers import RacerPath, racers
from neuralrace.measure import half_time, learning_time
from neuralrace.reduction import Reduction, Solution, reduce
from neuralrace.task import Task

TIMES = 241  # on the time axis
LEARNED = 1e-3  # share of the loss that may be left at the end
MAX_STEPS = 4000  # of the solver, to choose the end
DIGITS = 6
METHOD = Adaptive(rtol=1e-8, atol=1e-10)
MOST_REDUCTIONS = 40  # that are kept, as sliders come back to them
_reductions: OrderedDict[Any, Reduction] = OrderedDict()


@dataclass(frozen=True)
class SolvedLane:
    """One network of a model: its reduction, the start, the solution and who races in it."""

    name: str
    reduction: Reduction
    start: dict[str, np.ndarray]  # strengths
    weights: dict[str, np.ndarray]  # of the networks that are trained beside it, with an axis of runs
    solution: Solution
    racers: list[RacerPath]
    pathways: bool


@dataclass(frozen=True)
class Solved:
    """All lanes of a model on one time axis."""

    model: Model
    t: np.ndarray
    lanes: list[SolvedLane]
    level: float


def solve(model: Model, random: bool, seeds: int) -> Solved:
    """Reduce and solve every lane from its start."""
    begun = []
    for name, task in model.lanes.items():
        start = model.start(name)
        r = _reduction(model.code[name], task, start)
        begun.append((name, r, *_start(model, r, start, random, seeds)))
    end = model.time or max(_end(r, b) for _, r, b, _ in begun)
    t = np.linspace(0.0, end, TIMES)
    lanes = []
    for name, r, b, weights in begun:
        who, pathways = racers(r, model.names)
        lanes.append(
            SolvedLane(name, r, b, weights, r.solve(t1=end, save=t, b0=b, method=METHOD), who, pathways)
        )
    final = min(float(lane.solution.loss[-1]) for lane in lanes)
    first = max(float(lane.solution.loss[0]) for lane in lanes)
    return Solved(model, t, lanes, final + model.level * (first - final))


def _reduction(code: str, task: Task, start: dict[str, float]) -> Reduction:
    """The reduction of a task; it depends on which edges start equal, not on how strong they are."""
    values = list(dict.fromkeys(start.values()))
    alike = {e: float(values.index(v)) for e, v in start.items()}
    key = (code, *alike.values())
    if key not in _reductions:
        _reductions[key] = reduce(task, start=alike)
        while len(_reductions) > MOST_REDUCTIONS:
            _reductions.popitem(last=False)
    return _reductions[key]


def _start(model: Model, r: Reduction, start: dict[str, float], random: bool, seeds: int):
    """Strengths to start from, and weights of networks: in the family, or gaussian.

    From gaussian weights theory starts with what grows of them in each mode, averaged over the edges of a
    class and over the networks.
    """
    if not random:
        b = {e: start[e] * (np.eye(*s) if len(s) == 2 else np.ones(s)) for e, s in r.family.shape.items()}
        return b, {e: w[None] for e, w in r.lift(b).items()}
    weights = init.gaussian(r.task.graph, std_of(r.task, model.strength), seed=range(max(seeds, 1)))
    grown = r.strengths(weights)
    b = {}
    for members in r.classes:
        mean = np.mean([grown[e].mean(axis=0) for e in members], axis=0)
        b |= dict.fromkeys(members, mean)
    return b, weights


def _end(r: Reduction, b: dict[str, np.ndarray]) -> float:
    """A time by which all but a share `LEARNED` of what a large start learns is learned."""
    strongest = max(float(np.linalg.norm(r.task.syx(p))) for p in _some_paths(r.task))
    if strongest <= 0:
        raise InputError(
            "nothing to learn: no open path correlates an input with a target; open a gate or change the data"
        )
    forever, method = 1e9 / strongest, Adaptive(1e-5, 1e-7, max_steps=MAX_STEPS)
    large = r.solve(1.0, forever, 2, method=method)
    small = r.solve(t1=forever, save=2, b0=b, method=method, stop_loss=_goal(large, b, r))
    assert small.history is not None
    first, last = small.history.loss[0], small.history.loss.min()
    settled = float(learning_time(small, last + LEARNED * (first - last)))
    return _rounded(1.15 * settled) if settled > 0 else 10.0 / strongest


def _goal(large: Trajectory, b: dict[str, np.ndarray], r: Reduction) -> float:
    assert large.history is not None
    low = float(large.history.loss.min())
    contexts = r.task.moment_contexts
    untrained = sum(
        c.irreducible_loss + 0.5 * sum(float(np.vdot(y, y)) for y in c.targets.values()) for c in contexts
    )
    return max(low + LEARNED * (untrained - low), 1e-12)


def _some_paths(task: Task) -> Sequence[tuple[str, ...]]:
    if task.graph.n_paths <= 200:
        return task.graph.paths()
    return [p for e in list(task.graph.edges)[:3] for p in task.graph.paths_through(e)[:50]]


def _rounded(t: float) -> float:
    return float(f"{t:.2g}")


# -- the picture ------------------------------------------------------------------------------------


def picture(solved: Solved, number: int, began: float) -> Picture:
    """What the page draws."""
    lanes = [_lane(lane, solved) for lane in solved.lanes]
    largest = max(max(max(g.strength) for g in lane.groups) for lane in lanes) or 1.0
    for lane in lanes:
        for g in lane.groups:
            g.strength = numbers(np.array(g.strength) / largest)
    pathways = any(lane.pathways for lane in solved.lanes)
    return Picture(
        id=number, t=numbers(solved.t), level=solved.level, lanes=lanes,
        racers_are="pathways" if pathways else "modes",
        winner=_winner(lanes), seconds=time.perf_counter() - began,
    )  # fmt: skip


def _lane(lane: SolvedLane, solved: Solved) -> Lane:
    r, sol, graph = lane.reduction, lane.solution, lane.reduction.task.graph
    of_class = {e: k for k, members in enumerate(r.classes) for e in members}
    groups = []
    for k, members in enumerate(r.classes):
        b = np.asarray(sol.b[members[0]])
        norm = np.sqrt((b.reshape(len(b), -1) ** 2).sum(axis=1))
        groups.append(Group(symbol=f"B_{{{k + 1}}}", edges=list(members), strength=norm.tolist()))
    carries = [p.carries(r, sol.b) for p in lane.racers]
    most = max((float(c.max()) for c in carries), default=1.0)
    goals = [p.alone if r.tied is not None else most for p in lane.racers]
    return Lane(
        name=lane.name,
        nodes=[Node.model_construct(name=n, size=size) for n, size in graph.nodes.items()],
        edges=[DrawnEdge(name=e, source=s, target=t, group=of_class[e]) for e, (s, t) in graph.edges.items()],
        groups=groups,
        racers=[_racer(p, c, goal, solved.t) for p, c, goal in zip(lane.racers, carries, goals, strict=True)],
        loss=numbers(sol.loss),
        learning_time=finite(learning_time(sol, solved.level)),
    )


def _racer(p: RacerPath, carries: np.ndarray, goal: float, t: np.ndarray) -> Racer:
    share = carries / goal if goal else carries
    return Racer(
        name=p.name, carries=numbers(carries), share=numbers(share),
        half_time=finite(half_time(t, carries)), edges=sorted({e for path in p.members for e in path}),
    )  # fmt: skip


def _winner(lanes: list[Lane]) -> str | None:
    """The lane that reaches the level first; in one lane the racer that is ahead; None for a tie."""
    if len(lanes) > 1:
        done = [lane for lane in lanes if lane.learning_time is not None]
        return min(done, key=lambda lane: lane.learning_time or 0.0).name if done else None
    who = [x for x in lanes[0].racers if x.half_time is not None]
    who.sort(key=lambda x: (-round(x.share[-1], 2), x.half_time or 0.0))
    if len(who) < 2:
        return None
    first, second = who[0], who[1]
    level = round(first.share[-1], 2) == round(second.share[-1], 2)
    return (
        None
        if level and abs((first.half_time or 0) - (second.half_time or 0)) < 1e-3 * (second.half_time or 1)
        else first.name
    )


def numbers(values: np.ndarray) -> list[float]:
    """Rounded, as the page needs no more; what is not finite becomes 0."""
    return [float(f"{v:.{DIGITS}g}") for v in np.nan_to_num(np.asarray(values, float)).tolist()]


def finite(value: object) -> float | None:
    """A number, or None where there is none."""
    x = float(value)  # type: ignore[arg-type]
    return float(f"{x:.{DIGITS}g}") if np.isfinite(x) else None
