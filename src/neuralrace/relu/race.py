"""The race between gatings: how fast each candidate learns from the same kind of start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from neuralrace.errors import InputError, array, integer, number
from neuralrace.init import decoupled
from neuralrace.measure import crossing
from neuralrace.network import gradient
from neuralrace.network import loss as loss_of
from neuralrace.reduction import reduce
from neuralrace.relu.patterns import implementable_patterns, pattern_text
from neuralrace.task import Task
from neuralrace.tasks.contexts import gated


class Race(dict[str, float]):
    """Learning times by name, winner first; nan, at the end, for those that did not arrive by `t1`.

    `loss` is the mean loss to reach, `strength` the start of every mode, `reduced` says for each whether its
    reduced system was solved (exact) or the full flow.
    """

    def __init__(
        self, times: Mapping[str, float], loss: float, strength: float, t1: float, reduced: Mapping[str, bool]
    ):
        super().__init__(sorted(times.items(), key=lambda item: (np.isnan(item[1]), item[1])))
        self.loss, self.strength, self.t1, self.reduced = loss, strength, t1, dict(reduced)

    @property
    def winner(self) -> str | None:
        """The first to arrive, None if nobody did."""
        name = next(iter(self))
        return None if np.isnan(self[name]) else name

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self)

    @property
    def times(self) -> np.ndarray:
        return np.array(list(self.values()))

    def __repr__(self) -> str:
        width = max(len(name) for name in self)
        lines = [f"Race to loss {self.loss:g} from strength {self.strength:g}"]
        for name, t in self.items():
            how = "reduced" if self.reduced[name] else "full flow"
            lines.append(
                f"  {name:<{width}}  {'not by ' + format(self.t1, 'g') if np.isnan(t) else f'{t:.6g}'}  {how}"
            )
        return "\n".join(lines)


def race(
    candidates: Mapping[str, Task],
    loss: float = 0.2,
    strength: float = 1e-3,
    t1: float = 1e4,
) -> Race:
    """When each candidate, a dict from names to gated tasks, reaches the mean loss `loss`; winner first.

    All start decoupled: every mode of every pathway, in the frames of that pathway's own effective data (or
    the shared ones, where they are exact), with `strength` in each layer. Where the reduction is exact it is
    solved, else the full flow from these weights. Time is flow time with tau = 1 on the mean loss; who has
    not arrived by `t1` has nan.

    >>> import neuralrace as nr
    >>> race({g: nr.tasks.separability(2.0, g) for g in ("xor", "linear")}).winner
    'linear'
    """
    if not isinstance(candidates, Mapping) or not candidates:
        raise InputError(f"candidates must be a dict from names to tasks, got {candidates!r}")
    for name, task in candidates.items():
        if not isinstance(task, Task) or not task.graph.is_linear:
            raise InputError(f"candidates[{name!r}] must be a Task of linear, gated pathways, got {task!r}")
    level, b, end = (
        number("loss", loss, above=0),
        number("strength", strength, above=0),
        number("t1", t1, above=0),
    )
    times, reduced = {}, {}
    for name, task in candidates.items():
        times[name], reduced[name] = _time(task, level, b, end)
    return Race(times, level, b, end, reduced)


def _time(task: Task, level: float, strength: float, end: float) -> tuple[float, bool]:
    try:
        r = reduce(task, basis="shared")
        r = r if r.exact else reduce(task, basis="pathwise")
    except InputError:  # nothing correlates with the targets: nothing is learned
        return float("nan"), True
    if not r.exact:
        # Decoupled weights stay in as many hidden directions as there are modes.
        small = task.on(
            task.graph.resized({h: min(task.graph.nodes[h], r.n_modes) for h in task.graph.hidden})
        )
        return _flow_time(small, decoupled(reduce(small, basis="pathwise"), strength), level, end), False
    t = min(end, 50.0)
    while True:
        sol = r.solve(strength=strength, t1=t, save=400)
        at = crossing(sol.t, sol.loss, level)
        if not np.isnan(at) or t >= end:
            break
        t = min(end, 4 * t)
    k = int(np.searchsorted(sol.t, at))
    if np.isnan(at) or k == 0:
        return at, True
    fine = np.linspace(sol.t[k - 1], sol.t[k], 200)  # once more between the two saved times
    sol = r.solve(strength=strength, t1=fine[-1], save=fine)
    return crossing(sol.t, sol.loss, level), True


def _flow_time(task: Task, weights: Mapping[str, np.ndarray], level: float, end: float) -> float:
    """As `flow` with `stop_loss`, by SciPy: every candidate is another network, which `flow` would compile
    for longer than it runs."""
    from scipy.integrate import solve_ivp

    g = task.graph

    def velocity(t: float, flat: np.ndarray) -> np.ndarray:
        return -g.flatten(gradient(task, g.unflatten(flat)))

    def above(t: float, flat: np.ndarray) -> float:
        return loss_of(task, g.unflatten(flat)) - level

    above.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    start = g.flatten(weights)
    path = solve_ivp(
        velocity, (0.0, end), start, "DOP853", events=above, rtol=1e-8, atol=1e-10 * np.abs(start).max()
    )
    return float(path.t_events[0][0]) if len(path.t_events[0]) else float("nan")


# -- candidates ------------------------------------------------------------------------------


def context_candidates(
    X: Any,
    Y: Any,
    context: Any,
    columns: Sequence[int] | None = None,
    common: bool = True,
    hidden: int = 32,
) -> dict[str, Task]:
    """Gated tasks whose pathways are open in unions of contexts, all unions of the chosen sizes.

    `context` `(n,)` labels the samples. A candidate "1+2" has a pathway for every single context and one for
    every pair; there is one candidate for every set of sizes below the number of contexts. With `common` each
    also has the pathway that is always open and sees all inputs; the others see `columns` of them (all, if
    None).

    >>> list(context_candidates(np.eye(3), np.eye(3), [0, 1, 2]))
    ['1', '2', '1+2']
    """
    x = array("X", X, (None, None))
    labels = np.asarray(context)
    if labels.shape != (len(x),):
        raise InputError(f"context must have one label per sample, shape ({len(x)},); got {labels.shape}")
    kinds = np.unique(labels)
    if len(kinds) < 2:
        raise InputError("context must have at least two different labels, got one")
    unions = {
        size: [np.isin(labels, chosen) for chosen in combinations(kinds, size)]
        for size in range(1, len(kinds))
    }
    found = {}
    for count in range(1, len(kinds)):
        for sizes in combinations(unions, count):
            patterns = [u for size in sizes for u in unions[size]]
            name = "+".join(map(str, sizes))
            found[name] = _with_common(x, Y, patterns, columns, common, hidden)
    return found


def pattern_candidates(
    X: Any,
    Y: Any,
    patterns: Any = None,
    symmetries: Iterable[Sequence[int]] = (),
    columns: Sequence[int] | None = None,
    common: bool = True,
    hidden: int = 32,
) -> dict[str, Task]:
    """One gated task for each pattern `(m, n)` that a unit can have, or for those given; named by its digits.

    With `symmetries`, permutations of the samples, a task has a pathway for a pattern and for all its images
    under them, and is named by the first of these. With `common` each also has the pathway that is always
    open; the others see `columns` of the inputs (all, if None). Silent and always-open patterns are left out.
    """
    x = array("X", X, (None, None))
    given = implementable_patterns(x) if patterns is None else array("patterns", patterns, (None, len(x)))
    moves = [np.asarray(p, int) for p in symmetries]
    for p in moves:
        if p.shape != (len(x),) or set(p.tolist()) != set(range(len(x))):
            raise InputError(f"symmetries must be permutations of {len(x)} samples, got {p.tolist()[:8]}")
    found, seen = {}, set()
    for g in given[::-1]:
        if g.tobytes() in seen or not g.any() or (common and g.all()):
            continue
        images = _orbit(g, moves)
        seen |= {h.tobytes() for h in images}
        found[pattern_text(images[0])] = _with_common(x, Y, images, columns, common, hidden)
    return found


def _orbit(pattern: np.ndarray, moves: Sequence[np.ndarray]) -> list[np.ndarray]:
    found, waiting = {pattern.tobytes(): pattern}, [pattern]
    while waiting:
        here = waiting.pop()
        for p in moves:
            image = np.ascontiguousarray(here[p])
            if image.tobytes() not in found:
                found[image.tobytes()] = image
                waiting.append(image)
    return list(found.values())


def _with_common(
    x: np.ndarray, y: Any, patterns: Sequence[Any], columns: Sequence[int] | None, common: bool, hidden: int
) -> Task:
    every = [np.ones(len(x))] if common else []
    seen = {} if columns is None else dict.fromkeys(range(len(every), len(every) + len(patterns)), columns)
    return gated(x, y, np.stack([*every, *patterns]).astype(float), integer("hidden", hidden), seen)
