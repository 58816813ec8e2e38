"""The race between gatings: how fast each candidate learns from the same kind of start."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from neuralrace.dynamics import Trajectory, flow
from neuralrace.errors import InputError, NothingToReduceError, number, short
from neuralrace.init import decoupled
from neuralrace.measure import learning_time
from neuralrace.reduction import reduce
from neuralrace.task import Task


class Race(dict[str, float]):
    """Learning times by name, winner first; nan, at the end, for those that did not arrive by `t1`.

    Attributes
    ----------
    level : float
        Mean loss to reach.
    strength : float
        Start of every mode in every layer.
    t1 : float
        The end, in flow time.
    trajectories : dict
        Name -> Trajectory, up to the learning time; none where nothing can be learned.
    reduced : dict
        Name -> whether the reduced system was solved, which is exact there, or the full flow.

    Examples
    --------
    >>> import neuralrace as nr
    >>> result = race({g: nr.tasks.separability(2.0, g) for g in ("xor", "linear")})
    >>> result.names, result.times.round(1).tolist()
    (('linear', 'xor'), [6.3, 10.1])
    """

    def __init__(
        self,
        times: Mapping[str, float],
        level: float,
        strength: float,
        t1: float,
        trajectories: Mapping[str, Trajectory],
        reduced: Mapping[str, bool],
    ) -> None:
        super().__init__(sorted(times.items(), key=lambda item: (np.isnan(item[1]), item[1])))
        self.level: float = level
        self.strength: float = strength
        self.t1: float = t1
        self.trajectories: dict[str, Trajectory] = dict(trajectories)
        self.reduced: dict[str, bool] = dict(reduced)

    @property
    def winner(self) -> str | None:
        """The first to arrive, None if nobody did."""
        name = next(iter(self))
        return None if np.isnan(self[name]) else name

    @property
    def names(self) -> tuple[str, ...]:
        """Names, winner first."""
        return tuple(self)

    @property
    def times(self) -> np.ndarray:
        """Learning times in the order of names, in flow time."""
        return np.array(list(self.values()))

    def __repr__(self) -> str:
        width = max(len(str(name)) for name in self)
        lines = [f"Race to loss {self.level:g} from strength {self.strength:g}"]
        for name, t in self.items():
            how = "reduced" if self.reduced[name] else "full flow"
            when = f"not by {self.t1:g}" if np.isnan(t) else f"{t:.6g}"
            lines.append(f"  {name!s:<{width}}  {when}  {how}")
        return "\n".join(lines)


def race(
    candidates: Mapping[str, Task],
    level: float = 0.2,
    strength: float = 1e-3,
    t1: float = 1e4,
) -> Race:
    """When each of several gated networks reaches a level of the loss.

    All start decoupled: every mode of every pathway, in the basis of that pathway's own effective data (or
    the shared one, where that is exact), with the same strength in each layer. Where the reduction is exact
    it is solved, else the full flow from these weights.

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
        Learning times by name, winner first.

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
    times, trajectories, reduced = {}, {}, {}
    for name, task in candidates.items():
        path, reduced[name] = _learned(task, level, strength, end)
        times[name] = float("nan")
        if path is not None:
            times[name], trajectories[name] = learning_time(path, level), path
    return Race(times, level, strength, end, trajectories, reduced)


def _learned(task: Task, level: float, strength: float, end: float) -> tuple[Trajectory | None, bool]:
    """The trajectory of one candidate up to its learning time, and whether it is that of a reduction."""
    try:
        r = reduce(task, basis="shared")
        r = r if r.exact else reduce(task, basis="pathwise")
    except NothingToReduceError:
        return None, True
    if not r.exact:
        return flow(task, decoupled(r, strength), end, stop_loss=level), False
    return r.solve(strength=strength, t1=end, stop_loss=level), True
