"""Solving a reduction: as few numbers where its modes decouple, else as a small network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from neuralrace.compiling import compiled
from neuralrace.dynamics.flow import endings, flow
from neuralrace.dynamics.history import History, collect
from neuralrace.dynamics.integrate import Path
from neuralrace.dynamics.methods import Adaptive
from neuralrace.dynamics.setup import pick_times, shown, weight_dims
from neuralrace.dynamics.times import telling_times
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.network import precision
from neuralrace.reduction.solution import LiftedWeights, Solution, TiedStrengths
from neuralrace.reduction.tied import COMPILER, tied_flow

if TYPE_CHECKING:
    from neuralrace.reduction.reduction import Reduction


class Request(NamedTuple):
    """What both ways of solving are asked for."""

    many: bool
    t1: float
    ts: np.ndarray  # times to save
    save: Any  # what was asked for
    method: Adaptive
    stop: float | None
    common: dict[str, Any]  # fields of the solution


def solve_small(r: Reduction, b: Mapping[str, np.ndarray], asked: Request) -> Solution:
    """By the flow of the small network whose weights are the strengths."""
    many, common, method = asked.many, asked.common, asked.method
    lead = next(iter(b.values())).shape[:1] if many else ()
    fixed = {n: np.broadcast_to(f, (*lead, *f.shape)) for n, f in r.family.fixed.items()}
    rates: dict[str, Any] = {"weight_decay": r.weight_decay, "lr_scale": r.lr_scale}
    run = flow(
        r.family.small, {**b, **fixed}, asked.t1, asked.save, frozen=fixed, method=method,
        stop_loss=asked.stop, **rates,
    )  # fmt: skip
    found = {e: run.weights[e] for e in r.task.graph.edges}
    parts = {f.name: getattr(run, f.name) for f in fields(Trajectory)}
    settings = {**run.settings, "lr_scale": rates["lr_scale"], "weight_decay": rates["weight_decay"]}
    del settings["dimensions"]
    parts |= {"settings": {**settings, "process": "reduction"}, "dims": weight_dims(r.task.graph)}
    parts["weights"] = LiftedWeights(r.family, found)
    return Solution(**{**parts, **common}, reduction=r, b=found)


def solve_tied(r: Reduction, start: np.ndarray, asked: Request) -> Solution:
    """By the equations of the classes, from `start` (runs, classes, modes)."""
    many, end, ts, save, method, stop, common = asked
    path, history = _integrated(r, start, ts, end, stop, method)
    if save is None:
        better = telling_times([history.run(k) for k in range(len(start))], end)
        if better is not None:
            ts = better
            path, history = _integrated(r, start, ts, end, stop, method)
    losses, strengths = path.kept
    ends = np.asarray(path.t, float)
    statuses, outcomes = endings(path, losses, ends, end, stop, method.max_steps)
    index = shown(losses, path.last)
    t = np.array(ts[: index.shape[1]])
    if not many:
        t[-1] = min(t[-1], ends[0])
    b = TiedStrengths(r.classes, pick_times(strengths, index, many))
    settings = {
        "process": "reduction", "method": "Adaptive", "t1": end, "rtol": method.rtol, "atol": method.atol,
        "max_steps": method.max_steps, "stop_loss": stop,
        "weight_decay": r.weight_decay, "lr_scale": r.lr_scale,
        "time": "flow time: tau = 1 on the mean loss",
    }  # fmt: skip
    return Solution(
        t=t,
        loss=pick_times(losses, index, many),
        weights=LiftedWeights(r.family, b),
        statuses=tuple(statuses),
        outcomes=tuple(outcomes),
        end=ends if many else ends[0],
        history=history if many else history.run(0),
        stats={"steps": path.steps if many else path.steps[0]},
        settings=settings,
        dims=weight_dims(r.task.graph),
        reduction=r,
        b=b,
        **common,
    )


def _integrated(
    r: Reduction, start: np.ndarray, ts: np.ndarray, t1: float, stop: float | None, method: Adaptive
) -> tuple[Path, History]:
    tied = r.tied
    assert tied is not None
    statistics, rates = (tied.s, tied.d, tied.sizes, tied.constant), (tied.rates, tied.decays)
    with precision(np.float64):
        given = (start, method.absolute(start), statistics, rates, ts, t1, stop, method.rtol)
        solve = compiled(tied_flow, (0, 1), *COMPILER.items())
        path = jax.tree.map(np.asarray, solve(tied.powers, method.max_steps, *given))
    return path, collect(path.history)
