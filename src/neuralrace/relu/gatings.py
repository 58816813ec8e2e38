"""Gatings that race each other: by unions of contexts, and by patterns that a unit can have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace import plot
from neuralrace.dynamics import Status, Trajectory, flow
from neuralrace.errors import InputError, NothingToReduceError, array, flag, integer, number, sequence, short
from neuralrace.init import gaussian
from neuralrace.measure import learning_time
from neuralrace.network import loss
from neuralrace.reduction import Reduction, attainable_loss, reduce, settled_time
from neuralrace.relu.patterns import context_labels, implementable_patterns, pattern_text
from neuralrace.relu.training import checked_data
from neuralrace.task import Task
from neuralrace.tasks.structured import gated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_CONTEXTS = 10  # unions of more are too many to list
LEFT = 0.1  # of what the best candidate can learn, where a race ends that names no level
LONG = 1e6  # how long networks are followed that cannot be reduced, in units of the fastest time of the data
_SAME = 1e-6  # relative difference of times that is none
_COLOURS = (plot.BLUE, plot.RED, plot.GREEN, plot.PINK, plot.SKY, plot.ORANGE, plot.BLACK)
_DASHES = ("-", "--", "-.", ":")


def context_candidates(
    X: ArrayLike,
    Y: ArrayLike,
    context: ArrayLike,
    columns: Sequence[int] | None = None,
    common: bool = True,
    hidden: int = 32,
) -> dict[str, Task]:
    """Gated tasks whose pathways are open in unions of contexts, all unions of the chosen sizes.

    A candidate "1+2" has a pathway for every single context and one for every pair; there is one candidate
    for every set of sizes below the number of contexts.

    Parameters
    ----------
    X : array, shape (n, in)
        Inputs.
    Y : array, shape (n, out) or (n,)
        Targets.
    context : array, shape (n,)
        Label of each sample; 2 to 10 different ones.
    columns : list of int, optional
        Columns of the inputs that these pathways see; all by default.
    common : bool
        Whether each candidate also has the pathway that is always open and sees all inputs.
    hidden : int
        Neurons of each pathway.

    Returns
    -------
    dict
        Name -> Task.

    Examples
    --------
    >>> list(context_candidates(np.eye(3), np.eye(3), [0, 1, 2]))
    ['1', '2', '1+2']
    """
    x, y = checked_data(X, Y)
    labels = context_labels(context, len(x))
    kinds = np.unique(labels)
    if not 2 <= len(kinds) <= MAX_CONTEXTS:
        raise InputError(f"context must have 2 to {MAX_CONTEXTS} different labels, got {len(kinds)}")
    unions = {
        size: [np.isin(labels, chosen) for chosen in combinations(kinds, size)]
        for size in range(1, len(kinds))
    }
    tasks = {}
    for count in range(1, len(kinds)):
        for sizes in combinations(unions, count):
            patterns = [u for size in sizes for u in unions[size]]
            name = "+".join(map(str, sizes))
            tasks[name] = _with_common(x, y, patterns, columns, common, hidden)
    return tasks


def pattern_candidates(
    X: ArrayLike,
    Y: ArrayLike,
    patterns: ArrayLike | None = None,
    symmetries: Iterable[Sequence[int]] = (),
    columns: Sequence[int] | None = None,
    common: bool = True,
    hidden: int = 32,
) -> dict[str, Task]:
    """One gated task for each pattern that a unit can have, or for those given.

    Silent patterns are left out, and so is the always-open one where it is in every candidate.

    Parameters
    ----------
    X : array, shape (n, in)
        Inputs.
    Y : array, shape (n, out) or (n,)
        Targets.
    patterns : array, shape (m, n), optional
        By default all that a unit can have, as `implementable_patterns` lists them.
    symmetries : list of permutations, each of shape (n,), optional
        A task has a pathway for a pattern and for all its images under these permutations of the samples.
    columns, common, hidden
        As in `context_candidates`.

    Returns
    -------
    dict
        Digits of a pattern, the first of its images -> Task.

    Examples
    --------
    >>> list(pattern_candidates(np.eye(2), np.eye(2)))
    ['10', '01']
    """
    x, y = checked_data(X, Y)
    flag("common", common)
    given = implementable_patterns(x) if patterns is None else array("patterns", patterns, (None, len(x)))
    moves = _permutations(symmetries, len(x))
    tasks, seen = {}, set()
    for g in given[::-1]:
        if g.tobytes() in seen or not g.any() or (common and g.all()):
            continue
        images = _orbit(g, moves)
        seen |= {h.tobytes() for h in images}
        tasks[pattern_text(images[0])] = _with_common(x, y, images, columns, common, hidden)
    return tasks


def _permutations(symmetries: Any, n: int) -> list[np.ndarray]:
    moves = [
        array(f"symmetries[{k}]", p, (None,))
        for k, p in enumerate(sequence("symmetries", symmetries, "permutations"))
    ]
    for p in moves:
        if not np.array_equal(np.sort(p), np.arange(n)):
            raise InputError(f"symmetries must be permutations of {n} samples, got {p.tolist()[:8]}")
    return [p.astype(int) for p in moves]


def _orbit(pattern: np.ndarray, moves: Sequence[np.ndarray]) -> list[np.ndarray]:
    """All images of a pattern under permutations."""
    images, waiting = {pattern.tobytes(): pattern}, [pattern]
    while waiting:
        here = waiting.pop()
        for p in moves:
            image = np.ascontiguousarray(here[p])
            if image.tobytes() not in images:
                images[image.tobytes()] = image
                waiting.append(image)
    return list(images.values())


def _with_common(
    x: np.ndarray,
    y: np.ndarray,
    patterns: Sequence[Any],
    columns: Sequence[int] | None,
    common: bool,
    hidden: int,
) -> Task:
    """Pathways with these patterns, after the one that is always open."""
    if columns is not None:
        columns = sequence("columns", columns, "columns of the inputs")
    every = [np.ones(len(x))] if flag("common", common) else []
    seen = {} if columns is None else dict.fromkeys(range(len(every), len(every) + len(patterns)), columns)
    return gated(x, y, np.stack([*every, *patterns]).astype(float), integer("hidden", hidden), seen)


@dataclass(frozen=True, eq=False)
class Race:
    """Which of several networks reaches a level of the loss first.

    Attributes
    ----------
    times : dict
        Name -> learning time in flow time, winner first: infinite where no weights reach the level, nan where
        the network has not reached it by `t1`.
    statuses : dict
        Name -> how its trajectory ended; no entry where no weights reach the level.
    trajectories : dict
        Name -> Trajectory; no entry where no weights reach the level.
    how : dict
        Name -> how it was solved, in words.
    why : str
        What decided, in words.
    level : float
        Mean loss to reach.
    t1 : float
        The end, in flow time.

    Examples
    --------
    >>> import neuralrace as nr
    >>> result = race({g: nr.tasks.separability(2.0, g) for g in ("xor", "linear")})
    >>> result.winner, {name: round(t, 1) for name, t in result.times.items()}
    ('linear', {'linear': 6.9, 'xor': 11.2})
    """

    times: dict[str, float]
    statuses: dict[str, Status]
    trajectories: dict[str, Trajectory]
    how: dict[str, str]
    level: float
    t1: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names, winner first."""
        return tuple(self.times)

    @property
    def first(self) -> tuple[str, ...]:
        """Who arrives first: several where they arrive at the same time, up to the error of solving."""
        least = self.times[self.names[0]]
        return tuple(name for name, t in self.times.items() if np.isfinite(t) and t <= (1 + _SAME) * least)

    @property
    def winner(self) -> str | None:
        """The first to arrive; None if nobody did, or if several arrive first."""
        return self.first[0] if len(self.first) == 1 else None

    @property
    def why(self) -> str:
        """What decided, in words."""
        arrived = [name for name, t in self.times.items() if np.isfinite(t)]
        goal = f"loss {self.level:g}"
        if not arrived:
            return f"nobody reaches {goal} by t = {self.t1:g}"
        if len(self.first) > 1:
            return f"{' and '.join(map(str, self.first))} reach {goal} at the same time"
        if len(arrived) == 1:
            return f"{arrived[0]} alone reaches {goal}"
        first, second = arrived[:2]
        if self.times[first] == 0:
            return f"{first} starts below {goal}"
        ratio = self.times[second] / self.times[first]
        return f"{first} reaches {goal} first, {second} takes {ratio:.3g} times as long"

    def plot(self) -> Figure:
        """A matplotlib figure: the loss of every candidate, the level, and who reaches it when.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> import neuralrace as nr
        >>> figure = race({g: nr.tasks.separability(2.0, g) for g in ("xor", "linear")}).plot()
        >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        ['linear: 6.95, first', 'xor: 11.2']
        """
        return _figure(self)

    def __repr__(self) -> str:
        width = max(len(str(name)) for name in self.times)
        lines = [f"Race to loss {self.level:g}: {self.why}"]
        for name, t in self.times.items():
            when = f"{t:.6g}" if np.isfinite(t) else "never" if t == math.inf else f"not by {self.t1:g}"
            lines.append(f"  {name!s:<{width}}  {when}  {self.how[name]}")
        return "\n".join(lines)


def race(
    candidates: Mapping[str, Task],
    level: float | None = None,
    strength: float = 1e-3,
    t1: float | None = None,
) -> Race:
    """When each of several gated networks reaches a level of the loss.

    All start decoupled: every mode of every pathway with the same strength in each layer, in the basis of all
    paths where that is exact, else in that of each pathway, or in blocks where edges are fixed. Some of
    these families rest at a saddle that networks leave. Then a wider family is solved instead
    (`Reduction.widened`), or a network from random weights where there is none. Where neither basis is
    exact, the network is followed from decoupled weights of both signs. Strengths of these starts are those
    that stand for the same gaussian weights (`Reduction.strength`), so that no candidate has a head start;
    where edges are fixed, `strength` is the standard deviation of random weights.

    Parameters
    ----------
    candidates : dict
        Name -> Task, of linear pathways.
    level : float, optional
        Mean loss to reach. By default that at which a tenth is left of what the best candidate can learn.
    strength : float
        Start of every mode in every layer.
    t1 : float, optional
        The end, in flow time (tau = 1 on the mean loss). By default twice the time in which each candidate
        learns all that it can learn.

    Returns
    -------
    Race

    Examples
    --------
    >>> import neuralrace as nr
    >>> race({g: nr.tasks.separability(2.0, g) for g in ("xor", "linear")}).winner
    'linear'
    """
    if not isinstance(candidates, Mapping) or not candidates:
        raise InputError(f"candidates must be a dict from names to tasks, got {short(candidates)}")
    for name, task in candidates.items():
        if not isinstance(task, Task) or not task.graph.is_linear:
            raise InputError(
                f"candidates[{name!r}] must be a Task of linear, gated pathways, got {short(task)}"
            )
    strength, end = number("strength", strength, above=0), None if t1 is None else number("t1", t1, above=0)
    least = {name: attainable_loss(task).loss for name, task in candidates.items()}
    if level is None:
        untrained = (
            loss(task, {e: np.zeros(s) for e, s in task.graph.shapes.items()}) for task in candidates.values()
        )
        level = min(least.values()) + LEFT * (max(map(float, untrained)) - min(least.values()))
    else:
        level = number("level", level, above=0)
    times, trajectories, how = {}, {}, {}
    for name, task in candidates.items():
        if level < least[name]:
            times[name], how[name] = math.inf, f"no weights go below {least[name]:.4g}"
            continue
        try:
            trajectories[name], how[name] = _learned(task, level, strength, end)
        except NothingToReduceError:
            times[name], how[name] = 0.0, "nothing to learn"
            continue
        times[name] = learning_time(trajectories[name], level)
    order = sorted(times, key=lambda name: (np.isnan(times[name]), times[name]))
    return Race(
        {name: times[name] for name in order},
        {name: run.statuses[0] for name, run in trajectories.items()},
        trajectories, how, level, end or max((run.t[-1] for run in trajectories.values()), default=0.0),
    )  # fmt: skip


def _learned(task: Task, level: float, strength: float, end: float | None) -> tuple[Trajectory, str]:
    """The trajectory of one candidate, and how it was solved."""
    r = reduce(task, basis="shared")
    r = r if r.exact else reduce(task, basis="block" if task.graph.fixed else "pathwise")
    if not r.exact:
        both = reduce(task, basis="pathwise", directions=2)
        start = _matched(r, both, strength)
        unit = both.family.start
        weights = both.lift({n: v * start[both.family.edge_of(n)] for n, v in unit.items()})
        return flow(task, weights, end or LONG * both.fastest_time, stop_loss=level), "full flow"
    run = r.solve(strength, end or _twice(r, strength))
    if run.status is Status.FINISHED:
        return run, "reduced"
    return _followed(r, strength, end)


def _twice(r: Reduction, strength: float | dict[str, float]) -> float:
    """Twice the time in which a reduction learns all that it can learn."""
    return float(f"{2 * settled_time(r.until_learned(strength)) or r.fastest_time:.2g}")


def _followed(r: Reduction, strength: float, end: float | None) -> tuple[Trajectory, str]:
    """The trajectory of a candidate whose first family does not come to the attainable loss."""
    try:
        wider = r.widened()
    except InputError:
        std = strength if r.task.graph.fixed else strength / max(_by_edge(r).values())
        random = reduce(r.task, weights=gaussian(r.task.graph, std))
        return random.solve(end or LONG * r.fastest_time), "from random weights"
    start = _matched(r, wider, strength)
    run = wider.solve(start, end or _twice(wider, start))
    return run, f"reduced, {wider.directions} directions per mode"


def _matched(r: Reduction, wider: Reduction, strength: float) -> dict[str, float]:
    """Strengths of a wider family that stand for the same networks as this strength of the narrow one.

    Several directions add up in the product of long paths, and would be a head start.
    """
    narrow, wide = _by_edge(r), _by_edge(wider)
    return {e: strength * wide[e] / narrow[e] for e in wide}


def _by_edge(r: Reduction) -> dict[str, float]:
    """The strength of each edge that stands for gaussian weights of standard deviation 1."""
    each = r.strength(1.0)
    return dict.fromkeys(r.task.graph.shapes, each) if isinstance(each, float) else each


def _figure(race: Race) -> Figure:
    """The loss of every candidate until a little after the last arrival, with arrival times at the level."""
    fig, ax = plot.figure(width=5.0, height=2.8)
    arrived = [t for t in race.times.values() if np.isfinite(t)]
    end = 1.25 * max(arrived) if arrived and max(arrived) > 0 else race.t1
    with plot.style():
        ax.axhline(race.level, color="0.5", ls="--", lw=plot.sized("lines.linewidth", 0.7), zorder=1)
        for place, (name, t) in enumerate(race.times.items()):
            colour = _COLOURS[place % len(_COLOURS)]
            look = {"ls": _DASHES[place // len(_COLOURS) % len(_DASHES)]}
            when = f"{t:.3g}" if np.isfinite(t) else "never" if np.isinf(t) else f"not by {race.t1:.3g}"
            label = f"{name}: {when}{', first' if name in race.first else ''}"
            run = race.trajectories.get(name)
            if run is None:
                ax.plot([], color=colour, label=label, **look)
                continue
            plot.theory(ax, run.t, np.ravel(run.loss), colour, label, **look)
            if np.isfinite(t):
                mark = "*" if name in race.first else "o"
                size = plot.sized("lines.markersize", 3.5 if mark == "*" else 1.8)
                ax.plot([t], [race.level], mark, color=colour, ms=size, mec="white", zorder=5)
        ax.set(xlim=(0, end), ylim=(0, None))
        title = f"time to reach loss {race.level:.3g} (dashed)"
        legend = {"title": title, **plot.BESIDE, "title_fontsize": plot.sized("legend.fontsize")}
        plot.label(ax, r"time ($\tau = 1$)", "loss", legend=legend)
    return fig
