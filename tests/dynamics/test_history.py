"""The history of a loss at a solver's steps, and times read off it."""

import numpy as np
import pytest

from neuralrace.dynamics.history import SIZE, History, crossing, curve, first_fall


def filled(t, loss, slope):
    return History.of([np.stack([t, loss, slope], axis=1)]).run(0)


def test_a_full_history_still_tells_when_the_loss_fell():
    """Many more steps than it holds, of a loss that falls early and then rests or wiggles."""
    n = 5 * SIZE
    t = np.linspace(0, 1000, n + 1)
    fall = np.tanh(t - 5)
    for wiggle in (0.0, 1e-3):
        loss = (1 - fall) / 2 + wiggle * np.sin(4 * t)
        history = filled(t, loss, (fall**2 - 1) / 2 + wiggle * 4 * np.cos(4 * t))
        assert len(history.t) == SIZE
        exact = t[np.argmax(loss <= 0.5)]
        assert crossing(history, 0.5) == pytest.approx(exact, abs=1.5 * t[1])
        assert np.isnan(crossing(history, -1.0))
        assert crossing(history, 2.0) == 0


def test_slopes_that_are_far_off_do_not_crowd_out_the_fall():
    """As at the edge of stability, where learned modes keep steps short long after the half time."""
    t = np.concatenate([np.linspace(0, 0.05, 17), np.linspace(0.05, 30, 5 * SIZE + 1)[1:]])
    loss = lambda t: np.exp(-100 * t) + 0.05 * np.exp(-t / 10)  # noqa: E731
    slope = -100 * np.exp(-100 * t) - 0.005 * np.exp(-t / 10)
    slope += 0.3 * (t > 0.05) * np.random.default_rng(0).standard_normal(len(t))
    history = filled(t, loss(t), slope)
    assert loss(crossing(history, 0.5)) == pytest.approx(0.5, rel=1e-6)


def test_runs_with_fewer_steps_repeat_their_last_one():
    both = History.of([[(0.0, 1.0, -1.0), (1.0, 0.5, -0.2)], [(0.0, 2.0, -3.0)]])
    assert both.t.tolist() == [[0, 1], [0, 0]]
    assert both.loss.tolist() == [[1, 0.5], [2, 2]]
    assert both.slope.tolist() == [[-1, -0.2], [-3, 0]]
    assert both.run(1).scaled(3).loss.tolist() == [6, 6]


def test_between_steps_the_loss_is_smooth():
    t = np.linspace(0, 4, 9)
    history = History(t, np.exp(-t), -np.exp(-t))
    for level in (0.5, 0.1, 0.03):
        assert crossing(history, level) == pytest.approx(-np.log(level), rel=1e-5)
    assert crossing(history, 0.9) == pytest.approx(-np.log(0.9), rel=1e-4)  # fewer steps around it
    line = History(t, np.exp(-t), None)
    assert crossing(line, 0.9) == pytest.approx(0.5 * 0.1 / (1 - np.exp(-0.5)))
    at = np.linspace(0, 4, 50)
    assert np.abs(curve(history, at) - np.exp(-at)).max() < 1e-3
    kink = History(np.array([0.0, 1, 2, 3]), np.array([3.0, 2, 0.5, 0.4]), np.array([-1, -1, -0.1, -0.1]))
    assert 1 < crossing(kink, 1.0) < 2


def test_a_run_that_stopped_at_a_level_has_reached_it_to_rounding():
    t, slope = np.array([0.0, 1.0, 2.0]), np.array([-1.0, -0.5, -0.3])
    above = History(t, np.array([1.0, 0.5, 0.2 * (1 + 1e-15)]), slope)
    assert crossing(above, 0.2) == 2.0
    assert np.isnan(crossing(above, 0.2 * (1 - 1e-9)))


def test_where_a_value_falls_to_a_level():
    assert first_fall(lambda t: np.exp(-t), 0.0, 5.0, 0.3) == pytest.approx(-np.log(0.3), rel=1e-14)
    assert first_fall(lambda t: 1 - t, 1e5, 1e6, -5e5) == pytest.approx(500_001, rel=1e-14)
    assert first_fall(lambda t: 1 - t, 0.0, 1.0, 0.0) == 1.0
    assert first_fall(lambda t: 0.5, 2.0, 3.0, 1.0) == 2.0
