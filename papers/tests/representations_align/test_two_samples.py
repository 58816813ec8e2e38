"""The experiments `two-point` and `layers` in a small form, and how they read their fits."""

import numpy as np
import pytest
import xarray as xr

import neuralrace_papers
from neuralrace_papers.representations_align import layers, two_point
from neuralrace_papers.representations_align.fits import left_over, plateau


@pytest.mark.whole
def test_two_point(tmp_path):
    changes = {"architectures": ("shallow",), "weights": ("default",), "depth": 4, "steps": 800,
               "grid_steps": 1600, "adam": 3e-5, "adam_steps": 800}  # fmt: skip
    report = neuralrace_papers.run("two-point", True, tmp_path, changes)
    found = {id: row.value for id, row in report.rows.items()}
    assert found["learned"] == 1
    assert found["fit-shallow"] < 0.05
    assert found["fit-rates-worst"] == found["fit-rates-networks"] == found["fit-rates-shallow"] < 0.1
    assert found["final-correlation-shallow"] > 0.8
    assert found["fit-adam"] > 0.1
    assert {n for n, _ in report.figures} == {"zoo", "loss", "weights", "final", "adam"}


@pytest.mark.whole
def test_layers(tmp_path):
    report = neuralrace_papers.run("layers", True, tmp_path, {"depth": 6, "steps": 1000})
    found = {id: row.value for id, row in report.rows.items()}
    assert found["fit-later"] < 0.05
    assert found["fit-earlier-over-later"] > 1


def test_plateau_and_agreement():
    epoch = np.arange(100.0)
    dy2 = np.stack([np.clip((epoch - 50) / 40, 0, 1), np.clip(epoch / 90, 0, 1), np.zeros(100)])
    measured = xr.DataArray(dy2[:, None], dims=("run", "series", "t"), coords={"series": ["dy2"]})
    fits = xr.Dataset({"measured": measured}, {"epoch": ("t", epoch)})
    fits["learned"] = ("run", [True, True, False])
    with np.errstate(invalid="ignore"):
        assert np.allclose(plateau(fits, "dy2"), [54 / 86, 9 / 81, np.nan], equal_nan=True)
    ends = {"end_theory": [0.0, 1, 2, 3, 9], "end": [0.5, 2, 4, 6, 0], "target": [0.0, 1, 1, 1, 1],
            "trial_learned": [True, True, True, True, False]}  # fmt: skip
    correlation, ratio = two_point.agreement(xr.Dataset({n: ("trial", v) for n, v in ends.items()}))
    assert ratio == 2
    assert correlation > 0.99


def test_rank_correlation():
    rates = xr.DataArray([[1.0, 2, 5], [3, 2, 1]], dims=("run", "layer"), coords={"layer": [4, 5, 6]})
    assert np.allclose(layers.rank_correlation(rates), [1, -1])


def test_what_a_fit_leaves_over():
    """The square root of Eq. 49 over that of the same sum for a theory of zero; 1 where there is no fit."""
    series, t = ["dh2", "dy2", "w", "loss"], np.arange(3)
    measured = xr.DataArray(
        np.ones((2, 4, 3)), dims=("run", "series", "t"), coords={"series": series, "t": t}
    )
    theory = measured.copy()
    theory[0, 0] = 1.5
    theory[0, 3] = 7.0  # the loss is no part of Eq. 49
    theory[1] = np.nan
    fits = xr.Dataset({"measured": measured, "theory": theory.expand_dims(fit=["rates"])})
    assert np.allclose(left_over(fits), [np.sqrt(3 * 0.25 / 9), 1])
