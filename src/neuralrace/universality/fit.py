"""The effective learning rates of a network, by least squares through the closed form of Eq. 7."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import InputError, array, number
from neuralrace.network import precision
from neuralrace.universality.theory import State, final_distance, loss, path, solve

FEWEST = 8
BEST = 8
STEPS = 60
WIDEST = 2.0
Interval = tuple[float, float]


@dataclass(frozen=True)
class Fit:
    """What `fit` found; `start` is the fitted state at the first time.

    `error` is the root mean square of what is left of the series, each as a share of its largest value, and
    `errors` has one such number per series. Intervals allow for residuals that are correlated in time.
    """

    rate_h: float
    rate_y: float
    rate_h_interval: Interval
    rate_y_interval: Interval
    start: State
    error: float
    errors: tuple[float, ...]
    dx: float
    dy: float
    t0: float
    rate_mean: float | None = None
    rate_mean_interval: Interval | None = None
    offset: float | None = None

    def curves(self, t: Any) -> State:
        """The fitted dh2, dy2 and w at times t."""
        return solve(
            array("t", t) - self.t0, *self.start, self.dx, self.dy, rate_h=self.rate_h, rate_y=self.rate_y
        )

    def loss(self, t: Any) -> Any:
        """The loss at times t (Eq. 9), without the part of the mean output if no loss was fitted."""
        _, dy2, w = self.curves(t)
        return loss(array("t", t) - self.t0, dy2, w, self.dy, self.offset or 0.0, self.rate_mean or 0.0)

    @property
    def final(self) -> float:
        """dh2 at the end of learning (Eq. 10)."""
        dh2, dy2, _ = self.start
        return final_distance(dh2, dy2, self.dx, self.dy, self.rate_h, self.rate_y)


def fit(
    t: Any, dh2: Any, dy2: Any, w: Any, dx: float, dy: float, *, loss: Any = None, level: float = 0.95,
    strict: bool = True,
) -> Fit:  # fmt: skip
    """Effective learning rates and the initial state that explain three series over times t (Eq. 7).

    With the `loss` of both samples (one half of the mean squared error), the third rate too (Eq. 9). Each
    series counts by its largest value. Intervals hold the true rate with probability `level`. Series that do
    not tell a rate to a factor of two are refused unless `strict=False`: then read the intervals and `error`.

    >>> t = np.linspace(0, 40, 50)
    >>> found = fit(t, *solve(t, 1e-4, 1e-4, -5e-3, 1, 1, rate_h=2, rate_y=0.5), dx=1, dy=1)
    >>> round(found.rate_h, 4), round(found.rate_y, 4)
    (2.0, 0.5)
    """
    t, series, dx, dy, level = _checked(t, dh2, dy2, w, dx, dy, loss, level, strict)
    t0, span = t[0], t[-1] - t[0]
    # In units of the series' own size and length all numbers are near 1, whatever the rates.
    high = series[:, 0].max()
    out = max(series[:, 1].max(), dy**2, np.abs(series[:, 2]).max())
    unit = np.array([high, out, out, out])[: series.shape[1]]
    x, data, target = (t - t0) / span, series / unit, dy / np.sqrt(out)
    scale = np.abs(data).max(0)
    mask = np.arange(_padded(len(t))) < len(t)
    with precision(np.float64):
        given = tuple(
            jnp.asarray(v) for v in (_pad(x), _pad(data), mask[:, None] / np.sqrt(mask.sum()) / scale, target)
        )
        theta, residual, jacobian = _least_squares(_guesses(x, data, target), *given)
    residual, jacobian = residual[: len(t)], jacobian[: len(t)]
    width = _quantile(level, residual.size - len(theta)) * _deviation(residual, jacobian)

    def rate(i: int, unit: float) -> tuple[float, Interval]:
        value, factor = float(np.exp(theta[i]) / span / unit), float(np.exp(min(width[i], 700)))
        return value, (value / factor, value * factor)

    rate_h, rate_h_interval = rate(0, out * dx**2 / high)
    rate_y, rate_y_interval = rate(1, high)
    for name, value, wide in (("rate_h", rate_h, width[0]), ("rate_y", rate_y, width[1])):
        if strict and not wide < np.log(WIDEST):
            raise InputError(
                f"the series do not tell {name}: about {value:.3g}, {level:.0%} interval wider than a factor "
                f"of {WIDEST:g} either way; they should cover learning, from the start to near the end, "
                "and rise well above their noise"
            )
    rate_mean, rate_mean_interval = rate(6, 1) if loss is not None else (None, None)
    errors = np.sqrt((residual**2).sum(0))
    r, along, across, a, b = _start(theta, target, np)
    y = r**2 * (along**2 + across) / (a * b)
    state = np.array([r**2 / b, y, y - r * along * target / np.sqrt(a * b)]) * unit[:3]
    return Fit(
        rate_h=rate_h,
        rate_y=rate_y,
        rate_h_interval=rate_h_interval,
        rate_y_interval=rate_y_interval,
        start=State(*np.maximum(state, [np.finfo(float).tiny, 0, -np.inf]).tolist()),
        error=float(np.sqrt((errors**2).mean())),
        errors=tuple(errors.tolist()),
        dx=dx,
        dy=dy,
        t0=float(t0),
        rate_mean=rate_mean,
        rate_mean_interval=rate_mean_interval,
        offset=None if loss is None else float(np.exp(theta[5]) * np.sqrt(out)),
    )


def _checked(
    t: Any, dh2: Any, dy2: Any, w: Any, dx: Any, dy: Any, loss: Any, level: Any, strict: bool
) -> Any:
    t = array("t", t, (None,))
    if len(t) < FEWEST:
        raise InputError(f"t has {len(t)} times, too few to identify the rates; at least {FEWEST} are needed")
    if not (np.diff(t) > 0).all():
        raise InputError("t must increase")
    named = {"dh2": dh2, "dy2": dy2, "w": w} | ({} if loss is None else {"loss": loss})
    series = {n: array(n, v, (len(t),)) for n, v in named.items()}
    dx, dy = number("dx", dx, above=0), number("dy", dy, least=0)
    level = number("level", level, above=0)
    if level >= 1:
        raise InputError(f"level must be less than 1, got {level:g}")
    for name in series.keys() - {"w"}:
        if series[name].max() <= 0:
            raise InputError(f"{name} must be positive somewhere, as a squared distance is")
    for name in ("dh2", "dy2", "w"):
        v = series[name]
        # White noise has second differences of six times its variance.
        noise = np.sqrt(np.mean(np.diff(v, 2) ** 2) / 6)
        noisy = strict and noise > 1e-6 * np.abs(v).max()
        if v.std() <= max(1e-9 * np.abs(v).max(), 1.5 * noise if noisy else 0):
            raise InputError(
                f"{name} is flat (deviation {v.std():.3g}, noise about {noise:.3g}): it does not identify "
                "the rates; record for longer, or more often while it changes"
            )
    return t, np.stack(list(series.values()), 1), dx, dy, level


def _padded(n: int) -> int:
    """The next power of two, at least 256: series of all lengths share a few compiled functions."""
    return max(256, 1 << (n - 1).bit_length())


def _pad(v: np.ndarray) -> np.ndarray:
    return np.concatenate([v, np.repeat(v[-1:], _padded(len(v)) - len(v), 0)])


def _start(theta: Any, target: Any, np: Any) -> tuple[Any, ...]:
    """Arguments of `path` from theta = (log a, log b, log of what grows, what decays, what is across).

    A tiny start shows only in the time of the escape, which its growing part sets: hence the logarithm.
    """
    a, b, grows = (np.exp(theta[i]) for i in range(3))
    r = np.where(target > 0, (grows + theta[3]) / 2**0.5, grows)
    along = np.where(target > 0, (grows - theta[3]) / 2**0.5, 0)
    return r, along, theta[4] ** 2, a, b


def _curves(theta: Any, t: Any, target: Any) -> Any:
    r, along, across, a, b = _start(theta, target, jnp)
    state = path(t, r, along, across, target, a, b)
    if len(theta) == 5:
        return jnp.stack(state, -1)
    mean = jnp.exp(2 * theta[5] - 2 * jnp.exp(theta[6]) * t) / 2
    return jnp.stack([*state, mean + (state.w + (target**2 - state.dy2) / 2) / 4], -1)


@jax.jit
def _linear(theta: Any, t: Any, data: Any, weight: Any, target: Any) -> Any:
    """Weighted residuals (runs, times, series) and their derivatives by theta, last axis."""

    def miss(v: Any) -> Any:
        return jnp.where(weight > 0, (_curves(v, t, target) - data) * weight, 0)

    return jax.vmap(lambda v: (miss(v), jax.jacfwd(miss)(v)))(theta)


def _least_squares(guesses: np.ndarray, *given: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best of Levenberg-Marquardt runs from the best guesses: theta, residuals and their Jacobian.

    The runs go side by side, always as many, so that the model and its slopes are all that is compiled.
    """

    def evaluate(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        residual, jacobian = map(np.asarray, _linear(theta, *given))
        cost = (residual**2).sum((1, 2)) + 0 * jacobian.sum((1, 2, 3))
        return np.where(np.isfinite(cost), cost, np.inf), residual, jacobian

    with np.errstate(all="ignore"):
        costs = np.concatenate([evaluate(g)[0] for g in guesses.reshape(-1, BEST, guesses.shape[1])])
        theta = guesses[np.argsort(costs)[:BEST]]
        now, residual, jacobian = evaluate(theta)
        damping, ended = np.full(BEST, 1e-2), np.zeros(BEST, bool)
        for _ in range(STEPS):
            flat = jacobian.reshape(BEST, -1, theta.shape[1])
            normal = np.einsum("knp,knq->kpq", flat, flat)
            normal += (damping[:, None] * np.einsum("kpp->kp", normal) + 1e-14)[:, None] * np.eye(
                theta.shape[1]
            )
            slope = np.einsum("knp,kn->kp", flat, residual.reshape(BEST, -1))
            move = np.clip(-np.linalg.solve(normal, slope[..., None])[..., 0], -3, 3)
            new = evaluate(theta + move)
            better = new[0] < now
            ended |= (better & (now - new[0] < 1e-10 * now)) | (damping > 1e12)
            theta = theta + better[:, None] * np.nan_to_num(move)
            now, residual, jacobian = (
                np.where(better.reshape(-1, *[1] * (v.ndim - 1)), v, old)
                for v, old in zip(new, (now, residual, jacobian), strict=True)
            )
            damping = np.where(better, np.maximum(damping / 5, 1e-12), damping * 4)
            if ended.all():
                break
    best = np.argmin(now)
    return theta[best], residual[best], jacobian[best]


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


def _deviation(residual: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    """Standard deviations of theta: each series has its own noise, as correlated in time as its residuals."""
    n, p = residual.shape[0], jacobian.shape[-1]
    variance = (residual**2).sum(0) / (n - p / residual.shape[1])
    later = (residual[1:] * residual[:-1]).sum(0) / np.maximum((residual**2).sum(0), 1e-300)
    later = np.clip(later, 0, 1 - 1 / n)
    bread = np.einsum("njp,njq->pq", jacobian, jacobian)
    size = np.sqrt(np.maximum(np.diag(bread), 1e-300))
    inverse = np.linalg.pinv(bread / size / size[:, None], rcond=1e-12, hermitian=True) / size / size[:, None]
    meat = np.einsum("njp,njq,j->pq", jacobian, jacobian, variance * (1 + later) / (1 - later))
    return np.sqrt(np.maximum(np.diag(inverse @ meat @ inverse), 0))


def _quantile(level: float, freedom: int) -> float:
    from scipy.stats import t as student

    return float(student.ppf((1 + level) / 2, freedom))


__all__ = ["Fit", "fit"]
