import math

import numpy as np
import pytest
from matplotlib.quiver import Quiver
from scipy.optimize import brentq

import neuralrace as nr
import neuralrace_papers
from neuralrace import plot
from neuralrace_papers.multipathway import phase_portraits as portraits


def test_printed_constants_hold_for_equal_depths_only():
    assert [len(depths) for depths in portraits.MIXED] == [2, 3, 4, 5]
    drift = portraits.mixed(portraits.PhasePortraits(layers=(0.8,)), 1)
    assert drift["right"] < 1e-8
    assert drift["printed"] > 0.01


def test_starts_are_those_of_the_authors_script():
    p = portraits.PhasePortraits(t1=0.01)
    first = np.random.default_rng(49827345).normal(0, 0.1, size=(100, 2))
    k = portraits.portrait(p, 2)["k"][1][:, 0, :, 0].T
    assert np.allclose(k, first * np.hypot(1, first))


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
    changes = {"seeds": 6, "depths": (2, 4), "far": (7, 1000), "strengths": (1e2, 1e4), "layers": (0.7,)}
    report = neuralrace_papers.run("phase-portraits", quick=True, out=tmp_path, changes=changes)
    value = {id: row.value for id, row in report.rows.items()}
    assert max(value["curve"], value["invariant"], value["invariant-mixed"]) < 1e-8
    assert value["deeper-more-extreme"] > 0
    assert value["eq-26"] < 0.01
    assert value["eq-30-depth-7"] > 0.3
    assert value["eq-30-depth-1000"] < 0.1
    assert len(report.figures) == 2


WRONG = [
    ({"depths": (1, 3)}, "depths must be at least 2"),
    ({"far": (2, 3)}, "far must be at least 3"),
    ({"sigmas": (0.01, 0.1)}, "sigmas must decrease"),
    ({"cases": 5}, "cases must be from 1 to 4"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(nr.errors.InputError, match=message):
        portraits.PhasePortraits(**changes)
