"""Runs on different tasks that share one program, in one compiled call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.dynamics.choice import fastest
from neuralrace.dynamics.devices import over_devices
from neuralrace.dynamics.gradient_flow import each_run, integrated
from neuralrace.dynamics.history import History, collect
from neuralrace.dynamics.integrate import Path
from neuralrace.dynamics.methods import Adaptive, Chebyshev, RungeKutta
from neuralrace.dynamics.setup import Setup, Solved, finish
from neuralrace.dynamics.times import adapted_times, save_times
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.task import Task


def flow_together(
    tasks: Sequence[Task],
    weights: Sequence[Mapping[str, Any]],
    t1: float | None = None,
    save: Any = None,
    *,
    method: Adaptive | Chebyshev | None = None,
    loss: str = "squared",
    stop_loss: float | None = None,
    weight_decay: Any = 0.0,
    lr_scale: Any = None,
    frozen: Any = (),
    save_weights: bool = True,
    dtype: Any = np.float64,
) -> Trajectory | None:
    """As `flow`, run k on `tasks[k]` from `weights[k]`; None where these cannot share one compiled call.

    They can where their networks are compiled to the same program (the same graph, with contexts and gates
    that are open alike), and are solved as they are, by `Adaptive` or `Chebyshev`.
    """
    rates = (weight_decay, lr_scale, frozen)
    setups = [
        Setup.prepare(task, w, loss, rates, None, dtype, None, save_weights, compress=True)
        for task, w in zip(tasks, weights, strict=True)
    ]
    first = setups[0]
    chosen = fastest(first)[0] if method is None else method
    alike = all(s.program.stack == first.program.stack and not s.frames and not s.many for s in setups)
    if not alike or not isinstance(chosen, RungeKutta):
        return None
    end, ts = save_times(t1, save)
    solve = partial(_solved, setups, chosen, end, stop_loss)
    found, history, stats = solve(ts)
    if save is None:
        better = adapted_times([history.run(k) for k in range(len(setups))], end)
        if better is not None:
            found, history, stats = solve(better)
    every = {n: np.concatenate([s.weights[n] for s in setups]) for n in first.weights}
    runs = {"run": np.arange(len(setups))}
    joined = replace(first, many=True, weights=every, small=every, runs=runs)
    settings = {"process": "flow", "method": type(chosen).__name__, "t1": end, "stop_loss": stop_loss}
    settings |= {"rtol": chosen.rtol, "atol": chosen.atol, "max_steps": chosen.max_steps}
    return finish(joined, found, settings, stats, history)


def _solved(
    setups: list[Setup], method: RungeKutta, t1: float, stop: float | None, ts: np.ndarray
) -> tuple[Solved, History, dict[str, Any]]:
    first = setups[0]
    with first.precision():
        start = np.stack([s.start for s in setups])
        atol = np.stack([method.absolute(s.full) for s in setups])
        data = jax.tree.map(lambda *parts: jnp.stack(parts), *(s.data for s in setups))
        static = (first.program.stack, first.kind, first.recorder, method.max_steps, method.order)
        given = (jnp.asarray(ts, first.start.dtype), t1, stop, method.rtol, first.vectors)
        path: Path = jax.tree.map(np.asarray, _all(static, *over_devices(start, atol, data), *given))
        path = jax.tree.map(lambda v: v[: len(setups)], path)
    solved = Solved.of(path, ts, t1, stop, method.max_steps)
    return solved, collect(path.history), {"steps": path.steps}


@partial(jax.jit, static_argnums=0)
def _all(
    static: Any, start: Any, atol: Any, data: Any, ts: Any, t1: Any, stop: Any, rtol: Any, vectors: Any
) -> Path:
    def one(start: Any, atol: Any, data: Any) -> Path:
        path = integrated(*static, None, start, data, ts, t1, stop, rtol, atol, vectors, None)
        return jax.tree.map(lambda v: v[0], path)

    return each_run(one, start, atol, data)
