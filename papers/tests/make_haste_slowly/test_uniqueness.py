import numpy as np
import pytest

import neuralrace as nr
import neuralrace_papers
from neuralrace_papers.make_haste_slowly import uniqueness


@pytest.mark.whole
def test_uniqueness_experiment(tmp_path):
    # A loss of 90% ends the race early.
    changes = {
        "hidden": 80,
        "pathway": 20,
        "save": 11,
        "stride": 500,
        "steps": 1200,
        "std": 1e-4,
        "level": 0.9,
    }
    report = neuralrace_papers.run("uniqueness", quick=True, out=tmp_path, changes=changes)
    claims = {c.id: c for c in report.claims}
    for kind in ("same", "different"):
        assert claims[f"rate-always-open-{kind}"].holds
        assert np.isclose(claims[f"residual-two-contexts-{kind}"].measured, 1)
        assert claims[f"residual-two-contexts-{kind}"].verdict == "fails"
        assert 0.1 < claims[f"gates-switched-{kind}"].measured < 0.5
    assert claims["race-samples-same"].measured > 0
    assert all(c.bound for c in report.claims if c.kind == "paper")
    # Pathways of one context stay nearly as they were where contexts have the same structure.
    assert claims["single-inactive-same"].measured < 0.02 < claims["single-inactive-different"].measured
    assert claims["residual-single-inactive-same"].measured > 0.5


def test_names_of_pathways_are_their_gates():
    task = nr.tasks.contexts(3, gating="both", hidden=4)
    assert np.array_equal(list(task.samples.gates.values()), uniqueness.GATES)
    assert uniqueness.GATES[uniqueness.PATHWAYS.index("101")].tolist() == [1] * 8 + [0] * 8 + [1] * 8
