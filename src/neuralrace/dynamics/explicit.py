"""Steps of the explicit Runge-Kutta method of order 8 of Dormand and Prince, in NumPy or in JAX.

Runs go side by side, each with steps of its own length. The interpolant (of diffrax) needs no stages of its
own; its errors are up to some tens of tolerances.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.dynamics import constants

ORDER = 8
STAGES = 13  # velocities that a step computes: those of its stages but the first, and the one in its middle


class Field(Protocol):
    """Equations of motion of runs side by side; states y and velocities v are (runs, numbers)."""

    def velocity(self, y: Any) -> tuple[Any, Any]:
        """The velocity at y, and the loss (runs,)."""
        ...

    def slope(self, y: Any, v: Any) -> Any:
        """The slope of the loss in time (runs,)."""
        ...


class Tableau(NamedTuple):
    """Coefficients of a method whose last stage is the first of the next step."""

    rows: np.ndarray  # (stages + 1, stages) of the velocities in each stage, and in the middle of the step
    error: np.ndarray  # (stages,)
    curve: np.ndarray  # (powers, stages) of the interpolant in x, the fraction of the step


class Attempt(NamedTuple):
    """A step of every run that may be accepted or refused."""

    y: Any  # (runs, numbers) at its end
    v: Any  # the velocity there
    k: Any  # (stages + 1, runs, numbers) velocities at all stages, and in the middle
    # (6, runs): the estimate of the local error, in tolerances; the rate of the fastest mode, times the
    # length of the step; loss and its slope halfway; loss and its slope at the end
    summary: Any


@cache
def tableau() -> Tableau:
    """The coefficients of Dormand and Prince."""
    stored = json.loads((files("neuralrace.dynamics") / "dormand_prince_8.json").read_text())
    a, curve = np.array(stored["a"]), np.array(stored["curve"]).T
    middle = 0.5 ** np.arange(1, len(curve) + 1) @ curve
    return Tableau(np.vstack([a, middle]), np.array(stored["error"]), curve)


def attempt(field: Field, y: Any, v: Any, h: Any, rtol: Any, atol: Any) -> Attempt:
    """A step of length h (runs,) from y with velocity v; atol is (runs,)."""
    rows, error, _ = tableau()
    xp, h = np if isinstance(y, np.ndarray) else jnp, h[:, None]
    k, losses, end, middle = (_stages if xp is np else _compiled_stages)(field, y, v, h)
    change = lambda row: h * _sum(row, k[: len(row)])  # noqa: E731
    tolerance = atol[:, None] + rtol * xp.maximum(xp.abs(y), xp.abs(end))
    far = xp.linalg.norm(change(rows[-3] - rows[-4]), axis=1)  # two stages, both at the end of the step
    rate = xp.linalg.norm(k[-3] - k[-4], axis=1) / far
    points = [losses[-1], field.slope(middle, k[-1]), losses[-2], field.slope(end, k[-2])]
    summary = xp.stack([size(change(error) / tolerance), h[:, 0] * rate, *points])
    return Attempt(end, k[-2], k, summary)


def _stages(field: Field, y: np.ndarray, v: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, ...]:
    """Velocities and losses at all stages, and in the middle; the states at the end and in the middle."""
    rows = tableau().rows
    k, losses, end, at = np.empty((len(rows), *y.shape)), np.empty((len(rows), len(y))), y, y
    k[0] = v
    for i in range(1, len(rows)):
        known, end = min(i, rows.shape[1]), at
        at = _sum(rows[i, :known], k[:known])
        at *= h  # in place: memory bounds this
        at += y
        k[i], losses[i] = field.velocity(at)
    return k, losses, end, at


def _compiled_stages(field: Field, y: Any, v: Any, h: Any) -> tuple[Any, ...]:
    """The same in JAX, where the velocity is compiled once."""
    rows = jnp.asarray(tableau().rows, y.dtype)

    def one(i: Any, found: Any) -> Any:
        k, losses = found
        new, loss = field.velocity(y + h * _sum(rows[i], k[: rows.shape[1]]))
        return k.at[i].set(new), losses.at[i].set(loss)

    k = jnp.zeros((len(rows), *y.shape), y.dtype).at[0].set(v)
    k, losses = jax.lax.fori_loop(1, len(rows), one, (k, jnp.zeros((len(rows), len(y)), y.dtype)))
    return k, losses, *(y + h * _sum(rows[i], k[: rows.shape[1]]) for i in (-2, -1))


def _sum(row: Any, k: Any) -> Any:
    """The sum of velocities with these coefficients."""
    if isinstance(k, np.ndarray):
        return (row @ k.reshape(len(row), -1)).reshape(k.shape[1:])
    row = jnp.asarray(row, k.dtype)
    return jnp.tensordot(row, k, 1) if k.size > constants.SUMMED else (row[:, None, None] * k).sum(axis=0)


def slope(y: Any, v: Any, scale: Any, decay: Any) -> Any:
    """The slope of the loss in time (runs,), of velocities `-scale (gradient + decay y)`; None: 1 and 0."""
    xp, g = np if isinstance(v, np.ndarray) else jnp, v
    if scale is not None:
        g = xp.where(scale > 0, v / xp.where(scale > 0, scale, 1), 0)
    return -((g if decay is None else g + decay * y) * v).sum(axis=1)


def size(v: Any) -> Any:
    """The root mean square of each row."""
    return (v * v).mean(axis=1) ** 0.5


def interpolant(t: float, h: float, y: np.ndarray, k: np.ndarray) -> Callable[[Any], np.ndarray]:
    """The state of one run (times, numbers) at times inside a step from t, y to t + h, with velocities k."""
    curve = tableau().curve
    c, powers = h * (curve @ k[: curve.shape[1]]), np.arange(1, len(curve) + 1)
    return lambda ts: y + ((np.asarray(ts)[:, None] - t) / h) ** powers @ c
