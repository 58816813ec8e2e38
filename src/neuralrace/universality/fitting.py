"""The effective learning rates of a network, by least squares through the closed form of Eq. 7."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.errors import InputError, array, flag, number
from neuralrace.universality.final import final_distance
from neuralrace.universality.model import best_fit, best_rates, initial_state
from neuralrace.universality.theory import State, loss, solve

FEWEST = 8
DETERMINED = 2.0  # a rate counts as determined where its interval is within this factor, either way
UNKNOWN = 1e3  # and as not identified at all beyond this one
Interval = tuple[float, float]


@dataclass(frozen=True)
class Fit:
    """Effective learning rates of a network, as `fit` finds them.

    Attributes
    ----------
    rate_h, rate_y : float
        Rates of the representation and of the output (1/tau_h, 1/tau_y), per unit of time.
    rate_h_interval, rate_y_interval : tuple of float, or None
        Where the true rate lies with the probability `level`; allows for residuals that are correlated in
        time. None where the series do not identify the rate, not even to a factor of 1000.
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
    t: Any, dh2: Any, dy2: Any, w: Any, dx: float, dy: float, *, loss: Any = None, level: float = 0.95,
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
    level : float, default 0.95
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
    t, series, dx, dy, level = _checked(t, dh2, dy2, w, dx, dy, loss, level, strict)
    span = t[-1] - t[0]
    unit, high, out = _units(series, dy)
    target = dy / np.sqrt(out)
    theta, residual, jacobian = best_fit((t - t[0]) / span, series / unit, target)
    with np.errstate(all="ignore"):
        width = _quantile(level, residual.size - len(theta)) * _deviation(residual, jacobian)
        speed = np.exp(theta) / span
    rate_h, rate_y = float(speed[0] * high / out / dx**2), float(speed[1] / high)
    start = _state(theta, target) * unit[:3]
    rates = (("rate_h", rate_h, width[0]), ("rate_y", rate_y, width[1]))
    problems = tuple(p for given in rates if (p := _problem(*given, level)))
    if strict and problems:
        raise InputError(problems[0])
    if not (np.isfinite(start).all() and 0 < rate_h < np.inf and 0 < rate_y < np.inf):
        raise InputError(
            "no finite rates explain the series: dh2, dy2 and w do not move as in Eq. 7; try another layer"
        )
    errors = np.sqrt((residual**2).sum(0))
    both = loss is not None
    return Fit(
        rate_h,
        rate_y,
        _interval(rate_h, width[0]),
        _interval(rate_y, width[1]),
        State(*start.tolist()),
        error=float(np.sqrt((errors**2).mean())),
        errors=tuple(errors.tolist()),
        dx=dx,
        dy=dy,
        t0=float(t[0]),
        rate_mean=float(speed[6]) if both else None,
        rate_mean_interval=_interval(float(speed[6]), width[6]) if both else None,
        offset=float(np.exp(theta[5]) * np.sqrt(out)) if both else None,
        problems=problems,
    )


def fit_rates(
    t: Any, dh2: Any, dy2: Any, w: Any, dx: float, dy: float, *, loss: Any = None, level: float = 0.95
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
    level : float, default 0.95
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
    t, series, dx, dy, level = _checked(t, dh2, dy2, w, dx, dy, loss, level, False)
    if series[0, 0] <= 0:
        raise InputError("dh2 must be positive at the first time, from which the theory starts")
    span, three = t[-1] - t[0], series[:, :3]
    unit, high, out = _units(three, dy)
    theta, left, jacobian = best_rates((t - t[0]) / span, three / unit, dy / np.sqrt(out), unit)
    with np.errstate(all="ignore"):
        width = _quantile(level, left.size - 2) * _deviation(left, jacobian)
        rates = np.exp(theta) / span * [high / out / dx**2, 1 / high]
    if not (np.isfinite(rates).all() and (rates > 0).all() and np.isfinite(left).all()):
        raise InputError(
            "no finite rates explain the series: dh2, dy2 and w do not move as in Eq. 7; try another layer"
        )
    errors = np.sqrt((left**2).sum(axis=0)) / np.abs(three).max(axis=0)
    found = Fit(
        float(rates[0]),
        float(rates[1]),
        _interval(float(rates[0]), width[0]),
        _interval(float(rates[1]), width[1]),
        State(*three[0].tolist()),
        error=float(np.sqrt((errors**2).mean())),
        errors=tuple(errors.tolist()),
        dx=dx,
        dy=dy,
        t0=float(t[0]),
    )
    return found if loss is None else _with_loss(found, t, series[:, 3], level)


def _with_loss(found: Fit, t: np.ndarray, measured: np.ndarray, level: float) -> Fit:
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
        width = _quantile(level, len(t) - 1) * _deviation(best.fun[:, None], best.jac[:, None])[0]
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


def _problem(name: str, value: float, width: float, level: float) -> str:
    """Why the series do not determine a rate whose logarithm has this half width; empty where they do."""
    if width < np.log(DETERMINED):
        return ""
    return (
        f"the series do not determine {name}: about {value:.3g}, {level:.0%} interval wider than a factor of "
        f"{DETERMINED:g} either way; they should cover learning, from the start to near the end, "
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
    t: Any, dh2: Any, dy2: Any, w: Any, dx: Any, dy: Any, loss: Any, level: Any, strict: bool
) -> Any:
    t = array("t", t, (None,))
    if len(t) < FEWEST:
        raise InputError(f"t has {len(t)} times, too few to identify the rates; at least {FEWEST} are needed")
    if not (np.diff(t) > 0).all():
        raise InputError("t must increase from each time to the next")
    named = {"dh2": dh2, "dy2": dy2, "w": w} | ({} if loss is None else {"loss": loss})
    series = {n: array(n, v, (len(t),)) for n, v in named.items()}
    dx, dy = number("dx", dx, least=1e-100, most=1e100), number("dy", dy, least=0, most=1e100)
    level, strict = number("level", level, above=0, below=1), flag("strict", strict)
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


def _deviation(residual: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    """Standard deviations of theta: each series has its own noise, as correlated in time as its residuals."""
    n, p = residual.shape[0], jacobian.shape[-1]
    variance = (residual**2).sum(0) / (n - p / residual.shape[1])
    later = (residual[1:] * residual[:-1]).sum(0) / np.maximum((residual**2).sum(0), 1e-300)
    later = np.clip(later, 0, 1 - 1 / n)
    bread = np.einsum("njp,njq->pq", jacobian, jacobian)
    size = np.sqrt(np.maximum(np.diag(bread), 1e-300))
    unseen = np.diag(bread) <= 1e-300  # nothing depends on these, so that they may be anything
    inverse = np.linalg.pinv(bread / size / size[:, None], rcond=1e-12, hermitian=True) / size / size[:, None]
    meat = np.einsum("njp,njq,j->pq", jacobian, jacobian, variance * (1 + later) / (1 - later))
    return np.where(unseen, np.inf, np.sqrt(np.maximum(np.diag(inverse @ meat @ inverse), 0)))


def _quantile(level: float, freedom: int) -> float:
    from scipy.special import (
        stdtrit,
    )  # Student's distribution; scipy.stats takes a third of a second to import

    return float(stdtrit(freedom, (1 + level) / 2))


__all__ = ["Fit", "fit", "fit_rates"]
