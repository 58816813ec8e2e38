"""Many samples: the theory for every pair, its weighing and comparison."""

import jax
import numpy as np
import pytest

import neuralrace as nr
from neuralrace import universality
from neuralrace.errors import InputError
from neuralrace.measure import squared_distances
from neuralrace.universality import compare, smooth_distances, structure, watch

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 3)), RNG.normal(size=(12, 2))
H = RNG.normal(size=(12, 4))


# -- predicted distances ---------------------------------------------------------------------


def test_every_pair_is_the_theory_of_two_points():
    dh2, dy2 = squared_distances(H), squared_distances(2 * Y + H[:, :2])
    found = structure(X, Y, 2.0, 0.5, dh2=dh2, dy2=dy2)
    for i in range(12):
        for j in range(12):
            if i == j:
                assert found[i, j] == 0
                continue
            given = {"dx": np.linalg.norm(X[i] - X[j]), "dy": np.linalg.norm(Y[i] - Y[j])}
            end = universality.final_distance(dh2[i, j], dy2[i, j], **given, rate_h=2.0, rate_y=0.5)
            assert np.isclose(found[i, j], end, rtol=1e-9)


def test_small_weights_are_the_limit_and_rates_only_a_unit():
    dh2, dy2 = squared_distances(H), squared_distances(Y)
    tiny = structure(X, Y, 3.0, 0.5, dh2=1e-12 * dh2, dy2=1e-24 * dy2)
    assert np.allclose(structure(X, Y, 3.0, 0.5), tiny, rtol=1e-6)
    assert np.allclose(structure(X, Y, 3.0, 0.5), np.sqrt(6) * structure(X, Y))
    images = X.reshape(12, 1, 3)  # what is beyond the first axis is one row
    assert np.array_equal(structure(images, Y), structure(X, Y))


def test_equal_targets_end_together_and_networks_agree():
    """A linear network with one narrow layer is the theory itself, for two samples."""
    x, y = np.array([[1.0, 0.0], [0.2, 0.5]]), np.array([[0.3], [-0.3]])
    graph = nr.Graph.chain([2, 3, 1])
    task = nr.Task(graph, x - x.mean(0), y)
    run = nr.flow(task, nr.init.gaussian(graph, 1e-4, seed=0), 4000.0, save=2)
    hidden = task.arrays[0] @ run.weights["x->h1"][-1].T
    assert np.allclose(squared_distances(hidden), structure(x, y), rtol=1e-3)
    assert structure(X, np.ones(12)).max() == 0


# -- weighing --------------------------------------------------------------------------------


def test_weighing_is_the_sum_over_pairs():
    d = squared_distances(H)
    near = np.exp(-d / 0.7)
    printed = [
        [sum(near[i, k] * near[v, j] * d[k, v] for k in range(12) for v in range(12)) for j in range(12)]
        for i in range(12)
    ]
    assert np.allclose(smooth_distances(d, 0.7, normalised=False), printed)
    assert np.allclose(smooth_distances(d, 0.7), printed / np.outer(near.sum(1), near.sum(1)))
    assert np.allclose(smooth_distances(d, 1e-9), d)  # nobody is near


def test_printed_weighing_is_no_distance():
    """Eq. 50 for A and B, B and C together but A and C far apart; and for samples given twice."""
    far = 50.0
    d = np.array([[0, 0, far], [0, 0, 0], [far, 0, 0]])
    printed = smooth_distances(d, normalised=False)
    assert np.allclose(printed, [[0, far, far], [far, 2 * far, far], [far, far, 0]], atol=1e-12)
    twice = np.arange(12).repeat(2)
    d = squared_distances(H)
    assert np.allclose(
        smooth_distances(d[np.ix_(twice, twice)], normalised=False)[::2, ::2],
        4 * smooth_distances(d, normalised=False),
    )
    assert np.allclose(smooth_distances(d[np.ix_(twice, twice)])[::2, ::2], smooth_distances(d))


def test_weighing_undoes_violations_of_the_triangle_inequality_only_in_large_units():
    x, y = nr.tasks.digits().arrays
    d = structure((x[:100] - x.mean()) / x.std(), y[:100])

    def broken(squares):
        far = np.sqrt(squares)
        np.fill_diagonal(far, 0)
        return (far[:, None, :] > far[:, :, None] + far[None] + 1e-9).mean()

    assert broken(d) > 0.05
    assert broken(smooth_distances(d, normalised=False)) == broken(smooth_distances(d)) == 0
    pairs = np.triu_indices(100, 1)
    same = lambda unit: np.corrcoef(smooth_distances(d, unit, normalised=False)[pairs], d[pairs])[0, 1]  # noqa: E731
    assert same(1.0) > 0.7
    assert abs(same(100.0)) < 0.3  # all samples are near: nothing is left


# -- comparison ------------------------------------------------------------------------------


def test_correlation_and_its_draws_are_those_of_resampled_samples():
    p, q = squared_distances(X), squared_distances(np.hstack([X[:, :2], H]))
    found = compare(p, q, draws=200, seed=3)
    pairs = np.triu_indices(12, 1)
    assert np.isclose(found.correlation, np.corrcoef(p[pairs], q[pairs])[0, 1])
    counts = np.random.default_rng(3).multinomial(12, np.full(12, 1 / 12), size=200)
    for c, draw in zip(counts[:20], found.draws[:20], strict=True):
        some = np.repeat(np.arange(12), c)
        a, b = np.triu_indices(12, 1)
        keep = some[a] != some[b]
        a, b = some[a][keep], some[b][keep]
        assert np.isclose(draw, np.corrcoef(p[a, b], q[a, b])[0, 1])
    assert np.allclose(found.interval, np.quantile(found.draws, [0.025, 0.975]))


def test_interval_holds_the_correlation_of_many_samples():
    """Of 40 samples each; intervals as if pairs were independent would hold it half as often."""
    rng = np.random.default_rng(1)

    def sample(n):
        x = rng.normal(size=(n, 4))
        return squared_distances(x), squared_distances(np.hstack([x[:, :2], rng.normal(size=(n, 2))]))

    p, q = sample(2000)
    pairs = np.triu_indices(2000, 1)
    truth = np.corrcoef(p[pairs], q[pairs])[0, 1]
    found = [compare(*sample(40), draws=200) for _ in range(100)]
    held = np.mean([c.interval[0] < truth < c.interval[1] for c in found])
    narrow = 1.96 / np.sqrt(40 * 39 / 2)
    naive = np.mean([abs(np.arctanh(c.correlation) - np.arctanh(truth)) < narrow for c in found])
    assert held > 0.85
    assert naive < 0.7


def test_better_of_two_predictions():
    q = squared_distances(H)
    good, bad = compare(q + squared_distances(X) / 10, q), compare(squared_distances(X), q)
    gain, interval = good.over(bad)
    assert np.isclose(gain, good.correlation - bad.correlation)
    assert interval[0] > 0
    assert good.over(good) == (0, (0, 0))
    with pytest.raises(InputError, match="other must have as many draws, 1000, got 200"):
        good.over(compare(q, q, draws=200))


def test_bad_input_is_refused():
    same = X.copy()
    same[7] = same[2]
    square = squared_distances(X)
    for wrong, message in (
        (lambda: structure(same, Y), "samples 2 and 7 have identical inputs"),
        (lambda: structure(X[:1], Y[:1]), "x must hold at least two samples, got 1"),
        (lambda: structure(3.0, Y), "x must hold at least two samples, got a number"),
        (lambda: structure(X, Y[:5]), "y must have 12 rows, as many as x, got 5"),
        (lambda: structure(X, Y * np.nan), "y must be finite"),
        (lambda: structure(X, Y, 0.0), "rate_h must be greater than 0"),
        (lambda: structure(X, Y, dh2=square), "dh2 and dy2 go together"),
        (
            lambda: structure(X, Y, dh2=square[:3], dy2=square),
            r"dh2 must have shape \(12, 12\), got \(3, 12\)",
        ),
        (lambda: structure(X, Y, dh2=0 * square, dy2=square), "dh2"),
        (lambda: smooth_distances(square, 0), "unit must be greater than 0"),
        (
            lambda: smooth_distances(X),
            r"distances must be a square matrix of at least two samples, got shape \(12, 3\)",
        ),
        (lambda: compare(np.triu(square), square), "predicted must be symmetric"),
        (lambda: compare(square[:4, :4], square[:4, :4]), "measured has 4 samples, too few for an interval"),
        (lambda: compare(1 - np.eye(12), square), "predicted is the same for all pairs"),
        (lambda: compare(square, square, confidence=1.0), "confidence must be less than 1"),
        (lambda: compare(square, square, draws=10), "draws must be at least 100"),
    ):
        with pytest.raises(InputError, match=message):
            wrong()


# -- networks --------------------------------------------------------------------------------


def test_watch_sees_what_the_network_computes():
    activations = {"h1": "tanh", "h2": "leaky_relu"}
    graph = nr.Graph.chain([3, 5, 4, 2], activations=activations, biases=True)
    task, start = nr.Task(graph, X, Y), nr.init.xavier(graph, 1.0, seed=range(2))
    run = nr.descend(task, start, 0.1, 20, 3, record=watch(graph, X, "h1"))
    w = {n: v[1, -1] for n, v in run.weights.items()}
    assert np.allclose(run.recorded["hidden"][1, -1], np.tanh(X @ w["x->h1"].T + w["h1"]))
    assert np.allclose(run.recorded["output"][1, -1], nr.predict(task, w)["y"])
    same, other = watch(graph, X.tolist(), "h1"), watch(graph, X + 1, "h1")
    assert same == watch(graph, X, "h1") != other  # equal ones share a compiled function
    assert hash(same) == hash(watch(graph, X, "h1"))
    branched = nr.Graph({"x": 3, "a": 2, "y": 1, "z": 1}, [("x", "a"), ("a", "y"), ("a", "z")])
    for wrong, message in (
        (lambda: watch(branched, X, "a"), "graph must be a Graph with one input and one output"),
        (lambda: watch(graph, X, "y"), r"node must be a hidden layer \(h1, h2\), got 'y'"),
        (lambda: watch(graph, X[:, :2], "h1"), r"x must have shape \(any, 3\)"),
    ):
        with pytest.raises(InputError, match=message):
            wrong()


@pytest.mark.parametrize("settings", [{"stop_loss": 0.5}, {"batch_size": 5, "stop_loss": 0.5}])
def test_runs_side_by_side_are_those_one_after_the_other(monkeypatch, settings):
    """On a GPU runs go side by side, here as well, with one order of samples for all."""
    graph = nr.Graph.chain([3, 6, 2], activations={"h1": "leaky_relu"})
    task, start = nr.Task(graph, X, Y), nr.init.xavier(graph, 1.0, seed=range(3))
    start["h1->y"][2] *= 1e3  # one run diverges
    alone = nr.descend(task, start, 0.1, 200, 5, **settings)
    jax.clear_caches()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    beside = nr.descend(task, start, 0.1, 200, 5, **settings)
    jax.clear_caches()
    assert beside.outcomes == alone.outcomes
    assert beside.status[2] is nr.Status.DIVERGED
    assert np.allclose(beside.loss[:2], alone.loss[:2], rtol=1e-9)
    assert np.allclose(beside.step_loss[:2], alone.step_loss[:2], rtol=1e-9, equal_nan=True)


def test_noise_is_refused_unless_asked_for():
    """Batches make series that shake more than they move; how badly the theory fits them is a number."""
    rng = np.random.default_rng(0)
    t = np.linspace(0, 10, 60)
    dh2, dy2, w = nr.universality.solve(t, 1e-2, 1e-3, -1e-2, 1, 1, 1, 1)
    noisy = w + 0.5 * rng.normal(size=60)
    with pytest.raises(ValueError, match="w is flat"):
        nr.universality.fit(t, dh2, dy2, noisy, 1, 1)
    assert nr.universality.fit(t, dh2, dy2, noisy, 1, 1, strict=False).error > 0.05
