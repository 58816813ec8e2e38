"""Solving a reduction: a few numbers per mode where its modes decouple, else a small network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.compiling import EVALUATIONS
from neuralrace.dynamics.gradient_flow import flow
from neuralrace.dynamics.history import History, collect, curve
from neuralrace.dynamics.integrate import Path
from neuralrace.dynamics.methods import Adaptive
from neuralrace.dynamics.setup import FLOW_TIME, Solved, ending, weight_dims
from neuralrace.dynamics.status import Status
from neuralrace.dynamics.times import adapted_times
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.dynamics.uncompiled import FEW, Problem, System, path_at, solve_runs
from neuralrace.reduction.path_classes import TiedLoss
from neuralrace.reduction.solution import Solution, TiedStrengths, lifted

if TYPE_CHECKING:
    from neuralrace.reduction.reduction import Reduction

_REST = 1e-3  # of its speeds before and after: a loss that falls more slowly may wait for rounding to grow
_NUDGE = 1e-11  # of the largest strength: a change of the start that is larger than rounding
_SAME, _LITTLE = 0.1, 1e-6  # of what still changes, and of the whole change: curves that differ more part


def solve_small(
    r: Reduction, b: Mapping[str, np.ndarray], t1: float, save: Any, method: Adaptive, stop: float | None,
    runs: dict[str, np.ndarray],
) -> Solution:  # fmt: skip
    """By the flow of the small network whose weights are the strengths.

    A run that leaves a saddle by rounding alone stays there instead.
    """
    solved = partial(flow, r.family.small, t1=t1, rates=r.rates, method=method, stop_loss=stop)
    run = solved(b, save=save)
    held = np.zeros(len(run.statuses), bool)
    if _rested(run):
        rng = np.random.default_rng(0)
        near = {e: v + _NUDGE * np.abs(v).max() * rng.standard_normal(v.shape) for e, v in b.items()}
        run, held = _held(run, solved(near, save=2), partial(solved, b))
    settings = {**run.settings, "process": "reduction"}
    del settings["dimensions"]
    parts = {f.name: getattr(run, f.name) for f in fields(Trajectory)}
    parts |= {
        "settings": settings,
        "dims": weight_dims(r.family.network),
        "weights": lifted(r.family, run.weights),
    }
    return Solution(
        **{**parts, "runs": runs}, reduction=r, b=run.weights, held=held if run.many else bool(held[0])
    )


def at_rest(sol: Solution, t1: float, ts: np.ndarray, choose: bool, stopped: bool) -> Solution:
    """A solution up to its end at t1: runs that came to rest before stay as they are.

    `ts` are the times to save; with `choose`, their number. With `stopped`, runs that reached the loss at
    which the solver stops have come to rest.
    """
    ends = {Status.FINISHED, Status.REACHED_LOSS} if stopped else {Status.FINISHED}
    rests = np.array([s in ends for s in sol.statuses])
    if not rests.any() or (sol.t[-1] >= t1 and not stopped):
        return sol
    n, t = len(sol.t), ts
    if choose and n < len(ts):
        t = np.concatenate([sol.t[:-1], np.linspace(sol.t[-1], t1, len(ts) - n + 1)])
    elif choose:
        t = np.append(sol.t[:-1], t1)
    index = np.minimum(np.arange(len(t)), n - 1)
    if isinstance(sol.b, TiedStrengths):
        b: Mapping[str, np.ndarray] = sol.b.at(index)
    else:
        b = {e: np.take(v, index, axis=int(sol.many)) for e, v in sol.b.items()}
    end = np.where(rests, t1, sol.end)
    since = [
        ending(Status.FINISHED, at, t1, None, 0) if status is Status.REACHED_LOSS and rest else said
        for status, rest, at, said in zip(
            sol.statuses, rests, np.atleast_1d(sol.end), sol.outcomes, strict=True
        )
    ]
    return replace(
        sol,
        t=t,
        loss=sol.loss[..., index],
        b=b,
        weights=lifted(sol.reduction.family, b),
        statuses=tuple(Status.FINISHED if r else s for r, s in zip(rests, sol.statuses, strict=True)),
        outcomes=tuple(since),
        end=end if sol.many else float(end[0]),
    )


def _rested(run: Trajectory) -> bool:
    """Whether the loss of a run came to rest, for good or until it fell again, as rounding may be why."""
    speed = _speed(run)
    before = np.maximum.accumulate(speed, axis=1)
    after = np.maximum.accumulate(speed[:, ::-1], axis=1)[:, ::-1]
    again = (speed < _REST * np.minimum(before, after)).any()
    return bool(again or (speed[:, -1] < _REST * before[:, -1]).any())


def _speed(run: Trajectory) -> np.ndarray:
    assert run.history is not None
    assert run.history.slope is not None
    return np.abs(np.atleast_2d(run.history.slope))


def _held(
    run: Trajectory, nudged: Trajectory, solved: Callable[..., Trajectory]
) -> tuple[Trajectory, np.ndarray]:
    """Runs stay at a saddle that they leave at another time from a start that differs by rounding."""
    assert run.history is not None
    assert nudged.history is not None
    one, other = run.history, nudged.history
    if run.many:
        parting = np.array([_parting(one.run(k), other.run(k)) for k in range(len(run.statuses))])
    else:
        parting = np.array([_parting(one, other)])
    ends = np.stack([_speed(r)[:, -1] for r in (run, nudged)])
    held = (parting < np.inf) | (
        ends.max(axis=0) > 2 * ends.min(axis=0)
    )  # what moves then came from rounding
    if not held.any():
        return run, held
    until = np.minimum(parting, run.t[-1])
    fine = solved(save=np.union1d(run.t, until))
    index = np.searchsorted(
        fine.t, np.minimum(run.t, until[:, None])
    )  # a run repeats its state at the saddle
    rows = np.arange(len(until))[:, None]
    pick = lambda v: v[rows, index] if run.many else v[index[0]]  # noqa: E731
    t, losses, slopes = (np.atleast_2d(np.asarray(v)) for v in run.history)
    late = (t > until[:, None]) & held[:, None]
    rest = np.atleast_2d(fine.loss)[rows, index[:, -1:]]
    history = History(t, np.where(late, rest, losses), np.where(late, 0.0, slopes))
    end = np.where(held, run.settings["t1"], run.end)
    return replace(
        run,
        loss=pick(fine.loss),
        weights={e: pick(np.asarray(w)) for e, w in fine.weights.items()},
        history=history if run.many else history.run(0),
        statuses=tuple(Status.FINISHED if h else s for h, s in zip(held, run.statuses, strict=True)),
        end=end if run.many else end[0],
    ), held


def _parting(one: History, other: History) -> float:
    """The time until which two losses are the same, up to a part of what they still change; else infinite."""
    t = np.union1d(one.t, other.t)
    t = t[t <= min(one.t[-1], other.t[-1])]
    a, b = curve(one, t), curve(other, t)
    high, low = np.maximum(a, b)[::-1], np.minimum(a, b)[::-1]
    still = (np.maximum.accumulate(high) - np.minimum.accumulate(low))[::-1]
    differ = np.abs(a - b) > _SAME * still + _LITTLE * still[0]
    return float(t[max(int(differ.argmax()) - 1, 0)]) if differ.any() else np.inf


def solve_tied(
    r: Reduction, b: Mapping[str, np.ndarray], t1: float, ts: np.ndarray, choose: bool, method: Adaptive,
    stop: float | None, runs: dict[str, np.ndarray],
) -> Solution | None:  # fmt: skip
    """By the equations of the classes; with `choose`, at better times if `ts` skip the fall of the loss.

    None where that takes longer than the small network, which is compiled.
    """
    assert r.tied is not None
    start = np.stack([b[members[0]] for members in r.classes], axis=-2)
    many = start.ndim == 3
    start = start if many else start[None]
    problem = Problem(t1, method.rtol, stop, method.max_steps, None if choose else ts)
    paths = _paths(r.tied, start, method, problem)
    if paths is None:
        return None
    path = paths(ts)
    history = collect(path.history)
    if choose:
        better = adapted_times([history.run(k) for k in range(len(start))], t1)
        if better is not None:
            ts, path = better, paths(better)
            history = collect(path.history)
    solved = Solved.of(path, ts, t1, stop, method.max_steps)
    found = TiedStrengths(r.classes, solved.pick(solved.kept, many))
    settings = {
        "process": "reduction", "method": "Adaptive", "t1": t1, "rtol": method.rtol, "atol": method.atol,
        "max_steps": method.max_steps, "stop_loss": stop, "compiled": False,
        "time": FLOW_TIME, **r.rates.settings(r.family.graph),
    }  # fmt: skip
    return Solution(
        **solved.fields(many, history, {"steps": path.steps}),
        runs=runs,
        weights=lifted(r.family, found),
        settings=settings,
        dims=weight_dims(r.family.network),
        reduction=r,
        b=found,
    )


def _paths(
    tied: TiedLoss, start: np.ndarray, method: Adaptive, problem: Problem
) -> Callable[[np.ndarray], Path] | None:
    """A function of the times to save; None where that takes too long."""
    shape = start.shape[1:]
    by_gradient = -(tied.rates / tied.sizes)[:, None]
    by_strength = -(tied.rates * tied.decays)[:, None] if tied.decays.any() else None

    def velocity(y: np.ndarray, v: np.ndarray) -> np.ndarray:
        b, out = (a.reshape(-1, *shape) for a in (y, v))
        loss, g = tied.loss_and_gradient(b)
        np.multiply(by_gradient, g, out=out)
        if by_strength is not None:
            out += by_strength * b
        return loss

    def slope(y: np.ndarray, v: np.ndarray) -> np.ndarray:
        _, g = tied.loss_and_gradient(y.reshape(-1, *shape))
        return np.einsum("rn,rn->r", g.reshape(y.shape), v)

    def keep(_: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        b = rows.reshape(*rows.shape[:2], *shape)
        return tied.loss(b), b

    flat, atols = start.reshape(len(start), -1), method.absolute(start)
    most = np.inf if flat.shape[1] <= FEW else EVALUATIONS  # the steps of few numbers are few
    solutions = solve_runs(System(velocity, slope), flat, atols, problem, tied.load, most)
    return None if solutions is None else lambda ts: path_at(solutions, ts, keep)
