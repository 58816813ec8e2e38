"""What is learned when: how much each part of a network adds to its outputs, and when it rises and falls."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from neuralrace.compiling import Tree
from neuralrace.dynamics.gradient_flow import flow
from neuralrace.dynamics.rates import Rates
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, known, need_extra, number, short
from neuralrace.graph import Graph
from neuralrace.measure import times as measure
from neuralrace.measure.maps import Floats, plain
from neuralrace.measure.times import LossCurve
from neuralrace.network import Stack, loss, program, read, take
from neuralrace.network.programs import run
from neuralrace.task import Task

if TYPE_CHECKING:
    import pandas

_AT_ONCE = 8  # times whose outputs are computed together
_FINE, _ZOOMS = 16, 2  # times of a flow that is solved again between two times, and how often it is
_MOST_PATHS = 1000  # that are looked at one by one
_GONE = 0.01  # share of its largest value below which a part counts as given up


class Event(NamedTuple):
    """One rise or fall; see `events`."""

    kind: str
    name: str | int
    what: str
    from_time: float
    to_time: float
    from_value: float
    to_value: float


class _Lead(NamedTuple):
    """What one pathway adds to the outputs, over what another does."""

    pathway: str
    other: str


@dataclass(frozen=True, repr=False)
class Events:
    """What rose and fell, in order of time; see `events`.

    Attributes
    ----------
    rows : tuple of Event
        Named tuples (kind, name, what, from_time, to_time, from_value, to_value).
    curves : dict
        (kind, name) -> values at the saved times, (save,).
    ties : tuple of tuple of str
        Pathways that are equal by symmetry.
    growth : dict
        Pathway -> (S, k): while weights are small, each of its k layers, with equal strengths b along the
        direction that grows fastest and nothing else in the network, grows as tau db/dt = S b^(k - 1). S is
        the largest singular value of the correlation of targets with inputs through it. Where this is not
        known, a pathway is left out: one with several routes inside, biases or activations in the network,
        weight decay, learning rates that differ, or another loss.
    overtakings : tuple of (float, str, str)
        (time, pathway, other): when a pathway adds as much to the outputs as another that led, for pathways
        without a common route; either led by at least `least`.
    """

    rows: tuple[Event, ...]
    curves: Mapping[tuple[str, str | int], np.ndarray]
    ties: tuple[tuple[str, ...], ...]
    growth: Mapping[str, tuple[float, int]]
    overtakings: tuple[tuple[float, str, str], ...]

    def __iter__(self) -> Iterator[Event]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a table."""
        need_extra("data", "pandas")
        import pandas

        return pandas.DataFrame(list(self.rows), columns=list(Event._fields))

    def __repr__(self) -> str:
        head = ("kind", "name", "what", "from time", "to time", "from value", "to value")
        table = [head, *(tuple(v if isinstance(v, str) else f"{v:.4g}" for v in row) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in table]
        lines = lines if self.rows else ["nothing rises or falls"]
        lines += [f"{a} overtakes {b} at {t:.4g}." for t, a, b in self.overtakings]
        if self.growth:
            powers = ["", " b", *(f" b^{k}" for k in range(2, max(k for _, k in self.growth.values())))]
            speeds = [f"{n} {s:.4g}{powers[k - 1]}" for n, (s, k) in self.growth.items()]
            unknown = [str(n) for kind, n in self.curves if kind == "pathway" and n not in self.growth]
            speeds += [f"not known for {', '.join(unknown)}"] if unknown else []
            lines.append(f"Growth of small strengths b, in each pathway by itself: {'; '.join(speeds)}.")
        for tied in self.ties:
            lines.append(
                f"{', '.join(tied)} are equal by symmetry: chance decides, by the initial weights, which of "
                "them leads and how they share; nr.reduce(task, weights=...) predicts it."
            )
        return "\n".join(lines)


def events(trajectory: Trajectory, task: Task, least: float = 0.05) -> Events:
    """What rises and falls during learning, and when: pathways, modes, inputs and outputs.

    The value of each is the root mean square, over samples, of what it adds to the outputs (the outputs minus
    those without it), in units of the root mean square of the targets. An event is the way from one turning
    point of this curve to the next; its times are those at a tenth and at nine tenths of this way.

    Parameters
    ----------
    trajectory : Trajectory
        One run, with saved weights.
    task : Task
        The task that it learned.
    least : float
        Smallest rise or fall that counts.

    Returns
    -------
    Events
        A pathway is all paths through a hidden node, by whose name it goes; hidden nodes in a row are one
        pathway, by the name of the first. So pathways may share nodes, and add up to the outputs only where
        they do not. Direct edges go by their own names. Modes are those of `mode_strengths`, the strongest
        is 0. Rises and falls are seen at the saved times; their own times are found as in
        `learning_time`.

    Examples
    --------
    >>> import numpy as np, neuralrace as nr
    >>> graph = nr.Graph({"a": 1, "v": 1, "y": 1}, [("a", "y"), ("v", "y")])
    >>> v = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    >>> a = 3 * v + [[2.0], [2.0], [-2.0], [-2.0]]
    >>> task = nr.Task(graph, {"a": a, "v": v}, v)
    >>> run = nr.flow(task, {e: [[0.0]] for e in graph.edges}, t1=100.0)
    >>> [(e.kind, e.name, e.what) for e in nr.events(run, task) if e.kind == "input"]
    [('input', 'a', 'rises'), ('input', 'v', 'rises'), ('input', 'a', 'falls')]
    """
    least = number("least", least, above=0)
    parts = Parts(trajectory, task)
    if trajectory.many:
        raise InputError("trajectory must be a single run: take one of them, trajectory[k]")
    graph = task.graph
    unit = float(np.sqrt(2 * loss(task, {n: np.zeros(s) for n, s in graph.shapes.items()}))) or 1.0
    named: list[tuple[str, Any]] = [("pathway", n) for n in pathways(graph)]
    named += [("mode", k) for k in range(parts.n_modes)]
    named += [("input", x) for x in graph.inputs] + [("output", o) for o in graph.outputs]
    rows, curves = [], {}
    for kind, name in named:
        of = (kind, name) if kind == "mode" else name
        curve = parts.size(of)
        curves[kind, name] = curve / unit
        for i, j in pairwise(_turns(curve, least * unit)):
            a, b = curve[i], curve[j]
            begin, end = (parts.time(of, curve[: j + 1], a + way * (b - a), first=i) for way in (0.1, 0.9))
            what = "rises" if b > a else "falls"
            rows.append(Event(kind, name, what, begin, end, float(a / unit), float(b / unit)))
    rows = tuple(sorted(rows, key=lambda e: e.from_time))
    return Events(rows, curves, _ties(parts), _growth(parts), _overtakings(parts, curves, least))


def learning_time(
    trajectory: LossCurve, level: ArrayLike, of: Any = None, *, task: Task | None = None
) -> Floats:
    """First time at which the loss falls to `level`, or at which a part of the network is learned.

    The loss is interpolated with its slope at the solver's own steps, so the result does not depend on which
    times were saved. For descent it is linear between steps; with mini-batches between saved steps. A part is
    followed at the saved times. Between the two around the level the flow is solved again, so that its time
    is as exact; descent is interpolated there, and is off by less than the time from one to the next.

    Parameters
    ----------
    trajectory : Trajectory
        One run or several. Of the loss, anything with `t` and `loss` will do.
    level : float or array_like, shape (runs,)
        Loss to reach, in the units of ``trajectory.loss``; the same for all runs, or one for each. Of a part:
        a share, above 0 and at most 1, of what it adds to the outputs at the end (see `events`).
    of : str or ("mode", int), optional
        The part: a pathway, node, input, output or edge by its name, or a mode, as in `mode_strengths`.
    task : Task, optional
        What was learned, where the trajectory does not know it: one from a file does not.

    Returns
    -------
    float or ndarray, shape (runs,)
        Flow time (tau = 1, mean loss); nan where the level is never reached, and of a part that ends below 1%
        of its largest value: it is not there at the end, and `events` says when it was.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.hierarchy(3)
    >>> run = nr.flow(task, nr.init.decoupled(nr.reduce(task), 0.1), t1=40.0)
    >>> [round(nr.learning_time(run, 0.5, of=("mode", k)), 2) for k in (0, 1)]
    [4.21, 5.95]
    """
    if of is None:
        return measure.learning_time(trajectory, level)
    parts = Parts(trajectory, task)
    levels = measure.check_levels(level, parts.trajectory.loss.shape[:-1])
    if not ((levels > 0) & (levels <= 1)).all():
        raise InputError(f"level must be a share above 0 and at most 1 with of={of!r}, got {short(level)}")
    curves = np.atleast_2d(parts.size(of))
    times = [
        np.nan if c[-1] <= _GONE * c.max() else parts.time(of, c, s * c[-1], k)
        for k, (c, s) in enumerate(zip(curves, np.broadcast_to(levels, len(curves)), strict=True))
    ]
    return np.array(times) if parts.trajectory.many else plain(np.asarray(times[0]))


def pathways(graph: Graph) -> list[str]:
    """Hidden nodes, the first of each row of them, and edges from inputs to outputs."""

    def follows(n: str) -> bool:
        sources = [graph.edges[e][0] for e in graph.incoming[n]]
        return len(sources) == 1 and sources[0] in graph.hidden and len(graph.outgoing[sources[0]]) == 1

    direct = [e for e, (s, t) in graph.edges.items() if s in graph.inputs and t in graph.outputs]
    return [n for n in graph.hidden if not follows(n)] + direct


class Parts:
    """How much parts of a network add to its outputs along a trajectory: outputs with and without them."""

    def __init__(self, trajectory: Any, task: Any) -> None:
        if not isinstance(trajectory, Trajectory):
            raise InputError(f"trajectory must be a Trajectory, got {short(trajectory)}")
        task = trajectory.task if task is None else task
        if not isinstance(task, Task):
            raise InputError(f"task must be the Task that the trajectory learned, got {short(task)}")
        if not set(task.graph.shapes) <= set(trajectory.weights):
            raise InputError(
                "trajectory must have the weights of the task's graph: was it saved without them?"
            )
        self.task, self.trajectory = task, trajectory
        self.zoom, self.inside = 0, {}  # how often the flow was solved again between two times; the results
        shapes = task.graph.shapes.items()
        self.weights = {n: np.reshape(trajectory.weights[n], (-1, *s)) for n, s in shapes}
        if not all(np.isfinite(w).all() for w in self.weights.values()):
            raise InputError("trajectory must be finite: this one diverged")
        g, times = task.graph, len(next(iter(self.weights.values())))
        self.weights |= {e: np.repeat(w[None], times, axis=0) for e, w in g.fixed.items()}
        whole = Graph(g.nodes, g.given_edges({}), g.activations, g.biases)
        self.whole: Task = task.on(whole) if g.fixed else task  # in which fixed edges can be cut too
        self.full = self.outputs({})

    @cached_property
    def family(self) -> Any:
        """The family whose modes are meant, as in `mode_strengths`; None where the task has no modes."""
        from neuralrace.reduction.certificate import modes_of  # the reduction measures too

        g = self.task.graph
        try:
            return modes_of(self.task)[0] if g.is_linear and not g.biases and not g.diagonal else None
        except InputError:  # gates of single neurons, or nothing to learn
            return None

    @property
    def n_modes(self) -> int:
        """Number of modes."""
        return 0 if self.family is None else self.family.modes

    def time(self, of: Any, curve: np.ndarray, level: float, run: int = 0, first: int = 0) -> float:
        """When the size of a part first crosses a level after the saved time `first`; nan if never."""
        t = self.trajectory.t
        k = first + _past(curve[first:], level)
        if k == first or k == len(curve):
            return float(t[k]) if k < len(curve) else float("nan")
        if self.zoom == _ZOOMS or self.trajectory.settings.get("process") not in ("flow", "reduction"):
            near = slice(max(k - 3, first), k + 3)
            return _reached(t[near], curve[near], level, (t[k - 1], t[k]))
        fine = self._between(run, k - 1)
        return float(t[k - 1] + np.fmin(fine.time(of, fine.size(of), level), t[k] - t[k - 1]))

    def _between(self, run: int, k: int) -> Parts:
        """Those between two saved times: the flow is solved again there."""
        if (run, k) not in self.inside:
            t, settings = self.trajectory.t, self.trajectory.settings
            start = {n: self.weights[n][run * len(t) + k] for n in self.task.graph.shapes}
            rates = Rates(settings["weight_decay"], settings["lr_scale"])
            kind = settings.get("loss", "squared")
            fine = Parts(flow(self.task, start, t[k + 1] - t[k], _FINE, loss=kind, rates=rates), self.task)
            fine.zoom, fine.family = self.zoom + 1, self.family
            self.inside[run, k] = fine
        return self.inside[run, k]

    def outputs(self, changed: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Outputs (times, outputs, rows, size) with some weights changed; their squares sum to the mean."""
        weights, found = {**self.weights, **changed}, []
        times = len(next(iter(weights.values())))
        for at in range(0, times, _AT_ONCE):  # as many every time, so that it is compiled once
            some = {n: w[np.minimum(np.arange(at, at + _AT_ONCE), times - 1)] for n, w in weights.items()}
            made = lambda: program(self.whole, "squared")  # noqa: E731
            found.append(run(_weighted, self.whole, some, "squared", made, _weighted))
        return [np.concatenate(each)[:times] for each in zip(*found, strict=True)]

    def size(self, of: Any) -> np.ndarray:
        """Root mean square of what a part adds to the outputs, (save,) or (runs, save)."""
        graph, shape = self.task.graph, self.trajectory.loss.shape
        if isinstance(of, _Lead):
            a, b = map(self.size, of)
            offset = 1e-6 * max(a.max(), b.max())  # the ratio is 1 where it is without it
            return (a + offset) / (b + offset)
        if isinstance(of, tuple):
            added = self._mode(of)
        else:
            known("of", [of], graph.names, "node, edge or mode, as ('mode', 0)")
            around = graph.outgoing if of in graph.inputs else graph.incoming
            cut = [of] if of in graph.edges else [*around[of], *({of} & set(graph.biases))]
            without = self.outputs({n: np.zeros_like(self.weights[n]) for n in cut})
            added = [a - b for a, b in zip(self.full, without, strict=True)]
        squares = sum(np.square(part).sum(axis=(1, 2, 3)) for part in added)
        return np.sqrt(squares + np.zeros(np.prod(shape, dtype=int))).reshape(shape)

    def _mode(self, of: tuple[Any, ...]) -> list[np.ndarray]:
        """Outputs along the output direction of a mode; each pathway may have its own."""
        if len(of) != 2 or of[0] != "mode" or of[1] not in range(self.n_modes):
            raise InputError(
                f"of must be ('mode', k) with k below {self.n_modes}, the number of modes of the task; "
                f"got {of!r}"
            )
        graph, along = self.task.graph, {}
        for e in (e for o in graph.outputs for e in graph.incoming[o]):
            u = self.family.left[e][:, [of[1]]]
            along[e] = u @ (u.T @ self.weights[e])
        return self.outputs(along)


def _weighted(stack: Stack, flat: jax.Array, data: Tree, kind: str) -> list[jax.Array]:
    """Activity at each readout, times the root of the weight of its sample."""
    activities, found = stack.activities(stack.in_stacks(flat), data), []
    for r, d in zip(stack.readouts, data["readouts"], strict=True):
        h = read(r, d, activities)
        found.append(h if d["weight"] is None else h * take(d["weight"], r.weight, -2)[..., None] ** 0.5)
    return found


def _ties(parts: Parts) -> tuple[tuple[str, ...], ...]:
    """Pathways whose edges are in the same classes."""
    from neuralrace.reduction import reduce  # it measures too

    graph = parts.task.graph
    if parts.family is None:
        return ()
    class_of = {e: k for k, members in enumerate(reduce(parts.task).classes) for e in members}
    groups: dict[Hashable, list[str]] = {}
    for n in pathways(graph):
        edges = (n,) if n in graph.edges else (*graph.incoming[n], *graph.outgoing[n])
        groups.setdefault(tuple(sorted(class_of.get(e, -1) for e in edges)), []).append(n)
    return tuple(tuple(names) for names in groups.values() if len(names) > 1)


def _growth(parts: Parts) -> dict[str, tuple[float, int]]:
    """How strongly each pathway of one route pulls its own weights up while all are small, and its depth."""
    task, settings, found = parts.task, parts.trajectory.settings, {}
    usual = not settings.get("lr_scale") and not settings.get("weight_decay")
    usual = usual and settings.get("loss", "squared") == "squared"
    if parts.family is None or not usual or task.graph.n_paths > _MOST_PATHS:
        return found
    for n in pathways(task.graph):
        through = [n] if n in task.graph.edges else task.graph.incoming[n]
        paths = [p for e in through for p in task.graph.paths_through(e)]
        if len({p[1:-1] for p in paths}) == 1 and not any(e in task.graph.fixed for p in paths for e in p):
            first, last = (dict.fromkeys(p[end] for p in paths) for end in (0, -1))
            syx = {(p[-1], p[0]): task.syx(p) for p in paths}
            s = np.linalg.norm(np.block([[syx[z, a] for a in first] for z in last]), 2)
            found[n] = float(s), len(paths[0])
    return found


def _overtakings(
    parts: Parts, curves: Mapping[tuple[str, str | int], np.ndarray], least: float
) -> tuple[tuple[float, str, str], ...]:
    """When the lead changes between two pathways that share no route, sorted."""
    graph, found = parts.task.graph, []
    above: dict[str, set[str]] = {n: {n} for n in pathways(graph)}
    for n in graph.hidden:
        sources = [graph.edges[e][0] for e in graph.incoming[n]]
        above[n] = {n}.union(*(above.get(source, ()) for source in sources))
    for a, b in combinations(pathways(graph), 2):
        if a in above[b] or b in above[a]:
            continue
        lead = curves["pathway", a] - curves["pathway", b]
        for i, j in pairwise(np.flatnonzero(np.abs(lead) >= least).tolist()):
            if lead[i] * lead[j] < 0:
                of = _Lead(a, b) if lead[j] > 0 else _Lead(b, a)
                found.append((parts.time(of, parts.size(of)[: j + 1], 1.0, first=i), *of))
    return tuple(sorted(found))


def _turns(curve: np.ndarray, least: float) -> list[int]:
    """Places of the turning points of a curve between which it moves by at least `least`."""
    turns, low, high, rising = [], 0, 0, None
    for k, value in enumerate(curve):
        low, high = (k if value < curve[low] else low), (k if value > curve[high] else high)
        if rising is not False and value <= curve[high] - least:
            turns, low, rising = [*turns, high], k, False
        elif rising is not True and value >= curve[low] + least:
            turns, high, rising = [*turns, low], k, True
    return turns if rising is None else [*turns, high if rising else low]


def _past(curve: np.ndarray, level: float) -> int:
    """Place of the first value on the other side of a level, or on it; the length if there is none."""
    past = curve >= level if curve[0] < level else curve <= level
    return int(past.argmax()) if past.any() else len(curve)


def _reached(t: np.ndarray, curve: np.ndarray, level: float, ends: tuple[float, float]) -> float:
    """When a curve of values above 0 crosses a level, between two of its times.

    By a monotone cubic of its logarithm, since parts grow and vanish exponentially.
    """
    from scipy.interpolate import PchipInterpolator  # slow to import

    logs = np.log(np.maximum(curve, 1e-12 * curve.max()))
    roots = PchipInterpolator(t, logs).solve(np.log(level), extrapolate=False)
    return float(min((r for r in roots if ends[0] <= r <= ends[1]), default=ends[1]))
