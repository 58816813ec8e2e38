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


def attempt(field: Field, y: Any, v: Any, h: Any, rtol: Any, atol: Any, room: Any = None) -> Attempt:
    """A step of length h (runs,) from y with velocity v; atol is (runs,).

    NumPy writes into `room` (see `room_for`): k of the last attempt is lost.
    """
    xp, h = np if isinstance(y, np.ndarray) else jnp, h[:, None]
    if room is None:
        k, losses, states = _compiled_stages(field, y, v, h)
    else:
        k, losses, states = _stages(field, y, v, h, room)
    *both, end, middle = states
    tolerance = xp.maximum(xp.abs(y), xp.abs(end))
    tolerance *= rtol
    tolerance += atol[:, None]
    error = _sum(tableau().error, k[: len(tableau().error)])
    error *= h
    error /= tolerance
    rate = size(k[-3] - k[-4]) / size(both[1] - both[0])
    points = [losses[-1], field.slope(middle, k[-1]), losses[-2], field.slope(end, k[-2])]
    summary = xp.stack([size(error), h[:, 0] * rate, *points])
    return Attempt(xp.array(end), xp.array(k[-2]), k, summary)


def room_for(y: np.ndarray) -> np.ndarray:
    """Memory for an attempt: new memory for each costs as much time as the sums in it."""
    return np.empty((len(tableau().rows) + 4, *y.shape))


def _stages(
    field: Field, y: np.ndarray, v: np.ndarray, h: np.ndarray, room: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Velocities and losses at all stages, and in the middle; and the states of the last of them.

    These are two stages, both at the end of the step, the end itself, and the middle.
    """
    rows = tableau().rows
    k, states, losses = room[:-4], room[-4:], np.empty((len(rows), len(y)))
    k[0] = v
    for i in range(1, len(rows)):
        known, state = min(i, rows.shape[1]), states[max(i - len(rows), -4)]
        np.matmul(rows[i, :known], k[:known].reshape(known, -1), out=state.reshape(-1))
        state *= h
        state += y
        k[i], losses[i] = field.velocity(state)
    return k, losses, states


def _compiled_stages(field: Field, y: Any, v: Any, h: Any) -> tuple[Any, ...]:
    """The same in JAX, where the velocity is compiled once."""
    rows = jnp.asarray(tableau().rows, y.dtype)

    def one(i: Any, found: Any) -> Any:
        k, losses, states = found
        state = y + h * _sum(rows[i], k[: rows.shape[1]])
        new, loss = field.velocity(state)
        return k.at[i].set(new), losses.at[i].set(loss), states.at[jnp.maximum(i - len(rows), -4)].set(state)

    k = jnp.zeros((len(rows), *y.shape), y.dtype).at[0].set(v)
    found = k, jnp.zeros((len(rows), len(y)), y.dtype), k[:4]
    return jax.lax.fori_loop(1, len(rows), one, found)


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
    return -xp.einsum("rn,rn->r", g if decay is None else g + decay * y, v)


def size(v: Any) -> Any:
    """The root mean square of each row."""
    return (v * v).mean(axis=1) ** 0.5


def interpolant(t: float, h: float, y: np.ndarray, k: np.ndarray) -> Callable[[Any], np.ndarray]:
    """The state of one run (times, numbers) at times inside a step from t, y to t + h, with velocities k."""
    curve = tableau().curve
    c, powers = h * (curve @ k[: curve.shape[1]]), np.arange(1, len(curve) + 1)
    return lambda ts: y + ((np.asarray(ts)[:, None] - t) / h) ** powers @ c
