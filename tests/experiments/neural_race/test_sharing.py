import numpy as np
import pytest

import neuralrace as nr
from neuralrace.experiments.neural_race import sharing


@pytest.mark.whole
def test_sharing(tmp_path):
    small = {"domains": 4, "groups": (1, 2), "hidden": 8, "trained": (2,), "depths": (1, 2)}
    small = {**small, "t1": 240.0, "long": 20.0, "starts": (1e-6, 1e-2), "values": (1.0, 4.0)}
    report = nr.experiments.run("sharing", quick=True, out=tmp_path, changes=small)
    assert {name for name, _ in report.figures} == {"sharing-dynamics", "sharing-routes", "sharing-factors"}
    claims = {c.id: c for c in report.claims}
    for key in (
        "strengths-decoupled", "more-sharing-faster-decoupled", "more-sharing-faster-random", "chain-times",
        "shared-edge-times", "logistic-time", "imbalanced-faster",
    ):  # fmt: skip
        assert claims[key].holds, claims[key]
    assert (report.folder / "sharing-factors.svg").stat().st_size > 1000


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="groups must divide"):
        sharing.Sharing(groups=(3,))
    with pytest.raises(ValueError, match="trained must increase"):
        sharing.Sharing(trained=(2, 1))


def test_the_time_of_a_theory_does_not_depend_on_the_times_that_bracket_it():
    loss = lambda t: np.exp(-np.asarray(t))  # noqa: E731
    for t in (np.linspace(0, 5, 4), np.geomspace(0.01, 9, 50)):
        assert sharing.first_time(loss, t, 0.2) == pytest.approx(np.log(5), rel=1e-9)
    assert np.isnan(sharing.first_time(loss, np.linspace(0, 1, 5), 0.2))
    assert sharing.first_time(loss, np.linspace(2, 3, 5), 0.2) == 2
