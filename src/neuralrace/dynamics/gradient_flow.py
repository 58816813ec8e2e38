"""Gradient flow on the weights of a task's network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from neuralrace.dynamics import constants
from neuralrace.dynamics.field import system_of
from neuralrace.dynamics.history import save_times
from neuralrace.dynamics.methods import Adaptive, LowRank, Method, check_method
from neuralrace.dynamics.rates import Rates
from neuralrace.dynamics.record import Record
from neuralrace.dynamics.run import Path, Problem
from neuralrace.dynamics.setup import Setup, finish
from neuralrace.dynamics.status import Status
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, OutOfRange, affordable, flag, number, sequence
from neuralrace.network import is_linear
from neuralrace.subspace import rotation_invariant_nodes
from neuralrace.task import Task


def flow(
    task: Task,
    weights: Mapping[str, ArrayLike],
    t1: float | None = None,
    save: int | Iterable[float] | None = None,
    *,
    method: Method | None = None,
    loss: str = "squared",
    stop_loss: float | None = None,
    rates: Rates | None = None,
    runs: Mapping[str, ArrayLike] | None = None,
    record: Record | None = None,
    save_weights: bool = True,
    progress: bool = False,
    dtype: DTypeLike = np.float64,
) -> Trajectory:
    r"""Gradient flow $\dot W = -\partial L/\partial W$ (neural_race Eq. 2) from `weights` to time `t1`.

    Parameters
    ----------
    task : Task
    weights : dict
        Edge name -> (out, in). With a leading axis on every weight, each of its entries is a run.
    t1 : float
        The end, in flow time (tau = 1 on the mean loss). The last of `save` if that lists times. A small
        linear network that has learned all is solved only until it rests; the outcome says since when.
    save : int or times, optional
        Number of times to save, evenly spaced from start to end; or the times. By default 200 times, evenly
        spaced, or half of them where the loss falls if even ones would skip that; a large network is then
        solved a second time only if its loss falls late.
    method : Adaptive, LowRank or your own, optional
        How to solve. By default `LowRank(1e-6)` for large networks whose hidden layers are much wider than
        the signals that pass them, and `Adaptive()` for all others, or where that error is missed. `settings`
        of the result has the name.
    loss : {"squared", "cross_entropy"}
    stop_loss : float, optional
        Stop where the loss falls to this level.
    rates : Rates, optional
        Learning rates and weight decay per edge, $\dot W = -\text{scale}\, (\partial L/\partial W +
        \text{decay}\; W)$, and edges that do not learn. The returned loss does not include the penalty.
    runs : dict, optional
        Coordinates of the runs, such as ``{"seed": range(5)}``; their places if not given.
    record : callable, optional
        `record(state)` returns a dict of further values to save, computed with `jax.numpy`. The `State` has
        `t`, `weights`, `outputs` and `activity(node, inputs=None, gates=None)`.
    save_weights : bool
        Whether to keep the weights at the saved times.
    progress : bool
        Show a progress bar.
    dtype : float64 or float32
        Single precision takes about half the time where weights are many or networks have activations, in
        descent above all. Its losses stop falling at about 1e-13 of the first. Small linear networks are no
        faster with it.

    Returns
    -------
    Trajectory
        `loss` of shape (save,), or (runs, save) where the weights have a leading axis.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.xor()
    >>> nr.flow(task, nr.init.gaussian(task.graph, std=1e-2), t1=40.0).outcome
    'finished at t = 40'
    """
    asked = _asked(t1, save, method, stop_loss, progress)
    setup = Setup.prepare(task, weights, loss, rates, runs, dtype, record, save_weights, compress=True)
    return follow([setup], *asked)[0]


def flows(
    tasks: Sequence[Task],
    weights: Sequence[Mapping[str, ArrayLike]],
    t1: float | None = None,
    save: int | Iterable[float] | None = None,
    *,
    method: Method | None = None,
    loss: str = "squared",
    stop_loss: float | None = None,
    rates: Rates | None = None,
    record: Record | None = None,
    save_weights: bool = True,
    progress: bool = False,
    dtype: DTypeLike = np.float64,
) -> list[Trajectory]:
    """The flows of several tasks, each from weights of its own; all else is as in `flow`.

    Small linear networks of one structure are solved side by side, each by steps of its own length: where
    they have some hundreds of weights, in a tenth of the time of as many calls of `flow`. Their losses agree
    with those of such calls within the tolerance. Without `save`, those side by side are saved at the same
    times.

    Parameters
    ----------
    tasks : list of Task
    weights : list of dict
        Initial weights for each task, those of one run.

    Returns
    -------
    list of Trajectory
        One for each task, in their order.

    Examples
    --------
    >>> import neuralrace as nr
    >>> tasks = [nr.tasks.separability(delta) for delta in (0.2, 0.4)]
    >>> runs = flows(tasks, [nr.init.gaussian(task.graph, 0.1) for task in tasks], t1=40.0)
    >>> [run.outcome for run in runs]
    ['finished at t = 40', 'finished at t = 40']
    """
    asked = _asked(t1, save, method, stop_loss, progress)
    tasks, weights = sequence("tasks", tasks, "tasks"), sequence("weights", weights, "weights")
    if len(tasks) != len(weights):
        raise InputError(f"weights must be as many as tasks, {len(tasks)}; got {len(weights)}")
    setups = [
        Setup.prepare(task, w, loss, rates, None, dtype, record, save_weights, compress=True)
        for task, w in zip(tasks, weights, strict=True)
    ]
    if any(setup.many for setup in setups):
        raise InputError("weights must be those of one run for each task, without a leading axis")
    groups: dict[Any, list[int]] = {}
    for k, setup in enumerate(setups):
        alike = (method is None or isinstance(method, Adaptive)) and not is_wide(setup.given)
        groups.setdefault(setup.structure if alike and setup.in_numpy else k, []).append(k)
    found: dict[int, Trajectory] = {}
    for places in groups.values():
        found |= zip(places, follow([setups[k] for k in places], *asked), strict=True)
    return [found[k] for k in range(len(setups))]


def _asked(t1: Any, save: Any, method: Any, stop_loss: Any, progress: Any) -> tuple[Any, ...]:
    """What is asked for, checked, as `follow` takes it."""
    chosen = check_method(method)
    end, ts = save_times(t1, save)
    stop = None if stop_loss is None else number("stop_loss", stop_loss, above=0)
    return end, ts, save is None, stop, chosen, flag("progress", progress)


def follow(
    setups: Sequence[Setup], t1: float, ts: np.ndarray, choose: bool, stop: float | None,
    method: Method | None = None, progress: bool = False, rest: float = -np.inf,
) -> list[Trajectory]:  # fmt: skip
    """The flow of a network that was checked, or of several of one structure, a run each.

    A run whose loss falls to `rest` rests there.
    """
    first, full = setups[0], np.concatenate([s.full for s in setups])
    start = np.concatenate([s.start for s in setups])
    kept = start.shape[1] if first.recorder.save_weights else 1
    affordable("save", len(ts), float(len(start)) * len(ts) * kept)
    scale, decays = first.vectors[0], first.rates.decays(first.given.graph)
    problem = Problem(
        system_of(setups), start, np.abs(full).max(axis=1, initial=0.0), t1, ts, choose, stop,
        rest, progress, decays, 1.0 if scale is None else float(scale.max()), first,
    )  # fmt: skip
    with first.precision():
        path = method.solve(problem) if method else _solve(problem)
    paths = [path] if len(setups) == 1 else [path.run(k) for k in range(len(setups))]
    settings = {"process": "flow", "t1": t1, "stop_loss": stop}
    return [finish(s, path, dict(settings)) for s, path in zip(setups, paths, strict=True)]


def _solve(problem: Problem) -> Path:
    """By the method that should be fastest, or where that misses its error by all weights."""
    setup = problem.network
    double = np.dtype(setup.dtype) == np.float64  # the rounding of single precision is above that error
    linear = is_linear(setup.given, setup.kind) and not problem.decays
    if double and linear and is_wide(setup.given):
        missed = {Status.MISSED_ERROR, Status.STEP_LIMIT, Status.DIVERGED}
        with suppress(OutOfRange):
            path = LowRank(constants.LOW_RANK_ERROR).solve(problem)
            if not missed & {ending.status for ending in path.endings}:
                return path
    return Adaptive().solve(problem)


def is_wide(task: Task, large: int = constants.LOW_RANK_WEIGHTS) -> bool:
    """Whether a linear network is large, and its hidden layers much wider than the signals that pass them.

    Signals are the rows of inputs of all contexts, and the outputs.
    """
    g = task.graph
    rows = task.data.signals + sum(g.nodes[o] for o in g.outputs)
    wide = {n for n in rotation_invariant_nodes(task) if g.nodes[n] > constants.WIDE * rows}
    return sum(g.nodes[s] * g.nodes[t] for s, t in g.edges.values() if {s, t} <= wide) > large
