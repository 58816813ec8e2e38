"""Curves over time: crossings of a level, half times, plateaus; power laws, and how far curves are apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuralrace.dynamics.history import History
from neuralrace.dynamics.history import crossing as first_below
from neuralrace.dynamics.status import Status
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, flag, listable, number, short
from neuralrace.measure.maps import Floats, floats, plain

POINTS = 4000  # along each curve


class LossCurve(Protocol):
    """Anything with times `(save,)` and a loss `(save,)` or `(runs, save)`, such as a `Trajectory`."""

    @property
    def t(self) -> np.ndarray: ...
    @property
    def loss(self) -> np.ndarray: ...


def learning_time(trajectory: LossCurve, level: ArrayLike) -> Floats:
    """First time at which the loss falls to `level`; `nr.learning_time` also knows parts of the network.

    Interpolates with the loss and its slope at the solver's own steps, so the result does not depend on
    which times were saved. For descent it is linear between steps; with mini-batches between saved steps.

    Parameters
    ----------
    trajectory : Trajectory
        One run or several. Anything with `t` and `loss` will do; it is then linear between these times.
    level : float or array_like, shape (runs,)
        Loss to reach, in the units of ``trajectory.loss``; the same for all runs, or one for each.

    Returns
    -------
    float or ndarray, shape (runs,)
        Flow time (tau = 1, mean loss); nan where the level is never reached.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.xor()
    >>> start = nr.init.decoupled(nr.reduce(task), 0.1)
    >>> few, many = (nr.flow(task, start, t1=100.0, save=n) for n in (2, 500))
    >>> bool(abs(learning_time(few, 0.1) / learning_time(many, 0.1) - 1) < 1e-3)
    True
    """
    history = _history(trajectory)
    return _first_below(history, check_levels(level, history.loss.shape[:-1]))


def check_levels(level: ArrayLike, runs: tuple[int, ...]) -> Floats:
    """`level` as an array: a number, or one for each of the runs."""
    levels = floats("level", level if listable(level) else number("level", level))
    if levels.shape not in ((), runs):
        raise InputError(f"level must be a number or have shape {runs}, got {levels.shape}")
    return levels


def _first_below(history: History, levels: ArrayLike, sign: ArrayLike = 1.0) -> Floats:
    """The first time at which `sign` times the loss of each run is at or below `sign` times its level."""
    if history.loss.ndim == 1:
        level = float(np.multiply(sign, levels))
        return cast(Floats, first_below(history.scaled(float(np.asarray(sign))), level))
    each = zip(*(np.broadcast_to(v, len(history.loss)) for v in (levels, sign)), strict=True)
    return np.array([_first_below(history.run(k), *one) for k, one in enumerate(each)])


def _history(trajectory: LossCurve) -> History:
    history = getattr(trajectory, "history", None)
    if history is not None:
        return history
    try:
        return History(np.asarray(trajectory.t, float), np.asarray(trajectory.loss, float), None)
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"trajectory must be a Trajectory, got {type(trajectory).__name__}") from None


def half_time(
    t: LossCurve | ArrayLike,
    y: ArrayLike | None = None,
    *,
    share: float = 0.5,
    first: ArrayLike | None = None,
    last: ArrayLike | None = None,
    axis: int = -1,
) -> Floats:
    """First time at which a curve has gone half of the way from its start to its end, up or down.

    Parameters
    ----------
    t : Trajectory or array_like, shape (save,)
        Of a trajectory the loss is followed, as in `learning_time`; else the times of `y`.
    y : array_like, shape (..., save)
        Curves, with any leading axes (runs, modes); not given for a trajectory.
    share : float
        Share of the way.
    first, last : float or array_like, shape (...), optional
        Values between which the way lies; by default the first and the last of each curve.
    axis : int
        Axis of `y` along which time goes.

    Returns
    -------
    float or ndarray, shape (...)
        Linear between times; nan where the curve never gets there.

    Examples
    --------
    >>> half_time([0.0, 1.0, 2.0], [[0.0, 1.0, 4.0], [5.0, 2.0, 1.0]])
    array([1.33333333, 0.66666667])
    >>> half_time([0.0, 1.0, 2.0], [1.0, 2.0, 3.0], first=0.0, last=4.0)
    1.0
    """
    share = number("share", share, above=0, most=1)
    history = _history(cast(LossCurve, t)) if y is None else None
    curves = _along(floats("y", cast(ArrayLike, y), 1), axis) if history is None else history.loss
    if not curves.shape[-1]:
        raise InputError(f"y must have at least one time, got shape {curves.shape}")
    begin, end = _ends(curves, first, last)
    sign = np.where(end > begin, -1.0, 1.0)
    with np.errstate(invalid="ignore"):  # from or to infinity: nan, never reached
        value = begin + share * (end - begin)
    if history is not None:
        return _first_below(history, value, sign)
    return crossing(cast(ArrayLike, t), sign[..., None] * curves, sign * value)


def _ends(curves: Floats, first: ArrayLike | None, last: ArrayLike | None) -> tuple[Floats, Floats]:
    begin = curves[..., 0] if first is None else floats("first", first)
    end = curves[..., -1] if last is None else floats("last", last)
    try:
        begin, end, _ = np.broadcast_arrays(begin, end, curves[..., 0])
    except ValueError as fault:
        raise InputError(
            f"first and last must be numbers or have shape {curves.shape[:-1]}, "
            f"got {begin.shape} and {end.shape}"
        ) from fault
    return begin, end


def crossing(
    x: ArrayLike,
    y: ArrayLike | Callable[[NDArray[np.float64]], ArrayLike],
    value: ArrayLike,
    *,
    rising: bool = False,
    axis: int = -1,
) -> Floats:
    """First x at which curves are at or below a value (at or above it, if `rising`).

    Parameters
    ----------
    x : array_like, shape (n,) or that of `y`
        Abscissa, such as times.
    y : array_like, shape (..., n), or callable
        Curves, with any leading axes. Or one curve as a function of x, shape (n,): it is asked again for as
        many points between the two around the value. `x` must then increase.
    value : float or array_like
        One for all curves, or an array that broadcasts with the axes of `y` other than `axis`.
    rising : bool
        Whether the value is reached from below.
    axis : int
        Axis of `y` along which `x` goes.

    Returns
    -------
    float or ndarray, shape (...)
        Linear between points; x of the first point where it is there already, nan where it never is.

    Examples
    --------
    >>> crossing([0.0, 1.0, 2.0], [4.0, 2.0, 1.0], 3.0)
    0.5
    >>> crossing([0.0, 1.0, 2.0], [[0.0, 2.0, 2.0], [0.0, 0.0, 1.0]], [1.0, 1.5], rising=True)
    array([0.5, nan])
    >>> round(crossing(np.linspace(0, 5, 21), lambda t: np.exp(-t), 0.5), 3)
    0.693
    """
    if callable(y):
        coarse = floats("x", x, 1)
        first = crossing(coarse, y(coarse), value, rising=rising)
        after = int(np.clip(np.searchsorted(coarse, first), 1, len(coarse) - 1))
        fine = np.linspace(coarse[after - 1], coarse[after], len(coarse))
        x, y = fine, y(fine)
    x, y, value = _curves(x, y, value, rising, axis)
    below = y <= value[..., None]
    return _where(x, y, value, np.where(below.any(axis=-1), below.argmax(axis=-1), y.shape[-1]))


def last_crossing(
    x: ArrayLike, y: ArrayLike, value: ArrayLike, *, rising: bool = False, axis: int = -1
) -> Floats:
    """The x from which on curves stay at or below a value (at or above it, if `rising`).

    Parameters
    ----------
    x, y, value, rising, axis
        As in `crossing`; a y of nan counts as one that stays.

    Returns
    -------
    float or ndarray, shape (...)
        Linear between points; x of the first point for curves that are always there, nan for those that are
        not there at the end.

    Examples
    --------
    >>> last_crossing([0.0, 1.0, 2.0, 3.0], [3.0, 1.0, 3.0, 1.0], 2.0)
    2.5
    """
    x, y, value = _curves(x, y, value, rising, axis)
    above = y > value[..., None]
    n = y.shape[-1]
    return _where(x, y, value, np.where(above.any(axis=-1), n - above[..., ::-1].argmax(axis=-1), 0))


def _curves(
    x: ArrayLike, y: ArrayLike, value: ArrayLike, rising: bool, axis: int
) -> tuple[Floats, Floats, Floats]:
    """Arrays x `(..., n)`, y `(..., n)` and value `(...)` of the same leading axes; y falls to the value."""
    xs, ys, values = floats("x", x, 1), floats("y", y, 1), floats("value", value)
    ys = _along(ys, axis)
    xs = _along(xs, axis) if xs.ndim > 1 else xs
    if xs.shape[-1] != ys.shape[-1] or not ys.shape[-1]:
        raise InputError(f"x and y must have equally many points, got {xs.shape[-1]} and {ys.shape[-1]}")
    try:
        lead = np.broadcast_shapes(xs.shape[:-1], ys.shape[:-1], values.shape)
    except ValueError as fault:
        raise InputError(
            f"x, y and value must fit each other, got {xs.shape}, {ys.shape} and {values.shape}"
        ) from fault
    xs, ys = (np.broadcast_to(v, (*lead, v.shape[-1])) for v in (xs, ys))
    values = np.broadcast_to(values, lead)
    return (xs, -ys, -values) if flag("rising", rising) else (xs, ys, values)


def _along(curves: Floats, axis: int) -> Floats:
    """With the axis of times or points last."""
    if not isinstance(axis, (int, np.integer)) or not -curves.ndim <= axis < curves.ndim:
        raise InputError(f"axis must be one of the {curves.ndim} axes of y, got {short(axis)}")
    return np.moveaxis(curves, axis, -1)


def _where(x: Floats, y: Floats, value: Floats, k: NDArray[np.intp]) -> Floats:
    """The x at which y crosses the value on its way to point k `(...)`; nan where k is beyond the end."""
    there = np.minimum(k, y.shape[-1] - 1)
    pick = lambda v, at: np.take_along_axis(v, at[..., None], axis=-1)[..., 0]  # noqa: E731
    before = np.maximum(there - 1, 0)
    x0, x1, y0, y1 = pick(x, before), pick(x, there), pick(y, before), pick(y, there)
    jump = (k == 0) | (y0 == y1)
    with np.errstate(invalid="ignore", divide="ignore"):
        between = x0 + (x1 - x0) * (y0 - value) / np.where(jump, 1.0, y0 - y1)
    return plain(np.where(k < y.shape[-1], np.where(jump, x1, between), np.nan))


def stopping_time(trajectory: Trajectory) -> Floats:
    """Time at which runs with a `stop_loss` reached it, as exact as they were solved.

    Parameters
    ----------
    trajectory : Trajectory
        One run or several.

    Returns
    -------
    float or ndarray, shape (runs,)
        Flow time; nan where a run ended otherwise.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1]), [[1.0]], [[1.0]])
    >>> run = nr.flow(task, {"x->y": [[0.0]]}, t1=9.0, stop_loss=0.125)
    >>> round(stopping_time(run), 4)
    0.6931
    """
    if not isinstance(trajectory, Trajectory):
        raise InputError(f"trajectory must be a Trajectory, got {short(trajectory)}")
    reached = np.array([s is Status.REACHED_LOSS for s in trajectory.statuses])
    return plain(np.where(reached if trajectory.many else reached[0], trajectory.end, np.nan))


def plateau_share(t: ArrayLike, loss: ArrayLike, until: float | None = None) -> Floats:
    """Share of the time in which the loss falls more slowly than it will later.

    Zero for a loss that is convex in time, as it is for a constant tangent kernel (a sum of decaying
    exponentials); near one where drops come after long plateaus.

    Parameters
    ----------
    t : array_like, shape (save,)
        Times.
    loss : array_like, shape (..., save)
        Losses, with any leading axes.
    until : float, optional
        Only times before the loss is first below this count.

    Returns
    -------
    float or ndarray, shape (...)
        nan where fewer than two times count.

    Examples
    --------
    >>> plateau_share([0.0, 1.0, 2.0, 3.0], [4.0, 3.9, 3.8, 0.0])
    0.6666666666666666
    """
    times, losses = floats("t", t, 1), floats("loss", loss, 1)
    if losses.shape[-1] != len(times):
        raise InputError(f"t and loss must have equally many times, got {len(times)} and {losses.shape[-1]}")
    low = np.zeros(losses.shape, bool) if until is None else losses < number("until", until)
    counts = ~np.logical_or.accumulate(low, axis=-1)[..., 1:]
    step = counts * np.diff(times)
    rate = np.where(counts, -np.diff(losses) / np.diff(times), -np.inf)
    later = np.maximum.accumulate(rate[..., ::-1], axis=-1)[..., ::-1]
    with np.errstate(invalid="ignore"):
        return plain((step * (rate < later)).sum(axis=-1) / step.sum(axis=-1))


def drawn_distance(x: ArrayLike, curve: ArrayLike, other: ArrayLike, top: float | None = None) -> Floats:
    """How far two curves are apart in a figure: the largest distance of a point of one from the other.

    In a square with sides of length 1: x from the first to the last, values from 0 to `top`. Steep curves
    that differ by a little in time are close, as they are to the eye.

    Parameters
    ----------
    x : array_like, shape (points,)
        Increasing.
    curve, other : array_like, shape (..., points)
        Leading axes are broadcast.
    top : float, optional
        Upper end of the axis; by default the largest value of each `other`.

    Returns
    -------
    float or ndarray, shape (...)
        In units of the sides of the figure.

    Examples
    --------
    >>> round(drawn_distance([0.0, 1.0, 2.0], [1.0, 1.0, 1.0], [2.0, 2.0, 2.0]), 3)
    0.5
    """
    from scipy.spatial import KDTree

    along, one, two = floats("x", x, 1), floats("curve", curve, 1), floats("other", other, 1)
    if not one.shape[-1] == two.shape[-1] == len(along):
        raise InputError(f"curve and other must have {len(along)} points, got {one.shape} and {two.shape}")
    if len(along) < 2 or not (np.diff(along) > 0).all():
        raise InputError(f"x must have at least two points and increase, got {along}")
    across = (along - along[0]) / (along[-1] - along[0])
    height = two.max(axis=-1, keepdims=True) if top is None else number("top", top, above=0)

    def points(y: Floats) -> Floats:
        length = np.append(0, np.hypot(np.diff(across), np.diff(y)).cumsum())
        at = np.linspace(0, length[-1], POINTS)
        return np.stack([np.interp(at, length, across), np.interp(at, length, y)], axis=1)

    def apart(a: Floats, b: Floats) -> float:
        a, b = points(a), points(b)
        return max(KDTree(a).query(b)[0].max(), KDTree(b).query(a)[0].max())

    return plain(np.vectorize(apart, signature="(n),(n)->()")(one / height, two / height))
