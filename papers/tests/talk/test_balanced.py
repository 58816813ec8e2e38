import numpy as np
import pytest
from scipy.integrate import quad

import neuralrace as nr
import neuralrace_papers
from neuralrace_papers.talk import balanced


def test_a_mode_loses_its_inflection():
    """`a' = sqrt(4 a^2 + lam^2) (1 - a)` rises with a if lam < 1/sqrt(2), its loss if < 1/sqrt(6)."""
    a = np.linspace(0, 1, 20_001)
    for lam, bends in ((0.70, True), (0.715, False)):
        assert (np.diff(np.hypot(2 * a, lam) * (1 - a)) > 0).any() == bends
        curve = balanced.mode(np.linspace(0, 4, 801), lam, 1e-3)
        assert (np.diff(curve, 2) > 1e-13).any() == bends
    for lam, bends in ((0.40, True), (0.415, False)):
        assert (np.diff(np.hypot(2 * a, lam) * (1 - a) ** 2) > 0).any() == bends
    t, lam = np.array([0.3, 1.0, 2.0]), 0.6
    for time, value in zip(t, balanced.mode(t, lam, 1e-3), strict=True):
        assert quad(lambda a: 1 / (np.hypot(2 * a, lam) * (1 - a)), 1e-3, value)[0] == pytest.approx(time)


@pytest.mark.whole
def test_experiment(tmp_path):
    changes = {"seeds": 2, "checked": (0.0, 5.0), "until": 10.0, "relative": (0.0, 1.0)}
    changes |= {"sizes": (1.0, 8.0, 16.0, 32.0), "shown": (1.0, 32.0)}
    report = neuralrace_papers.run("balanced", quick=True, out=tmp_path, changes=changes)
    # The mean over two random spans need not be near the expected one.
    assert all(c.holds or c.id.startswith(("delayed-turn", "delayed-loss")) for c in report.claims)
    lazy = next(c for c in report.claims if c.id == "lazy-square-positive")
    assert lazy.measured < 1e-5
    assert len(report.figures) == 4


WRONG = [
    ({"strengths": (1.0, 2.0)}, "strengths must be 4 numbers"),
    ({"sizes": (1.0, 2.0, 3.0, 4.0)}, "sizes must increase to at least 10"),
    ({"shown": (3.0,)}, "shown must be among the sizes"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(nr.errors.InputError, match=message):
        balanced.Balanced(**changes)
