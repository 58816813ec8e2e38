from itertools import pairwise

import numpy as np
import pytest

import neuralrace as nr
import neuralrace_papers
from neuralrace_papers.talk import saddles


@pytest.mark.whole
def test_experiment(tmp_path):
    changes = {"seeds": 5, "starts": 120, "depths": (1, 2), "stds": (1e-3, 1e-5), "ratios": (0.5, 0.95)}
    report = neuralrace_papers.run("saddles", quick=True, out=tmp_path, changes=changes)
    value = {id: row.value for id, row in report.rows.items()}
    assert [value[f"points-depth-{d}"] for d in (1, 2)] == [1, 4]
    assert value["points-extra"] == 0
    assert value["path-in-order"] == 1
    assert value["approach-exponent"] == pytest.approx(0.4, abs=0.05)
    assert [name for name, _ in report.figures] == ["saddles", "saddles-variability"]


def test_scaling_of_the_closest_approach_is_the_least_of_two_exponentials():
    p = saddles.Saddles(strengths=(3.0, 1.0))
    t = np.linspace(0, 20, 200_001)
    stds = 10.0 ** -np.arange(10, 31, 10)
    least = [(np.exp(-6 * t) + std ** (2 / 3) * np.exp(t)).min() for std in stds]
    slopes = [np.log(b / a) / np.log(1e-10) for a, b in pairwise(least)]
    assert np.allclose(slopes, saddles.scaling(p), atol=1e-3)


def test_the_later_mode_cannot_have_the_hidden_direction_of_the_earlier():
    growing = 1e-3 * np.array([[[1.0, 1.0], [0.0, 0.5]]])  # (runs, hidden, modes)
    half = saddles.expected_half_times(growing, np.array([2.0, 1.0]))
    first, second = np.log(2 / 1e-6 - 1) / 4, np.log(1 / (0.5e-3) ** 2 - 1) / 2
    assert np.allclose(half, [[first, second]])


WRONG = [
    ({"strengths": (1.0, 2.0)}, "strengths must be two numbers"),
    ({"depths": (2, 3)}, "depths must be"),
    ({"depths": (1, 2, 4)}, "depths must be"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(nr.errors.InputError, match=message):
        saddles.Saddles(**changes)
