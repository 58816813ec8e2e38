"""Solving a reduction: a few numbers per mode where its modes decouple, else a small network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.dynamics.explicit import slope
from neuralrace.dynamics.field import InNumPy
from neuralrace.dynamics.gradient_flow import follow
from neuralrace.dynamics.history import History, curve
from neuralrace.dynamics.methods import Method
from neuralrace.dynamics.run import Problem
from neuralrace.dynamics.setup import FLOW_TIME, Setup, weight_dims
from neuralrace.dynamics.status import Ending, Status
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.reduction.path_classes import TiedLoss
from neuralrace.reduction.solution import FamilyWeights, Solution, TiedStrengths

if TYPE_CHECKING:
    from neuralrace.reduction.reduction import Reduction

_REST = 1e-3  # of its speeds before and after: a loss that falls more slowly may wait for rounding to grow
_NUDGE = 1e-11  # of the largest strength: a change of the start that is larger than rounding
_SAME, _LITTLE = 0.1, 1e-6  # of what still changes, and of the whole change: curves that differ more part


def solve_small(
    r: Reduction, b: Mapping[str, np.ndarray], t1: float, ts: np.ndarray, choose: bool, method: Method,
    stop: float | None, rest: float, runs: dict[str, np.ndarray],
) -> Trajectory:  # fmt: skip
    """By the flow of the small network whose weights are the strengths.

    A run that leaves a saddle by rounding alone stays there instead.
    """

    def solved(b: Mapping[str, np.ndarray], ts: np.ndarray, choose: bool = False) -> Trajectory:
        setup = Setup.prepare(r.family.small, b, "squared", r.rates, None, np.float64, None, True, True)
        return follow(setup, t1, ts, choose, stop, method, rest=rest)

    run = solved(b, ts, choose)
    held = np.zeros(len(run.statuses), bool)
    if run.history is not None and _rested(run):
        rng = np.random.default_rng(0)
        near = {e: v + _NUDGE * np.abs(v).max() * rng.standard_normal(v.shape) for e, v in b.items()}
        run, held = _held(run, solved(near, ts[[0, -1]]), partial(solved, b))
    settings = {**run.settings, "process": "reduction"}
    del settings["dimensions"]
    return _of(r, run, run.weights, runs, settings, held if run.many else bool(held[0]))


def _of(
    r: Reduction, run: Trajectory, b: Mapping[str, np.ndarray], runs: dict[str, np.ndarray],
    settings: dict[str, Any], held: Any = False,
) -> Trajectory:  # fmt: skip
    """The trajectory of a solved reduction."""
    return replace(
        run, settings=settings, dims=weight_dims(r.family.network), runs=runs, task=r.task,
        weights=FamilyWeights(r.family, b, run.many), source=Solution(r, b, held),
    )  # fmt: skip


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
    fine = solved(np.union1d(run.t, until))
    index = np.searchsorted(
        fine.t, np.minimum(run.t, until[:, None])
    )  # a run repeats its state at the saddle
    rows = np.arange(len(until))[:, None]
    pick = lambda v: v[rows, index] if run.many else v[index[0]]  # noqa: E731
    t, losses, slopes = (np.atleast_2d(np.asarray(v)) for v in run.history)
    late = (t > until[:, None]) & held[:, None]
    rest = np.atleast_2d(fine.loss)[rows, index[:, -1:]]
    history = History(t, np.where(late, rest, losses), np.where(late, 0.0, slopes))
    t1 = run.settings["t1"]
    return replace(
        run,
        loss=pick(fine.loss),
        weights={e: pick(np.asarray(w)) for e, w in fine.weights.items()},
        history=history if run.many else history.run(0),
        endings=tuple(
            Ending(Status.FINISHED, t1) if h else e for h, e in zip(held, run.endings, strict=True)
        ),
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
    r: Reduction, b: Mapping[str, np.ndarray], t1: float, ts: np.ndarray, choose: bool, method: Method,
    stop: float | None, rest: float, runs: dict[str, np.ndarray],
) -> Trajectory:  # fmt: skip
    """By the equations of the classes."""
    assert r.tied is not None
    start = np.stack([b[members[0]] for members in r.classes], axis=-2)
    many, field = start.ndim == 3, TiedField(r.tied, start.shape[-2:])
    flat = start.reshape(len(start) if many else 1, -1)
    units = np.abs(flat).max(axis=1, initial=0.0)
    system = InNumPy(field, field.keep)
    path = method.solve(
        Problem(system, flat, units, t1, ts, choose, stop, rest, decays=r.rates.decays(r.family.graph))
    )
    found = TiedStrengths(r.classes, path.kept if many else path.kept[0])
    settings = path.settings | {
        "process": "reduction", "t1": t1, "stop_loss": stop, "time": FLOW_TIME,
        **r.rates.settings(r.family.graph),
    }  # fmt: skip
    return _of(r, Trajectory(**path.fields(many)), found, runs, settings)


class TiedField:
    """The equations of motion of classes of edges; a state has the strengths (classes, modes) in a row."""

    def __init__(self, tied: TiedLoss, shape: tuple[int, ...]) -> None:
        self.tied, self.shape = tied, shape
        speed = (tied.rates / tied.sizes)[:, None]
        self.speed: np.ndarray = np.broadcast_to(speed, shape).ravel()
        self.decay: np.ndarray = np.broadcast_to((tied.sizes * tied.decays)[:, None], shape).ravel()

    def velocity(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        loss, g = self.tied.loss_and_gradient(y.reshape(-1, *self.shape))
        return -self.speed * (g.reshape(y.shape) + self.decay * y), loss

    def slope(self, y: np.ndarray, v: np.ndarray) -> np.ndarray:
        return slope(y, v, self.speed, self.decay)

    def keep(self, run: int, ts: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        b = y.reshape(-1, *self.shape)
        return self.tied.loss(b), b
