"""Fits of the two rates alone, and of two among many samples."""

import jax.numpy as jnp
import numpy as np
import pytest

import neuralrace as nr
from neuralrace import universality
from neuralrace.errors import InputError
from neuralrace.network import precision
from neuralrace.universality import fit_rates, fitting, follow_pair, watch

T = np.linspace(0, 60, 200)
SERIES = universality.solve(T, 1e-3, 1e-6, -5e-4, 0.5, 1.0, 2.0, 0.7)


def test_rates_alone_are_exact_where_the_theory_is():
    found = fit_rates(T, *SERIES, 0.5, 1.0)
    assert np.allclose([found.rate_h, found.rate_y], [2.0, 0.7], rtol=1e-6)
    assert found.error < 1e-6
    assert found.start == universality.State(*(v[0] for v in SERIES))
    mean = 0.3 * np.exp(-0.4 * T)  # of the distance of the mean output from its target
    whole = mean**2 / 2 + universality.loss(T, *SERIES[1:], 1.0)
    with_loss = fit_rates(T, *SERIES, 0.5, 1.0, loss=whole)
    assert np.allclose([with_loss.rate_mean, with_loss.offset], [0.4, 0.3], rtol=1e-5)
    assert np.allclose(with_loss.loss(T), whole, atol=1e-8)


def test_a_start_that_waits_longer_is_no_fit_of_the_rates_alone():
    late = [np.concatenate([np.full(20, v[0]), v[:-20]]) for v in SERIES]
    assert fit_rates(T, *late, 0.5, 1.0).error > 1e-3
    assert universality.fit(T, *late, 0.5, 1.0).error < fit_rates(T, *late, 0.5, 1.0).error


def test_intervals_and_errors_of_the_rates_alone():
    noise = 0.01 * np.random.default_rng(0).normal(size=(3, len(T)))
    noise[:, 0] = 0  # of the start, which is taken as observed
    noisy = [v + n * np.abs(v).max() for v, n in zip(SERIES, noise, strict=True)]
    found = fit_rates(T, *noisy, 0.5, 1.0)
    for (low, high), rate in ((found.rate_h_interval, 2.0), (found.rate_y_interval, 0.7)):
        assert 0.95 * rate < low < rate < high < 1.05 * rate
    largest = [np.abs(v).max() for v in noisy]
    off = [(a - b) / size for a, b, size in zip(found.curves(T), noisy, largest, strict=True)]
    assert np.allclose(found.errors, np.sqrt(np.mean(np.square(off), axis=1)))
    assert np.isclose(found.error, np.sqrt(np.mean(np.square(off))))


def test_a_pair_among_many_samples():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    graph = nr.Graph.chain([3, 6, 4, 2], activations="tanh", biases=True)
    start = nr.init.xavier(graph, 1.0, seed=range(2))
    run = nr.descend(nr.Task(graph, x, y), start, 0.1, 40, 9, record=watch(graph, x, "h1"))
    found = follow_pair(run, x, y, (1, 3))
    for k in range(2):
        for step in range(9):
            h, out = (run.recorded[name][k, step] for name in ("hidden", "output"))
            assert np.isclose(found.recorded["dh2"][k, step, 0], ((h[3] - h[1]) ** 2).sum())
            assert np.isclose(found.recorded["dy2"][k, step], ((out[3] - out[1]) ** 2).sum())
            w = (out[3] - out[1]) @ (out[3] - out[1] - y[3] + y[1])
            assert np.isclose(found.recorded["w"][k, step], w)
            loss = (((out - y) ** 2).sum(axis=1) / 2)[[1, 3]].mean()
            assert np.isclose(found.loss[k, step], loss)
    assert np.allclose(found.runs["dx"], np.linalg.norm(x[3] - x[1]))
    assert np.allclose(found.runs["dy"], np.linalg.norm(y[3] - y[1]))
    same = x.copy()
    same[3] = same[1]
    for wrong, message in (
        (lambda: follow_pair(run[0], x, y), "trajectory must hold several runs"),
        (lambda: follow_pair(run, x[:4], y[:4]), "x must have the 5 samples that were watched"),
        (lambda: follow_pair(run, x, y, (0, 5)), "pair must be two sample numbers from 0 to 4, got"),
        (lambda: follow_pair(run, same, y, (1, 3)), "samples 1 and 3 have identical inputs"),
    ):
        with pytest.raises(InputError, match=message):
            wrong()


@pytest.mark.parametrize("parameters", [2, 5, 7])
def test_costs_of_guesses_are_sums_of_squares(parameters):
    """In NumPy for many guesses against JAX for each."""
    rng = np.random.default_rng(parameters)
    t, data = np.linspace(0, 1, 9), rng.uniform(0.1, 1, (9, 4 if parameters == 7 else 3))
    guesses = rng.uniform(-2, 2, (fitting.AT_ONCE + 3, parameters))
    given = (t, data, np.full(data.shape, 0.5), np.float64(0.8), data[0, :3])
    with precision(np.float64):
        expected = [float((fitting._residual(jnp.asarray(g), *given) ** 2).sum()) for g in guesses]
    assert np.allclose(fitting._costs(guesses, *given), expected, rtol=1e-10)
