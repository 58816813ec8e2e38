"""Exclusive or, and its transition to linear separability: losses of the two gatings that race."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from neuralrace.errors import choice
from neuralrace.exact.chains import log_fraction
from neuralrace.exact.formula import closed_form, floats, nonnegative, positive


def _gating(name: str, value: Any) -> str:
    return choice(name, value, ("linear", "xor"))


@closed_form(t=nonnegative, a0=positive, tau=positive)
def xor_loss(t: Any, a0: Any, tau: Any = 1.0) -> Any:
    """Loss of four pathways, each open for one sample of exclusive or (neural_race Eq. 21-23).

    Parameters
    ----------
    t : array_like
        Times, at least 0.
    a0 : array_like
        Product of the weights of a pathway at time 0, above 0.
    tau : array_like, default 1
        Unit of time.

    Returns
    -------
    float or ndarray
        Mean loss; 1/2 for weights of zero.

    Examples
    --------
    >>> round(xor_loss(0.0, a0=1e-3), 6)
    0.498587
    """
    return _loss(t, 0.0, "xor", a0, tau)


@closed_form(
    static=["gating"], t=nonnegative, delta=nonnegative, gating=_gating, a0=positive, tau=positive
)  # fmt: skip
def separability_loss(t: Any, delta: Any, gating: str, a0: Any, tau: Any = 1.0) -> Any:
    """Loss on exclusive or with a third input +-delta that separates it (make_haste_slowly appendix C).

    A chain with `s = delta/2`, `d = delta^2/2` for the linear gating (Eq. 18-22), and with
    `s = sqrt(2 + delta^2)/4`, `d = (2 + delta^2)/4` for the other (d is misprinted there, see errata). At
    delta = 0 the linear gating learns nothing.

    Parameters
    ----------
    t : array_like
        Times, at least 0.
    delta : array_like
        Size of the third input, at least 0.
    gating : {"linear", "xor"}
        One pathway for each target, or one for each sample.
    a0 : array_like
        Product of the weights of a pathway at time 0, above 0.
    tau : array_like, default 1
        Unit of time.

    Returns
    -------
    float or ndarray
        Mean loss; 1/2 for weights of zero.

    Examples
    --------
    >>> bool(separability_loss(20.0, 2.0, "linear", 1e-3) < separability_loss(20.0, 2.0, "xor", 1e-3))
    True
    """
    return _loss(t, delta, _gating("gating", gating), a0, tau)


def _loss(t: Any, delta: Any, gating: str, a0: Any, tau: Any) -> Any:
    t, delta, a0, tau = floats(t, delta, a0, tau)
    length, share = _length_and_share(delta, gating)
    learned = log_fraction(t / tau, length / share, length**2 / share, a0, 2)
    loss = jnp.expm1(learned) ** 2 / 2
    return jnp.where(delta > 0, loss, 0.5) if gating == "linear" else loss


@closed_form(
    static=["gating"], level=positive, delta=nonnegative, gating=_gating, a0=positive, tau=positive
)  # fmt: skip
def separability_time(level: Any, delta: Any, gating: str, a0: Any, tau: Any = 1.0) -> Any:
    """Time at which `separability_loss` falls to a level: the logistic curve, solved for time.

    0 where it starts below the level, inf where nothing is learned.

    >>> round(separability_loss(separability_time(0.2, 1.0, "linear", 1e-3), 1.0, "linear", 1e-3), 6)
    0.2
    """
    level, delta, a0, tau = floats(level, delta, a0, tau)
    length, share = _length_and_share(delta, _gating("gating", gating))
    left, start = jnp.sqrt(2 * level), a0 * length  # of what there is to learn
    growth = jnp.where(left < 1 - start, (1 - left) * (1 - start) / (start * left), 1.0)
    time = tau * share / (2 * length) * jnp.log(growth)
    return jnp.where(delta > 0, time, jnp.inf) if gating == "linear" else time


def _length_and_share(delta: Any, gating: str) -> tuple[Any, int]:
    """Length of the input of a pathway, and the number of pathways."""
    if gating == "linear":
        return jnp.where(delta > 0, delta, jnp.finfo(delta.dtype).tiny ** 0.25), 2
    return jnp.sqrt(2 + delta**2), 4


def separability_crossover() -> float:
    """The delta at which both gatings grow equally fast, `sqrt(2/3)` (make_haste_slowly Eq. 24-26).

    Returns
    -------
    float

    Examples
    --------
    >>> round(separability_crossover(), 6)
    0.816497
    """
    return math.sqrt(2 / 3)
