"""The race between gatings: how fast each candidate learns from the same kind of start."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from neuralrace.dynamics import Status, Trajectory, flow
from neuralrace.errors import InputError, NothingToReduceError, number, short
from neuralrace.init import decoupled, gaussian
from neuralrace.measure import learning_time
from neuralrace.reduction import Reduction, attainable_loss, reduce
from neuralrace.task import Task

_SAME = 1e-6  # relative difference of times that is none


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
    ('linear', {'linear': 6.3, 'xor': 10.1})
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

    def __repr__(self) -> str:
        width = max(len(str(name)) for name in self.times)
        lines = [f"Race to loss {self.level:g}: {self.why}"]
        for name, t in self.times.items():
            when = f"{t:.6g}" if np.isfinite(t) else "never" if t == math.inf else f"not by {self.t1:g}"
            lines.append(f"  {name!s:<{width}}  {when}  {self.how[name]}")
        return "\n".join(lines)


def race(
    candidates: Mapping[str, Task],
    level: float = 0.2,
    strength: float = 1e-3,
    t1: float = 1e4,
) -> Race:
    """When each of several gated networks reaches a level of the loss.

    All start decoupled: every mode of every pathway with the same strength in each layer, in the basis of all
    paths where that is exact, else in that of each pathway, or in blocks where edges are fixed. Where this
    family does not come to the attainable loss, the race goes on as networks do: in a wider family
    (`Reduction.widened`), else from random weights of the same strength (of that standard deviation where
    edges are fixed). Where neither basis is exact, the network is followed from decoupled weights of both
    signs.

    Parameters
    ----------
    candidates : dict
        Name -> Task, of linear pathways.
    level : float
        Mean loss to reach.
    strength : float
        Start of every mode in every layer.
    t1 : float
        The end, in flow time (tau = 1 on the mean loss).

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
    level, strength = number("level", level, above=0), number("strength", strength, above=0)
    end = number("t1", t1, above=0)
    times, trajectories, how = {}, {}, {}
    for name, task in candidates.items():
        least = attainable_loss(task).loss
        if level < least:
            times[name], how[name] = math.inf, f"no weights go below {least:.4g}"
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
        trajectories, how, level, end,
    )  # fmt: skip


def _learned(task: Task, level: float, strength: float, end: float) -> tuple[Trajectory, str]:
    """The trajectory of one candidate, and how it was solved."""
    r = reduce(task, basis="shared")
    r = r if r.exact else reduce(task, basis="block" if task.graph.fixed else "pathwise")
    if not r.exact:
        both = reduce(task, basis="pathwise", directions=2)
        return flow(task, decoupled(both, strength), end, stop_loss=level), "full flow"
    run = r.solve(strength, end)
    if run.status is Status.FINISHED:
        return run, "reduced"
    return _followed(r, strength, end)


def _followed(r: Reduction, strength: float, end: float) -> tuple[Trajectory, str]:
    """The trajectory of a candidate whose first family does not come to the attainable loss."""
    try:
        wider = r.widened()
    except InputError:
        sizes = 1.0 if r.task.graph.fixed else r.strength(1.0)
        std = strength / (max(sizes.values()) if isinstance(sizes, dict) else sizes)
        return reduce(r.task, weights=gaussian(r.task.graph, std)).solve(end), "from random weights"
    return wider.solve(strength, end), f"reduced, {wider.directions} directions per mode"
