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


def test_the_last_term_of_eq_15_lacks_factors_of_two():
    for case in ((2, 3, 5, 0.6), (5, 3, 2, -0.6)):
        found = balanced.partitioned(balanced.Balanced(), case)
        assert found["printed"] > 1e-2
        assert found["corrected"] < 1e-9


@pytest.mark.whole
def test_experiment(tmp_path):
    changes = {"seeds": 2, "relative": (0.0, 1.0), "sizes": (1.0, 8.0, 16.0, 32.0), "shown": (1.0, 32.0)}
    report = neuralrace_papers.run("balanced", quick=True, out=tmp_path, changes=changes)
    value = {id: row.value for id, row in report.rows.items()}
    assert value["lazy-square-positive"] < 1e-5
    assert value["rich-square"] > 0.05
    assert value["plateaus-zero"] > 0
    assert value["saddle-sign"] == 1
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
