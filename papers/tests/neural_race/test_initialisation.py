import pytest

import neuralrace_papers
from neuralrace_papers.neural_race import initialisation


@pytest.mark.whole
def test_initialisation(tmp_path):
    small = {"domains": 3, "trained": 2, "hidden": 24, "looks": (0.5,), "scales": (0.1, 2.0, 8.0)}
    small = {**small, "shown": small["scales"], "published": (0.1, 2.0), "t1": 300.0}
    report = neuralrace_papers.run("initialisation", quick=True, out=tmp_path, changes=small)
    assert len(report.figures) == 3
    claims = {c.id: c.measured for c in report.claims}
    for key in ("plateaus", "shared-items", "kernel-turn"):
        assert claims[f"{key}-smallest"] > claims[f"{key}-largest"] + 0.2
    assert claims["outside-modes-smallest"] < claims["outside-modes-largest"]
    assert claims["trained-error"] < 1e-5


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="shown must be three"):
        initialisation.Initialisation(shown=(0.05, 2.0, 7.0))
    with pytest.raises(ValueError, match="published must be two"):
        initialisation.Initialisation(published=(0.2, 2.4))
    with pytest.raises(ValueError, match="trained must be below"):
        initialisation.Initialisation(trained=7)
