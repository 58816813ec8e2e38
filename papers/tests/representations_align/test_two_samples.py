"""The experiments `two-point` and `layers` in a small form, and how they read their fits."""

import numpy as np
import pytest
import xarray as xr

import neuralrace_papers
from neuralrace_papers.representations_align import layers, two_point
from neuralrace_papers.representations_align.fits import plateau


@pytest.mark.whole
def test_two_point(tmp_path):
    changes = {"architectures": ("shallow",), "weights": ("default",), "depth": 4, "steps": 800,
               "grid_steps": 1600, "adam": 3e-5, "adam_steps": 800}  # fmt: skip
    report = neuralrace_papers.run("two-point", True, tmp_path, changes)
    found = {c.id: c for c in report.claims}
    assert found["fit-shallow"].holds
    assert found["fit-rates-shallow"].measured > found["fit-shallow"].measured  # has less freedom
    assert found["final-correlation-shallow"].measured > 0.8
    assert found["fit-adam"].holds
    assert {n for n, _ in report.figures} == {"zoo", "loss", "weights", "final", "adam"}


@pytest.mark.whole
def test_layers(tmp_path):
    report = neuralrace_papers.run("layers", True, tmp_path, {"depth": 6, "steps": 1000})
    found = {c.id: c for c in report.claims}
    assert all(found[name].holds for name in ("fit-later", "fit-earlier-over-later", "converged"))


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
