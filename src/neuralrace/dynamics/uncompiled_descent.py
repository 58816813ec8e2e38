"""Descent of small linear networks in NumPy, so that a first short training does not wait for a compiler."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from neuralrace.compiling import allowance, room
from neuralrace.dynamics.gradient_flow import recorded
from neuralrace.dynamics.setup import Setup
from neuralrace.network import loss_and_gradient, runs_in_numpy

_MOST = 10_000_000  # weights kept at the saved steps


class Descended(NamedTuple):
    """What all runs of a descent have left behind."""

    end: np.ndarray  # (runs,) steps taken
    values: Any  # (runs, save) losses
    kept: Any  # weights (runs, save, n) and recorded values
    losses: np.ndarray  # (runs, steps + 1) before each step; those after the end of a run have no meaning


def descend_in_numpy(
    setup: Setup, momentum: float, lr: float, steps: int, stop: float | None, saves: np.ndarray
) -> Descended | None:
    """All runs of plain gradient descent; None where it should be compiled instead."""
    stack, recorder = setup.program.stack, setup.recorder
    (runs, n), keeps = setup.start.shape, recorder.save_weights or recorder.record is not None
    if np.dtype(setup.dtype) != np.float64 or not runs_in_numpy(stack, setup.kind):
        return None
    if keeps and runs * n * len(saves) > _MOST:
        return None
    left = allowance((stack.digest, momentum, recorder, room(steps), setup.start.shape, len(saves)))
    if not left.spend(steps * runs * stack.cost):
        return None
    losses = np.full((runs, steps + 1), np.nan)
    end = np.zeros(runs, int)
    weights = np.zeros((runs, len(saves), n if keeps else 0))
    with np.errstate(all="ignore"):  # as in compiled code
        for k in range(runs):
            end[k] = _one(setup, k, momentum, lr, steps, stop, saves, losses[k], weights[k])
    taken = np.minimum(saves, end[:, None])
    values = np.take_along_axis(losses, taken, axis=1)
    shown = weights if recorder.save_weights else weights[..., :0]
    if recorder.record is None:
        return Descended(end, values, (shown, {}), losses)
    with setup.precision():
        more = jax.tree.map(np.asarray, recorded(recorder, lr * taken, weights, setup.lift))
    return Descended(end, values, (shown, more), losses)


def _one(
    setup: Setup, k: int, momentum: float, lr: float, steps: int, stop: float | None, saves: np.ndarray,
    losses: np.ndarray, weights: np.ndarray,
) -> int:  # fmt: skip
    """Descend in run k: fill in its losses, and its weights at the saved steps. The number of steps taken."""
    stack, data, (scale, decay) = setup.program.stack, setup.program.data, setup.vectors
    w, trace, step, row = np.array(setup.start[k], float), 0.0, 0, 0
    while True:
        losses[step], g = loss_and_gradient(stack, w, data)
        if row < len(weights) and saves[row] == step:
            weights[row], row = w[: weights.shape[1]], row + 1
        if step == steps or not np.isfinite(losses[step]) or (stop is not None and losses[step] <= stop):
            weights[row:] = w[: weights.shape[1]]
            return step
        g = g if decay is None else g + decay * w
        g = g if scale is None else np.where(scale > 0, g, 0.0)
        trace = g + momentum * trace if momentum else g
        w = w - lr * (trace if scale is None else scale * trace)
        step += 1
