from functools import partial

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.experiments import context_count, contexts


@pytest.mark.parametrize("structures", [None, contexts.STRUCTURES])
def test_block_reduction_follows_pathways_from_random_weights(structures):
    task = nr.tasks.contexts(3, structures, gating="shared", hidden=30)
    w = nr.init.gaussian(task.graph, std=1e-5, seed=range(2))
    t = np.linspace(0, 80, 21)
    solved = nr.reduce(task, "block").solve(weights=w, t1=80.0, save=t)
    run = nr.flow(task, w, 80.0, t)
    assert run.loss[:, -1].max() < 0.2 * run.loss[0, 0]
    assert np.abs(solved.loss - run.loss).max() < 1e-5 * run.loss[0, 0]


def test_blocks_of_weights_in_the_family_are_their_coordinates():
    task = nr.tasks.contexts(3, gating="shared", hidden=30)
    r = nr.reduce(task, "block")
    rng = np.random.default_rng(0)
    b = {e: rng.normal(size=s) for e, s in r.family.shape.items()}
    for e, found in r.strengths(r.lift(b)).items():
        assert np.allclose(found, b[e])


def test_closed_loss_starts_with_nothing_and_ends_with_everything_learned():
    x, y = nr.tasks.contexts(4).arrays
    left = y - x @ np.linalg.pinv(x) @ y
    patterns = np.repeat(1 - np.eye(4), 8, axis=1)
    found = context_count._closed_loss(x, y, left, patterns, np.array([0.0, 1e4]), 1e-8, 4)
    assert np.isclose(found[0], 128, rtol=1e-6)
    assert found[1] < 1e-12


def test_two_stages_are_exact_while_the_network_is_linear():
    """Units that are all open from the start: the first stage is the network itself."""
    x, y = nr.tasks.contexts(3).arrays
    net = nr.relu.train(x, y, [60], 1e-4, 1e-3, 600, 31, seed=0)
    predicted = contexts.staged(net)
    assert predicted.shape == net.loss.shape
    early = net.steps <= 400
    assert np.abs(predicted - net.loss)[early].max() < 0.03 * net.loss[0]
    with pytest.raises(ValueError, match="std must be smaller"):
        contexts.staged(nr.relu.train(x, y, [60], 1.0, 1e-4, 100, 11, seed=0))


def test_factor_and_difference_of_losses():
    measured = np.array([[100.0, 10.0, 1.0, 0.01]])
    predicted = np.array([[100.0, 5.0, 1.5, 0.1]])
    assert contexts.factor(predicted, measured) == 2
    assert contexts.apart(predicted, measured) == 0.05


def test_scaled_representations_keep_distances_in_a_plane():
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(3, 5, 2))
    plane -= plane.mean(axis=(0, 1))
    hidden = plane @ np.linalg.qr(rng.normal(size=(9, 2)))[0].T
    found = contexts.scaled(hidden)
    assert np.allclose(
        np.linalg.norm(found[:, :, None] - found[:, None], axis=-1),
        np.linalg.norm(plane[:, :, None] - plane[:, None], axis=-1),
    )
    assert np.allclose(
        contexts._turned(found, plane - plane.mean(axis=(0, 1))), plane - plane.mean(axis=(0, 1))
    )


@pytest.mark.whole
def test_experiments(tmp_path):
    changes = {"hidden": 49, "pathway": 12, "std": 1e-4, "epochs": 1600}
    report = nr.experiments.run("contexts", quick=True, out=tmp_path, changes=changes)
    found = {c.name: c for c in report.claims}
    assert found["half the sum of squares of the targets"].holds
    assert {n for n, _ in report.figures} == {"loss", "outputs", "hidden"}
    changes = {"hidden": 49, "std": 1e-4, "epochs": 1600}
    report = nr.experiments.run("context-count", quick=True, out=tmp_path, changes=changes)
    found = {c.name: c for c in report.claims}
    assert found["C = 3, common pathway settled: closed form - flow"].holds
    assert found["C = 3, trained together: block reduction - flow, loss / initial"].holds
    assert not found["C = 3, trained together: closed form - flow, loss / initial"].holds
    with pytest.raises(ValueError, match="counts must be at least 3, got 2"):
        nr.experiments.run("context-count", out=tmp_path, changes={"counts": (2,)})


def test_the_map_of_a_pathway_is_what_the_network_says_with_the_others_closed():
    task = nr.tasks.contexts(3, gating="both", hidden=4)
    w = nr.init.gaussian(task.graph, 0.5, seed=range(2))
    maps = contexts.pathway_maps(task.graph, partial(nr.activity, task, w))
    assert list(maps) == list(task.graph.hidden)
    for (first, last), found in zip(task.graph.paths(), maps.values(), strict=True):
        assert np.allclose(found, w[last] @ w[first], atol=1e-12)
