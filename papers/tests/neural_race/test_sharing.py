import pytest

import neuralrace_papers
from neuralrace_papers.neural_race import sharing


@pytest.mark.whole
def test_sharing(tmp_path):
    small = {"domains": 4, "groups": (1, 2), "hidden": 8, "trained": (2,), "depths": (1, 2)}
    small = {**small, "t1": 240.0, "long": 20.0, "starts": (1e-6, 1e-2), "values": (1.0, 4.0)}
    report = neuralrace_papers.run("sharing", quick=True, out=tmp_path, changes=small)
    assert {name for name, _ in report.figures} == {"sharing-dynamics", "sharing-routes", "sharing-factors"}
    claims = {c.id: c for c in report.claims}
    for key in (
        "strengths-decoupled", "more-sharing-faster-decoupled", "more-sharing-faster-random", "chain-times",
        "shared-edge-times", "imbalanced-faster",
    ):  # fmt: skip
        assert claims[key].holds, claims[key]
    assert (report.folder / "sharing-factors.svg").stat().st_size > 1000


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="groups must divide"):
        sharing.Sharing(groups=(3,))
    with pytest.raises(ValueError, match="trained must increase"):
        sharing.Sharing(trained=(2, 1))
