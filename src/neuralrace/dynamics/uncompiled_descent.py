"""Descent of linear networks in NumPy: of small ones, so that a first short training does not wait for a
compiler, and of those whose time goes into moving large weights, where compiled steps are no faster."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from neuralrace.compiling import EVALUATIONS
from neuralrace.dynamics.gradient_flow import recorded
from neuralrace.dynamics.setup import Setup
from neuralrace.network import backwards, forwards, runs_in_numpy

_MOST = 10_000_000  # weights kept at the saved steps only to be recorded from
_LARGE, _ROWS = 1_000_000, 64  # weights, and rows each is multiplied with, of steps that NumPy is as fast at


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
    runs, n, keeps = (
        setup.count,
        setup.task.graph.n_weights,
        recorder.save_weights or recorder.record is not None,
    )
    large = n >= _LARGE and stack.work <= _ROWS * n and jax.default_backend() == "cpu"
    possible = runs_in_numpy(stack, setup.kind, np.inf) if large else runs_in_numpy(stack, setup.kind)
    if np.dtype(setup.dtype) != np.float64 or not possible:
        return None
    if recorder.record is not None and runs * n * len(saves) > _MOST:
        return None
    if not large and steps * runs * stack.cost > EVALUATIONS:
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
    stack, data, (scale, decay) = setup.program.stack, setup.numbers, setup.vectors
    w, step, row = setup.start_of(k), 0, 0
    # A gradient of large weights takes long to write and to read: where nothing else needs it, there is none.
    at_once = momentum == 0 and scale is None and decay is None and stack.uses_weights_once
    g, trace = (None if at_once else np.empty_like(w)), np.zeros_like(w) if momentum else None
    while True:
        losses[step], passed = forwards(stack, w, data)
        if row < len(weights) and saves[row] == step:
            weights[row], row = w[: weights.shape[1]], row + 1
        if step == steps or not np.isfinite(losses[step]) or (stop is not None and losses[step] <= stop):
            weights[row:] = w[: weights.shape[1]]
            return step
        step += 1
        if g is None:
            backwards(stack, w, data, passed, w, -lr)
            continue
        g[...] = 0.0 if decay is None else decay * w
        backwards(stack, w, data, passed, g)
        if scale is not None:
            g[scale == 0] = 0.0
        if trace is not None:
            trace *= momentum
            trace += g
        np.multiply(lr, g if trace is None else trace, out=g)
        if scale is not None:
            g *= scale
        w -= g
