import numpy as np
import pytest
import xarray as xr

import neuralrace as nr
import neuralrace_papers
from neuralrace_papers.make_haste_slowly import modes


def test_factor_of_losses():
    measured = xr.DataArray([[100.0, 10.0, 1.0, 0.01]], dims=["seed", "epoch"])
    predicted = xr.DataArray([[100.0, 5.0, 1.5, 0.1]], dims=["seed", "epoch"])
    assert modes.loss_factor(predicted, measured) == 2


@pytest.mark.parametrize("different", [True, False])
def test_modes_of_different_structures_are_not_shared(different):
    x, y = nr.tasks.contexts(3, ("hierarchy", "ring", "cross") if different else None).arrays
    residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    a, b = (s.T @ s for s in (residual[8:].T @ x[8:, :8], residual[:16].T @ x[:16, :8]))
    shared = np.linalg.norm(a @ b - b @ a) < 1e-12 * np.linalg.norm(a @ b)
    assert shared != different


@pytest.mark.whole
def test_contexts_experiment(tmp_path):
    changes = {"hidden": 49, "pathway": 12, "std": 1e-4, "epochs": 1600}
    report = neuralrace_papers.run("contexts", quick=True, out=tmp_path, changes=changes)
    claims = {c.id: c for c in report.claims}
    assert claims["initial-loss"].holds
    assert claims["block-reduction"].holds
    assert claims["shared-modes"].verdict == "fails"
    assert claims["mixed-units"].verdict == "fails"
    assert all(c.bound for c in report.claims if c.kind == "paper")
    assert {n for n, _ in report.figures} == {"loss", "outputs", "hidden", "race"}
