"""The closed form of Eq. 7 through measured series: the model of `fit`, its starts and the least squares."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.compiling import compiled
from neuralrace.network import precision
from neuralrace.universality.theory import path

BEST = 8  # guesses from which a search starts
FEW = 512  # times to which searches from all guesses are fitted
AT_ONCE = 16  # guesses whose curves stay in the cache of a processor
USUAL = 304  # places for up to as many times, of which there are mostly 300
ROUGH: Any = {"xtol": 1e-6, "ftol": 1e-6, "gtol": 1e-6, "max_nfev": 100}
FINE: Any = {"xtol": 1e-15, "ftol": 1e-14, "gtol": 1e-15, "max_nfev": 500}
# A quarter of the time to compile; later calls take a quarter longer.
_COMPILER = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
FAR = 1e3  # residual where the model is not finite, far above any that is of use


def best_fit(t: np.ndarray, data: np.ndarray, target: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parameters theta of the model, residuals (times, series) as shares of each series' largest value over
    the root of the number of times, and their slopes (times, series, parameters).

    Times from 0 to 1; series dh2, dy2, w and perhaps the loss, of size 1; `theta` as in `initial_state`.
    """
    some = _some(len(t))
    guesses = _guesses(t[some], data[some], target)
    return _search(t, data, target, data[0, :3], 1 / np.abs(data).max(0), guesses)


def best_rates(
    t: np.ndarray, data: np.ndarray, target: float, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `best_fit` from the start that was observed: theta is (log a, log b), residuals are in units of
    1 / `weight` (series,). Series dh2, dy2 and w."""
    grid = np.log(10) * np.linspace(-3, 5, 33)
    guesses = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)
    return _search(t, data, target, data[0], weight, guesses)


def _some(n: int) -> np.ndarray:
    """Places of up to `FEW` times, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, FEW)).round().astype(int))


def _search(
    t: np.ndarray, data: np.ndarray, target: float, start: np.ndarray, weight: np.ndarray, guesses: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best fit from some guesses: to a part of the times where there are many, and from there to all."""

    def given(some: Any, count: int, size: int) -> Any:
        mask = np.arange(size) < len(t[some])
        weights = mask[:, None] / np.sqrt(count) * weight
        values = (_pad(t[some], size), _pad(data[some], size), weights, target, start)
        return tuple(jnp.asarray(v) for v in values)

    some = _some(len(t))
    with precision(np.float64), _on_the_cpu():
        # Series of all lengths share two compiled functions.
        best = _least_squares(guesses, [given(some, len(some), USUAL if len(some) <= USUAL else FEW)])
        if len(t) > FEW:
            pieces = [slice(k, k + FEW) for k in range(0, len(t), FEW)]
            best = _least_squares(best[0][None], [given(piece, len(t), FEW) for piece in pieces])
    theta, residual, jacobian = best
    return theta, residual[: len(t)], jacobian[: len(t)]


def _on_the_cpu() -> AbstractContextManager[Any]:
    """Searches call small functions many times, each of which would wait for a GPU."""
    try:
        return jax.default_device(jax.devices("cpu")[0])
    except RuntimeError:  # JAX was told to have no CPU
        return nullcontext()


def _pad(v: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([v, np.repeat(v[-1:], size - len(v), 0)])


def initial_state(theta: Any, target: Any, np: Any) -> tuple[Any, ...]:
    """Arguments of `path` from theta = (log a, log b, log of what grows, what decays, what is across).

    A tiny start shows only in the time of the escape, which its growing part sets: hence the logarithm.
    """
    a, b, grows = (np.exp(theta[i]) for i in range(3))
    r = np.where(target > 0, (grows + theta[3]) / 2**0.5, grows)
    along = np.where(target > 0, (grows - theta[3]) / 2**0.5, 0)
    return r, along, theta[4] ** 2, a, b


def _observed_state(theta: Any, target: Any, start: Any, np: Any) -> tuple[Any, ...]:
    """Arguments of `path` from theta = (log a, log b) and dh2, dy2, w at the start."""
    (a, b), (h, y, w) = np.exp(theta), start
    along = np.where(target > 0, (y - w) / np.where(target > 0, target, 1), 0)
    along = np.clip(along, -np.sqrt(y), np.sqrt(y))
    return np.sqrt(b * h), np.sqrt(a / h) * along, a / h * (y - along**2), a, b


def _curves(theta: Any, t: Any, target: Any, start: Any, np: Any) -> Any:
    observed = len(theta) == 2
    given = _observed_state(theta, target, start, np) if observed else initial_state(theta, target, np)
    r, along, across, a, b = given
    state = path(t, r, along, across, target, a, b, np)
    if len(theta) <= 5:
        return np.stack(state, -1)
    mean = np.exp(2 * theta[5] - 2 * np.exp(theta[6]) * t) / 2
    return np.stack([*state, mean + (state.w + (target**2 - state.dy2) / 2) / 4], -1)


def _residual(theta: Any, t: Any, data: Any, weight: Any, target: Any, start: Any, np: Any = jnp) -> Any:
    """Weighted residuals (times, series), `np` being NumPy or `jax.numpy`."""
    return np.where(weight > 0, (_curves(theta, t, target, start, np) - data) * weight, 0)


def _costs(thetas: np.ndarray, *given: Any) -> np.ndarray:
    """Sums of squares of all guesses, in NumPy: as quick as to wait for a compiled function once."""
    known = [np.asarray(v) for v in given]
    found = []
    with np.errstate(all="ignore"):
        for some in np.array_split(thetas, -(-len(thetas) // AT_ONCE)):
            found.append((_residual(some.T[..., None], *known, np=np) ** 2).sum(axis=(-1, -2)))
    return np.concatenate(found)


def _linear(theta: Any, *given: Any) -> Any:
    return _residual(theta, *given), jax.jacfwd(_residual)(theta, *given)


def _least_squares(guesses: np.ndarray, pieces: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best of Levenberg-Marquardt searches (MINPACK's) from the best guesses, to the end; many guesses
    take one piece of the times."""
    from scipy.optimize import least_squares

    evaluate = compiled(_linear, (), *_COMPILER.items())

    @lru_cache(maxsize=2)
    def linear(theta: bytes) -> tuple[np.ndarray, np.ndarray]:
        found = [evaluate(np.frombuffer(theta), *given) for given in pieces]
        residual, jacobian = (np.concatenate(v) for v in zip(*found, strict=True))
        if np.isfinite(residual).all() and np.isfinite(jacobian).all():
            return residual, jacobian
        return np.full_like(residual, FAR), np.zeros_like(jacobian)

    def search(theta: np.ndarray, options: Any) -> Any:
        residual = lambda v: linear(v.tobytes())[0].ravel()  # noqa: E731
        slopes = lambda v: linear(v.tobytes())[1].reshape(-1, len(v))  # noqa: E731
        return least_squares(residual, theta, jac=slopes, method="lm", x_scale="jac", **options)  # pyright: ignore[reportArgumentType]

    if len(guesses) > 1:
        costs = np.nan_to_num(_costs(guesses, *pieces[0]), nan=np.inf)
        options = ROUGH if guesses.shape[1] > 2 else FINE  # of two rates each evaluation is quick
        found = [search(guesses[k], options) for k in np.argsort(costs)[:BEST]]
        guesses = np.array([min(found, key=lambda result: result.cost).x])
    best = search(guesses[0], FINE)
    return best.x, *linear(best.x.tobytes())


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
    theta = np.array(out)
    theta[:, :2] = np.log(theta[:, :2])
    if data.shape[1] == 4:
        left = data[:, 3] - (w + (target**2 - y) / 2) / 4
        size = max(left[:few].mean(), 1e-6)
        rate = np.clip(size / 2 / max(np.trapezoid(left, t), 1e-9), 0.1, 1e3)
        theta = np.hstack([theta, np.tile([np.log(2 * size) / 2, np.log(rate)], (len(theta), 1))])
    return theta
