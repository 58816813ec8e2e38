"""Two-layer networks with white inputs from balanced weights, lazy to rich (the talk's Eq. 13-15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import qr

from neuralrace.compiling import traced
from neuralrace.dynamics.adjoint import integrate
from neuralrace.errors import InputError, array, number, without_nan
from neuralrace.exact.formula import floats, nonnegative


def balanced_qq(t: Any, w1: Any, w2: Any, syx: Any, tau: float = 1.0, sxx: Any = None) -> Any:
    r"""Products of two layers over time: $Q Q^\top$, where $Q$ has $W_1^\top$ above $W_2$.

    Parameters
    ----------
    t, w1, w2, syx, tau, sxx
        As in `balanced`.

    Returns
    -------
    ndarray, shape (*shape of t, in + out, in + out)

    Examples
    --------
    >>> float(balanced_qq(50.0, [[0.1]], [[0.1]], [[2.0]])[0, 1].round(6))
    2.0
    """
    v1, v2 = balanced(t, w1, w2, syx, tau, sxx)
    q = (jnp if traced((v1, v2)) else np).concatenate([v1.swapaxes(-1, -2), v2], axis=-2)
    return q @ q.swapaxes(-1, -2)


def balanced(t: Any, w1: Any, w2: Any, syx: Any, tau: float = 1.0, sxx: Any = None) -> tuple[Any, Any]:
    r"""Weights of two linear layers over time from a balanced start, up to a rotation of the hidden units.

    Solves $\tau W_1' = W_2^\top (\Sigma^{yx} - W_2 W_1 \Sigma^{xx})$ and $\tau W_2' = (\Sigma^{yx} - W_2 W_1
    \Sigma^{xx}) W_1^\top$ (the talk's Eq. 13-15), from weights with $W_2^\top W_2 - W_1 W_1^\top = \lambda
    I$; lambda is read off them. Under a JAX transformation the flow itself is integrated (relative tolerance
    1e-10), as the formula's pivots have no derivative.

    Parameters
    ----------
    t : float or array_like, shape (times,)
        Times, at least 0.
    w1 : array_like, shape (hidden, in)
        First layer at time 0.
    w2 : array_like, shape (out, hidden)
        Second layer at time 0. Weights that are not balanced are refused.
    syx : array_like, shape (out, in)
        Correlation of targets and inputs.
    tau : float, default 1
        Unit of time.
    sxx : array_like, shape (in, in), optional
        Correlation of the inputs, a multiple of the identity (white inputs), anything else is refused; by
        default the identity.

    Returns
    -------
    W1 : ndarray, shape (*shape of t, hidden, in)
    W2 : ndarray, shape (*shape of t, out, hidden)

    Examples
    --------
    >>> w1, w2 = balanced([0.0, 50.0], [[0.1]], [[0.1]], [[2.0]])
    >>> (w2 @ w1).round(6).ravel().tolist()
    [0.01, 2.0]
    """
    root = _white(sxx, syx)  # weights times it have the same flow with sxx = 1
    if traced((t, w1, w2, syx, tau)):
        return _integrated(t, w1, w2, syx, tau, root)
    q, shape, n_in = _solve(t, w1, w2, syx, tau, root)
    q = q.reshape(*shape, *q.shape[1:]) / root
    return q[..., :n_in, :].swapaxes(-1, -2), q[..., n_in:, :]


def continual(
    t: Any, w1: Any, w2: Any, syx: Any, tau: float = 1.0, sxx: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """`balanced` for several tasks one after the other, each from where the last ended.

    Gradient flow keeps weights balanced, so every task has the closed form.

    Parameters
    ----------
    t : array_like, shape (times,)
        Increasing times since the beginning of a task; each task is learned until the last of them.
    w1, w2
        As in `balanced`.
    syx : array_like, shape (tasks, out, in)
        Correlation of targets and inputs in each task.
    tau, sxx
        As in `balanced`.

    Returns
    -------
    W1 : ndarray, shape (tasks, times, hidden, in)
    W2 : ndarray, shape (tasks, times, out, hidden)

    Examples
    --------
    >>> w1, w2 = continual([0.0, 50.0], [[1.0]], [[2.0]], [[[2.0]], [[-1.0]]])
    >>> (w2 @ w1).round(6).ravel().tolist()
    [2.0, 2.0, 2.0, -1.0]
    """
    times, tasks = nonnegative("t", t), array("syx", syx, (None, None, None))
    if times.ndim != 1 or not len(times) or (np.diff(times) <= 0).any():
        raise InputError(f"t must be increasing times in one dimension, got shape {times.shape}")
    if not len(tasks):
        raise InputError("syx must hold at least one task, got none")
    solved = []
    for task in tasks:
        solved.append(balanced(times, w1, w2, task, tau, sxx))
        w1, w2 = (w[-1] for w in solved[-1])
    first, second = zip(*solved, strict=True)
    return np.stack(first), np.stack(second)


def _white(sxx: Any, syx: Any) -> float:
    """The root of the variance of white inputs."""
    if sxx is None:
        return 1.0
    sxx = array("sxx", sxx, np.shape(syx)[-1:] * 2)
    variance = np.trace(sxx) / len(sxx)
    if variance <= 0 or abs(sxx - variance * np.eye(len(sxx))).max() > 1e-8 * variance:
        low, high = np.linalg.eigvalsh((sxx + sxx.T) / 2)[[0, -1]]
        raise InputError(
            "sxx must be a positive multiple of the identity: the closed form needs white inputs, but the"
            f" variances run from {low:.3g} to {high:.3g}; whiten them, x -> sxx^(-1/2) x, or use nr.flow"
        )
    return float(np.sqrt(variance))


def _integrated(t: Any, w1: Any, w2: Any, syx: Any, tau: Any, root: float) -> Any:
    t, w1, w2, syx, tau = floats(t, w1, w2, syx, tau)

    def velocity(_: Any, w: Any, duration: Any) -> Any:
        error = duration * (syx - w[1] @ w[0])
        return w[1].T @ error, error @ w[0].T

    double = w1.dtype == jnp.float64
    rtol, atol = (1e-10, 1e-12) if double else (1e-5, 1e-7)

    def at(duration: Any) -> Any:
        return integrate(velocity, (root * w1, root * w2), duration, rtol, atol)

    v1, v2 = jax.vmap(at)((t / tau).ravel())
    return v1.reshape(*t.shape, *w1.shape) / root, v2.reshape(*t.shape, *w2.shape) / root


def _solve(
    t: Any, w1: Any, w2: Any, syx: Any, tau: Any, root: float
) -> tuple[np.ndarray, tuple[int, ...], int]:
    times, tau = nonnegative("t", t), number("tau", tau, above=0)
    if times.ndim > 1:
        raise InputError(f"t must be a number or one-dimensional, got shape {times.shape}")
    w1 = root * array("w1", w1, (None, None))
    w2 = root * array("w2", w2, (None, w1.shape[0]))
    syx = array("syx", syx, (w2.shape[0], w1.shape[1]))
    n_in, hidden = w1.shape[1], len(w1)
    difference = w2.T @ w2 - w1 @ w1.T
    lam = np.trace(difference) / hidden
    off = abs(difference - lam * np.eye(hidden)).max()
    scale = max((w1**2).sum(), (w2**2).sum())
    without_nan("w1 and w2", [np.array(scale - scale)])  # infinite
    if off > 1e-8 * scale:
        raise InputError(
            f"w1 and w2 must be balanced, w2^T w2 - w1 w1^T a multiple of the identity; with lam = {lam:g} it"
            f" is off by {off:.2g}, {off / scale:.2g} of the squared weights"
        )
    # Then Q' = F Q - Q Q^T Q / 2 with symmetric F, a matrix Riccati equation.
    f, frame = np.linalg.eigh(
        np.block([[-lam / 2 * np.eye(n_in), syx.T], [syx, lam / 2 * np.eye(len(syx))]])
    )  # fmt: skip
    return frame @ _legs(f, frame.T @ np.vstack([w1.T, w2]))(times.ravel() / tau), times.shape, n_in


_LEG = 200.0


def _legs(f: np.ndarray, start: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Solution at many times; restarted before exponentials overflow, until restarts change nothing."""
    leg = _LEG / max(abs(f).max(), 1e-300)

    def solve(times: np.ndarray) -> np.ndarray:
        out = np.empty((len(times), *start.shape))
        y, begun, rest = start, 0.0, False
        for k in np.argsort(times):
            while times[k] - begun > leg and not rest:
                new = _step(f, y, leg)
                rest = _at_rest(y, new)
                y, begun = new, begun + leg
            out[k] = _step(f, y, min(times[k] - begun, leg))
        return out

    return solve


def _step(f: np.ndarray, y: np.ndarray, t: float) -> np.ndarray:
    """e^(F t) y (1 + y^T P y)^(-1/2) up to a rotation, P the integral of e^(2 F t), in the frame of F.

    With [P^(1/2) y; 1] = O R it is e^(F t) P^(-1/2) times the upper part of O: nothing is inverted. Rows
    sorted by size and pivoted columns keep every row accurate, however far apart their scales are.
    """
    if t < 1e-300:  # 1 / t is no number
        return y
    small = abs(f) * t < 1e-12
    g = np.where(small, 1.0, f)
    ratio = np.where(small, 1 / t, 2 * g / -np.expm1(-2 * g * t))
    rows = np.vstack([np.exp(f * t)[:, None] / np.sqrt(ratio)[:, None] * y, np.eye(y.shape[1])])
    order = np.argsort(-abs(rows).max(axis=1))
    o = np.empty_like(rows)
    o[order] = qr(rows[order], mode="economic", pivoting=True)[0]
    return np.sqrt(ratio)[:, None] * o[: len(f)]


def _at_rest(old: np.ndarray, new: np.ndarray) -> bool:
    """Whether lengths and angles of the rows have stayed, but for rows that shrink and are gone already."""
    before, after = old @ old.T, new @ new.T
    size = np.sqrt(after.diagonal())
    gone = (size**2 <= before.diagonal()) & (size < 1e-20 * size.max())
    still = abs(after - before) <= 1e-12 * np.outer(size, size)
    return bool((still | gone | gone[:, None]).all())
