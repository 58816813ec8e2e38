import numpy as np
import pytest

import neuralrace as nr
import neuralrace_papers
from neuralrace.errors import InputError
from neuralrace_papers.framework.store import dataset
from neuralrace_papers.multipathway import networks
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
    p = Pathways(width=12, std=0.3)
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
        k = np.asarray(networks.contributions(task.graph)(nr.State(0.0, task, lambda w=w: w))["outputs"])
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
    found = networks.aligned_modes(k)
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
    assert np.allclose(found.predicted.sel(prediction="Eq. 17"), true[:, -1], atol=2e-4)
    assert np.allclose(found.signals, true, atol=1e-4)
    assert np.allclose(found.rate, 1, atol=0.01)
    assert np.ptp(true[0, -1, :, 0]) > 0.02  # there is something to predict


def test_random_layers_all_learn_from_the_start():
    """Eq. 17 lets only the last layer learn at the start: K grows `depth` times as fast (docs/errata.md)."""
    task = networks.task([3, 3], 400)
    _, rate = networks.initial_growth(task, dict(networks.draw(task, 0.3 / 20, 6, 3)), 0.3)
    assert np.isclose(rate.mean(), 3, atol=0.15)


def test_off_diagonal_perturbations_are_neutral_but_for_the_sum():
    found = networks.off_diagonal_rates(2, pathways=3, width=1000, std=0.01, t1=100.0)
    rates = found["rates"][1]
    assert found["mixing"] < 1e-12
    # At the start, last layers near zero: an entry grows with the strongest mode's correlation.
    assert np.isclose(rates[0].max(), networks.S[0] / 8, rtol=0.05)
    decaying = rates[-1] < -1e-3
    assert np.isclose(decaying.mean(), 1 / (3 * 2))
    assert np.abs(rates[-1][~decaying]).max() < 1e-5


def test_networks_do_not_depend_on_how_many_fit_into_memory(monkeypatch):
    p = Pathways(width=8, std=0.1)
    whole = networks.train(p, [2, 2], series=2, t1=5.0, seeds=3)
    monkeypatch.setattr(networks, "AT_ONCE", 2 * networks.task([2, 2], 8).graph.n_weights)
    parts = networks.train(p, [2, 2], series=2, t1=5.0, seeds=3)
    assert whole.sizes == parts.sizes
    for name in ("loss", "outputs", "predicted", "signals", "rate"):
        assert np.allclose(parts[name], whole[name], atol=1e-5), name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pathways": 1}, "pathways must be at least 2"),
        ({"depths": (3, 2), "epochs": (1, 1)}, "depths must increase"),
        ({"depths": (1, 2), "epochs": (1, 1)}, "depths must be at least 2"),
        ({"epochs": (10,)}, "epochs must have one entry for each of depths"),
        ({"widths": (100,)}, "widths must be a list of at least 2 values"),
        ({"width": 4}, "width must be at least 8"),
        ({"seeds": 1}, "seeds must be at least 2"),
        ({"seeds": 1001}, "seeds must be at most 1000"),
        ({"std": 0.0}, "std must be greater than 0"),
    ],
)
def test_wrong_parameters_are_refused(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        neuralrace_papers.run("pathways", quick=True, out=tmp_path, changes=changes)
    assert not list(tmp_path.rglob("*.npz"))


@pytest.mark.whole
def test_experiment(tmp_path):
    changes = {"seeds": 5, "width": 26, "widths": (10, 26)}
    report = neuralrace_papers.run("pathways", quick=True, out=tmp_path, changes=changes)
    claims = {c.id: c for c in report.claims}
    assert len(report.figures) == 6
    for key in ("learned", "published-steps", "steady-state", "share-signals-depth-3"):
        assert claims[key].holds, claims[key]
    assert claims["depth-modes-5-8"].measured < 0.01
