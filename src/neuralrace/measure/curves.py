"""How far curves are apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.errors import InputError, number
from neuralrace.measure.arrays import Floats, floats, plain

POINTS = 4000  # along each curve


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
