"""Distances of curves in a figure, against the plain way: every point of one to every point of the other."""

import numpy as np
import pytest

from neuralrace.errors import InputError
from neuralrace.measure import drawn_distance

X = np.linspace(0, 1000, 11)


def slow_distance(x, curve, other, top):
    """Distances of all pairs of points, along straight pieces of equal step in x."""
    x = (x - x[0]) / (x[-1] - x[0])
    fine = np.linspace(0, 1, 2001)
    a, b = (np.stack([fine, np.interp(fine, x, y / top)], axis=1) for y in (curve, other))
    pairs = np.linalg.norm(a[:, None] - b, axis=-1)
    return max(pairs.min(axis=0).max(), pairs.min(axis=1).max())


def test_distance_is_that_of_all_pairs_of_points():
    curve, other = 3 + np.sin(X / 200), 3 + np.cos(X / 300)
    for top in (None, 7.0):
        expected = slow_distance(X, curve, other, top or other.max())
        assert np.isclose(drawn_distance(X, curve, other, top), expected, rtol=1e-3)


def test_steep_curves_are_as_far_apart_as_in_time():
    assert np.isclose(drawn_distance(X, 8 + 0 * X, 10 + 0 * X), 0.2, atol=1e-3)
    steps = [np.where(at > X, 10.0, 0.0) for at in (300, 500)]
    assert np.isclose(drawn_distance(X, *steps), 0.2, rtol=0.05)  # far apart in value, not in time
    assert drawn_distance(X, steps[0], steps[0]) == 0


def test_leading_axes_are_those_of_single_curves():
    many = np.random.default_rng(0).uniform(1, 2, (2, 3, len(X)))
    one = many[:, :1] + 0.5
    found = drawn_distance(X, one, many)
    assert found.shape == (2, 3)
    assert found[1, 2] == drawn_distance(X, one[1, 0], many[1, 2])


def test_wrong_input_is_refused():
    with pytest.raises(InputError, match="curve and other must have 11 points"):
        drawn_distance(X, X[1:], X)
    for x in ([1.0], [1.0, 1.0], [1.0, 0.0]):
        with pytest.raises(InputError, match="x must have at least two points and increase"):
            drawn_distance(x, x, x)
    with pytest.raises(InputError, match="top must be greater than 0"):
        drawn_distance(X, X, X, 0.0)
