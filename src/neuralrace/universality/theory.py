"""The interaction of two points in any smooth network: distances of representations and of outputs.

representations_align models a network near two samples as an encoder and a decoder that are free, so that
only two effective learning rates (`rate_h = 1/tau_h`, `rate_y = 1/tau_y`) are left of its architecture.
`dx` and `dy` are distances of the two inputs and targets; `dh2`, `dy2` are squared distances of the two
representations and outputs, `w` is the alignment `dy2 - (output difference) . (target difference)`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from neuralrace.compiling import traced
from neuralrace.errors import InputError, array
from neuralrace.exact.formula import closed_form, nonnegative, positive


class State(NamedTuple):
    """The three variables of Eq. 7 over time.

    Attributes
    ----------
    dh2 : float or ndarray
        Squared distance of the two representations.
    dy2 : float or ndarray
        Squared distance of the two outputs.
    w : float or ndarray
        Alignment, `dy2 - (output difference) . (target difference)`.

    Examples
    --------
    >>> from neuralrace.universality import State
    >>> State(dh2=1.0, dy2=0.25, w=-0.25).dy2
    0.25
    """

    dh2: Any
    dy2: Any
    w: Any


RATES: dict[str, Any] = {"rate_h": positive, "rate_y": positive}
DATA: dict[str, Any] = {"dx": positive, "dy": nonnegative}
START: dict[str, Any] = {"dh2": positive, "dy2": nonnegative}


def solve(t: Any, dh2: Any, dy2: Any, w: Any, dx: Any, dy: Any, rate_h: Any, rate_y: Any) -> State:
    r"""dh2, dy2 and w at times t, from their values at time 0 (representations_align Eq. 7), in closed form.

    Arguments broadcast. Exact at any time and scale: representations that pass through each other
    (dh2 = 0, where Eq. 7 divides by zero) come out on the other side.

    Parameters
    ----------
    t : array_like
        Times, at least 0.
    dh2, dy2 : array_like
        Squared distances of the two representations and of the two outputs at time 0.
    w : array_like
        Alignment at time 0, `dy2 - (output difference) . (target difference)`; within $y^2 \pm dy\, y$ for
        $y^2$ = `dy2`.
    dx, dy : array_like
        Distances of the two inputs and of the two targets, not squared.
    rate_h, rate_y : array_like
        Effective learning rates of the representation and of the output ($1/\tau_h$, $1/\tau_y$), per unit of
        `t`.

    Returns
    -------
    State
        dh2, dy2 and w, each with the shape that the arguments broadcast to.

    Examples
    --------
    >>> from neuralrace.universality import solve
    >>> dh2, dy2, w = solve([0, 10, 50], 1e-4, 1e-8, -5e-5, dx=1, dy=1, rate_h=1, rate_y=1)
    >>> print(dh2.round(3), dy2.round(3))
    [0.    0.553 1.   ] [0.    0.306 1.   ]
    """
    if not traced((dy2, w, dy)):
        _possible(
            *(f(n, v) for f, n, v in ((nonnegative, "dy2", dy2), (array, "w", w), (nonnegative, "dy", dy)))
        )
    return _solve(t, dh2, dy2, w, dx, dy, rate_h, rate_y)


def _possible(dy2: Any, w: Any, dy: Any) -> None:
    # Rounding in float32 networks is forgiven.
    excess = np.abs(dy2 - w) - dy * np.sqrt(dy2) - 1e-5 * (dy2 + np.abs(w))
    if (excess > 0).any():
        raise InputError(
            "w must lie within dy2 -+ dy sqrt(dy2), since w = dy2 - (output difference) . (target "
            f"difference); it lies {excess.max():g} outside"
        )


@closed_form(t=nonnegative, w=array, **START, **DATA, **RATES)
def _solve(t: Any, dh2: Any, dy2: Any, w: Any, dx: Any, dy: Any, rate_h: Any, rate_y: Any) -> State:
    a = rate_h * dx**2
    along = jnp.where(dy > 0, (dy2 - w) / jnp.where(dy > 0, dy, 1), 0)
    along = jnp.clip(along, -jnp.sqrt(dy2), jnp.sqrt(dy2))
    return path(
        t, jnp.sqrt(rate_y * dh2), jnp.sqrt(a / dh2) * along, a / dh2 * (dy2 - along**2), dy, a, rate_y
    )


def path(t: Any, r: Any, g: Any, g2: Any, dy: Any, a: Any, b: Any, np: Any = jnp) -> State:
    """The closed form of Eq. 7, with a = rate_h dx^2, b = rate_y.

    Eq. 7 is a linear network with one hidden unit in disguise. With r = sqrt(b) |dh| and the vector
    sqrt(a) dy/|dh|, which has the component g along the target and a squared length g2 across it,
    `r' = s g - r (g^2 + g2)/2` and `g' = s r - r^2 g/2`, where s = sqrt(a b) dy/2. As
    `4 k = r^2 - g^2 - g2` stays, `Q = (r, g, sqrt(g2))` obeys `Q' = F Q - |Q|^2 Q/4` with a constant F,
    so `Q = exp(F t) Q0 / n`, `n^2 = 1 + integral of |exp(F t) Q0|^2 / 2`. F has the eigenvalues +-omega and
    -k. All is divided by exp(omega t), so that nothing overflows. `np` is NumPy or `jax.numpy`.
    """
    s = np.sqrt(a * b) * dy / 2
    k = (r**2 - g**2 - g2) / 4
    omega = np.sqrt(k**2 + s**2)
    safe = np.where(omega > 0, omega, 1)
    # The eigenvector of omega is (c, d); the smaller of both by the product c d = s / (2 omega).
    large = np.sqrt((1 + np.abs(k) / safe) / 2)
    small = s / (2 * safe * large)
    c, d = np.where(k >= 0, large, small), np.where(k >= 0, small, large)
    grows, decays = r * c + g * d, g * c - r * d
    faded = np.exp(-2 * omega * t)
    # omega - |k| without cancellation, and exp(-2 omega t) times the integral of exp(-2 k t).
    gap = s**2 / (safe + np.abs(k))
    across = t * np.exp(-2 * np.where(k < 0, gap, omega) * t) * _phi(-2 * np.abs(k) * t, np)
    size = faded + (grows**2 + decays**2 * faded) * t * _phi(-2 * omega * t, np) / 2 + g2 * across / 2
    r1, g1 = grows * c - decays * faded * d, grows * d + decays * faded * c
    g3 = g2 * np.exp(-2 * np.where(k < 0, gap, omega + k) * t)
    dh2 = r1**2 / size / b
    dy2 = r1**2 * (g1**2 + g3) / size**2 / (a * b)
    # -(dh2)'/a, with what cancels in it cancelled by hand: exact where w fades.
    plus, minus = np.where(k < 0, gap, omega + k), np.where(k < 0, omega - k, gap)
    e = 2 * s - r * g
    outer = grows * (d * e * faded - c * g2 * (faded - plus * across))
    inner = decays * (c * e * faded + d * g2 * (faded + minus * across)) * faded
    return State(dh2, dy2, -r1 * (outer + inner) / size**2 / (a * b))


def _phi(x: Any, np: Any = jnp) -> Any:
    """(exp(x) - 1) / x."""
    tiny = np.abs(x) < 1e-8
    safe = np.where(tiny, 1, x)
    return np.where(tiny, 1 + x / 2, np.expm1(safe) / safe)


@closed_form(dh2=positive, dy2=nonnegative, w=array, **DATA, **RATES)
def velocity(dh2: Any, dy2: Any, w: Any, dx: Any, dy: Any, rate_h: Any, rate_y: Any) -> State:
    r"""Time derivatives of dh2, dy2 and w (representations_align Eq. 7).

    Arguments broadcast.

    Parameters
    ----------
    dh2, dy2 : array_like
        Squared distances of the two representations and of the two outputs.
    w : array_like
        Alignment, `dy2 - (output difference) . (target difference)`.
    dx, dy : array_like
        Distances of the two inputs and of the two targets, not squared.
    rate_h, rate_y : array_like
        Effective learning rates of the representation and of the output ($1/\tau_h$, $1/\tau_y$), per unit of
        time.

    Returns
    -------
    State
        Change of dh2, dy2 and w per unit of time.

    Examples
    --------
    >>> from neuralrace.universality import velocity
    >>> velocity(1.0, 0.25, -0.25, dx=1, dy=1, rate_h=1, rate_y=1)
    State(dh2=0.25, dy2=0.3125, w=0.0)
    """
    a = rate_h * dx**2
    return State(
        -a * w,
        -w * (rate_y * dh2 + a * dy2 / dh2),
        -rate_y / 2 * (3 * w - dy2 + dy**2) * dh2 - a / 2 * (dy2 + w) * w / dh2,
    )


@closed_form(dh2=positive, w=array, a_high=array, **DATA, **RATES)
def plane_velocity(dh2: Any, w: Any, a_high: Any, dx: Any, dy: Any, rate_h: Any, rate_y: Any) -> Any:
    r"""Time derivatives of dh2 and w in the plane of a constant `a_high` (`scales`), Eq. 24-25.

    Arguments broadcast. In the plane $y^2 = \frac{\tau_h}{\tau_y} h^2 (h^2 - A_{high}) / dx^2$, with $y^2$ =
    `dy2` and $h^2$ = `dh2`.

    Parameters
    ----------
    dh2 : array_like
        Squared distance of the two representations.
    w : array_like
        Alignment, `dy2 - (output difference) . (target difference)`.
    a_high : array_like
        The constant of the flow.
    dx, dy : array_like
        Distances of the two inputs and of the two targets, not squared.
    rate_h, rate_y : array_like
        Effective learning rates of the representation and of the output ($1/\tau_h$, $1/\tau_y$), per unit of
        time.

    Returns
    -------
    dh2, w : float or ndarray
        Their change per unit of time.

    Examples
    --------
    >>> from neuralrace.universality import plane_velocity
    >>> plane_velocity(1.0, -0.25, 0.75, dx=1, dy=1, rate_h=1, rate_y=1)
    (0.25, 0.0)
    """
    a = rate_h * dx**2
    square = 4 * rate_y * dh2 * w + a * w**2 / dh2 - rate_y * a_high * w
    cubic = rate_y**2 / a * dh2 * (dh2**2 - a_high * dh2) - rate_y * dy**2 * dh2
    return -a * w, (cubic - square) / 2


@closed_form(**START, **DATA, **RATES)
def scales(dh2: Any, dy2: Any, dx: Any, dy: Any, rate_h: Any, rate_y: Any) -> Any:
    r"""`a_high`, a constant of the flow, and `a_low`: dh2 ends near a_high from large weights (if it is
    positive) and near a_low from small ones (representations_align Eq. 11).

    $A_{high} = h^2 - \frac{\tau_y}{\tau_h} dx^2\, y^2/h^2$ and $A_{low} = \sqrt{\tau_y/\tau_h}\, dx\, dy$,
    with $h^2$ = `dh2` and $y^2$ = `dy2`. Arguments broadcast.

    Parameters
    ----------
    dh2, dy2 : array_like
        Squared distances of the two representations and of the two outputs at any one time.
    dx, dy : array_like
        Distances of the two inputs and of the two targets, not squared.
    rate_h, rate_y : array_like
        Effective learning rates of the representation and of the output ($1/\tau_h$, $1/\tau_y$); only
        their ratio counts.

    Returns
    -------
    a_high, a_low : float or ndarray
        In units of dh2.

    Examples
    --------
    >>> from neuralrace.universality import scales
    >>> scales(1.0, 0.25, dx=1, dy=1, rate_h=1, rate_y=1)
    (0.75, 1.0)
    """
    return both_scales(dh2, dy2, dx, dy, rate_h, rate_y)


def both_scales(dh2: Any, dy2: Any, dx: Any, dy: Any, rate_h: Any, rate_y: Any) -> Any:
    ratio = rate_h / rate_y
    return dh2 - ratio * dx**2 * dy2 / dh2, jnp.sqrt(ratio) * dx * dy


@closed_form(t=nonnegative, dx=positive, **START, **RATES)
def equal_targets(t: Any, dh2: Any, dy2: Any, dx: Any, rate_h: Any, rate_y: Any) -> State:
    r"""Eq. 7 for equal targets (dy = 0, w = dy2), and its limit for large weights (Eq. 39-40, A.5).

    Arguments broadcast.

    Parameters
    ----------
    t : array_like
        Times, at least 0.
    dh2, dy2 : array_like
        Squared distances of the two representations and of the two outputs at time 0.
    dx : array_like
        Distance of the two inputs, not squared.
    rate_h, rate_y : array_like
        Effective learning rates of the representation and of the output ($1/\tau_h$, $1/\tau_y$), per unit of
        `t`.

    Returns
    -------
    State
        dh2, dy2 and w at times t.

    Examples
    --------
    >>> from neuralrace.universality import equal_targets
    >>> equal_targets(1e3, 1.0, 0.5, dx=1, rate_h=1, rate_y=1).dh2
    0.5
    """
    # Printed without rate_y in the exponent. Multiplied out by the exponential that does not overflow.
    x = rate_y * t * both_scales(dh2, dy2, dx, 0.0, rate_h, rate_y)[0]
    up, down = jnp.exp(jnp.minimum(x, 0)), jnp.exp(-jnp.maximum(x, 0))
    size = down + rate_y * dh2 * t * _phi(-jnp.abs(x))
    out = dy2 * up * down / size**2
    return State(dh2 * up / size, out, out)


@closed_form(
    t=nonnegative, dy2=nonnegative, w=array, dy=nonnegative, offset=nonnegative, rate_mean=nonnegative
)
def loss(t: Any, dy2: Any, w: Any, dy: Any, offset: Any = 0.0, rate_mean: Any = 0.0) -> Any:
    r"""One half of the mean squared error of both samples (representations_align Eq. 9).

    It is $\frac12 \bigl(\text{offset}\; e^{-t/\tau_{\bar y}}\bigr)^2 + \frac14 \bigl(w + \frac12 (dy^2 -
    y^2)\bigr)$ with $y^2$ = `dy2`. Arguments broadcast.

    Parameters
    ----------
    t : array_like
        Times, at least 0.
    dy2, w : array_like
        Squared distance of the two outputs and alignment, as they are at times t.
    dy : array_like
        Distance of the two targets, not squared.
    offset : array_like
        Distance of the mean output from the mean target at time 0.
    rate_mean : array_like
        Rate at which it falls, the third effective rate 1/tau_ybar, per unit of `t`.

    Returns
    -------
    float or ndarray
        In squared units of the outputs.

    Examples
    --------
    >>> from neuralrace.universality import loss
    >>> loss([0.0, 1.0], 0.0, 0.0, dy=1.0, offset=0.5, rate_mean=1.0).round(3)
    array([0.25 , 0.142])
    """
    return (offset * jnp.exp(-rate_mean * t)) ** 2 / 2 + (w + (dy**2 - dy2) / 2) / 4


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
    r"""dh2 at the end of learning, from dh2 and dy2 at any time before (representations_align Eq. 10-11).

    The positive root of $h^2 - A_{high} h - A_{low}^2$, see `scales`. Arguments broadcast.

    Parameters
    ----------
    dh2, dy2 : array_like
        Squared distances of the two representations and of the two outputs at any one time.
    dx, dy : array_like
        Distances of the two inputs and of the two targets, not squared.
    rate_h, rate_y : array_like
        Effective learning rates of the representation and of the output ($1/\tau_h$, $1/\tau_y$); only
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
    return _root(*both_scales(dh2, dy2, dx, dy, rate_h, rate_y))[0]


def _root(high: Any, low: Any) -> tuple[Any, Any]:
    """The positive and the negative root of h^2 - high h - low^2, without cancellation."""
    big = (jnp.abs(high) + jnp.hypot(high, 2 * low)) / 2
    small = jnp.where(big > 0, low**2 / jnp.where(big > 0, big, 1), 0)
    return jnp.where(high >= 0, big, small), -jnp.where(high >= 0, small, big)


@closed_form(**START, **DATA, **RATES)
def fixed_points(dh2: Any, dy2: Any, dx: Any, dy: Any, rate_h: Any, rate_y: Any) -> Any:
    r"""The end of learning and the saddle at dh2 = 0, as two `FixedPoint`, for the plane of Eq. 25.

    The eigenvalues of Eq. 29 written out, and Eq. 35. Arguments broadcast.

    Parameters
    ----------
    dh2, dy2 : array_like
        Squared distances of the two representations and of the two outputs at any one time.
    dx, dy : array_like
        Distances of the two inputs and of the two targets, not squared.
    rate_h, rate_y : array_like
        Effective learning rates of the representation and of the output ($1/\tau_h$, $1/\tau_y$), per unit of
        time.

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
    high, low = _root(*both_scales(dh2, dy2, dx, dy, rate_h, rate_y))
    end = FixedPoint(high, (-rate_y * high, -rate_y * (high - low) / 2))
    return end, FixedPoint(jnp.zeros_like(high), (rate_y * high, rate_y * low))


@closed_form(h=positive, gain=positive, **DATA, **RATES)
def final_cdf(h: Any, gain: Any, dx: Any, dy: Any, rate_h: Any = 1.0, rate_y: Any = 1.0) -> Any:
    r"""Probability that dh2 ends below h, from random initial weights (representations_align A.6, Eq. 47).

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
        Effective learning rates of the representation and of the output ($1/\tau_h$, $1/\tau_y$); only
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
    return norm.cdf(_score(h, gain, dx, dy, rate_h, rate_y)[0])


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
    score, slope = _score(h, gain, dx, dy, rate_h, rate_y)
    return slope * norm.pdf(score)


def _score(h: Any, gain: Any, dx: Any, dy: Any, rate_h: Any, rate_y: Any) -> Any:
    ratio = rate_h / rate_y
    low2 = ratio * dx**2 * dy**2
    # a_high is normal: the difference of two numbers of mean and deviation gain, the second times the ratio.
    mean, deviation = dx**2 * gain * (1 - ratio), dx**2 * gain * jnp.sqrt(1 + ratio**2)
    return (h - low2 / h - mean) / deviation, (1 + low2 / h**2) / deviation


@closed_form(depth=nonnegative, gain=positive, dx=positive)
def initial_distance(depth: Any, gain: Any, dx: Any) -> Any:
    r"""dh2 at time 0 after `depth` layers that each multiply squared distances by `gain` (Eq. 14).

    It is $\text{gain}^{\text{depth}}\, dx^2$. Arguments broadcast.

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
    return gain**depth * dx**2
