"""Crossings, half times and plateaus against loops over single curves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import neuralrace as nr
from neuralrace.measure import crossing, half_time, last_crossing, plateau_share, stopping_time

CURVES = arrays(float, (3, 2, 7), elements=st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5, np.nan]))
T = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 4.5, 8.0])


def slow_crossing(x, y, level):
    for k in range(len(y)):
        if y[k] <= level:
            if k == 0 or y[k - 1] == y[k]:
                return x[k]
            return x[k - 1] + (x[k] - x[k - 1]) * (y[k - 1] - level) / (y[k - 1] - y[k])
    return np.nan


def slow_last_crossing(x, y, level):
    for k in reversed(range(len(y))):
        if y[k] > level:
            return np.nan if k + 1 == len(y) else slow_crossing(x[k : k + 2], y[k : k + 2], level)
    return x[0]


def by_curve(slow, y, levels):
    return np.array([[slow(T, y[i, j], levels[j]) for j in range(2)] for i in range(3)])


@settings(max_examples=60, deadline=None)
@given(CURVES, arrays(float, 2, elements=st.floats(-1, 4)))
def test_crossings_of_many_curves_are_those_of_each(y, levels):
    for fast, slow in ((crossing, slow_crossing), (last_crossing, slow_last_crossing)):
        expected = by_curve(slow, y, levels)
        assert np.array_equal(fast(T, y, levels), expected, equal_nan=True)
        assert np.array_equal(fast(T, -y, -levels, rising=True), expected, equal_nan=True)
        assert np.array_equal(fast(T, np.moveaxis(y, -1, 0), levels, axis=0), expected, equal_nan=True)
        assert np.array_equal(fast(np.tile(T, (3, 2, 1)), y, levels), expected, equal_nan=True)


def test_crossing_of_one_curve_is_a_float_and_levels_may_be_many():
    assert crossing([0, 1, 2], [4, 2, 1], 3) == 0.5
    assert type(crossing([0, 1, 2], [4, 2, 1], 3)) is float
    assert crossing([0, 1, 2], [4, 2, 1], 5) == 0
    assert np.isnan(crossing([0, 1, 2], [4, 2, 1], 0.5))
    loss = np.array([[4.0, 2.0, 1.0], [8.0, 4.0, 0.0]])
    assert crossing([0, 1, 2], loss[:, None], [3.0, 1.5]).tolist() == [[0.5, 1.5], [1.25, 1.625]]
    assert last_crossing([0, 1, 2, 3], [1, 3, 1, 3], 2, rising=True) == 2.5


def test_crossing_of_a_function_is_refined_between_two_points():
    t = np.linspace(0, 20, 41)
    assert abs(crossing(t, lambda t: np.exp(-t), 0.01) - np.log(100)) < 1e-4
    assert abs(crossing(t, lambda t: t**2, 50.0, rising=True) - np.sqrt(50)) < 1e-4
    assert crossing(t, lambda t: 1 - t, 2.0) == 0
    assert np.isnan(crossing(t, lambda t: 1 + t, 0.5))


def test_half_time_goes_from_start_to_end_up_or_down():
    t = np.linspace(0, 10, 2001)
    rates = np.array([0.5, 1.0, 3.0])
    up = 2 - np.exp(-rates[:, None] * t)
    down = 5 * np.exp(-rates[:, None] * t)
    expected = np.log(2) / rates
    for curves in (up, down):
        ends = {"first": curves[:, 0], "last": curves[:, 0] + (1 if curves is up else -5)}
        assert np.allclose(half_time(t, curves, **ends), expected, atol=1e-5)
        assert np.allclose(half_time(t, curves.T, axis=0, **ends), expected, atol=1e-5)
    assert np.allclose(half_time(t, down, share=0.9, last=0.0), np.log(10) / rates, atol=1e-4)
    assert np.allclose(half_time(t, up, first=0.0, last=3.0), np.log(2) / rates, atol=1e-5)
    assert np.isnan(half_time(t, up[0], last=9.0))
    assert half_time([0.0, 1.0], [2.0, 2.0]) == 0
    assert np.isnan(half_time([0.0, 1.0], [0.0, 1.0], first=np.inf))  # without a warning


def test_half_time_of_a_trajectory_does_not_depend_on_what_is_saved():
    task = nr.tasks.hierarchy(3, hidden=8)
    start = nr.init.gaussian(task.graph, 0.1, seed=range(2))
    few, many = (nr.flow(task, start, t1=40.0, save=n) for n in (2, 2001))
    assert np.allclose(half_time(few), half_time(many.t, many.loss), rtol=1e-3)
    assert np.isclose(half_time(few[1]), half_time(few)[1])
    levels = 0.5 * few.loss[:, 0]
    one_by_one = [nr.learning_time(few[k], levels[k]) for k in range(2)]
    assert np.array_equal(nr.learning_time(few, levels), one_by_one)


def test_stopping_time_is_nan_where_the_loss_was_not_reached():
    task = nr.Task(nr.Graph.chain([1, 1]), [[1.0]], [[1.0]])
    starts = {"x->y": np.array([0.0, 0.9, -1e6])[:, None, None]}
    run = nr.flow(task, starts, t1=3.0, stop_loss=0.02)  # (1 - w) exp(-t) = 0.2
    assert np.allclose(stopping_time(run)[:2], [np.log(5), 0.0], atol=1e-5)
    assert np.isnan(stopping_time(run)[2])
    assert np.isclose(stopping_time(run[0]), np.log(5))


def slow_plateau_share(t, loss, until):
    n = next((k for k, v in enumerate(loss) if v < until), len(loss))
    rates = [(loss[k] - loss[k + 1]) / (t[k + 1] - t[k]) for k in range(n - 1)]
    steps = np.diff(t[:n])
    return sum(s for k, s in enumerate(steps) if rates[k] < max(rates[k:])) / steps.sum()


def test_plateau_share():
    t = np.linspace(0, 10, 1001)
    assert plateau_share(t, np.exp(-t) + 3 * np.exp(-4 * t)) == 0
    late = 1 / (1 + np.exp(10 * (t - 8)))  # one drop at t = 8
    assert plateau_share(t, late) == pytest.approx(0.8, abs=0.01)
    curves = np.stack([late, np.exp(-t), 1 / (1 + np.exp(4 * (t - 3)))])
    for until in (-1.0, 0.01, 0.5):
        expected = [slow_plateau_share(t, v, until) for v in curves]
        assert np.allclose(plateau_share(t, curves, until), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: crossing([0, 1], [1, 2, 3], 1), "x and y must have equally many points, got 2 and 3"),
        (lambda: crossing([0, 1], np.ones((3, 2)), np.ones(4)), "must fit each other"),
        (lambda: crossing([0, 1], "ab", 1), "y must hold real numbers"),
        (lambda: crossing([0, 1], [1, 2], 1, axis=1), "axis must be one of the 1 axes"),
        (lambda: half_time([0, 1], np.ones((3, 2)), first=np.ones(2)), "first and last must be numbers or"),
        (lambda: half_time([0, 1]), "trajectory must be a Trajectory, got list"),
        (lambda: plateau_share([0, 1], [1, 2, 3]), "equally many times, got 2 and 3"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_half_time_of_a_trajectory_goes_up_or_down_in_each_run():
    task = nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 6, 7]))
    decayed, start = (
        {e: w[-1] for e, w in nr.flow(task, nr.init.gaussian(task.graph, 0.5), t1=t1).weights.items()}
        for t1 in (60.0, 1.0)
    )
    both = {e: np.stack([decayed[e], start[e]]) for e in start}
    runs = nr.flow(task, both, t1=20.0, save=2000, rates=nr.Rates(decay=0.3))
    assert (np.sign(runs.loss[:, -1] - runs.loss[:, 0]) == [1, -1]).all()
    assert np.allclose(half_time(runs), half_time(runs.t, runs.loss), rtol=1e-3)
    assert half_time(runs)[0] > 0.1
    assert np.isclose(half_time(runs[0]), half_time(runs)[0])
