import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuralrace as nr
from neuralrace.experiments import discovery, uniqueness
from neuralrace.experiments import linear_background as linear


def values(matrix):
    return np.linalg.svd(matrix, compute_uv=False)


def found(report):
    return {c.name: c for c in report.claims}


shapes = st.tuples(st.integers(2, 7), st.integers(2, 7), st.integers(0, 2**32 - 1))

# -- what taking features or samples away does to singular values ----------------------------


@settings(max_examples=200, deadline=None)
@given(shapes, st.booleans(), st.integers(0, 6))
def test_singular_values_interlace_when_a_feature_is_removed(shape, row, which):
    m, n, seed = shape
    a = np.random.default_rng(seed).normal(size=(m, n))
    less = np.delete(a, which % (m if row else n), axis=0 if row else 1)
    s, t = values(a), values(less)
    assert (t <= s[: len(t)] + 1e-12).all()
    assert (s[1 : len(t) + 1] <= t[: len(s) - 1] + 1e-12).all()


@settings(max_examples=200, deadline=None)
@given(shapes, st.integers(1, 9), st.integers(0, 8))
def test_a_sample_without_negative_terms_only_adds_to_the_top_singular_value(shape, samples, which):
    m, n, seed = shape
    rng = np.random.default_rng(seed)
    x, y = (rng.random((samples, k)) * (rng.random((samples, k)) < 0.6) for k in (m, n))
    less = np.delete(np.arange(samples), which % samples)
    assert values(y[less].T @ x[less])[0] <= values(y.T @ x)[0] + 1e-12
    # So does a gate that closes partly.
    gate = rng.random((samples, 1))
    assert values((gate * y).T @ x)[0] <= values(y.T @ x)[0] + 1e-12


def test_a_sample_with_both_signs_can_take_correlation_away():
    x, y = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[1.0], [-1.0]])
    assert values(y.T @ x)[0] == 0 < values(y[:1].T @ x[:1])[0]


@settings(max_examples=20, deadline=None)
@given(shapes, st.integers(2, 9))
def test_top_value_is_that_of_the_gated_correlation(shape, samples):
    m, n, seed = shape
    rng = np.random.default_rng(seed)
    x, y, gates = rng.normal(size=(samples, m)), rng.normal(size=(samples, n)), rng.random((5, samples)) < 0.5
    right = [values((y * g[:, None]).T @ x / samples)[0] for g in gates]
    assert np.allclose(uniqueness.top_value(gates, x, y), right, atol=1e-7)


# -- uniqueness ------------------------------------------------------------------------------


@pytest.mark.parametrize(("items", "contexts"), [(2, 2), (3, 2), (3, 3)])
def test_nested_patterns_are_those_that_a_unit_can_have(items, contexts):
    x = np.concatenate(
        [np.tile(np.eye(items), (contexts, 1)), np.repeat(np.eye(contexts), items, axis=0)], axis=1
    )
    right = {tuple(g) for g in nr.relu.implementable_patterns(x) > 0}
    assert {tuple(g) for g in uniqueness.nested(items, contexts)} == right


def test_a_unit_can_be_closed_for_any_one_sample():
    x, _ = nr.tasks.contexts(3).arrays
    patterns = {tuple(g) for g in uniqueness.nested(8, 3)}
    for k in (0, 13, 23):
        closed = np.arange(24) != k
        assert tuple(closed) in patterns
        assert nr.relu.implementable(closed.astype(float), x)


def trained(weights):
    """A ReLU network that hardly moves from these weights, as the only one of its runs."""
    x, y = nr.tasks.contexts(3).arrays
    start = {e: np.asarray(w, float)[None] for e, w in zip(("x->h1", "h1->y"), weights, strict=True)}
    return nr.relu.train(x, y, [len(weights[0])], lr=1e-6, steps=3, save=2, weights=start)


def test_conditions_hold_for_a_network_in_the_first_mode_of_the_always_open_pathway():
    x, y = nr.tasks.contexts(3).arrays
    u, _, vt = np.linalg.svd(y.T @ x)
    unit = np.array([[0.3], [0.5], [0.1], [0.4]])
    good = uniqueness.conditions(trained([unit * np.abs(vt[:1]), np.abs(u[:, :1]) @ unit.T]))
    assert np.allclose(good["match"], 1)
    assert np.allclose(good["moved"], 0)
    assert np.allclose(good["coupled"], 0, atol=1e-8)
    rng = np.random.default_rng(0)
    bad = uniqueness.conditions(trained([rng.normal(size=(50, 11)), rng.normal(size=(60, 50))]))
    assert bad["match"].max() < 0.8
    assert bad["coupled"].min() > 0.5


def test_conditions_count_units_by_size():
    """One of two equally large units is open for one item of a context too many: one gate of 48."""
    w1 = np.zeros((2, 11))
    w1[:, 8:] = [[1, 1, 1], [1, 1, -1]]
    w1[1, 0] = 2  # opens item 0 in context 3
    w2 = np.ones((60, 2))
    w2[:, 1] *= np.linalg.norm(w1[0]) / np.linalg.norm(w1[1])
    assert np.isclose(uniqueness.conditions(trained([w1, w2]))["match"][0, -1], 47 / 48, atol=1e-4)


@pytest.mark.whole
def test_uniqueness_experiment(tmp_path, monkeypatch):
    monkeypatch.setattr(uniqueness, "race", lambda kind, p: {"1": 3.0, "2": 2.0, "1+2": 2.5})
    changes = {"seeds": 1, "hidden": 80, "save": 11, "stride": 500, "steps": 1200, "std": 1e-4}
    report = nr.experiments.run("uniqueness", quick=True, out=tmp_path, changes=changes)
    claims = found(report)
    assert claims["same: race, time of two contexts / of one"].measured == 2 / 3
    assert not claims["same: race, time of all pathways / of two contexts"].holds
    for kind in ("same", "different"):
        assert claims[f"{kind}: largest singular value, other gates of a unit / always open"].holds
        assert claims[f"{kind}: on the residual, one context / the two others"].holds
        switched = claims[f"{kind}: gates that have switched since the start"].measured
        assert 0.1 < switched < 0.5
    # Pathways of one context stay nearly as they were where contexts have the same structure.
    name = "largest one-context / mean two-context pathway at the end, in one network"
    assert claims[f"same: {name}"].measured < 0.02 < claims[f"different: {name}"].measured
    late = "largest one-context / mean two-context pathway, started on the residual"
    assert claims[f"same: {late}"].measured > 0.5


# -- discovery -------------------------------------------------------------------------------


@pytest.mark.parametrize("right", [True, False])
def test_plain_clusters_are_compared_with_the_answer(right):
    signs = [[1, 1, 1], [1, 1, -1], [1, -1, 1], [-1, 1, 1]] if right else [*np.eye(3) - 0.5, [1, 1, 1]]
    w1 = np.concatenate([np.zeros((4, 8)), np.array(signs)], axis=1)
    assert discovery.plain(trained([w1, np.full((60, 4), 1e-3)]), 0, 1, True) is right


def test_silent_units_spoil_plain_clusters():
    signs = np.array([[1, 1, 1], [1, 1, -1], [1, -1, 1], [-1, 1, 1], *[[-1, -1, -1]] * 9])
    net = trained([np.concatenate([np.zeros((13, 8)), signs], axis=1), np.full((60, 13), 1e-3)])
    assert discovery.plain(net, 0, 10, False)
    assert not discovery.plain(net, 0, 10, True)


@pytest.mark.whole
def test_discovery_experiment(tmp_path):
    changes = {"hidden": 120, "lr": 4e-3, "steps": 1500, "save": 16, "most": 4, "std": 1e-4}
    report = nr.experiments.run("discovery", quick=True, out=tmp_path, changes=changes)
    claims = found(report)
    for kind in ("same", "different"):
        assert claims[f"{kind}: number of clusters chosen"].measured in (3, 4)
        assert claims[f"{kind}: share of the best gain that four clusters have"].measured > 0.8
        assert claims[f"{kind}: weight in units that split a context, at the end"].measured > 0.8
    stored = np.load(next((report.folder / "parts").glob("same-0-*.npz")))
    assert (np.diff(stored["elbow"][:3]) < 0).all()
    assert stored["mixed"][0].min() < 0.1  # all units are always open before they part


# -- linear background -----------------------------------------------------------------------


def test_decomposition_is_orthonormal_and_that_of_the_data():
    x, y = nr.tasks.hierarchy(3).arrays
    assert np.allclose(linear.U.T @ linear.U, np.eye(4))
    assert np.allclose(linear.V.T @ linear.V, np.eye(4))
    assert np.allclose(linear.U * linear.S @ linear.V.T, y.T @ x / 4)
    assert np.allclose(4 * linear.S, [7**0.5, 3**0.5, 1, 1])
    assert y[linear.ITEMS.index("salmon")][[linear.PROPERTIES.index(f) for f in ("move", "swim")]].all()


def test_linear_background_experiment(tmp_path):
    report = nr.experiments.run(
        "linear-background", quick=True, out=tmp_path, changes={"hidden": 16, "save": 151}
    )
    claims = found(report)
    failing = {name for name, c in claims.items() if not c.holds and "Eq. 7 / network" not in name}
    assert failing == {"half times with inputs twice as large, Syx the same / plain - 1"}
    # log 4 / (2 s) earlier than log(s/(d a0)) / (2 s), for a0 = 1e-6
    measured = claims["half times with inputs twice as large, Syx the same / plain - 1"].measured
    assert np.isclose(measured, np.mean(-np.log(4) / np.log(4e6 * linear.S)), atol=1e-3)
