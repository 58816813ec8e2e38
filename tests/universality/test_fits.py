"""Fits of whole trajectories, of the two rates alone, and of two among many samples."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import neuralrace as nr
from neuralrace import universality
from neuralrace.errors import InputError
from neuralrace.network import precision
from neuralrace.universality import Network, fit_rates, fit_runs, follow_pair, model, train, watch

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


def test_rates_alone_have_the_least_squares_of_eq_49(run):
    """Nelder and Mead's search over both rates, of squares summed in units of the series."""
    t, k = run.t[::6], 1
    series = [v[k, ::6] for v in (run.recorded["dh2"][..., 2], run.recorded["dy2"], run.recorded["w"])]
    dx, dy = (float(run.runs[n][k]) for n in ("dx", "dy"))

    def square(logs):
        theory = universality.solve(t, *(v[0] for v in series), dx, dy, *np.exp(logs))
        return sum(((a - b) ** 2).sum() for a, b in zip(theory, series, strict=True))

    found = fit_rates(t, *series, dx, dy)
    near = np.log([1.2 * found.rate_h, 0.8 * found.rate_y])
    best = minimize(square, near, method="Nelder-Mead")
    assert np.allclose([found.rate_h, found.rate_y], np.exp(best.x), rtol=1e-3)


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


@pytest.fixture(scope="module")
def run():
    x, y = nr.tasks.two_points().arrays
    return train(Network(depth=4, width=30, gain=0.9), x, y, lr=0.1, steps=600, seeds=range(2))


def test_fits_of_all_runs_are_those_of_each(run):
    fits = fit_runs(run, layers=(2, 4), loss=True, times=101)
    for k in range(2):
        for layer in (2, 4):
            one, found = run.fit(k, layer, loss=True, times=101), fits.isel(run=k).sel(layer=layer)
            for name in ("rate_h", "rate_y", "rate_mean", "final"):
                assert found[name] == getattr(one, name)
            assert np.array_equal(found.errors, one.errors)
            assert np.allclose(found.theory, [*one.curves(fits.t), one.loss(fits.t)])
            assert np.array_equal(found.measured.sel(series="dh2"), run.recorded["dh2"][k, ::6, layer - 1])
            assert np.array_equal(found.measured.sel(series="loss"), run.loss[k, ::6])
            off = (np.abs(found.theory - found.measured) / np.abs(found.measured).max("t"))[:3]
            assert np.isclose(found.error, np.sqrt((off**2).mean()))
            assert np.isclose(found.largest_error, off.max())
    assert fit_runs(run).layer.values.tolist() == [3]  # half way
    observed = fit_runs(run, (2, 4), loss=True, times=101, observed=True)
    assert (observed.error > fits.error).all()  # has less freedom
    assert np.allclose(observed.theory[..., :3, 0], observed.measured[..., :3, 0], rtol=1e-9)


def test_runs_without_a_fit_are_nan(run):
    broken = replace(run, recorded={n: v.copy() for n, v in run.recorded.items()})
    broken.recorded["w"][0, 50:] = np.nan  # as of a run that diverged
    fits = fit_runs(broken)
    assert np.isnan(fits.rate_h[0, 0])
    assert np.isnan(fits.error[0, 0])
    assert fits.rate_h[1, 0] == fit_runs(run).rate_h[1, 0]


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


def test_what_is_no_training_is_refused(run):
    for wrong, message in (
        (lambda: fit_runs(run[0]), "training must be a Training of several runs"),
        (lambda: fit_runs(run, layers=(5,)), "layers must be at most 4, got 5"),
        (lambda: fit_runs(run, loss=1), "loss must be True or False"),
    ):
        with pytest.raises(InputError, match=message):
            wrong()


@pytest.mark.parametrize("parameters", [2, 5, 7])
def test_costs_of_guesses_are_sums_of_squares(parameters):
    """In NumPy for many guesses against JAX for each."""
    rng = np.random.default_rng(parameters)
    t, data = np.linspace(0, 1, 9), rng.uniform(0.1, 1, (9, 4 if parameters == 7 else 3))
    guesses = rng.uniform(-2, 2, (model.AT_ONCE + 3, parameters))
    given = (t, data, np.full(data.shape, 0.5), np.float64(0.8), data[0, :3])
    with precision(np.float64):
        expected = [float((model._residual(jnp.asarray(g), *given) ** 2).sum()) for g in guesses]
    assert np.allclose(model._costs(guesses, *given), expected, rtol=1e-10)
