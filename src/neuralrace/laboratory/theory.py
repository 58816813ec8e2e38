"""Theory of a model: its reductions, solved on one time axis, as a picture for the page."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace.errors import InputError
from neuralrace.laboratory.model import Model, std_of
from neuralrace.laboratory.protocol import MOST_MEMORY, DrawnEdge, DrawnNode, Group, Lane, Picture, Racer
from neuralrace.laboratory.racers import RacerPath, labels, racers
from neuralrace.reduction import Solution, settled_time

TIMES = 241  # on the time axis
BEYOND = 1.15  # end of the axis, in times by which all is learned
LONGER = 100  # times as late as aligned networks, random ones are looked for their end
LEVEL, SAME_TIME = 0.05, 0.01  # difference of shares, and relative one of times, that decide no race
ALIGNED_COPIES, RANDOM_COPIES = 35, 480  # of its weights, that theory of a network holds at most (measured)
MEMORY_SHARE = 0.8  # of the memory of a process that may be needed for this
DIGITS = 6
METHOD = nr.Adaptive(rtol=1e-7, atol=1e-9)
ROUGH = nr.Adaptive(rtol=1e-3, atol=1e-5, max_steps=4000)  # to choose the end
MOST_STRUCTURES = 40  # that are kept, as sliders come back to them


@dataclass(frozen=True)
class Structure:
    """What does not change with the strengths of a start: the reduction of the papers and who races in it;
    and the wider reduction where that one rests at a saddle.
    """

    code: str  # tells tasks apart
    alike: tuple[tuple[str, float], ...]  # edge -> a number, equal where edges start equal
    task: nr.Task = field(compare=False)
    names: Mapping[str, str] = field(compare=False)

    @classmethod
    def of(cls, model: Model, lane: str) -> Structure:
        """That of a lane of a model."""
        start = model.start(lane)
        values = list(dict.fromkeys(start.values()))
        alike = tuple((e, float(values.index(v))) for e, v in start.items())
        return _kept(cls(model.code[lane], alike, model.lanes[lane], model.names))

    @cached_property
    def reduction(self) -> nr.Reduction:
        """That of the papers."""
        return nr.reduce(self.task, ties=dict(self.alike))

    @cached_property
    def racing(self) -> tuple[list[RacerPath], bool]:
        """Who races, and whether these are pathways (else modes)."""
        return racers(self.reduction, self.names)

    @cached_property
    def wider(self) -> nr.Reduction | None:
        """The family with more directions per mode that learns what networks do; None if there is none."""
        try:
            return self.reduction.widened()
        except InputError:
            return None

    def solve(self, start: Mapping[str, float], time: float | None) -> tuple[nr.Trajectory, str]:
        """The solution from strengths by edge to a time, or roughly until all is learned.

        Where it stays at a saddle, it is that of the wider family if there is one. Then how the first one
        ended is said too.
        """
        found = _solved(self.reduction, start, time)
        if found.status not in (nr.Status.SADDLE, *([] if time else [nr.Status.UNSETTLED])):
            return found, ""
        end = found.endings[0]
        ended = str(end) if time else f"{end.status.value}: {end.why}"  # for ever
        return (found if self.wider is None else _solved(self.wider, start, time)), ended


@lru_cache(MOST_STRUCTURES)
def _kept(structure: Structure) -> Structure:
    """The one that was made first among equal ones, with all that it has found."""
    return structure


def _solved(r: nr.Reduction, start: Mapping[str, float], time: float | None) -> nr.Trajectory:
    if time is None:
        return r.until_learned(start, method=ROUGH)
    return r.solve(start, time, np.linspace(0.0, time, TIMES), method=METHOD)


@dataclass(frozen=True)
class SolvedLane:
    """One network of a model: the start and the solution."""

    name: str
    known: Structure
    weights: dict[str, np.ndarray]  # of the networks that are trained beside it, with an axis of runs
    solution: nr.Trajectory  # from an aligned start; or from the first of random ones
    left: str = ""  # how the family of the papers ended, where it stays at a saddle

    @property
    def reduction(self) -> nr.Reduction:
        """The reduction that is drawn; that of the papers beside random starts."""
        return self.known.reduction if self.strengths is None else self.solution.reduction

    @property
    def strengths(self) -> Mapping[str, np.ndarray] | None:
        """Strengths over time, by edge; None of a random start, which is followed as it is."""
        source = self.solution.source
        return source.b if isinstance(source, Solution) else None

    @property
    def n_runs(self) -> int:
        """How many networks start."""
        return len(next(iter(self.weights.values())))

    def sizes(self) -> list[np.ndarray]:
        """Strength of each class of edges over time: the mean size of their weights."""
        b, family = self.strengths, self.reduction.family

        def square(edge: str) -> Any:
            parts = [self.solution.weights[edge]] if b is None else [b[n] for n in family.strengths_of(edge)]
            return sum((np.asarray(x).reshape(len(x), -1) ** 2).sum(axis=1) for x in parts)

        classes = self.known.reduction.classes
        return [np.sqrt(np.mean([square(e) for e in members], axis=0)) for members in classes]

    def carries(self) -> list[np.ndarray]:
        """What each racer carries over time."""
        b, (racing, _) = self.strengths, self.known.racing
        if b is not None:
            return [p.carries(self.reduction, b) for p in racing]
        return [p.carried(self.reduction, self.solution.weights) for p in racing]

    def of_run(self, run: int, t: np.ndarray) -> SolvedLane:
        """Theory of one of the random starts, which leaves nothing of it out."""
        return replace(self, solution=_finished(self.around(run, t)), left="")

    def around(self, run: int, t: Any, stop_loss: float | None = None) -> nr.Trajectory:
        """The reduction around one of the random starts, solved."""
        weights = {e: w[run] for e, w in self.weights.items()}
        return nr.reduce(self.known.task, weights=weights).solve(float(t[-1]), t, stop_loss=stop_loss)


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
    lanes = []
    for name, task in model.lanes.items():
        known, start = Structure.of(model, name), model.start(name)
        found, left = known.solve(start, model.time)
        aligned = {e: w[None] for e, w in found.at(0).items()}
        weights = random_weights(task, start, seeds) if random else aligned
        lanes.append(SolvedLane(name, known, weights, found, left))
    t = np.linspace(0.0, model.time or _end(lanes, random), TIMES)
    for k, lane in enumerate(lanes):
        found = lane.solution
        if not random and not model.time:
            found = found.reduction.solve(model.start(lane.name), t[-1], t, method=METHOD)
        lanes[k] = lane.of_run(0, t) if random else replace(lane, solution=_finished(found))
    final = min(float(lane.solution.loss[-1]) for lane in lanes)
    first = max(float(lane.solution.loss[0]) for lane in lanes)
    return Solved(model, t, lanes, final + model.level * (first - final), random)


def _end(lanes: list[SolvedLane], random: bool) -> float:
    """A time by which all have learned what they learn."""
    end = _later(max(settled_time(lane.solution) for lane in lanes))
    end = end or 10 * max(lane.known.reduction.fastest_time for lane in lanes)
    if random:  # aligned networks only tell about when
        far = [0.0, LONGER * end]
        runs = [lane.around(0, far, lane.known.reduction.complete_loss) for lane in lanes]
        end = _later(max(map(settled_time, runs))) or end
    return end


def _later(t: float) -> float:
    return float(f"{BEYOND * t:.2g}")


def _finished(solution: nr.Trajectory) -> nr.Trajectory:
    """A solution, refused if it does not go to its end; other outcomes are said beside the curves."""
    if solution.status in (nr.Status.DIVERGED, nr.Status.STEP_LIMIT):
        raise InputError(f"theory did not come to its end: {solution.outcome}; try a larger strength")
    return solution


def refuse_large(what: str, model: Model, copies: int) -> None:
    """Refuse what would hold so many copies of the weights that the process would be ended for its memory."""
    weights = sum(task.graph.n_weights for task in model.lanes.values())
    needed, most = 8 * weights * copies, MEMORY_SHARE * MOST_MEMORY
    if needed > most:
        raise InputError(
            f"{what}: {weights:,} weights need about {needed / 2**30:.2g} GiB here, and the page takes "
            f"{most / 2**30:.2g}. Try smaller layers or fewer networks, or nr.flow"
        )


def random_weights(task: nr.Task, start: Mapping[str, float], seeds: int) -> dict[str, np.ndarray]:
    """Gaussian weights of some networks, those of each edge as large as its strength asks for."""
    drawn = nr.init.gaussian(task.graph, 1.0, seed=range(max(seeds, 1)))
    return {e: std_of(task, start[e]) * w for e, w in drawn.items()}


# -- the picture ------------------------------------------------------------------------------------


def picture(solved: Solved, number: int, began: float) -> Picture:
    """What the page draws."""
    lanes = [_lane(lane, solved) for lane in solved.lanes]
    pathways = any(lane.known.racing[1] for lane in solved.lanes)
    return drawn_picture(
        number, began, solved.t, solved.level, lanes,
        racers_are="pathways" if pathways else "modes", winner=winner(lanes),
        networks=solved.lanes[0].n_runs if solved.random else 0,
    )  # fmt: skip


def others(solved: Solved) -> Iterator[list[Lane]]:
    """What theory says of all random starts but the first, one after the other."""
    for run in range(1, solved.lanes[0].n_runs if solved.random else 0):
        yield [_lane(lane.of_run(run, solved.t), solved) for lane in solved.lanes]


def _lane(lane: SolvedLane, solved: Solved) -> Lane:
    r, racing, carries = lane.known.reduction, lane.known.racing[0], lane.carries()
    most = max((float(np.abs(c).max()) for c in carries), default=1.0)
    racers = []
    for p, c in zip(racing, carries, strict=True):
        goal = np.copysign(most, c[-1]) if r.tied is None else p.alone
        racers.append(drawn_racer(p.name, c, goal, solved.t, sorted({e for path in p.members for e in path})))
    sizes, sol = dict(zip(r.classes, lane.sizes(), strict=True)), lane.solution
    reached = nr.learning_time(sol, solved.level)
    graph, names = lane.reduction.task.graph, lane.known.names
    return drawn_lane(lane.name, graph, sizes, racers, sol.loss, reached, names)


def drawn_picture(
    number: int, began: float, t: np.ndarray, level: float, lanes: list[Lane], **more: Any
) -> Picture:
    """Networks on one time axis; of the strengths of all groups the largest is 1."""
    largest = max(max(max(g.strength) for g in lane.groups) for lane in lanes) or 1.0
    for lane in lanes:
        for g in lane.groups:
            g.strength = numbers(np.array(g.strength) / largest)
    seconds = time.perf_counter() - began
    return Picture(
        id=number, t=numbers(t), level=level, largest=largest, lanes=lanes, seconds=seconds, **more
    )  # fmt: skip


def drawn_lane(
    name: str, graph: nr.Graph, sizes: Mapping[tuple[str, ...], np.ndarray], racers: list[Racer],
    loss: np.ndarray, learning_time: Any, names: Mapping[str, str],
) -> Lane:  # fmt: skip
    """A network, with the size of each group of edges over time; fixed edges have group -1.

    Its hidden layers may be wider than those that the page draws.
    """
    group = {e: k for k, members in enumerate(sizes) for e in members}
    label = labels(graph, names)
    return Lane(
        name=name,
        nodes=[
            DrawnNode.model_construct(name=n, size=size, label=label.get(n, ""))
            for n, size in graph.nodes.items()
        ],
        edges=[
            DrawnEdge(name=e, source=s, target=t, group=group.get(e, -1))
            for e, (s, t) in graph.edges.items()
        ],
        groups=[Group(edges=list(members), strength=size.tolist()) for members, size in sizes.items()],
        racers=racers,
        loss=numbers(loss),
        learning_time=finite(learning_time),
    )  # fmt: skip


def drawn_racer(name: str, carries: np.ndarray, goal: float, t: np.ndarray, edges: list[str]) -> Racer:
    """What a racer carries over time, and as a share of its goal."""
    share = carries / goal if abs(goal) > 1e-9 else carries
    half = finite(nr.half_time(t, carries)) if share[-1] - share[0] > LEVEL else None  # what decays has none
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
