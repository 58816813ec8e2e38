"""The closed form of Eq. 7 through measured series: the model of `fit`, its starts and the least squares."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.network import precision
from neuralrace.universality.theory import path

BEST = 8  # guesses from which a search starts
FEW = 512  # times from which the first searches of a long series are made
POLISHED = 2  # of these searches that go on with all times
FAR = 1e3  # residual where the model is not finite, far above any that is of use


def best_fit(t: np.ndarray, data: np.ndarray, target: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parameters theta of the model, residuals (times, series) as shares of each series' largest value over
    the root of the number of times, and their slopes (times, series, parameters).

    Times from 0 to 1; series dh2, dy2, w and perhaps the loss, of size 1; `theta` as in `initial_state`.
    """
    guesses = _guesses(t, data, target)
    if len(t) > 2 * FEW:
        some = np.linspace(0, len(t) - 1, FEW).round().astype(int)
        searches, _ = _searches(guesses, t[some], data[some], target)
        guesses = np.array([s.x for s in searches[:POLISHED]])
    searches, linear = _searches(guesses, t, data, target)
    residual, jacobian = linear(searches[0].x.tobytes())
    return searches[0].x, residual[: len(t)], jacobian[: len(t)]


def _padded(n: int) -> int:
    """The next power of two, at least 256: series of all lengths share a few compiled functions."""
    return max(256, 1 << (n - 1).bit_length())


def _pad(v: np.ndarray) -> np.ndarray:
    return np.concatenate([v, np.repeat(v[-1:], _padded(len(v)) - len(v), 0)])


def initial_state(theta: Any, target: Any, np: Any) -> tuple[Any, ...]:
    """Arguments of `path` from theta = (log a, log b, log of what grows, what decays, what is across).

    A tiny start shows only in the time of the escape, which its growing part sets: hence the logarithm.
    """
    a, b, grows = (np.exp(theta[i]) for i in range(3))
    r = np.where(target > 0, (grows + theta[3]) / 2**0.5, grows)
    along = np.where(target > 0, (grows - theta[3]) / 2**0.5, 0)
    return r, along, theta[4] ** 2, a, b


def _curves(theta: Any, t: Any, target: Any) -> Any:
    r, along, across, a, b = initial_state(theta, target, jnp)
    state = path(t, r, along, across, target, a, b)
    if len(theta) == 5:
        return jnp.stack(state, -1)
    mean = jnp.exp(2 * theta[5] - 2 * jnp.exp(theta[6]) * t) / 2
    return jnp.stack([*state, mean + (state.w + (target**2 - state.dy2) / 2) / 4], -1)


def _residual(theta: Any, t: Any, data: Any, weight: Any, target: Any) -> Any:
    """Weighted residuals (times, series)."""
    return jnp.where(weight > 0, (_curves(theta, t, target) - data) * weight, 0)


@jax.jit
def _costs(thetas: Any, *given: Any) -> Any:
    return jax.lax.map(lambda v: (_residual(v, *given) ** 2).sum(), thetas, batch_size=BEST)


@jax.jit
def _linear(theta: Any, *given: Any) -> Any:
    return _residual(theta, *given), jax.jacfwd(_residual)(theta, *given)


def _searches(guesses: np.ndarray, t: np.ndarray, data: np.ndarray, target: float) -> tuple[list[Any], Any]:
    """Levenberg-Marquardt searches (MINPACK's) from the best guesses, the best one first.

    Also residuals and slopes as a function of the bytes of theta.
    """
    from scipy.optimize import least_squares

    n = len(t)
    weight = (np.arange(_padded(n)) < n)[:, None] / np.sqrt(n) / np.abs(data).max(0)
    with precision(np.float64):
        given = tuple(jnp.asarray(v) for v in (_pad(t), _pad(data), weight, target))

    @lru_cache(maxsize=2)
    def linear(theta: bytes) -> tuple[np.ndarray, np.ndarray]:
        with precision(np.float64):
            residual, jacobian = map(np.asarray, _linear(np.frombuffer(theta), *given))
        if np.isfinite(residual).all() and np.isfinite(jacobian).all():
            return residual, jacobian
        return np.full_like(residual, FAR), np.zeros_like(jacobian)

    def search(theta: np.ndarray) -> Any:
        residual = lambda v: linear(v.tobytes())[0].ravel()  # noqa: E731
        slopes = lambda v: linear(v.tobytes())[1].reshape(-1, len(v))  # noqa: E731
        options: Any = {"xtol": 1e-15, "ftol": 1e-14, "gtol": 1e-15, "max_nfev": 500, "x_scale": "jac"}
        return least_squares(residual, theta, jac=slopes, method="lm", **options)  # pyright: ignore[reportArgumentType]

    with precision(np.float64):
        costs = np.nan_to_num(_costs(guesses, *given), nan=np.inf)
    searches = [search(guesses[k]) for k in np.argsort(costs)[:BEST]]
    return sorted(searches, key=lambda result: result.cost), linear


def _guesses(t: np.ndarray, data: np.ndarray, target: float) -> np.ndarray:
    h, y, w = data.T[:3]
    area = np.concatenate([[0], np.cumsum((w[1:] + w[:-1]) / 2 * np.diff(t))])
    # dh2' = -a w, and dy2 = (b/a) dh2^2 + constant dh2 (Eq. 24).
    a = -np.polyfit(area, h, 1)[0]
    ratio = np.linalg.lstsq(np.stack([h**2, h], 1), y, rcond=None)[0][0]
    a, ratio = (v if np.isfinite(v) and v > 0 else 1.0 for v in (a, ratio))
    few = max(1, len(t) // 50)
    h0, y0, w0 = (max(v[:few].mean(), floor) for v, floor in ((h, 1e-6), (y, 1e-12), (w, -np.inf)))
    along = np.clip((y0 - w0) / target, -np.sqrt(y0), np.sqrt(y0)) if target > 0 else 0.0
    half = t[np.argmax(np.abs(h - h0) >= np.abs(h - h0).max() / 2)]
    grid = 10.0 ** np.linspace(-2, 2, 9)
    out = []
    for a_ in a * grid:
        for b in a * ratio * grid:
            r, g = np.sqrt(b * h0), np.sqrt(a_ / h0) * along
            across = np.sqrt(max(a_ / h0 * (y0 - along**2), 1e-12))
            if target == 0:
                out.append((a_, b, np.log(r), 0.0, across))
                continue
            # As observed; and a small start that has risen half way when the series has, of either kind.
            sign = 1 if r + g > 0 else -1
            out.append(
                (a_, b, np.log(max(abs(r + g), 1e-9) / np.sqrt(2)), sign * (r - g) / np.sqrt(2), across)
            )
            omega = np.sqrt(a_ * b) * target / 2
            grows = np.log(4 * omega) / 2 - min(omega * half, 300)
            out += [(a_, b, grows, c * r, 1e-3) for c in (0.0, 1.4, -1.4)]
    theta = np.array(out + out[: -len(out) % BEST])
    theta[:, :2] = np.log(theta[:, :2])
    if data.shape[1] == 4:
        left = data[:, 3] - (w + (target**2 - y) / 2) / 4
        size = max(left[:few].mean(), 1e-6)
        rate = np.clip(size / 2 / max(np.trapezoid(left, t), 1e-9), 0.1, 1e3)
        theta = np.hstack([theta, np.tile([np.log(2 * size) / 2, np.log(rate)], (len(theta), 1))])
    return theta
