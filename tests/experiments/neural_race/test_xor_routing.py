"""The experiments `xor` and `routing` in a small form, and what they add to the library."""

import matplotlib
import numpy as np
import pytest

import neuralrace as nr
from neuralrace import plot
from neuralrace.experiments import routing
from neuralrace.measure import xor_strengths


def frozen_error_strengths(w1, w2, t1=16.0, dt=2e-3):
    """Euler steps of ReLU units while the error is the target; then strengths taken back to time 0."""
    x, y = nr.tasks.xor().arrays
    w, v = w1.copy(), w2[0].copy()
    for _ in range(round(t1 / dt)):
        active = w @ x.T > 0
        w, v = (
            w + dt * v[:, None] * (active * y[:, 0]) @ x / 4,
            v + dt * (np.maximum(w @ x.T, 0) @ y[:, 0]) / 4,
        )
    along = w @ x.T / np.sqrt(2)
    grown = ((along.max(axis=1) + np.abs(v)) / 2) ** 2 * np.exp(-t1 / np.sqrt(2))
    return np.array([grown[along.argmax(axis=1) == k].sum() for k in range(4)])


@pytest.mark.parametrize("seed", range(3))
def test_xor_strengths_are_those_of_units_followed_to_their_diagonal(seed):
    rng = np.random.default_rng(seed)
    w1, w2 = rng.standard_normal((40, 2)), rng.standard_normal((1, 40))
    np.testing.assert_allclose(xor_strengths(w1, w2), frozen_error_strengths(w1, w2), rtol=0.01)


def test_xor_strengths_symmetries():
    rng = np.random.default_rng(0)
    w1, w2 = rng.standard_normal((5, 30, 2)), rng.standard_normal((5, 1, 30))
    a = xor_strengths(w1, w2)
    assert a.shape == (5, 4)
    np.testing.assert_allclose(xor_strengths(1e-4 * w1, 1e-4 * w2), 1e-8 * a)
    np.testing.assert_allclose(xor_strengths(-w1, w2), a[:, ::-1])  # the samples are their own mirror image
    np.testing.assert_allclose(xor_strengths(w1 * [1, -1], -w2), a[:, [1, 0, 3, 2]])
    np.testing.assert_allclose(xor_strengths(w1[2], w2[2]), a[2])
    assert (xor_strengths(np.zeros((3, 2)), np.zeros((1, 3))) == 0).all()


def test_xor_strengths_refuse_other_shapes():
    with pytest.raises(ValueError, match="w1 must be"):
        xor_strengths(np.ones((4, 3)), np.ones((1, 4)))
    with pytest.raises(ValueError, match="w1 must be"):
        xor_strengths(np.ones((4, 2)), np.ones((1, 5)))


def test_xor(tmp_path):
    report = nr.experiments.run("xor", quick=True, out=tmp_path, changes={"seeds": 2, "lr": 0.01})
    assert report.holds, [c for c in report.claims if not c.holds]
    assert all((report.folder / f"{n}.png").is_file() for n, _ in report.figures)
    with pytest.raises(ValueError, match="t1 must be long enough"):
        nr.experiments.run("xor", out=tmp_path, changes={"t1": 10.0})


def test_routing(tmp_path):
    report = nr.experiments.run("routing", quick=True, out=tmp_path)
    assert report.holds, [c for c in report.claims if not c.holds]
    assert all((report.folder / f"{n}.png").is_file() for n, _ in report.figures)
    with pytest.raises(ValueError, match="below domains"):
        nr.experiments.run("routing", out=tmp_path, changes={"trained": 7})


def test_routing_published_scale():
    p = routing.Routing()
    assert p.published == 8
    assert p.t1 == pytest.approx(80)
    task, w = p.task(p.pairs(4)), nr.init.orthogonal(nr.Graph.routing(7, 4, (64, 64), 7), 0.2, seed=0)
    total = 0.0
    for i, j in np.argwhere(p.pairs(4)):
        y = np.eye(4) @ (w[f"h2->y{j}"] @ w["h1->h2"] @ w[f"x{i}->h1"]).T
        total += ((y - routing.TARGETS) ** 2).mean()
    assert p.published * nr.loss(task, w) == pytest.approx(total)


def test_style_leaves_global_settings_alone():
    before = dict(matplotlib.rcParams)
    with plot.style():
        _, ax = plot.figure()
        plot.theory(ax, [0, 1], [0, 1], label="line")
        assert not ax.legend().get_frame_on()
    assert dict(matplotlib.rcParams) == before


def test_each_item_is_shown_on_each_domain():
    p = routing.Routing(hidden=8)
    task = p.task(p.pairs(p.trained))
    w = nr.init.gaussian(task.graph, 0.5, seed=range(2))
    said = nr.activity(task, w, "y5", routing.each_item(p.domains)).reshape(2, p.domains, routing.ITEMS, -1)
    maps = [w["h2->y5"] @ w["h1->h2"] @ w[f"x{i}->h1"] for i in range(p.domains)]
    assert np.allclose(said, np.stack(maps, axis=1).swapaxes(-1, -2), atol=1e-12)
