"""Gradient flow on the weights of a task's network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from neuralrace.compiling import EVALUATIONS, uninterrupted
from neuralrace.dynamics.choice import fastest
from neuralrace.dynamics.devices import over_devices
from neuralrace.dynamics.history import History, collect
from neuralrace.dynamics.integrate import Observed, Path, integrate
from neuralrace.dynamics.methods import Adaptive, Chebyshev, LowRank, RungeKutta, check_method
from neuralrace.dynamics.progress import Bar
from neuralrace.dynamics.rates import Rates
from neuralrace.dynamics.record import Record, Recorder
from neuralrace.dynamics.setup import Setup, Solved, finish
from neuralrace.dynamics.times import adapted_times, save_times
from neuralrace.dynamics.trajectory import Status, Trajectory
from neuralrace.dynamics.uncompiled import Problem, System, path_at, solve_runs
from neuralrace.errors import InputError, OutOfRange, affordable, flag, number
from neuralrace.network import backwards, forwards, is_linear, runs_in_numpy
from neuralrace.subspace import rotation_invariant_nodes
from neuralrace.task import Task

_CACHED = 100_000  # numbers that stay in the cache of a processor


def flow(
    task: Task,
    weights: Mapping[str, ArrayLike],
    t1: float | None = None,
    save: int | Iterable[float] | None = None,
    *,
    method: Adaptive | Chebyshev | LowRank | None = None,
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
        spaced, or half of them where the loss falls if even ones would skip that; the flow is then solved
        twice.
    method : Adaptive, Chebyshev or LowRank, optional
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
    if isinstance(chosen, LowRank) and isinstance(task, Task) and not is_linear(task, loss):
        raise InputError(
            "method=LowRank needs a network without activations and loss='squared'; take nr.Adaptive()"
        )
    end, ts = save_times(t1, save)
    stop = None if stop_loss is None else number("stop_loss", stop_loss, above=0)
    setup = Setup.prepare(task, weights, loss, rates, runs, dtype, record, save_weights, compress=True)
    solve = partial(solve_by, setup, end, ts, stop, save is None, flag("progress", progress))
    first, *others = (chosen,) if chosen else fastest(setup)
    try:
        found = solve(first)
    except OutOfRange:
        if not others:
            raise
        found = None
    for other in others:
        if found is None or {Status.MISSED_ERROR, Status.STEP_LIMIT, Status.DIVERGED} & set(found.statuses):
            found = solve(other)
    assert found is not None
    return replace(found, task=task)


def solve_by(
    setup: Setup, t1: float, ts: np.ndarray, stop: float | None, choose: bool, progress: bool,
    method: RungeKutta | LowRank,
) -> Trajectory:  # fmt: skip
    """Solve; if times are to be chosen and even ones skip the fall of the loss, again with better ones."""
    if isinstance(method, LowRank) and setup.frames.keys() != set(rotation_invariant_nodes(setup.given)):
        setup = replace(setup, task=setup.given, small=setup.weights, frames={})
    if isinstance(method, LowRank) and not setup.frames:
        from neuralrace.dynamics.lowrank import low_rank_flow  # few flows need it

        solve = partial(low_rank_flow, setup, method, t1=t1, stop=stop, progress=progress)
    else:
        solve = _adaptive_flow(setup, method, t1, stop, progress, ts, choose)
    found, history, stats, settings = solve(ts)
    if choose and history is not None:
        better = adapted_times([history.run(k) for k in range(len(history.loss))], t1)
        if better is not None:
            found, history, stats, settings = solve(better)
    if not setup.rates.decays(
        setup.given.graph
    ):  # then the loss never rises: where it does, the lower one is nearer
        found = replace(found, losses=np.minimum.accumulate(found.losses, axis=1))
    named = {"process": "flow", "method": type(method).__name__, "t1": t1, "stop_loss": stop}
    return finish(setup, found, named | settings, stats, history)


def _adaptive_flow(
    setup: Setup, method: RungeKutta | LowRank, t1: float, stop: float | None, progress: bool, ts: np.ndarray,
    choose: bool,
) -> Callable[[np.ndarray], tuple[Solved, History | None, dict[str, Any], dict[str, Any]]]:  # fmt: skip
    """A function of the times to save: `ts`, or about as many others with `choose`."""
    error = None
    if isinstance(method, LowRank):
        # The flow closes in small spaces: all that is left is the error of the solver.
        method = Adaptive.for_error(min(method.error, 1e-6), method.max_steps)
        error = method.stated_error
    kept = setup.start.shape[1] if setup.recorder.save_weights else 1
    affordable("save", len(ts), float(setup.count) * len(ts) * kept)
    problem = Problem(t1, method.rtol, stop, method.max_steps, None if choose else ts)
    plain = None if progress else _in_numpy(setup, method, problem)
    paths = plain or partial(_compiled, setup, method, t1, stop, progress)

    def solve(ts: np.ndarray) -> tuple[Solved, History | None, dict[str, Any], dict[str, Any]]:
        path = paths(ts)
        solved = Solved.of(path, ts, t1, stop, method.max_steps)
        settings = {"rtol": method.rtol, "atol": method.atol, "max_steps": method.max_steps}
        settings["compiled"] = plain is None
        stats = {"steps": path.steps}
        if error is not None:
            stats["error"] = np.full(len(path.t), error)
        return solved, collect(path.history), stats, settings

    return solve


def _in_numpy(setup: Setup, method: RungeKutta, problem: Problem) -> Callable[[np.ndarray], Path] | None:
    """A function of the times to save; None where the flow is to be compiled."""
    stack, data, recorder = setup.program.stack, setup.program.data, setup.recorder
    double = np.dtype(setup.dtype) == np.float64
    if not double or not isinstance(method, Adaptive) or not runs_in_numpy(stack, setup.kind):
        return None
    scale, decay = setup.vectors

    def velocity(w: np.ndarray, v: np.ndarray) -> np.ndarray:
        loss, passed = forwards(stack, w, data)
        v[...] = 0.0 if decay is None else -decay * w
        backwards(stack, w, data, passed, v, -1.0)
        if scale is not None:
            v *= scale
        return loss

    def slope(w: np.ndarray, v: np.ndarray) -> np.ndarray:
        g = v if scale is None else np.where(scale > 0, v / np.where(scale > 0, scale, 1), 0)
        g = g if decay is None else g + decay * w
        return -np.einsum("rn,rn->r", g, v)

    def keep(ts: np.ndarray, weights: np.ndarray) -> Any:
        losses = np.stack([np.concatenate([stack.loss(w, data) for w in _some(run)]) for run in weights])
        kept = weights if recorder.save_weights else weights[..., :0]
        if recorder.record is None:
            return losses, (kept, {})
        with setup.precision():
            return losses, (kept, jax.tree.map(np.asarray, recorded(recorder, ts, weights, setup.lift)))

    system, atols = System(velocity, slope), method.absolute(setup.full)
    solutions = solve_runs(system, setup.start, atols, problem, stack.load, EVALUATIONS)
    return None if solutions is None else lambda ts: path_at(solutions, ts, keep)


def _some(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Weights (save, n), a few times at once: as many as stay in the cache of a processor."""
    size = max(1, _CACHED // rows.shape[1])
    return (rows[at : at + size] for at in range(0, len(rows), size))


def _compiled(
    setup: Setup, method: RungeKutta, t1: float, stop: float | None, progress: bool, ts: np.ndarray
) -> Path:
    bar = Bar(100 * len(setup.start), "flow") if progress else None
    with setup.precision():
        runs = over_devices(setup.start, method.absolute(setup.full), setup.lift)
        shared = (setup.data, jnp.asarray(ts, setup.start.dtype), t1, stop, method.rtol, setup.vectors)
        call = (setup.program.stack, setup.kind, setup.recorder, method.max_steps, method.order, bar)
        with bar or nullcontext():
            with uninterrupted():
                path = integrated(*call, *shared, *runs)
            path = path if bar is None else jax.block_until_ready(path)
    return jax.tree.map(lambda v: np.asarray(v)[: len(setup.start)], path)


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4, 5))
def integrated(
    stack: Any, kind: str, recorder: Recorder, max_steps: int, order: int, bar: Bar | None,
    data: Any, ts: Any, t1: Any, stop: Any, rtol: Any, vectors: Any,
    start: Any, atols: Any, lifts: Any,
) -> Path:  # fmt: skip
    """Every run."""
    scale, decay = vectors

    def slope(w: Any, v: Any) -> Any:
        if scale is not None:
            v = jnp.where(scale > 0, v / jnp.where(scale > 0, scale, 1), 0)
        g = -v if decay is None else -v - decay * w
        return jnp.vdot(g, v if scale is None else v * scale)

    def one(w0: Any, atol: Any, lift: Any) -> Path:
        def loss(w: Any) -> Any:
            return stack.loss(w, data, kind)

        def velocity(t: Any, w: Any) -> Any:
            g = -stack.loss_and_gradient(w, data, kind)[1]
            g = g if decay is None else g - decay * w
            return g if scale is None else g * scale

        return integrate(
            velocity, w0, ts, t1, rtol, atol,
            keep=lambda t, w: (loss(w), recorder(t, w, lift)),
            observed=Observed(loss, slope),
            stop=stop,
            max_steps=max_steps,
            progress=None if bar is None else bar.percent(t1),
            order=order,
        )  # fmt: skip

    return each_run(one, start, atols, lifts)


@partial(jax.jit, static_argnums=0)
def recorded(recorder: Recorder, ts: Any, weights: Any, lift: Any) -> Any:
    """What `record` returns at each time (runs, save), from the weights (runs, save, n) there."""

    def one(run: Any) -> Any:
        ts, weights, lift = run
        return jax.lax.map(lambda at: recorder(at[0], at[1], lift)[1], (ts, weights))

    return jax.lax.map(one, (ts, weights, lift))


def each_run(one: Any, *runs: Any) -> Any:
    """All runs: one after the other on a CPU, where that is faster, side by side elsewhere."""
    if jax.default_backend() != "cpu":
        return jax.vmap(one, axis_name="runs")(*runs)
    if len(runs[0]) == 1:
        return jax.tree.map(lambda v: v[None], one(*(jax.tree.map(lambda v: v[0], r) for r in runs)))
    return jax.lax.map(lambda run: one(*run), runs)
