import numpy as np
import pytest

import neuralrace as nr
from neuralrace.experiments import separability as sep
from neuralrace.measure import crossing


@pytest.mark.parametrize("gating", ["linear", "xor"])
def test_learning_time_is_where_the_closed_form_reaches_the_level(gating):
    t = np.linspace(0, 60, 20_001)
    for margin, a0 in ((0.5, 1e-3), (1.0, 1e-6), (2.0, 1e-2)):
        loss = nr.exact.separability_loss(t, margin, gating, a0)
        assert np.isclose(sep.learning_time(margin, gating, a0), crossing(t, loss, sep.LEVEL), rtol=1e-5)


def test_equal_times_tend_to_the_crossing_of_growth_rates():
    found = [sep.equal_times(10.0**-k) for k in (3, 8, 30, 300)]
    assert np.allclose(found[:2], [0.934, 0.858], atol=1e-3)
    assert (np.diff(found) < 0).all()
    assert 0 < found[-1] - np.sqrt(2 / 3) < 2e-3


def test_expected_strength_is_the_mean_over_networks():
    p = sep.Separability(hidden=4000, variance=0.01)
    w = nr.init.gaussian(nr.Graph.chain([1, p.hidden, 1]), 0.1, seed=range(20))
    grown = (w["x->h1"][..., 0] + w["h1->y"][:, 0]) ** 2 / 4  # along any input direction
    assert np.isclose(grown.sum(axis=1).mean() / 4, p.a0("xor"), rtol=0.02)
    assert p.a0("linear") == 2 * p.a0("xor")


def test_experiment(tmp_path):
    changes = {"seeds": 2, "margins": (0.2, 1.5), "shown": (0.2, 1.5), "fine": 0.4, "hidden": 32}
    report = nr.experiments.run("separability", quick=True, out=tmp_path, changes=changes)
    found = {c.name: c for c in report.claims}
    assert found["margin of equal growth rates"].holds
    assert found["weight in units of the xor gating, margin up to .5"].holds
    assert found["weight in units of the linear gating, margin from 1.2"].holds
    assert found["linear gating, closed form - flow, margins 0 to 3"].holds
