import math

import numpy as np
import pytest
from matplotlib.quiver import Quiver
from scipy.optimize import brentq

import neuralrace as nr
import neuralrace_papers
from neuralrace import plot
from neuralrace_papers.multipathway import phase_portraits as portraits


def test_conserved_quantities_of_wide_networks():
    assert [len(depths) for depths in portraits.MIXED] == [2, 3, 4, 5]
    drift = portraits.mixed(portraits.PhasePortraits(layers=(0.8,), width=3), 1)
    assert set(drift) == {"balance", "curve", "invariant", "strength"}
    assert all(v < 1e-8 for v in drift.values()), drift


def test_field_of_a_panel_has_its_own_depth():
    p = portraits.PhasePortraits()
    for depth in (2, 5):
        _, ax = plot.figure()
        portraits.draw_field(ax, p, depth)
        (arrows,) = [c for c in ax.collections if isinstance(c, Quiver)]
        for n in (20, 45, 80, 130):
            x, y = arrows.XY[n]

            def speed(strength, depth=depth):  # of K = p q^(D-1), by its layers
                value = brentq(lambda v: v * (1 + v**2) ** ((depth - 1) / 2) - strength, -20, 20)
                q = math.hypot(1, value)
                return (q ** (depth - 1)) ** 2 + (depth - 1) * (value * q ** (depth - 2)) ** 2

            want = np.array([speed(x), speed(y)]) * np.sign(p.strength - x - y)
            want /= np.linalg.norm(want)
            np.testing.assert_allclose([arrows.U[n], arrows.V[n]], want, atol=1e-4)


@pytest.mark.whole
def test_phase_portraits(tmp_path):
    changes = {"seeds": 6, "depths": (2, 4), "far": (3,), "strengths": (10.0, 1e3), "layers": (0.7,)}
    report = neuralrace_papers.run("phase-portraits", quick=True, out=tmp_path, changes=changes)
    claims = {c.id: c for c in report.claims}
    for claim in claims.values():
        if "drift" in claim.name or "extreme" in claim.name or "growth" in claim.name:
            assert claim.holds, claim
    assert claims["eq-26"].measured < 0.01
    assert claims["eq-26"].verdict == "undecided"  # of the quick form, which has one depth
    assert claims["eq-30-all-strengths"].measured > 0.5
    assert len(report.figures) == 2


WRONG = [
    ({"start": (0.1,)}, "start must be two numbers"),
    ({"start": (0.1, 0.2)}, "start must be two numbers"),
    ({"width": 1}, "width must be at least 2"),
    ({"depths": (3,)}, "depths must be a list of at least 2 values"),
    ({"depths": (1, 3)}, "depths must be at least 2"),
    ({"far": (2, 3)}, "far must be at least 3"),
    ({"strengths": (10.0, 1.0)}, "strengths must increase"),
    ({"sigmas": (0.01, 0.1)}, "sigmas must decrease"),
    ({"cases": 5}, "cases must be at most 4"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(nr.errors.InputError, match=message):
        portraits.PhasePortraits(**changes)
