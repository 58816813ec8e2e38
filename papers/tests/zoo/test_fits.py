"""Fits of whole trajectories, and of the two rates alone."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import neuralrace as nr
from neuralrace import universality
from neuralrace.errors import InputError
from neuralrace.universality import fit_rates, fit_recorded
from neuralrace_papers.zoo import Network, fit_runs, train


@pytest.fixture(scope="module")
def run():
    x, y = nr.tasks.two_points().arrays
    return train(Network(depth=4, width=30, gain=0.9), x, y, lr=0.1, steps=600, seeds=range(2))


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


def test_fits_of_all_runs_are_those_of_each(run):
    fits = fit_runs(run, layers=(2, 4), loss=True, times=101)
    for k in range(2):
        for layer in (2, 4):
            one, found = (
                fit_recorded(run, k, layer, with_loss=True, times=101),
                fits.isel(run=k).sel(layer=layer),
            )
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


def test_what_is_no_training_is_refused(run):
    for wrong, message in (
        (lambda: fit_runs(run[0]), "training must be a Trajectory of several runs"),
        (lambda: fit_runs(run, layers=(5,)), "layers must be at most 4, got 5"),
        (lambda: fit_runs(run, loss=1), "loss must be True or False"),
    ):
        with pytest.raises(InputError, match=message):
            wrong()
