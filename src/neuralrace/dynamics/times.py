"""Which times are saved."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from neuralrace.dynamics import constants
from neuralrace.dynamics.history import History, curve
from neuralrace.errors import InputError, array, integer, listable, number, sequence, short

DEFAULT = 200  # times, where they are not given
_MOST = 10_000_000


def save_times(t1: Any, save: Any) -> tuple[float, np.ndarray]:
    """The end, and the times to save: `save` of them, or those given; evenly spaced by default."""
    if save is not None and not isinstance(save, (str, bytes, int, np.integer)):
        if not listable(save):
            raise InputError(f"save must be a number of times, or the times; got {short(save)}")
        ts = array("save", save if hasattr(save, "__len__") else sequence("save", save, "times"), (None,))
        end = number("t1", ts[-1] if t1 is None and len(ts) else t1, above=0)
        increasing = len(ts) and (np.diff(ts) > 0).all()
        if not increasing or ts[0] < 0 or ts[-1] > end * (1 + constants.ROUNDING):
            raise InputError(f"save must be increasing times between 0 and t1 = {end:g}")
        return end, np.minimum(ts, end)  # the product of a rate and steps may be past it, by rounding
    end = number("t1", t1, above=0)
    return end, _even(end, DEFAULT if save is None else integer("save", save, least=2, most=_MOST))


@lru_cache(maxsize=64)
def _even(end: float, n: int) -> np.ndarray:
    """Even times, kept: a small reduction is solved in the time that it takes to make a few arrays."""
    ts = np.linspace(0, end, n)
    ts.flags.writeable = False
    return ts


def save_steps(steps: int, save: Any, lr: float) -> np.ndarray:
    """The steps of descent to save."""
    if save is not None and not isinstance(save, (int, np.integer)):
        end = lr * steps
        _, ts = save_times(end, save)
        return np.unique(np.round(ts / lr).astype(int)).clip(max=steps)
    _, ts = save_times(float(steps), save)
    return np.unique(np.round(ts).astype(int))


def adapted_times(histories: list[History], t1: float, known: float = np.inf) -> np.ndarray | None:
    """Default number of times, half of them where losses fall; None if even times resolve the fall already.

    The times are the same for all runs: each run has an equal part of them. After `known` they are the even
    ones, if these are enough there.
    """
    fine = _fine(histories, t1)
    falls = [f for f in (_fall(h, fine) for h in histories) if f is not None]
    if not falls:
        return None
    even = _even(t1, DEFAULT)
    resolved = lambda ts: max(np.diff(np.interp(ts, fine, f)).max() for f in falls) <= constants.RESOLVED  # noqa: E731
    if resolved(even):
        return None
    # Time and the fall of the loss have equal weight.
    travelled = fine / t1 + np.mean(falls, axis=0)
    ts = np.interp(np.linspace(0, travelled[-1], DEFAULT), travelled, fine)
    ts[0], ts[-1] = 0.0, t1
    ts = ts if (np.diff(ts) > 0).all() else np.unique(ts)
    early, late = ts[ts <= known], even[even > known]
    fill = np.linspace(len(late) - 1, 0, min(max(DEFAULT - len(early), 1), len(late))).astype(int)
    cheap = np.concatenate([early, late[fill[::-1]]])
    return cheap if resolved(cheap) else ts


def _fine(histories: list[History], t1: float) -> np.ndarray:
    own = [np.linspace(h.t[:-1], h.t[1:], 5)[:-1].ravel() for h in histories]
    points = np.concatenate([np.linspace(0, t1, 1001), *own])
    points = np.unique(points[(points >= 0) & (points <= t1)])
    return points[np.unique(np.linspace(0, len(points) - 1, constants.FINE_POINTS).round().astype(int))]


def _fall(history: History, ts: np.ndarray) -> np.ndarray | None:
    """Fraction of the fall of the loss that has happened by each time; None if it never falls."""
    losses = np.minimum.accumulate(curve(history, ts))
    whole = losses[0] - losses[-1]
    falls = np.isfinite(whole) and whole > constants.ROUNDING * abs(losses[0])
    return (losses[0] - losses) / whole if falls else None
