"""Theory of a model: its reductions, solved on one time axis, as a picture for the page."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace import init
from neuralrace.dynamics import Adaptive, Status, Trajectory
from neuralrace.errors import InputError
from neuralrace.graph import Graph
from neuralrace.laboratory.model import Model, std_of
from neuralrace.laboratory.protocol import MOST_MEMORY, DrawnEdge, Group, Lane, Node, Picture, Racer
from neuralrace.laboratory.racers import RacerPath, racers
from neuralrace.measure import half_time, learning_time
from neuralrace.reduction import Reduction, Solution, reduce
from neuralrace.reduction.ends import complete_loss, settled_time, strongest_correlation
from neuralrace.reduction.family import Strengths
from neuralrace.task import Task

TIMES = 241  # on the time axis
LONGER = 4  # times as late as strengths say, random starts are looked for their end
FOREVER = 1e15  # in units of the fastest learning
LEVEL, SAME_TIME = 0.05, 0.01  # difference of shares, and relative one of times, that decide no race
ALIGNED_COPIES, RANDOM_COPIES = 35, 480  # of its weights, that theory of a network holds at most (measured)
MEMORY_SHARE = 0.8  # of the memory of a process that may be needed for this
DIGITS = 6
METHOD = Adaptive(rtol=1e-7, atol=1e-9)
ROUGH = Adaptive(rtol=1e-3, atol=1e-5, max_steps=4000)  # to choose the end
MOST_STRUCTURES = 40  # that are kept, as sliders come back to them
_structures: OrderedDict[Any, Structure] = OrderedDict()


class Structure:
    """What does not change with the strengths of a start: the reduction of the papers, who races in it, and
    how far; and the wider reduction where that one rests at a saddle.
    """

    def __init__(self, task: Task, alike: dict[str, float], names: Mapping[str, str]):
        self.reduction: Reduction = reduce(task, start=alike)
        self.racers: list[RacerPath]
        self.pathways: bool
        self.racers, self.pathways = racers(self.reduction, names)

    @cached_property
    def rate(self) -> float:
        """How fast learning can be."""
        return strongest_correlation(self.reduction.task)

    @cached_property
    def goal(self) -> float:
        """The loss at which all but a small share of what can be learned is learned."""
        return max(complete_loss(self.reduction), 1e-12)

    @cached_property
    def wider(self) -> Reduction | None:
        """The family with more directions per mode that learns what networks do; None if there is none."""
        try:
            return self.reduction.widened()
        except InputError:
            return None

    def followed(self, start: dict[str, float], b: Strengths, time: float | None) -> tuple[Trajectory, str]:
        """The solution from strengths b to a time, or roughly to the goal or for ever.

        Where it stays at a saddle, it is that of the wider family if there is one. Then how the first one
        ended is said too.
        """
        found = self._solved(self.reduction, b, time)
        if found.status not in (Status.SADDLE, *([] if time else [Status.UNSETTLED])):
            return found, ""
        end = found.endings[0]
        ended = str(end) if time else f"{end.status.value}: {end.why}"  # for ever
        if self.wider is None:
            return found, ended
        return self._solved(self.wider, aligned(self.wider, start), time), ended

    def _solved(self, r: Reduction, b: Strengths, time: float | None) -> Trajectory:
        if time is not None:
            return r.solve(t1=time, save=np.linspace(0.0, time, TIMES), b0=b, method=METHOD)
        return r.solve(t1=FOREVER / self.rate, b0=b, method=ROUGH, stop_loss=self.goal)

    def end(self, found: Trajectory) -> float:
        """A time by which a solution has reached the goal, or learned all that it does."""
        settled = settled_time(found)
        return float(f"{1.15 * settled:.2g}") if settled > 0 else 10.0 / self.rate


@dataclass(frozen=True)
class SolvedLane:
    """One network of a model: the start and the solution."""

    name: str
    known: Structure
    weights: dict[str, np.ndarray]  # of the networks that are trained beside it, with an axis of runs
    solution: Trajectory  # from an aligned start; or from the first of random ones
    left: str = ""  # how the family of the papers ended, where it stays at a saddle

    @property
    def reduction(self) -> Reduction:
        """The reduction that is drawn; that of the papers beside random starts."""
        return self.solution.reduction if isinstance(self.solution.source, Solution) else self.known.reduction

    @property
    def n_runs(self) -> int:
        """How many networks start."""
        return len(next(iter(self.weights.values())))

    def sizes(self) -> list[np.ndarray]:
        """Strength of each class of edges over time: the mean size of their weights."""
        sol = self.solution

        def square(edge: str) -> Any:
            names = self.reduction.family.strengths_of(edge)
            parts = (
                [sol.source.b[n] for n in names] if isinstance(sol.source, Solution) else [sol.weights[edge]]
            )
            return sum((np.asarray(x).reshape(len(x), -1) ** 2).sum(axis=1) for x in parts)

        classes = self.known.reduction.classes
        return [np.sqrt(np.mean([square(e) for e in members], axis=0)) for members in classes]

    def carries(self) -> list[np.ndarray]:
        """What each racer carries over time."""
        sol, racing = self.solution, self.known.racers
        if isinstance(sol.source, Solution):
            return [p.carries(sol.reduction, sol.source.b) for p in racing]
        return [p.carried(self.known.reduction, sol.weights) for p in racing]

    def of_run(self, run: int, t: np.ndarray) -> SolvedLane:
        """Theory of one of the random starts, which leaves nothing of it out."""
        return replace(self, solution=_around(self.reduction.task, self.weights, run, t))


@dataclass(frozen=True)
class Solved:
    """All lanes of a model on one time axis."""

    model: Model
    t: np.ndarray
    lanes: list[SolvedLane]
    level: float
    random: bool


def solve(model: Model, random: bool, seeds: int) -> Solved:
    """Reduce and solve every lane: from its start, or from the first of some random ones."""
    refuse_large("theory", model, RANDOM_COPIES if random else ALIGNED_COPIES)
    begun = []
    for name, task in model.lanes.items():
        start = model.start(name)
        known = _structure(model.code[name], task, start, model.names)
        weights = random_weights(task, start, seeds) if random else None
        b = aligned(known.reduction, start) if weights is None else _grown(known.reduction, weights)
        found, left = known.followed(start, b, model.time)
        b = aligned(found.reduction, start)
        weights = weights or {e: w[None] for e, w in found.reduction.lift(b).items()}
        begun.append((SolvedLane(name, known, weights, found, left), found.reduction, b))
    end = model.time or max(lane.known.end(lane.solution) for lane, _, _ in begun)
    if random and not model.time:  # strengths only tell about when
        longer = [0.0, LONGER * end]
        runs = [_around(r.task, lane.weights, 0, longer) for lane, r, _ in begun]
        end = float(f"{1.15 * max(map(settled_time, runs)):.2g}") or end
    lanes, t = [], np.linspace(0.0, end, TIMES)
    for lane, r, b in begun:
        solution = lane.solution
        if random:
            solution = _around(r.task, lane.weights, 0, t)
        elif not model.time:
            solution = r.solve(t1=end, save=t, b0=b, method=METHOD)
        _refuse_unfinished(solution)
        lanes.append(replace(lane, solution=solution, left="" if random else lane.left))
    final = min(float(lane.solution.loss[-1]) for lane in lanes)
    first = max(float(lane.solution.loss[0]) for lane in lanes)
    return Solved(model, t, lanes, final + model.level * (first - final), random)


def _around(task: Task, weights: dict[str, np.ndarray], run: int, t: Any) -> Trajectory:
    """Theory of one of some starts, which leaves nothing of it out."""
    solution = reduce(task, weights={e: w[run] for e, w in weights.items()}).solve(t1=float(t[-1]), save=t)
    _refuse_unfinished(solution)
    return solution


def _refuse_unfinished(solution: Trajectory) -> None:
    """Refuse a solution that does not go to its end; other outcomes are said beside the curves."""
    if solution.status in (Status.DIVERGED, Status.STEP_LIMIT):
        raise InputError(f"theory did not come to its end: {solution.outcome}; try a larger strength")


def refuse_large(what: str, model: Model, copies: int) -> None:
    """Refuse what would hold so many copies of the weights that the process would be ended for its memory."""
    weights = sum(task.graph.n_weights for task in model.lanes.values())
    needed, most = 8 * weights * copies, MEMORY_SHARE * MOST_MEMORY
    if needed > most:
        raise InputError(
            f"{what}: {weights:,} weights need about {needed / 2**30:.2g} GiB here, and the page takes "
            f"{most / 2**30:.2g}. Try smaller layers or fewer networks, or nr.flow"
        )


def _structure(code: str, task: Task, start: dict[str, float], names: Mapping[str, str]) -> Structure:
    """The structure of a task; it depends on which edges start equal, not on how strong they are."""
    values = list(dict.fromkeys(start.values()))
    alike = {e: float(values.index(v)) for e, v in start.items()}
    key = (code, *alike.values())
    if key not in _structures:
        _structures[key] = Structure(task, alike, names)
        while len(_structures) > MOST_STRUCTURES:
            _structures.popitem(last=False)
    return _structures[key]


def random_weights(task: Task, start: Mapping[str, float], seeds: int) -> dict[str, np.ndarray]:
    """Gaussian weights of some networks, those of each edge as large as its strength asks for."""
    drawn = init.gaussian(task.graph, 1.0, seed=range(max(seeds, 1)))
    return {e: std_of(task, start[e]) * w for e, w in drawn.items()}


def aligned(r: Reduction, start: Mapping[str, float]) -> Strengths:
    """Strengths in the family of a reduction, of these sizes."""
    return {e: start[r.family.edge_of(e)] * v for e, v in r.family.start.items()}


def _grown(r: Reduction, weights: dict[str, np.ndarray]) -> Strengths:
    """What grows of given weights in each mode, averaged over the edges of a class and over the networks.

    It only chooses the time axis.
    """
    grown = r.strengths(weights)
    b = {}
    for members in r.classes:
        mean = np.mean([grown[e].mean(axis=0) for e in members], axis=0)
        b |= dict.fromkeys(members, mean)
    return b


# -- the picture ------------------------------------------------------------------------------------


def picture(solved: Solved, number: int, began: float) -> Picture:
    """What the page draws."""
    lanes = [_lane(lane, solved) for lane in solved.lanes]
    largest = max(max(max(g.strength) for g in lane.groups) for lane in lanes) or 1.0
    for lane in lanes:
        for g in lane.groups:
            g.strength = numbers(np.array(g.strength) / largest)
    pathways = any(lane.known.pathways for lane in solved.lanes)
    return Picture(
        id=number, t=numbers(solved.t), level=solved.level, lanes=lanes,
        racers_are="pathways" if pathways else "modes",
        winner=winner(lanes), seconds=time.perf_counter() - began,
        networks=solved.lanes[0].n_runs if solved.random else 0,
    )  # fmt: skip


def others(solved: Solved) -> Iterator[list[Lane]]:
    """What theory says of all random starts but the first, one after the other."""
    for run in range(1, solved.lanes[0].n_runs if solved.random else 0):
        yield [_lane(lane.of_run(run, solved.t), solved) for lane in solved.lanes]


def _lane(lane: SolvedLane, solved: Solved) -> Lane:
    sol, graph, racing = lane.solution, lane.reduction.task.graph, lane.known.racers
    classes = lane.known.reduction.classes
    of_class = {e: k for k, members in enumerate(classes) for e in members}
    groups = []
    for members, size in zip(classes, lane.sizes(), strict=True):
        groups.append(Group(edges=list(members), strength=size.tolist()))
    carries = lane.carries()
    most = max((float(np.abs(c).max()) for c in carries), default=1.0)
    tied = lane.known.reduction.tied is not None
    goals = [p.alone if tied else np.copysign(most, c[-1]) for p, c in zip(racing, carries, strict=True)]
    return Lane(
        name=lane.name,
        nodes=drawn_nodes(graph),
        edges=drawn_edges(graph, of_class),
        groups=groups,
        racers=[
            drawn_racer(p.name, c, goal, solved.t, sorted({e for path in p.members for e in path}))
            for p, c, goal in zip(racing, carries, goals, strict=True)
        ],
        loss=numbers(sol.loss),
        learning_time=finite(learning_time(sol, solved.level)),
    )


def drawn_nodes(graph: Graph) -> list[Node]:
    """Layers of a picture; hidden ones may be wider than those that the page draws."""
    return [Node.model_construct(name=n, size=size) for n, size in graph.nodes.items()]


def drawn_edges(graph: Graph, group: Mapping[str, int]) -> list[DrawnEdge]:
    """Edges of a picture, with the group of each: -1 for fixed ones."""
    return [
        DrawnEdge(name=e, source=s, target=t, group=group.get(e, -1)) for e, (s, t) in graph.edges.items()
    ]


def drawn_racer(name: str, carries: np.ndarray, goal: float, t: np.ndarray, edges: list[str]) -> Racer:
    """What a racer carries over time, and as a share of its goal."""
    share = carries / goal if abs(goal) > 1e-9 else carries
    half = finite(half_time(t, carries)) if share[-1] - share[0] > LEVEL else None  # what decays has none
    return Racer(name=name, carries=numbers(carries), share=numbers(share), half_time=half, edges=edges)


def winner(lanes: list[Lane]) -> str | None:
    """The lane that reaches the level first; in one lane the racer that is ahead; None for a tie."""
    if len(lanes) > 1:
        done = [lane for lane in lanes if lane.learning_time is not None]
        return min(done, key=lambda lane: lane.learning_time or 0.0).name if done else None
    return first_of(lanes[0].racers)


def first_of(racers: list[Racer]) -> str | None:
    """The racer with the largest share at the end, or among equal ones the fastest; None for a tie."""
    done = [x for x in racers if x.half_time is not None]
    most = max((x.share[-1] for x in done), default=0.0)
    best = sorted((x for x in done if x.share[-1] > most - LEVEL), key=lambda x: x.half_time or 0.0)
    if len(racers) < 2 or not best:
        return None
    level = len(best) > 1 and (best[1].half_time or 0.0) < (1 + SAME_TIME) * (best[0].half_time or 0.0)
    return None if level else best[0].name


def numbers(values: np.ndarray) -> list[float]:
    """Rounded, as the page needs no more; what is not finite becomes 0."""
    return [float(f"{v:.{DIGITS}g}") for v in np.nan_to_num(np.asarray(values, float)).tolist()]


def finite(value: object) -> float | None:
    """A number, or None where there is none."""
    x = float(value)  # type: ignore[arg-type]
    return float(f"{x:.{DIGITS}g}") if np.isfinite(x) else None
