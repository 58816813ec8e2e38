import numpy as np
import pytest

import neuralrace as nr
from neuralrace.experiments.make_haste_slowly import discovery, uniqueness
from neuralrace.experiments.make_haste_slowly import linear_background as linear


def claims_of(name, folder, **changes):
    report = nr.experiments.run(name, quick=True, out=folder, changes=changes)
    return {c.id: c for c in report.claims}


@pytest.mark.whole
def test_uniqueness_experiment(tmp_path):
    # A loss of 90% ends the race early.
    changes = {"hidden": 80, "save": 11, "stride": 500, "steps": 1200, "std": 1e-4, "level": 0.9}
    claims = claims_of("uniqueness", tmp_path, **changes)
    for kind in ("same", "different"):
        assert claims[f"rate-always-open-{kind}"].holds
        assert claims[f"residual-one-context-{kind}"].holds
        assert 0.1 < claims[f"gates-switched-{kind}"].measured < 0.5
    # Pathways of one context stay nearly as they were where contexts have the same structure.
    assert claims["single-inactive-same"].measured < 0.02 < claims["single-inactive-different"].measured
    assert claims["residual-single-inactive-same"].measured > 0.5


def test_names_of_pathways_are_their_gates():
    task = nr.tasks.contexts(3, gating="both", hidden=4)
    assert np.array_equal(list(task.samples.gates.values()), uniqueness.GATES)
    assert uniqueness.GATES[uniqueness.PATHWAYS.index("101")].tolist() == [1] * 8 + [0] * 8 + [1] * 8


def trained(w1):
    """A ReLU network that hardly moves from these weights, as the only one of its runs."""
    x, y = nr.tasks.contexts(3).arrays
    start = {"x->h1": np.asarray(w1, float)[None], "h1->y": np.full((1, 60, len(w1)), 1e-3)}
    return nr.relu.train(x, y, [len(w1)], lr=1e-6, steps=3, save=2, weights=start)


@pytest.mark.parametrize("right", [True, False])
def test_plain_clusters_are_compared_with_the_patterns(right):
    signs = [[1, 1, 1], [1, 1, -1], [1, -1, 1], [-1, 1, 1]] if right else [*np.eye(3) - 0.5, [1, 1, 1]]
    net = trained(np.concatenate([np.zeros((4, 8)), np.array(signs)], axis=1))
    assert discovery.has_patterns(net, 0, 1, True) is right


def test_silent_units_spoil_plain_clusters():
    signs = np.array([[1, 1, 1], [1, 1, -1], [1, -1, 1], [-1, 1, 1], *[[-1, -1, -1]] * 9])
    net = trained(np.concatenate([np.zeros((13, 8)), signs], axis=1))
    assert discovery.has_patterns(net, 0, 10, False)
    assert not discovery.has_patterns(net, 0, 10, True)


@pytest.mark.whole
def test_discovery_experiment(tmp_path):
    changes = {"hidden": 120, "lr": 4e-3, "steps": 1500, "save": 16, "most": 4, "std": 1e-4}
    claims = claims_of("discovery", tmp_path, **changes)
    for kind in ("same", "different"):
        assert claims[f"clusters-{kind}"].measured in (3, 4)
        assert claims[f"elbow-{kind}"].measured > 0.8
        assert claims[f"units-split-{kind}"].measured > 0.8


def test_decomposition_is_orthonormal_and_that_of_the_data():
    assert np.allclose(linear.U.T @ linear.U, np.eye(4))
    assert np.allclose(linear.V.T @ linear.V, np.eye(4))
    assert np.allclose(linear.U * linear.S @ linear.V.T, linear.SYX)
    assert np.allclose(4 * linear.S, [7**0.5, 3**0.5, 1, 1])
    swims = [linear.PROPERTIES.index(name) for name in ("move", "swim")]
    assert linear.Y[linear.ITEMS.index("salmon")][swims].all()


def test_linear_background_experiment(tmp_path):
    claims = claims_of("linear-background", tmp_path, hidden=16, save=151)
    failing = {id for id, c in claims.items() if not c.holds and not id.startswith("half-time-")}
    assert failing == {"input-variance"}
    # log 4 / (2 s) earlier than log(s/(d a0)) / (2 s), for a0 = 1e-6
    expected = np.mean(-np.log(4) / np.log(4e6 * linear.S))
    assert np.isclose(claims["input-variance"].measured, expected, atol=1e-3)
