import numpy as np
import pytest

import neuralrace as nr
import neuralrace_papers
from neuralrace.dynamics import State
from neuralrace.errors import InputError
from neuralrace_papers.framework.store import dataset
from neuralrace_papers.multipathway import networks, pathway_figures
from neuralrace_papers.multipathway.pathways import Pathways
from neuralrace_papers.multipathway.pathways_nonlinear import PathwaysNonlinear

# multipathway Eq. 32
TARGETS = (
    "110100010000000", "110100001000000", "110010000100000", "110010000010000",
    "101001000001000", "101001000000100", "101000100000010", "101000100000001",
)  # fmt: skip


def test_task_is_the_published_one():
    assert np.array_equal(networks.Y, [[int(c) for c in row] for row in TARGETS])
    assert np.allclose(networks.S**2, [15, 7, 3, 3, 1, 1, 1, 1])
    assert np.allclose(networks.U @ np.diag(networks.S) @ networks.V.T, networks.Y.T)
    assert [k for group in networks.GROUPS.values() for k in group] == list(range(8))


def test_an_epoch_is_a_step_on_the_summed_error_without_half():
    p = Pathways(width=20, std=0.3)
    task = networks.task([2, 2], p.width)
    w = nr.init.gaussian(task.graph, p.std, seed=1)
    run = nr.descend(task, w, p.epoch, 1, 2)
    error = sum(w[f"p{a}h1->y"] @ w[f"x->p{a}h1"] for a in (0, 1)) - networks.Y.T  # inputs are unit vectors
    for a in (0, 1):
        first, last = w[f"x->p{a}h1"], w[f"p{a}h1->y"]
        assert np.allclose(run.weights[f"x->p{a}h1"][-1], first - p.lr * 2 * last.T @ error, atol=1e-12)
        assert np.allclose(run.weights[f"p{a}h1->y"][-1], last - p.lr * 2 * error @ first.T, atol=1e-12)


@pytest.mark.parametrize(("activation", "bend"), [("relu", lambda h: np.maximum(h, 0)), ("tanh", np.tanh)])
def test_contributions_of_pathways_are_their_outputs(activation, bend):
    """With the activation after hidden layers, and after the last layer of each pathway too."""
    for every in (False, True):
        task = networks.task([2, 3], 10, activation, every)
        w = {e: v[0] for e, v in networks.draw(task, 0.5, 1, series=3).items()}
        k = np.asarray(networks.contributions(task.graph)(State(0.0, task, lambda w=w: w))["outputs"])
        first = w[task.graph.paths()[0][1]] @ bend(w["x->p0h1"])
        second = w[task.graph.paths()[1][2]] @ bend(w["p1h1->p1h2"] @ bend(w["x->p1h1"]))
        for a, out in enumerate((first, second)):
            out = bend(out) if every else out
            assert np.allclose(k[a], networks.U.T @ out @ networks.V, atol=1e-5)
        assert np.allclose(k.sum(axis=0), networks.U.T @ nr.predict(task, w)["y"].T @ networks.V, atol=1e-5)


def test_outputs_of_pathways_are_passed_on_as_they_are():
    p, task = PathwaysNonlinear(seeds=2, width=8, std=0.3), networks.task([2, 2], 8, "tanh", every=True)
    start, found = networks.draw(task, p.std, 2, 2), networks.descent(p, task, 2, 3, 0.16 * np.arange(4))
    run = nr.descend(task, start, p.epoch, 3, 4, rates=nr.Rates(frozen=task.graph.diagonal))
    assert [(run.weights[path[-1]] == 1).all() for path in task.graph.paths()] == [True, True]
    assert np.allclose(found["loss"][1], run.loss)
    assert found["loss"][1][0, -1] < found["loss"][1][0, 0]


def test_aligned_modes_diagonalise_the_first_pathway_within_groups():
    rng = np.random.default_rng(0)
    k = rng.standard_normal((2, 8, 8))
    k[0] += k[0].T
    found = pathway_figures.aligned_modes(k)
    for group in networks.GROUPS.values():
        own = np.ix_(group, group)
        assert np.allclose(found[0][own], np.diag(np.diagonal(found[0][own])))
        assert np.allclose(np.trace(found[1][own]), np.trace(k[1][own]))
    blocks = [nr.measure.group_strengths(x, list(networks.GROUPS.values())) for x in (k, found)]
    assert np.allclose(*blocks)


@pytest.fixture(scope="module")
def aligned():
    """Weights as Eq. 17 takes them: sigma times orthogonal, the last layer within what the others span."""
    task, sigma, rng = networks.task([3, 3], 40), 0.3, np.random.default_rng(0)
    w = {}
    for a in (0, 1):
        first, inner = nr.init.random_frame(rng, 40, 8), nr.init.random_frame(rng, 40, 40)
        p = np.diag(0.003 * rng.standard_normal(8))
        w |= {f"x->p{a}h1": sigma * first, f"p{a}h1->p{a}h2": sigma * inner}
        w[f"p{a}h2->y"] = sigma * networks.U @ p @ (inner @ first @ networks.V).T
    return task, {e: v[None] for e, v in w.items()}, sigma


def test_eq_17_predicts_orthogonal_layers(aligned):
    task, w, sigma = aligned
    ts = networks.times(60.0)
    found = dataset("predicted", networks.predict(task, w, sigma / np.sqrt(40), ts))
    record = networks.contributions(task.graph)
    run = nr.flow(task, w, ts[-1], ts, save_weights=False, record=record)
    true = networks.leading(run.recorded["outputs"])
    assert np.allclose(found.eq17, true[:, -1], atol=2e-4)
    assert np.allclose(found.signals, true, atol=1e-4)
    assert np.allclose(found.rate, 1, atol=0.01)
    assert np.ptp(true[0, -1, :, 0]) > 0.02  # there is something to predict


def test_signals_follow_the_whole_network_for_a_while():
    """The small network has the loss of the whole one at the start, and follows it for a while."""
    task = networks.task([2, 4], 40)
    w = dict(networks.draw(task, 0.05, 3, 1))
    small, b = networks.signals(task, w)
    assert set(small.graph.nodes.values()) == {8, 15, 16}
    assert np.allclose(nr.loss(small, b), nr.loss(task, w), atol=1e-12)
    whole, part = (nr.flow(t, x, 3.0, 3, method=networks.METHOD) for t, x in ((task, w), (small, b)))
    assert np.allclose(part.loss, whole.loss, rtol=1e-3)


def test_published_steps_end_where_the_flow_does():
    p = Pathways(seeds=2, width=32, std=0.056)
    task, t1 = networks.task([2, 2], p.width), 300 * p.epoch
    steps = networks.descent(p, task, 2, 300, networks.times(t1))
    flow = networks.train(task, networks.draw(task, p.std, p.seeds, 2), t1)
    assert np.abs(steps["outputs"][1][:, -1] - flow.outputs.values[:, -1]).max() < 0.01


def test_networks_do_not_depend_on_how_many_fit_into_memory(monkeypatch):
    task = networks.task([2, 2], 8)
    start = networks.draw(task, 0.1, 3, 2)
    whole = networks.train(task, start, 5.0)
    monkeypatch.setattr(networks, "AT_ONCE", 2 * task.graph.n_weights)
    parts = networks.train(task, start, 5.0)
    assert whole.sizes == parts.sizes
    for name in ("loss", "outputs"):
        assert np.allclose(parts[name], whole[name], atol=1e-5), name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depths": (1, 2), "epochs": (1, 1)}, "depths must be at least 2"),
        ({"epochs": (10,)}, "epochs must have one entry for each of depths"),
        ({"width": 4}, "width must be more than 16"),
        ({"std": 0.0}, "std must be greater than 0"),
    ],
)
def test_wrong_parameters_are_refused(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        neuralrace_papers.run("pathways", quick=True, out=tmp_path, changes=changes)
    assert not list(tmp_path.rglob("*.npz"))


@pytest.mark.whole
def test_experiment(tmp_path):
    changes = {"seeds": 5, "width": 26, "widths": (18, 22, 26)}
    report = neuralrace_papers.run("pathways", quick=True, out=tmp_path, changes=changes)
    assert len(report.figures) == 6
    assert report.rows["steady-state"].value < 1e-3
    assert report.rows["share-signals-depth-3"].value > 0.9
    assert report.rows["depth-modes-5-8"].value < 0.01
