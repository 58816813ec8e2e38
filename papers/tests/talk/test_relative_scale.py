import numpy as np
import pytest

import neuralrace as nr
import neuralrace_papers
from neuralrace.dynamics import State
from neuralrace_papers.talk import relative_scale as scale


def test_ways_of_scaling():
    assert scale.scaled(1.0, 1.0, 16.0, "relative") == (0.25, 4.0)
    assert scale.scaled(1.0, 1.0, 16.0, "first") == (0.25, 1.0)
    assert scale.scaled(1.0, 1.0, 16.0, "later") == (1.0, 4.0)


def test_roughness_of_noise_and_of_ramps():
    rng = np.random.default_rng(0)
    assert np.isclose(scale.roughness(rng.standard_normal((4000, 5, 5))), 2, rtol=0.02)
    assert scale.roughness(np.ones((3, 5, 5))) == 0
    checks = (-1.0) ** (np.arange(5)[:, None] + np.arange(5))
    assert scale.roughness(checks[None]) == 4


def test_share_within_a_basis():
    frame = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    rows = np.stack([frame[:, :2].T, frame[:, 2:4].T, frame[:, 1:3].T])
    assert np.allclose(scale.share_within(rows, frame[:, :2]), [1, 0, 0.5])


def test_shares_of_correct_sums():
    p = scale.RelativeScale(modulus=5, share=0.6, hidden=4)
    task, correct = scale.addition(p)
    silent = {"x->h1": np.zeros((4, 10)), "h1->y": np.zeros((5, 4))}
    shares = correct(State(0.0, task, lambda: silent))  # says 0 to every sum
    assert np.isclose(15 * float(shares["train"]) + 10 * float(shares["test"]), 5)


@pytest.mark.whole
def test_experiment(tmp_path):
    report = neuralrace_papers.run("relative-scale", quick=True, out=tmp_path)
    assert report.rows["grokking-delay"].value > 5
    assert report.rows["filters-smooth-first"].value < 0
    assert report.rows["filters-new-first"].value > 0
    assert len(report.figures) == 2


def test_ratios_without_one_are_refused():
    with pytest.raises(nr.errors.InputError, match="ratios must have 1 among them"):
        scale.RelativeScale(ratios=(0.5, 2.0, 4.0))
