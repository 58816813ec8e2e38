"""The experiments `structure` and `collapse` in a small form, and what they measure."""

import numpy as np
import pytest

import neuralrace_papers
from neuralrace.errors import InputError
from neuralrace.measure import squared_distances
from neuralrace_papers.representations_align import collapse, structure


def test_collapse_index():
    place = np.linspace(-1, 1, 6)
    h = np.zeros((2, 6, 6, 4))
    h[0, ..., 0], h[0, ..., 1] = place[:, None], 0.1 * place[None, :]  # x matters
    h[1, ..., 0], h[1, ..., 1] = 0.2 * place[:, None], place[None, :]  # y matters
    assert np.allclose(collapse.collapse_index(h), [0.01, 0.04])
    h[1, ..., 2] = 2.0
    apart = 4 + 2 * (place**2).mean()  # targets lie along different axes
    assert np.isclose(collapse.context_distance(h), apart / (2 * (place**2).mean()), rtol=1e-9)
    both = np.stack([h, 3 * h])
    assert np.allclose(collapse.collapse_index(both), [[0.01, 0.04]] * 2)
    assert np.allclose(collapse.context_distance(both), collapse.context_distance(h))
    points, closer = collapse.draw_closer(h)
    assert closer == 1
    before, after = (squared_distances(v.reshape(72, -1)) for v in (h, points))
    assert np.allclose(after, before, atol=1e-9)


def test_samples_shown():
    p = structure.EXPERIMENT.chosen(True, {})
    x, y = structure.images(p.data, p.path)
    assert abs(x.mean()) < 1e-12
    assert np.isclose(x.std(), 1)
    some = structure.first_by_digit(p, y)
    assert (np.diff(y[some].argmax(axis=1)) >= 0).all()
    assert sorted(some) == list(range(100))
    assert structure.NAMES[2] == "00\n11"
    assert np.array_equal(structure.SAME, [False, False, True, True, False, False])


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("structure", {"gains": (1.0,)}, "gains must hold 4 numbers"),
        ("structure", {"data": "mnist", "path": "nowhere"}, "path must be an npz file or a folder"),
        ("structure", {"shown": 5}, "shown must be at least 20"),
        ("collapse", {"rates": (1.0,)}, "rates must hold 5 numbers"),
        ("collapse", {"side": 4}, "batch_size must be at most the number of blobs, 32"),
    ],
)
def test_settings_that_do_not_fit(name, changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        neuralrace_papers.run(name, quick=True, out=tmp_path, changes=changes)


@pytest.mark.whole
def test_structure(tmp_path):
    changes = {
        "seeds": 2, "depth": 3, "width": 20, "gains": (0.5, 1.0, 4.0, 1e-3), "rates": (0.1, 0.1, 1e-3, 0.06),
        "adam_rates": (1e-3,) * 4, "epochs": (2000,) * 4, "adam_epochs": 2000, "pair_gain": 0.7,
        "pair_rate": 0.1, "pair_steps": 1000, "image_epochs": 8, "image_adam_epochs": 4, "units": 30,
        "layers": 2, "shown": 40,
    }  # fmt: skip
    report = neuralrace_papers.run("structure", quick=True, out=tmp_path, changes=changes)
    found = {id: row.value for id, row in report.rows.items()}
    assert found["xor-sgd-one-layer-fails"] < 0.9
    assert found["xor-sgd-one-layer-apart"] > 0.5
    assert found["xor-sgd-one-layer-one-pair"] < 1
    assert found["images-adam-weighed"] > 0.2
    assert {n for n, _ in report.figures} == {"xor", "tracked", "matrices"}


@pytest.mark.whole
def test_collapse(tmp_path):
    rates = (0.1, 0.1, 0.01, 0.003, 0.001)
    changes = {"side": 6, "units": 40, "epochs": (100, 100, 100, 400, 400), "rates": rates}
    report = neuralrace_papers.run("collapse", quick=True, out=tmp_path, changes=changes)
    found = {id: row.value for id, row in report.rows.items()}
    assert found["collapse-high"] > 0.3
    assert found["collapse-adam-low"] < 0.8
    assert {n for n, _ in report.figures} == {"task", "blobs", "numbers"}
