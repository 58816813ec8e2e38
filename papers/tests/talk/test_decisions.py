import numpy as np
import pytest
import xarray as xr

import neuralrace as nr
import neuralrace_papers
from neuralrace_papers.talk import decisions


def test_stops_are_fixed_points_near_which_a_path_lingers():
    t = np.linspace(0, 1, 201)
    rise = lambda at: 1 / (1 + np.exp(-60 * (t - at)))  # noqa: E731
    m = np.zeros((1, 201, 3, 2))
    m[0, :, 2, 0], m[0, :, 0, 0] = rise(0.3), rise(0.7)
    points = np.zeros((4, 3, 2))
    points[1, 2, 0] = points[2, 1, 1] = points[3, 2, 0] = points[3, 0, 0] = 1
    path = xr.Dataset({"associations": (("run", "t", "input", "choice"), m)})
    fixed = xr.Dataset({"associations": (("point", "input", "choice"), points)})
    (row,) = decisions.stops(path, fixed)
    assert list(row) == [0, 1, 3]
    assert all(d < 0.02 for d in row.values())


@pytest.mark.whole
def test_experiment(tmp_path):
    report = neuralrace_papers.run("decisions", quick=True, out=tmp_path, changes={"trials": 4000})
    value = {id: row.value for id, row in report.rows.items()}
    assert value["points-deep"] == 8
    assert value["points-shallow"] == 1
    assert value["stages-shallow"] == 0
    assert value["bias-first"] == 1
    assert value["saddles-near"] < 0.1
    assert [name for name, _ in report.figures] == ["decisions", "decisions-stages"]


@pytest.mark.parametrize(
    ("contrasts", "message"),
    [
        ((0.1, 0.4), "contrasts must have an easy one"),
        ((0.5, 3.0), "contrasts must be above 0 and at most 1"),
    ],
)
def test_wrong_contrasts_are_refused(contrasts, message):
    with pytest.raises(nr.errors.InputError, match=message):
        decisions.Decisions(contrasts=contrasts)


def test_agents_that_never_answer_well_are_left_out():
    t, sides = np.arange(5.0), np.array([0.6, 0.7])
    accuracy = np.stack(
        [np.outer(level, sides) for level in ([0.5, 0.5, 1.3, 1.4, 1.4], [0.5] * 5, [1.3] * 5)]
    )
    learned = np.array([[1.0, 1.0, 1.5], [1.0, 1.0, 0.5], [1.0, 1.0, np.nan]])  # left, right, bias
    path = xr.Dataset(
        {"accuracy": (("run", "t", "side"), accuracy), "learned": (("run", "input"), learned)},
        coords={"t": t, "input": list(decisions.INPUTS)},
    )
    odds, times, both = decisions.early_and_late(path)
    assert both.tolist() == [True, False, False]
    assert times.tolist() == [[2.0], [2.0]]
    left, right = 1.3 * sides
    assert odds == pytest.approx(np.log(left / (1 - left)) - np.log(right / (1 - right)))
