"""The effective learning rates of a network, by least squares through representations_align Eq. 7."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.compiling import Compiled
from neuralrace.errors import InputError, array, flag, number
from neuralrace.network import precision
from neuralrace.universality.theory import State, final_distance, loss, path, solve

FEWEST = 8
DETERMINED = 2.0  # a rate counts as determined where its interval is within this factor, either way
UNKNOWN = 1e3  # and as not identified at all beyond this one
Interval = tuple[float, float]

BEST = 8  # guesses from which a search starts
FEW = 512  # times to which searches from all guesses are fitted
AT_ONCE = 16  # guesses whose curves stay in the cache of a processor
USUAL = 304  # places for up to as many times, of which there are mostly 300
ROUGH: Any = {"xtol": 1e-6, "ftol": 1e-6, "gtol": 1e-6, "max_nfev": 100}
FINE: Any = {"xtol": 1e-15, "ftol": 1e-14, "gtol": 1e-15, "max_nfev": 500}
# A quarter of the time to compile; later calls take a quarter longer.
_COMPILER = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
FAR = 1e3  # residual where the model is not finite, far above any that is of use


@dataclass(frozen=True)
class Fit:
    r"""Effective learning rates of a network, as `fit` finds them.

    Attributes
    ----------
    rate_h, rate_y : float
        Rates of the representation and of the output ($1/\tau_h$, $1/\tau_y$), per unit of time.
    rate_h_interval, rate_y_interval : tuple of float, or None
        Where the true rate lies with the probability `confidence`; allows for residuals that are correlated
        in time. None where the series do not identify the rate, not even to a factor of 1000.
    start : State
        Fitted dh2, dy2 and w at the first time.
    error : float
        Root mean square of what is left of the series, each as a share of its largest value.
    errors : tuple of float
        The same for each series.
    dx, dy : float
        Distances of the two inputs and of the two targets.
    t0 : float
        The first time.
    rate_mean, rate_mean_interval : float and tuple of float, or None
        Rate of the mean output (1/tau_ybar) and its interval; None where no loss was given.
    offset : float or None
        Distance of the mean output from the mean target at the first time.
    problems : tuple of str
        Reasons for which `fit` refuses series unless `strict=False`: rates that they do not determine.

    Examples
    --------
    Put together by hand, where `fit` would find it:

    >>> from neuralrace.universality import Fit, State
    >>> start, errors = State(dh2=1e-4, dy2=1e-8, w=-5e-5), (0.0, 0.0, 0.0)
    >>> fitted = Fit(2.0, 0.5, (1.9, 2.1), (0.4, 0.6), start, 0.0, errors, dx=1.0, dy=1.0, t0=0.0)
    >>> round(fitted.final, 3), fitted.curves([0.0, 50.0]).dh2.round(3).tolist()
    (2.0, [0.0, 2.0])
    """

    rate_h: float
    rate_y: float
    rate_h_interval: Interval | None
    rate_y_interval: Interval | None
    start: State
    error: float
    errors: tuple[float, ...]
    dx: float
    dy: float
    t0: float
    rate_mean: float | None = None
    rate_mean_interval: Interval | None = None
    offset: float | None = None
    problems: tuple[str, ...] = ()

    def curves(self, t: Any) -> State:
        """The fitted dh2, dy2 and w at times t.

        Parameters
        ----------
        t : array_like
            Times, from `t0` on, in the unit of the fitted series.

        Returns
        -------
        State
            dh2, dy2 and w, each with the shape of t.
        """
        return solve(
            array("t", t) - self.t0, *self.start, self.dx, self.dy, rate_h=self.rate_h, rate_y=self.rate_y
        )

    def loss(self, t: Any) -> Any:
        """The loss at times t (Eq. 9), without the part of the mean output if no loss was fitted.

        Parameters
        ----------
        t : array_like
            Times, from `t0` on, in the unit of the fitted series.

        Returns
        -------
        float or ndarray
            One half of the mean squared error of both samples, with the shape of t.
        """
        _, dy2, w = self.curves(t)
        return loss(array("t", t) - self.t0, dy2, w, self.dy, self.offset or 0.0, self.rate_mean or 0.0)

    @property
    def final(self) -> float:
        """dh2 at the end of learning (Eq. 10)."""
        dh2, dy2, _ = self.start
        return final_distance(dh2, dy2, self.dx, self.dy, self.rate_h, self.rate_y)


def fit(
    t: Any, dh2: Any, dy2: Any, w: Any, dx: float, dy: float, *, loss: Any = None, confidence: float = 0.95,
    strict: bool = True,
) -> Fit:  # fmt: skip
    """Effective learning rates and the initial state that explain three series over time (Eq. 7).

    Each series counts by its largest value.

    Parameters
    ----------
    t : array_like, shape (times,)
        Times, increasing; at least 8.
    dh2, dy2 : array_like, shape (times,)
        Squared distances of the two representations and of the two outputs.
    w : array_like, shape (times,)
        Alignment: dy2 less the product of output difference and target difference.
    dx, dy : float
        Distances of the two inputs and of the two targets, not squared.
    loss : array_like, shape (times,), optional
        One half of the mean squared error of both samples: fits the rate of the mean output too (Eq. 9).
    confidence : float, default 0.95
        Probability with which an interval holds the true rate.
    strict : bool, default True
        Refuse series that do not determine rate_h and rate_y to a factor of two. With False the best fit is
        returned anyhow: `problems` says what would have been refused, and an interval is None where the rate
        is not identified at all.

    Returns
    -------
    Fit
        Rates per unit of t, their intervals, the fitted start, and how well it explains the series.

    Examples
    --------
    >>> from neuralrace.universality import fit, solve
    >>> t = np.linspace(0, 40, 50)
    >>> rates = fit(t, *solve(t, 1e-4, 1e-4, -5e-3, 1, 1, rate_h=2, rate_y=0.5), dx=1, dy=1)
    >>> round(rates.rate_h, 4), round(rates.rate_y, 4)
    (2.0, 0.5)
    """
    t, series, dx, dy, confidence = _checked(t, dh2, dy2, w, dx, dy, loss, confidence, strict)
    span = t[-1] - t[0]
    unit, high, out = _units(series, dy)
    target = dy / np.sqrt(out)
    theta, residual, jacobian = best_fit((t - t[0]) / span, series / unit, target)
    with np.errstate(all="ignore"):
        width = _quantile(confidence, residual.size - len(theta)) * _deviation(residual, jacobian)
        speed = np.exp(theta) / span
    rate_h, rate_y = float(speed[0] * high / out / dx**2), float(speed[1] / high)
    start = _state(theta, target) * unit[:3]
    rates = (("rate_h", rate_h, width[0]), ("rate_y", rate_y, width[1]))
    problems = tuple(p for given in rates if (p := _problem(*given, confidence)))
    if strict and problems:
        raise InputError(problems[0])
    _check_explained([rate_h, rate_y], start)
    found = _found((rate_h, rate_y), width, start, np.sqrt((residual**2).sum(0)), dx, dy, t[0], problems)
    if loss is None:
        return found
    rate, offset = float(speed[6]), float(np.exp(theta[5]) * np.sqrt(out))
    interval = _interval(rate, width[6])
    return dataclasses.replace(found, rate_mean=rate, rate_mean_interval=interval, offset=offset)


def _found(
    rates: Any, width: np.ndarray, start: np.ndarray, errors: np.ndarray, dx: float, dy: float, t0: float,
    problems: tuple[str, ...] = (),
) -> Fit:  # fmt: skip
    """A fit without the mean output, from rates and the half widths of their logarithms."""
    rate_h, rate_y = (float(rate) for rate in rates)
    intervals = _interval(rate_h, width[0]), _interval(rate_y, width[1])
    error, first = float(np.sqrt((errors**2).mean())), State(*start.tolist())
    return Fit(
        rate_h, rate_y, *intervals, first, error, tuple(errors.tolist()), dx, dy, float(t0), problems=problems
    )


def fit_rates(
    t: Any, dh2: Any, dy2: Any, w: Any, dx: float, dy: float, *, loss: Any = None, confidence: float = 0.95
) -> Fit:
    """The two effective learning rates alone, from the observed start (representations_align Eq. 49).

    `fit` fits the start as well, and each series counts by its largest value there. Here the theory starts
    from the first value of each series, and squares are summed in the units of the series. With the loss the
    rate of the mean output is fitted last, the other two being kept (Eq. 9).

    Parameters
    ----------
    t, dh2, dy2, w : array_like, shape (times,)
        As in `fit`.
    dx, dy : float
        Distances of the two inputs and of the two targets, not squared.
    loss : array_like, shape (times,), optional
        One half of the mean squared error of both samples.
    confidence : float, default 0.95
        Probability with which an interval holds the true rate.

    Returns
    -------
    Fit
        Its `start` is the observed one; `error` and `errors` are shares of largest values, as those of `fit`.

    Examples
    --------
    >>> from neuralrace.universality import fit_rates, solve
    >>> t = np.linspace(0, 40, 50)
    >>> found = fit_rates(t, *solve(t, 1e-4, 1e-4, -5e-3, 1, 1, rate_h=2, rate_y=0.5), dx=1, dy=1)
    >>> round(found.rate_h, 4), round(found.rate_y, 4)
    (2.0, 0.5)
    """
    t, series, dx, dy, confidence = _checked(t, dh2, dy2, w, dx, dy, loss, confidence, False)
    if series[0, 0] <= 0:
        raise InputError("dh2 must be positive at the first time, from which the theory starts")
    span, three = t[-1] - t[0], series[:, :3]
    unit, high, out = _units(three, dy)
    theta, left, jacobian = best_rates((t - t[0]) / span, three / unit, dy / np.sqrt(out), unit)
    with np.errstate(all="ignore"):
        width = _quantile(confidence, left.size - 2) * _deviation(left, jacobian)
        rates = np.exp(theta) / span * [high / out / dx**2, 1 / high]
    _check_explained(rates, left)
    errors = np.sqrt((left**2).sum(axis=0)) / np.abs(three).max(axis=0)
    found = _found(rates, width, three[0], errors, dx, dy, t[0])
    return found if loss is None else _with_loss(found, t, series[:, 3], confidence)


def _check_explained(rates: Any, values: np.ndarray) -> None:
    """Refuse rates, and what goes with them, that are not finite."""
    if not (all(0 < rate < np.inf for rate in rates) and np.isfinite(values).all()):
        raise InputError(
            "no finite rates explain the series: dh2, dy2 and w do not move as in Eq. 7; try another layer"
        )


def _with_loss(found: Fit, t: np.ndarray, measured: np.ndarray, confidence: float) -> Fit:
    """The same fit with the rate at which the mean output comes to its target, from where it was observed."""
    from scipy.optimize import least_squares

    pair, since = found.loss(t), t - t[0]  # without the mean output
    square = max(2 * float(measured[0] - pair[0]), 0.0)  # of the first distance
    scale = np.sqrt(len(t)) * np.abs(measured).max()

    def residual(log: Any) -> np.ndarray:
        return (square * np.exp(-2 * np.exp(log) * since) / 2 + pair - measured) / scale

    guesses = np.log(10.0 ** np.linspace(-2, 4, 61) / since[-1])
    best: Any = least_squares(residual, min(guesses, key=lambda log: float((residual(log) ** 2).sum())))
    with np.errstate(all="ignore"):
        width = _quantile(confidence, len(t) - 1) * _deviation(best.fun[:, None], best.jac[:, None])[0]
    rate, errors = float(np.exp(best.x[0])), (*found.errors, float(np.sqrt((best.fun**2).sum())))
    return dataclasses.replace(
        found,
        error=float(np.sqrt(np.mean(np.square(errors)))),
        errors=errors,
        rate_mean=rate,
        rate_mean_interval=_interval(rate, width),
        offset=float(np.sqrt(square)),
    )


def _units(series: np.ndarray, dy: float) -> tuple[np.ndarray, float, float]:
    """A unit for each series, of dh2, and of all others: so all numbers are near 1, whatever the rates."""
    high = float(series[:, 0].max())
    out = max(float(series[:, 1].max()), dy**2, float(np.abs(series[:, 2]).max()))
    return np.array([high, out, out, out])[: series.shape[1]], high, out


def _problem(name: str, value: float, width: float, confidence: float) -> str:
    """Why the series do not determine a rate whose logarithm has this half width; empty where they do."""
    if width < np.log(DETERMINED):
        return ""
    return (
        f"the series do not determine {name}: about {value:.3g}, {confidence:.0%} interval wider than a "
        f"factor of {DETERMINED:g} either way; they should cover learning, from the start to near the end, "
        "and rise well above their noise"
    )


def _interval(value: float, width: float) -> Interval | None:
    if not width < np.log(UNKNOWN):
        return None
    return float(value * np.exp(-width)), float(value * np.exp(width))


def _state(theta: np.ndarray, target: float) -> np.ndarray:
    """dh2, dy2 and w at the first time."""
    with np.errstate(all="ignore"):
        r, along, across, a, b = initial_state(theta, target, np)
        y = r**2 * (along**2 + across) / (a * b)
        state = np.array([r**2 / b, y, y - r * along * target / np.sqrt(a * b)])
    return np.maximum(state, [np.finfo(float).tiny, 0, -np.inf])


def _checked(
    t: Any, dh2: Any, dy2: Any, w: Any, dx: Any, dy: Any, loss: Any, confidence: Any, strict: bool
) -> Any:
    t = array("t", t, (None,))
    if len(t) < FEWEST:
        raise InputError(f"t has {len(t)} times, too few to identify the rates; at least {FEWEST} are needed")
    if not (np.diff(t) > 0).all():
        raise InputError("t must increase from each time to the next")
    named = {"dh2": dh2, "dy2": dy2, "w": w} | ({} if loss is None else {"loss": loss})
    series = {n: array(n, v, (len(t),)) for n, v in named.items()}
    dx, dy = number("dx", dx, least=1e-100, most=1e100), number("dy", dy, least=0, most=1e100)
    confidence, strict = number("confidence", confidence, above=0, below=1), flag("strict", strict)
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
    return t, np.stack(list(series.values()), 1), dx, dy, confidence


def _deviation(residual: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    """Standard deviations of theta: each series has its own noise, as correlated in time as its residuals."""
    n, p = residual.shape[0], jacobian.shape[-1]
    variance = (residual**2).sum(0) / (n - p / residual.shape[1])
    later = (residual[1:] * residual[:-1]).sum(0) / np.maximum((residual**2).sum(0), 1e-300)
    later = np.clip(later, 0, 1 - 1 / n)
    bread = np.einsum("njp,njq->pq", jacobian, jacobian)
    size = np.sqrt(np.maximum(np.diag(bread), 1e-300))
    undetermined = np.diag(bread) <= 1e-300  # nothing depends on these, so that they may be anything
    inverse = np.linalg.pinv(bread / size / size[:, None], rcond=1e-12, hermitian=True) / size / size[:, None]
    meat = np.einsum("njp,njq,j->pq", jacobian, jacobian, variance * (1 + later) / (1 - later))
    return np.where(undetermined, np.inf, np.sqrt(np.maximum(np.diag(inverse @ meat @ inverse), 0)))


def _quantile(confidence: float, freedom: int) -> float:
    # Student's distribution; scipy.stats takes a third of a second to import.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


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


_evaluate = Compiled(_linear, **_COMPILER)


def _least_squares(guesses: np.ndarray, pieces: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best of Levenberg-Marquardt searches (MINPACK's) from the best guesses, to the end; many guesses
    take one piece of the times."""
    from scipy.optimize import least_squares

    @lru_cache(maxsize=2)
    def linear(theta: bytes) -> tuple[np.ndarray, np.ndarray]:
        found = [_evaluate(np.frombuffer(theta), *given) for given in pieces]
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
