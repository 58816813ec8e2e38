"""Where two points come to rest, and how random initial weights place them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from neuralrace.exact.formula import closed_form, floats, nonnegative, positive
from neuralrace.universality.theory import DATA, RATES, START, both_scales


class FixedPoint(NamedTuple):
    """A fixed point of Eq. 25 (w = 0 there) and the two eigenvalues of the flow around it.

    Attributes
    ----------
    dh2 : float or ndarray
        Squared distance of the two representations.
    eigenvalues : tuple of float or of ndarray
        Two, per unit of time.

    Examples
    --------
    >>> from neuralrace.universality import FixedPoint
    >>> bool(FixedPoint(dh2=1.0, eigenvalues=(-1.0, -0.5)).stable)
    True
    """

    dh2: Any
    eigenvalues: tuple[Any, Any]

    @property
    def stable(self) -> Any:
        """Whether both eigenvalues are negative, with the shape of `dh2`."""
        return (np.asarray(self.eigenvalues[0]) < 0) & (np.asarray(self.eigenvalues[1]) < 0)


@closed_form(**START, **DATA, **RATES)
def final_distance(dh2: Any, dy2: Any, dx: Any, dy: Any, rate_h: Any, rate_y: Any) -> Any:
    """dh2 at the end of learning, from dh2 and dy2 at any time before (representations_align Eq. 10-11).

    The positive root of `h^2 - a_high h - a_low^2`, see `scales`. Arguments broadcast.

    Parameters
    ----------
    dh2, dy2 : array_like
        Squared distances of the two representations and of the two outputs at any one time.
    dx, dy : array_like
        Distances of the two inputs and of the two targets, not squared.
    rate_h, rate_y : array_like
        Effective learning rates of the representation and of the output (1/tau_h, 1/tau_y); only
        their ratio counts.

    Returns
    -------
    float or ndarray
        dh2 at the end.

    Examples
    --------
    >>> from neuralrace.universality import final_distance
    >>> round(final_distance(1e-6, 1e-12, dx=0.5, dy=1, rate_h=4, rate_y=1), 6)
    1.0
    """
    return _root(*both_scales(*floats(dh2, dy2, dx, dy, rate_h, rate_y)))[0]


def _root(high: Any, low: Any) -> tuple[Any, Any]:
    """The positive and the negative root of h^2 - high h - low^2, without cancellation."""
    big = (jnp.abs(high) + jnp.hypot(high, 2 * low)) / 2
    small = jnp.where(big > 0, low**2 / jnp.where(big > 0, big, 1), 0)
    return jnp.where(high >= 0, big, small), -jnp.where(high >= 0, small, big)


@closed_form(**START, **DATA, **RATES)
def fixed_points(dh2: Any, dy2: Any, dx: Any, dy: Any, rate_h: Any, rate_y: Any) -> Any:
    """The end of learning and the saddle at dh2 = 0, as two `FixedPoint`, for the plane of Eq. 25.

    The eigenvalues of Eq. 29 written out, and Eq. 35. Arguments broadcast.

    Parameters
    ----------
    dh2, dy2 : array_like
        Squared distances of the two representations and of the two outputs at any one time.
    dx, dy : array_like
        Distances of the two inputs and of the two targets, not squared.
    rate_h, rate_y : array_like
        Effective learning rates of the representation and of the output (1/tau_h, 1/tau_y), per unit of time.

    Returns
    -------
    end, saddle : FixedPoint

    Examples
    --------
    >>> from neuralrace.universality import fixed_points
    >>> end, saddle = fixed_points(1e-6, 1e-12, dx=0.5, dy=1, rate_h=4, rate_y=1)
    >>> round(end.dh2, 6), bool(end.stable), bool(saddle.stable)
    (1.0, True, False)
    """
    dh2, dy2, dx, dy, rate_h, rate_y = floats(dh2, dy2, dx, dy, rate_h, rate_y)
    high, low = _root(*both_scales(dh2, dy2, dx, dy, rate_h, rate_y))
    end = FixedPoint(high, (-rate_y * high, -rate_y * (high - low) / 2))
    return end, FixedPoint(jnp.zeros_like(high), (rate_y * high, rate_y * low))


@closed_form(h=positive, gain=positive, **DATA, **RATES)
def final_cdf(h: Any, gain: Any, dx: Any, dy: Any, rate_h: Any = 1.0, rate_y: Any = 1.0) -> Any:
    """Probability that dh2 ends below h, from random initial weights (representations_align A.6, Eq. 47).

    dh2(0)/dx^2 and dy2(0)/dh2(0) are independent normal numbers with mean and deviation `gain`. The paper
    takes equal rates. Arguments broadcast.

    Parameters
    ----------
    h : array_like
        Values of the final dh2, above 0.
    gain : array_like
        Scale of the initial weights, as above.
    dx, dy : array_like
        Distances of the two inputs and of the two targets, not squared.
    rate_h, rate_y : array_like
        Effective learning rates of the representation and of the output (1/tau_h, 1/tau_y); only
        their ratio counts.

    Returns
    -------
    float or ndarray
        Probability, 0 to 1.

    Examples
    --------
    >>> from neuralrace.universality import final_cdf
    >>> final_cdf([0.5, 1.0, 2.0], gain=1.0, dx=1.0, dy=1.0).round(3)
    array([0.144, 0.5  , 0.856])
    """
    return norm.cdf(_score(*floats(h, gain, dx, dy, rate_h, rate_y))[0])


@closed_form(h=positive, gain=positive, **DATA, **RATES)
def final_density(h: Any, gain: Any, dx: Any, dy: Any, rate_h: Any = 1.0, rate_y: Any = 1.0) -> Any:
    """Density of the final dh2 from random weights (representations_align Eq. 48, see `final_cdf`).

    Parameters
    ----------
    h, gain, dx, dy, rate_h, rate_y
        As in `final_cdf`.

    Returns
    -------
    float or ndarray
        Probability per unit of dh2.

    Examples
    --------
    >>> from neuralrace.universality import final_density
    >>> final_density([0.5, 1.0, 2.0], gain=1.0, dx=1.0, dy=1.0).round(3)
    array([0.804, 0.564, 0.201])
    """
    score, slope = _score(*floats(h, gain, dx, dy, rate_h, rate_y))
    return slope * norm.pdf(score)


def _score(h: Any, gain: Any, dx: Any, dy: Any, rate_h: Any, rate_y: Any) -> Any:
    ratio = rate_h / rate_y
    low2 = ratio * dx**2 * dy**2
    # a_high is normal: the difference of two numbers of mean and deviation gain, the second times the ratio.
    mean, deviation = dx**2 * gain * (1 - ratio), dx**2 * gain * jnp.sqrt(1 + ratio**2)
    return (h - low2 / h - mean) / deviation, (1 + low2 / h**2) / deviation


@closed_form(depth=nonnegative, gain=positive, dx=positive)
def initial_distance(depth: Any, gain: Any, dx: Any) -> Any:
    """dh2 at time 0 after `depth` layers that each multiply squared distances by `gain` (Eq. 14).

    `gain^depth dx^2`. Arguments broadcast.

    Parameters
    ----------
    depth : array_like
        Number of layers, at least 0.
    gain : array_like
        Factor of each layer, above 0.
    dx : array_like
        Distance of the two inputs, not squared.

    Returns
    -------
    float or ndarray
        dh2 at time 0.

    Examples
    --------
    >>> from neuralrace.universality import initial_distance
    >>> initial_distance(depth=3, gain=0.5, dx=2.0)
    0.5
    """
    depth, gain, dx = floats(depth, gain, dx)
    return gain**depth * dx**2
