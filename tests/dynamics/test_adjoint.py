"""Derivatives in reverse mode of solutions, against those known in closed form and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from neuralrace.dynamics.adjoint import crossing_time, integrate

RTOL, ATOL = 1e-11, 1e-13


def driven(t, y, args):
    """A driven pendulum with friction: it depends on time, state and parameters."""
    drive, friction = args
    return jnp.stack([y[1], -jnp.sin(y[0]) - friction * y[1] + drive[0] * jnp.cos(drive[1] * t)])


Y0, ARGS = np.array([1.0, 0.3]), (np.array([0.5, 1.3]), np.array(0.1))


def exact(y0, args, ts):
    """By SciPy."""
    (size, frequency), friction = args

    def velocity(t, y):
        return [y[1], -np.sin(y[0]) - friction * y[1] + size * np.cos(frequency * t)]

    return solve_ivp(velocity, (0, ts[-1]), y0, "DOP853", ts, rtol=1e-12, atol=1e-13).y.T


def differences(function, value, step=1e-5):
    slope = np.zeros(np.shape(value))
    for place in np.ndindex(slope.shape):
        move = np.zeros_like(slope)
        move[place] = step
        slope[place] = (function(value + move) - function(value - move)) / (2 * step)
    return slope


def test_derivatives_by_start_parameters_and_times():
    ts = np.array([0.0, 4.0, 30.0])
    mix = np.array([[0.3, 1.0], [1.0, -0.5], [0.7, 2.0]])

    def total(y0, args, ts):
        return (mix * integrate(driven, y0, args, RTOL, ATOL, ts)).sum()

    with jax.enable_x64(True):
        given = jax.tree.map(jnp.asarray, (Y0, ARGS, ts))
        value, (by_y, (by_drive, by_friction), by_t) = jax.jit(jax.value_and_grad(total, (0, 1, 2)))(*given)
        speeds = np.stack([driven(t, y, ARGS) for t, y in zip(ts, exact(Y0, ARGS, ts), strict=True)])
    slow = lambda y0, drive, friction: (mix * exact(y0, (drive, friction), ts)).sum()  # noqa: E731
    drive, friction = ARGS
    assert float(value) == pytest.approx(slow(Y0, drive, friction), rel=1e-8)
    assert np.allclose(by_y, differences(lambda v: slow(v, drive, friction), Y0), rtol=1e-5)
    assert np.allclose(by_drive, differences(lambda v: slow(Y0, v, friction), drive), rtol=1e-5)
    assert np.allclose(by_friction, differences(lambda v: slow(Y0, drive, v), friction), rtol=1e-5)
    assert np.allclose(by_t[1:], (mix * speeds).sum(axis=1)[1:], rtol=1e-6)


def test_what_the_velocity_holds_of_the_callers_arrays_and_other_trees():
    """`y' = -rate y`, with the rate held by the velocity, is `y0 exp(-rate)` at time 1."""

    def end(rate):
        start = {"a": jnp.ones(2), "b": 2 * jnp.ones(())}
        found = integrate(lambda t, y, args: jax.tree.map(lambda v: -rate * v, y), start, (), RTOL, ATOL)
        return found["a"].sum() + found["b"]

    with jax.enable_x64(True):
        value, slope = jax.value_and_grad(end)(jnp.asarray(0.7))
    assert float(value) == pytest.approx(4 * np.exp(-0.7), rel=1e-9)
    assert float(slope) == pytest.approx(-4 * np.exp(-0.7), rel=1e-9)


def decay(t, y, rate):
    return -rate * y


def size(y, rate):
    return jnp.sum(y**2) + 0 * rate


def test_crossing_times_have_the_derivatives_of_the_closed_form():
    """`|y|^2` falls to a level at `log(|y0|^2 / level) / (2 rate)`."""
    time = lambda y0, rate, level: crossing_time(decay, size, y0, rate, level, 50.0, RTOL, ATOL)  # noqa: E731
    closed = lambda y0, rate, level: jnp.log(jnp.sum(y0**2) / level) / (2 * rate)  # noqa: E731
    with jax.enable_x64(True):
        given = (jnp.array([1.0, 2.0]), jnp.asarray(0.3), jnp.asarray(0.2))
        found, expected = (jax.jit(jax.value_and_grad(f, (0, 1, 2)))(*given) for f in (time, closed))
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert np.allclose(a, b, rtol=1e-8)
        rates = jnp.array([0.3, 1.0, 0.01])
        many = jax.jit(jax.vmap(jax.value_and_grad(lambda rate: time(given[0], rate, given[2]))))
        times, slopes = many(rates)
    times, slopes, rates = (np.asarray(v) for v in (times, slopes, rates))
    assert np.allclose(times[:2], np.log(5.0 / 0.2) / (2 * rates[:2]))
    assert np.allclose(slopes[:2] * rates[:2], -times[:2])
    assert np.isnan(times[2])  # later than 50
    assert np.isnan(slopes[2])


def test_too_few_steps_are_no_number():
    with jax.enable_x64(True):
        args = jax.tree.map(jnp.asarray, ARGS)
        found = integrate(driven, jnp.asarray(Y0), args, RTOL, ATOL, jnp.array([30.0]), 5)
    assert np.isnan(found).all()


def test_second_derivatives_are_refused():
    """They would be wrong: the recorded steps are taken as they are."""
    end = lambda y: integrate(driven, y, ARGS, 1e-5, 1e-7).sum()  # noqa: E731
    with pytest.raises((ValueError, TypeError), match="differentiation"):
        jax.make_jaxpr(jax.jacrev(jax.jacrev(end)))(jnp.asarray(Y0))
