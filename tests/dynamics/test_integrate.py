"""The integrator against SciPy's solver of the same order; and the history of what it observes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from neuralrace.dynamics.integrate import FAILED, FINISHED, LIMITED, STOPPED, Observed, integrate, tableau
from scipy.integrate import solve_ivp

from neuralrace.dynamics.history import SIZE, Buffer, History, append, collect, crossing, curve, empty

RTOL = 1e-9
BETWEEN = 50 * RTOL  # error allowed between steps


def solved(velocity, y0, ts, t1=None, rtol=RTOL, atol=1e-11, **keywords):
    with jax.enable_x64(True):
        found = jax.jit(
            lambda y: integrate(velocity, y, jnp.asarray(ts), t1 or ts[-1], rtol, atol, **keywords)
        )(jnp.asarray(y0, float))
        return jax.tree.map(np.asarray, found)


def pendulum(t, y):
    return jnp.stack([y[1], -jnp.sin(y[0]) + 0.1 * jnp.cos(t)])


def test_agrees_with_scipy_at_all_times_and_takes_about_as_many_steps():
    ts = np.linspace(0, 30, 301)
    path = solved(pendulum, [1.0, 0.0], ts)
    plain = lambda t, y: [y[1], -np.sin(y[0]) + 0.1 * np.cos(t)]  # noqa: E731
    fine = solve_ivp(plain, (0, 30), [1.0, 0.0], "DOP853", ts, rtol=1e-13, atol=1e-15)
    assert np.abs(path.kept - fine.y.T).max() < 2 * BETWEEN
    other = solve_ivp(plain, (0, 30), [1.0, 0.0], "DOP853", ts, rtol=RTOL, atol=RTOL / 100)
    assert abs(path.steps * 13 / other.nfev - 1) < 0.5
    assert path.t == 30
    assert path.status == FINISHED


def test_times_may_start_late_end_early_and_be_many():
    late = solved(lambda t, y: -y, [1.0], [2.0, 3.0], t1=5.0)
    assert np.abs(late.kept[:, 0] - np.exp([-2.0, -3.0])).max() < BETWEEN
    assert late.t == 5
    many = solved(lambda t, y: -y, [1.0], np.linspace(0, 1, 2000))
    assert np.abs(many.kept[:, 0] - np.exp(-np.linspace(0, 1, 2000))).max() < BETWEEN


def test_stops_where_the_observed_value_falls_to_a_level():
    seen = Observed(lambda y: y[0], lambda y, v: v[0])
    path = solved(lambda t, y: -y, [1.0], np.linspace(0, 10, 11), observed=seen, stop=0.25)
    assert path.status == STOPPED
    assert path.t == pytest.approx(np.log(4), abs=4 * BETWEEN)
    assert np.allclose(path.kept[:2, 0], [1, np.exp(-1)])
    assert path.last == 2  # the end, at the first time that was not reached
    assert path.kept[2, 0] == pytest.approx(0.25)
    history = collect(Buffer(*(v[None] for v in path.history))).run(0)
    assert history.t[-1] == path.t
    assert history.slope[-1] == pytest.approx(-0.25)
    start = solved(lambda t, y: -y, [1.0], np.linspace(0, 10, 11), observed=seen, stop=2.0)
    assert start.status == STOPPED
    assert start.t == start.steps == 0


def test_rests_gives_up_and_fails():
    rest = solved(lambda t, y: 0 * y, [0.0, 1.0], [0.0, 1e9])
    assert rest.t == 1e9
    assert rest.steps == 1
    limited = solved(pendulum, [1.0, 0.0], [0.0, 1e3], max_steps=7)
    assert limited.status == LIMITED
    assert limited.steps == 7
    burst = solved(lambda t, y: y**2, [1.0], [0.0, 2.0])  # infinite at t = 1
    assert burst.status == FAILED
    assert burst.t == pytest.approx(1, abs=1e-6)
    assert solved(lambda t, y: y / 0, [1.0], [0.0, 1.0]).status == FAILED


def test_a_step_that_overflows_is_tried_again():
    """Steps that are too long leave the region in which the velocity is finite."""
    path = solved(lambda t, y: jnp.where(y > 1, jnp.inf, 1 - y), [0.5], [0.0, 3.0])
    assert path.kept[-1, 0] == pytest.approx(1 - 0.5 * np.exp(-3), rel=1e-8)
    steep = solved(lambda t, y: jnp.where(y > 1, jnp.inf, 40 * (1 - y) * y), [1e-3], [0.0, 1.0])
    assert steep.kept[-1, 0] == pytest.approx(1, rel=1e-6)


def test_a_start_at_zero_that_moves():
    path = solved(lambda t, y: 1 - y, [0.0], [0.0, 3.0])
    assert path.kept[-1, 0] == pytest.approx(1 - np.exp(-3), rel=1e-8)


def filled(t, loss, slope):
    """A history after all these points, an odd number of them."""
    rows = np.stack([t, loss, slope], axis=1)
    with jax.enable_x64(True):
        yes = jnp.array(True)
        step = lambda b, v: (append(b, v[0], v[1], yes, yes), None)  # noqa: E731
        first = append(empty(jnp.float64), rows[0], rows[0], ~yes, yes)
        buffer = jax.jit(lambda v: jax.lax.scan(step, first, v)[0])(rows[1:].reshape(-1, 2, 3))
    return collect(Buffer(*(np.asarray(v)[None] for v in buffer))).run(0)


def test_a_full_history_still_tells_when_the_loss_fell():
    """Many more steps than it holds, of a loss that falls early and then rests or wiggles."""
    n = 5 * SIZE
    t = np.linspace(0, 1000, n + 1)
    fall = np.tanh(t - 5)
    for wiggle in (0.0, 1e-3):
        loss = (1 - fall) / 2 + wiggle * np.sin(4 * t)
        history = filled(t, loss, (fall**2 - 1) / 2 + wiggle * 4 * np.cos(4 * t))
        assert len(history.t) <= SIZE
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


def test_stored_coefficients_are_those_of_diffrax_and_of_order_eight():
    from tools.coefficients import coefficients

    table = tableau()
    for name, values in coefficients().items():
        assert np.array_equal(getattr(table, name), values)
    assert np.abs(table.a.sum(axis=1) - table.c).max() < 1e-14
    last = table.a[-1]
    assert all(abs(last @ table.c**k - 1 / (k + 1)) < 1e-14 for k in range(8))
    assert np.abs(table.curve.sum(axis=1) - last).max() < 1e-10  # the interpolant ends at the step
