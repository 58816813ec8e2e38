"""Runs on different tasks that share one program, solved together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from neuralrace.dynamics.choice import fastest
from neuralrace.dynamics.gradient_flow import solve_by
from neuralrace.dynamics.methods import Adaptive, Chebyshev, RungeKutta
from neuralrace.dynamics.rates import Rates
from neuralrace.dynamics.setup import Setup
from neuralrace.dynamics.times import save_times
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
    rates: Rates | None = None,
    save_weights: bool = True,
    dtype: Any = np.float64,
) -> Trajectory | None:
    """As `flow`, run k on `tasks[k]` from `weights[k]`; None where they cannot be solved together.

    They can where their networks are compiled to the same program (the same graph, with contexts and gates
    that are open alike), and are solved as they are, by `Adaptive` or `Chebyshev`.
    """
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
    every = {n: np.concatenate([s.weights[n] for s in setups]) for n in first.weights}
    runs = {"run": np.arange(len(setups))}
    joined = replace(first, many=True, weights=every, small=every, runs=runs, tasks=tuple(tasks))
    return solve_by(joined, end, ts, stop_loss, save is None, False, chosen)
