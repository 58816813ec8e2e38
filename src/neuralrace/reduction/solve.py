"""Solving a reduction: a few numbers per mode where its modes decouple, else a small network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from neuralrace.compiling import compiled
from neuralrace.dynamics.gradient_flow import flow
from neuralrace.dynamics.history import History, collect
from neuralrace.dynamics.integrate import Path
from neuralrace.dynamics.methods import Adaptive
from neuralrace.dynamics.setup import FLOW_TIME, Solved, weight_dims
from neuralrace.dynamics.times import telling_times
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.network import precision
from neuralrace.reduction.solution import LiftedWeights, Solution, TiedStrengths
from neuralrace.reduction.tied import COMPILER, tied_flow

if TYPE_CHECKING:
    from neuralrace.reduction.reduction import Reduction


def solve_small(
    r: Reduction, b: Mapping[str, np.ndarray], t1: float, save: Any, method: Adaptive, stop: float | None,
    more: dict[str, Any],
) -> Solution:  # fmt: skip
    """By the flow of the small network whose weights are the strengths; `more` are fields of the solution."""
    edge, shape = next(iter(r.family.shape.items()))
    lead = b[edge].shape[: b[edge].ndim - len(shape)]
    fixed = {n: np.broadcast_to(f, (*lead, *f.shape)) for n, f in r.family.fixed.items()}
    rates: dict[str, Any] = {"weight_decay": r.weight_decay, "lr_scale": r.lr_scale}
    run = flow(r.family.small, {**b, **fixed}, t1, save, frozen=fixed, method=method, stop_loss=stop, **rates)
    found = {e: run.weights[e] for e in r.task.graph.edges}
    settings = {**run.settings, **rates, "process": "reduction"}
    del settings["dimensions"]
    parts = {f.name: getattr(run, f.name) for f in fields(Trajectory)}
    parts |= {
        "settings": settings,
        "dims": weight_dims(r.task.graph),
        "weights": LiftedWeights(r.family, found),
    }
    return Solution(**{**parts, **more}, reduction=r, b=found)


def solve_tied(
    r: Reduction, b: Mapping[str, np.ndarray], t1: float, ts: np.ndarray, choose: bool, method: Adaptive,
    stop: float | None, more: dict[str, Any],
) -> Solution:  # fmt: skip
    """By the equations of the classes; where `choose`, at better times than `ts` if these tell too little."""
    start = np.stack([b[members[0]] for members in r.classes], axis=-2)
    many = start.ndim == 3
    start = start if many else start[None]
    path, history = _integrated(r, start, ts, t1, stop, method)
    if choose:
        better = telling_times([history.run(k) for k in range(len(start))], t1)
        if better is not None:
            ts = better
            path, history = _integrated(r, start, ts, t1, stop, method)
    solved = Solved.of(path, ts, t1, stop, method.max_steps)
    found = TiedStrengths(r.classes, solved.pick(solved.kept, many))
    settings = {
        "process": "reduction", "method": "Adaptive", "t1": t1, "rtol": method.rtol, "atol": method.atol,
        "max_steps": method.max_steps, "stop_loss": stop,
        "weight_decay": r.weight_decay, "lr_scale": r.lr_scale, "time": FLOW_TIME,
    }  # fmt: skip
    return Solution(
        **solved.fields(many, history, {"steps": path.steps}),
        **more,
        weights=LiftedWeights(r.family, found),
        settings=settings,
        dims=weight_dims(r.task.graph),
        reduction=r,
        b=found,
    )


def _integrated(
    r: Reduction, start: np.ndarray, ts: np.ndarray, t1: float, stop: float | None, method: Adaptive
) -> tuple[Path, History]:
    tied = r.tied
    assert tied is not None
    with precision(np.float64):
        given = (start, method.absolute(start), *tied.on_device, ts, t1, stop, method.rtol)
        solve = compiled(tied_flow, (0, 1), *COMPILER.items())
        path = jax.tree.map(np.asarray, solve(tied.powers, method.max_steps, *given))
    return path, collect(path.history)
