"""Gradient flow on the weights of a task's network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

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
from neuralrace.errors import OutOfRange, affordable, flag, number
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
    """Gradient flow `dW/dt = -dL/dW` (neural_race Eq. 2) from `weights` to time `t1`.

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
        Learning rates and weight decay per edge, `dW/dt = -scale (dL/dW + decay W)`, and edges that do not
        learn. The returned loss does not include the penalty.
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
    chosen = check_method(method)
    end, ts = save_times(t1, save)
    stop = None if stop_loss is None else number("stop_loss", stop_loss, above=0)
    setup = Setup.prepare(task, weights, loss, rates, runs, dtype, record, save_weights, compress=True)
    return follow(setup, end, ts, save is None, stop, chosen, flag("progress", progress))


def follow(
    setup: Setup, t1: float, ts: np.ndarray, choose: bool, stop: float | None, method: Method | None = None,
    progress: bool = False, rest: float = -np.inf,
) -> Trajectory:  # fmt: skip
    """The flow of a network that was checked; a run whose loss falls to `rest` rests there."""
    kept = setup.start.shape[1] if setup.recorder.save_weights else 1
    affordable("save", len(ts), float(setup.count) * len(ts) * kept)
    scale, decays = setup.vectors[0], setup.rates.decays(setup.given.graph)
    problem = Problem(
        system_of(setup), setup.start, np.abs(setup.full).max(axis=1, initial=0.0), t1, ts, choose, stop,
        rest, progress, decays, 1.0 if scale is None else float(scale.max()),
        bool(setup.given.graph.activations), setup,
    )  # fmt: skip
    with setup.precision():
        path = method.solve(problem) if method else _solve(problem)
    return finish(setup, path, {"process": "flow", "t1": t1, "stop_loss": stop})


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
