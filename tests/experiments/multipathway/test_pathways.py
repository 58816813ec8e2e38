import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import InputError
from neuralrace.experiments import pathways as pw

# multipathway Eq. 32
TARGETS = (
    "110100010000000", "110100001000000", "110010000100000", "110010000010000",
    "101001000001000", "101001000000100", "101000100000010", "101000100000001",
)  # fmt: skip


def test_task_is_the_published_one():
    assert np.array_equal(pw.Y, [[int(c) for c in row] for row in TARGETS])
    assert np.allclose(pw.S**2, [15, 7, 3, 3, 1, 1, 1, 1])
    assert np.allclose(pw.U @ np.diag(pw.S) @ pw.V.T, pw.Y.T)
    assert [k for group in pw.GROUPS.values() for k in group] == list(range(8))


def test_an_epoch_is_a_step_on_the_summed_error_without_half():
    p = pw.Pathways(width=12, std=0.3)
    task = pw.network([2, 2], p.width)
    w = nr.init.gaussian(task.graph, p.std, seed=1)
    run = nr.descend(task, w, p.epoch, 1, 2)
    error = sum(w[f"p{a}h1->y"] @ w[f"x->p{a}h1"] for a in (0, 1)) - pw.Y.T  # inputs are unit vectors
    for a in (0, 1):
        first, last = w[f"x->p{a}h1"], w[f"p{a}h1->y"]
        assert np.allclose(run.weights[f"x->p{a}h1"][-1], first - p.lr * 2 * last.T @ error, atol=1e-12)
        assert np.allclose(run.weights[f"p{a}h1->y"][-1], last - p.lr * 2 * error @ first.T, atol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_contributions_of_pathways_add_up_to_the_outputs(activation):
    task = pw.network([2, 4, 3], 10, activation)
    w = nr.init.gaussian(task.graph, 0.5, seed=3)
    k = {n: np.asarray(v) for n, v in pw.Contributions(task.graph)(nr.State(0.0, task, lambda: w)).items()}
    assert np.allclose(k["out"].sum(axis=0), pw.U.T @ nr.predict(task, w)["y"].T @ pw.V, atol=1e-5)
    product = w["p2h2->y"] @ w["p2h1->p2h2"] @ w["x->p2h1"]
    assert np.allclose(k["map"][2], pw.U.T @ product @ pw.V, atol=1e-5)
    assert not np.allclose(k["map"], k["out"], atol=1e-2)


def test_concentration():
    split = lambda *parts: np.stack([np.diag(pw.S * np.asarray(s)) for s in parts])  # noqa: E731
    assert np.allclose(pw.concentration(split(0.5, 0.5)), 0)
    assert np.allclose(pw.concentration(split(1.0, 0.0, 0.0)), 1)
    assert np.allclose(pw.concentration(split(0.7, 0.3)), 0.4)
    # Two modes of equal strength, each on a pathway of its own, in any basis of the two.
    apart = np.array([1, 0, 1, 0, 1, 1, 0, 0])
    turn = np.eye(8)
    turn[2:4, 2:4] = [[0.6, 0.8], [-0.8, 0.6]]
    turn[4:, 4:] = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    k = split(apart, 1 - apart)
    assert np.allclose(pw.concentration(k), 1)
    assert np.allclose(pw.concentration(turn @ k @ turn.T), 1)
    assert np.allclose(pw.off_diagonal(turn @ k @ turn.T), 0)
    assert np.allclose(pw.group_strength(turn @ k @ turn.T, "modes 3-4"), np.sqrt(3) / 2)


def test_off_diagonal_share():
    k = np.diag([3.0, 0, 0, 0, 0, 0, 0, 0])
    k[0, 1] = 4.0
    assert np.isclose(pw.off_diagonal(k), 16 / 25)
    k[2, 3], k[0, 1] = 4.0, 0.0  # within a group
    assert np.isclose(pw.off_diagonal(k), 0)


@pytest.fixture(scope="module")
def aligned():
    """Weights as Eq. 17 takes them: sigma times orthogonal, the last layer within what the others span."""
    task, sigma, rng = pw.network([3, 3], 40), 0.3, np.random.default_rng(0)
    w = {}
    for a in (0, 1):
        first, inner = nr.init.random_frame(rng, 40, 8), nr.init.random_frame(rng, 40, 40)
        p = np.diag(0.003 * rng.standard_normal(8))
        w |= {f"x->p{a}h1": sigma * first, f"p{a}h1->p{a}h2": sigma * inner}
        w[f"p{a}h2->y"] = sigma * pw.U @ p @ (inner @ first @ pw.V).T
    return task, {e: v[None] for e, v in w.items()}, sigma


def test_eq_17_predicts_orthogonal_layers(aligned):
    task, w, sigma = aligned
    ts = pw.times(60.0)
    found = pw.predict(task, w, sigma / np.sqrt(40), ts)
    run = nr.flow(task, w, ts[-1], ts, save_weights=False, record=pw.Contributions(task.graph))
    true = pw._diagonal(run.recorded["map"])[..., :2]
    assert np.allclose(found["Eq. 17"][:, -1], true[:, -1], atol=2e-4)
    assert np.allclose(found["signals"], true, atol=1e-4)
    assert np.allclose(found["rate"], 1, atol=0.01)
    assert np.ptp(true[0, -1, :, 0]) > 0.02  # there is something to predict


def test_random_layers_all_learn_from_the_start():
    """Eq. 17 lets only the last layer learn at the start: K grows `depth` times as fast (docs/errata.md)."""
    task = pw.network([3, 3], 400)
    _, rate = pw.initial_growth(task, dict(pw.draw(task, 0.3 / 20, 6, 3)), 0.3)
    assert np.isclose(rate.mean(), 3, atol=0.15)


def test_off_diagonal_perturbations_are_neutral_but_for_the_sum():
    p = pw.Pathways(pathways=3, width=1000, std=0.01)
    found = pw.stability(p, 2, 100.0)
    assert found["mixing"] < 1e-12
    # At the start, last layers near zero: an entry grows with the strongest mode's correlation.
    assert np.isclose(found["rates"][0].max(), pw.S[0] / 8, rtol=0.05)
    decaying = found["rates"][-1] < -1e-3
    assert np.isclose(decaying.mean(), 1 / (3 * 2))
    assert np.abs(found["rates"][-1][~decaying]).max() < 1e-5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pathways": 1}, "pathways must be at least 2"),
        ({"depths": (3, 2), "epochs": (1, 1)}, "depths must be two or more increasing"),
        ({"depths": (1, 2), "epochs": (1, 1)}, "depths must be at least 2"),
        ({"epochs": (10,)}, "epochs must have one entry for each of depths"),
        ({"widths": (100,)}, "widths must be two or more increasing"),
        ({"width": 4}, "width must be at least 8"),
        ({"seeds": 1}, "seeds must be between 2 and 1000"),
        ({"std": 0.0}, "std must be greater than 0"),
    ],
)
def test_wrong_parameters_are_refused(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        nr.experiments.run("pathways", quick=True, out=tmp_path, changes=changes)
    assert not list(tmp_path.rglob("*.npz"))


@pytest.mark.whole
def test_experiment(tmp_path):
    changes = {"seeds": 5, "bent_seeds": 2, "width": 26, "widths": (10, 26), "bent_width": 12}
    report = nr.experiments.run("pathways", quick=True, out=tmp_path, changes=changes)
    found = {c.id: c for c in report.claims}
    assert len(report.figures) == 5
    for key in ("learned", "published-steps", "diagonal-sum", "share-signals-depth-3"):
        assert found[key].holds, found[key]
    assert found["depth-modes-5-8"].measured < 0.01
    assert np.isclose(found["decay-depth-3"].measured, 1 / 6)
