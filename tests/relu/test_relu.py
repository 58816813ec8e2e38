import inspect

import numpy as np
import pytest
from scipy.optimize import brentq, nnls

import neuralrace as nr
from tests import oracles

relu = nr.relu
DIFFERENT = ("hierarchy", "ring", "cross")


def grid(items, contexts):
    """One-hot items beside one-hot contexts, context by context."""
    return np.concatenate([np.tile(np.eye(items), (contexts, 1)), np.repeat(np.eye(contexts), items, 0)], 1)


# -- tasks -----------------------------------------------------------------------------------


def test_contexts_data():
    for n, structures, half in ((3, DIFFERENT, 105.623), (3, None, 96), (4, None, 128), (5, None, 160)):
        x, y = nr.tasks.contexts(n, structures).arrays
        assert x.shape == (8 * n, 8 + n)
        assert y.shape == (8 * n, 15 * (n + 1))
        assert 0.5 * (y**2).sum() == pytest.approx(half, abs=1e-9)
        assert np.array_equal(x, grid(8, n))
        assert np.array_equal(y[:8, :15], y[-8:, :15])
        for c in range(n):
            block = y[:, 15 * (c + 1) : 15 * (c + 2)]
            assert not block[: 8 * c].any()
            assert not block[8 * (c + 1) :].any()
    y = nr.tasks.contexts(3, DIFFERENT).arrays[1]
    assert np.array_equal(y[8:16, 30:33].T, [[1] * 8, [0, 0.33, 0.66, 1, 1, 0.66, 0.33, 0], y[8:16, 32]])
    assert y[8, 32] == 0.33
    assert np.array_equal(np.flatnonzero(y[16:, 48]), [0, 2])


def test_contexts_gatings():
    by_context = lambda task: [task.samples.gates[p].reshape(3, 8)[:, 0] for p in task.graph.hidden]  # noqa: E731
    shared = nr.tasks.contexts(3, gating="shared")
    assert np.array_equal(by_context(shared), [[1, 1, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]])
    assert np.array_equal(by_context(nr.tasks.contexts(3, gating="single"))[1:], np.eye(3))
    assert len(nr.tasks.contexts(3, gating="both").graph.hidden) == 7
    assert shared.graph.nodes["x"] == 11
    assert shared.graph.nodes["x1"] == 8
    assert shared.graph.edges["x1->p2h1"] == ("x1", "p2h1")
    assert nr.tasks.contexts(3).graph.activations == {"h1": "relu"}
    assert nr.tasks.contexts(4, graph=nr.Graph.chain([12, 5, 75])).graph.is_linear


@pytest.mark.parametrize("gating", ["linear", "xor"])
def test_separability_flow_is_the_closed_form(gating):
    a0 = 1e-3
    for delta in (0.0, np.sqrt(2 / 3), 1.7, 3.0):
        task = nr.tasks.separability(delta, gating, hidden=4)
        if delta == 0 and gating == "linear":  # nothing to learn, so no modes to start in
            w = nr.init.gaussian(task.graph, 1e-6)
        else:
            w = nr.init.decoupled(nr.reduce(task), np.sqrt(a0))
        traj = nr.flow(task, w, t1=40.0, save=50, method=nr.Adaptive(1e-10, 1e-12))
        exact = nr.exact.separability_loss(traj.t, delta, gating, a0)
        assert np.abs(traj.loss - exact).max() < 1e-8
    x, y = nr.tasks.separability(2.0, graph=nr.Graph.chain([3, 4, 1])).arrays
    assert np.array_equal(y[:, 0], np.where(x[:, 0] != x[:, 1], 1, -1))
    assert np.array_equal(x[:, 2], 2 * y[:, 0])


def forward(graph, w, x):
    return oracles.forward(graph, w, {"x": x}, {})


def backward(graph, w, x, y):
    return oracles.sample_gradient(graph, w, {"x": x}, {"y": y}, {})


# -- training --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(0)
    return rng.normal(size=(12, 3)), rng.normal(size=(12, 2))


def test_train_is_descent_on_the_stated_loss(small):
    x, y = small
    net = relu.train(x, y, hidden=[6, 5], std=0.5, lr=1e-3, steps=30, save=4, seed=3)
    graph = net.task.graph

    gradient = lambda w: {e: 12 * g for e, g in backward(graph, w, x, y).items()}  # noqa: E731
    path = oracles.numpy_descent(nr.init.gaussian(graph, 0.5, seed=3), 1e-3, 30, gradient)
    assert list(net.weights) == ["x->h1", "h1->h2", "h2->y"]
    assert net.time("steps").tolist() == pytest.approx([0, 10, 20, 30])
    assert net.t.tolist() == pytest.approx([0, 0.12, 0.24, 0.36])
    assert net.step_loss.shape == (31,)
    for e, w in net.weights.items():
        assert np.abs(w - path[e][::10]).max() < 1e-10
    for k in range(4):
        out = forward(graph, net.at(k), x)
        assert net.loss[k] == pytest.approx(0.5 * ((y - out["y"]) ** 2).sum(), rel=1e-12)
        assert np.allclose(net.predict(k)["y"], out["y"])
        for gate, h in zip(net.gates(k), ("h1", "h2"), strict=True):
            assert np.array_equal(gate, out[h] > 0)

    mean = relu.train(x, y, [6, 5], 0.5, 12e-3, 30, 4, seed=3, objective="mean")
    assert np.allclose(mean.loss, net.loss / 12, rtol=1e-12)
    assert np.allclose(mean.t, net.t)


def test_train_many_seeds_gates_only_and_flow(small):
    x, y = small
    keep = {"hidden": [5], "std": 0.1, "lr": 1e-3, "steps": 100, "save": 3, "bias": True}
    many = relu.train(x, y, seed=[4, 7], **keep)
    assert many.loss.shape == (2, 3)
    assert many.gates(1)[0].shape == (2, 12, 5)
    one = relu.train(x, y, seed=7, **keep)
    assert np.allclose(many[1].weights["x->h1"], one.weights["x->h1"], atol=1e-13)
    assert many[1].outcome == one.outcome
    assert one.weights["h1"].shape == (3, 5)
    light = relu.train(x, y, seed=7, save_weights=False, **keep)
    assert light.weights == {}
    assert all(np.array_equal(light.gates(k)[0], one.gates(k)[0]) for k in range(3))
    with pytest.raises(ValueError, match="weights were not saved"):
        light.at(0)
    flow = relu.train(x, y, seed=7, method=nr.Adaptive(1e-6, 1e-4), **keep)
    assert np.allclose(flow.loss, one.loss, rtol=0.01)
    assert flow.step_loss is None
    ends = relu.train(x, y, [5], 0.5, 1e-3, 500, 3, stop_loss=10.0)
    assert ends.outcome.startswith("reached loss 10 at step")
    assert ends.loss[-1] <= 10.0 < ends.step_loss[-2]


def test_contexts_losses():
    x, y = nr.tasks.contexts(3, DIFFERENT).arrays
    net = relu.train(x, y, std=0.005 / 700, lr=1e-3, save=5, dtype=np.float32)
    assert net.outcome.startswith("finished")
    expected = [22.6, 4.4, 0.58, 0.03]
    assert np.all(np.abs(np.log(net.loss[1:] / expected)) < [0.05, 0.15, 0.3, 0.7])
    shared = relu.imitate(net, nr.tasks.contexts(3, DIFFERENT, gating="shared"))
    single = relu.imitate(net, nr.tasks.contexts(3, DIFFERENT, gating="single"))
    assert sum(shared.members.values()) == 700
    assert shared.distance.max() < 0.1
    assert single.distance.max() > 0.15
    assert shared.distance[0] < 1e-6


# -- the gated network that a ReLU network is ------------------------------------------------


def same_network(task, w, x, y, biases=()):
    """Outputs and gradients of the gated network against those of the ReLU network."""
    graph = relu.training.relu_chain(list(task.graph.nodes.values()), bool(biases))
    assert task.graph.is_linear
    out = forward(graph, w, x)["y"]
    assert np.abs(nr.predict(task, w)["y"] - out).max() < 1e-12
    grad = nr.gradient(task, w)
    for e, g in backward(graph, w, x, y).items():
        assert np.abs(grad[e] - g).max() < 1e-12


@pytest.mark.parametrize("hidden", [[9], [7, 6], [6, 5, 4]])
def test_as_gdln_has_the_same_outputs_and_gradients(small, hidden):
    x, y = small
    net = relu.train(x, y, hidden=hidden, std=0.5, lr=1e-3, steps=40, save=41)
    for i in (0, 20, -1):
        task, w = relu.as_gdln(net, i)
        same_network(task, w, x, y)
        # The gradient that the network was trained with is that of the summed loss.
        if i >= 0:
            for e, g in nr.gradient(task, w).items():
                step = net.weights[e][i + 1] - net.weights[e][i]
                assert np.abs(step + 1e-3 * net.loss_scale * g).max() < 1e-12


def test_as_gdln_of_your_own_weights(small):
    x, y = small
    rng = np.random.default_rng(1)
    w = [rng.normal(size=s) for s in ((5, 3), (4, 5), (2, 4))]
    b = [rng.normal(size=len(v)) for v in w]
    same_network(*relu.as_gdln(w, X=x, Y=y), x, y)
    same_network(*relu.as_gdln({"a": w[0], "b": w[1], "c": w[2]}, X=x, Y=y), x, y)
    same_network(*relu.as_gdln(list(zip(w, b, strict=True)), X=x, Y=y), x, y, biases=True)
    for wrong, message in (
        (lambda: relu.as_gdln(w), "X and Y"),
        (lambda: relu.as_gdln(w[:1], X=x, Y=y), "at least two layers"),
        (lambda: relu.as_gdln([w[0], w[2]], X=x, Y=y), "layer 1 of net must have 5 inputs"),
        (lambda: relu.as_gdln(w, X=x[:, :2], Y=y), "X must have shape"),
        (lambda: relu.as_gdln(3.0, X=x, Y=y), "net must be"),
        (lambda: relu.as_gdln({"a": w[0], "b": w[1], "c": b[0]}, X=x, Y=y), "a bias for every layer"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()


def test_as_gdln_of_a_torch_module(small):
    import torch

    x, y = small
    torch.manual_seed(0)
    layers = torch.nn
    net = layers.Sequential(
        layers.Linear(3, 6), layers.ReLU(), layers.Sequential(layers.Linear(6, 4), layers.ReLU()),
        layers.Linear(4, 2, bias=False),
    ).double()  # fmt: skip
    task, w = relu.as_gdln(net, X=x, Y=y)
    out = net(torch.tensor(x))
    assert np.abs(nr.predict(task, w)["y"] - out.detach().numpy()).max() < 1e-12
    (0.5 * ((out - torch.tensor(y)) ** 2).sum() / len(x)).backward()
    grad = nr.gradient(task, w)
    found = [p.grad.numpy() for p in net.parameters()]
    for name, g in zip(("x->h1", "h1", "h1->h2", "h2", "h2->y"), found, strict=True):
        assert np.abs(grad[name] - g).max() < 1e-12
    for wrong in (
        layers.Sequential(layers.Linear(3, 2)),
        layers.Sequential(layers.Linear(3, 4), layers.Tanh(), layers.Linear(4, 2)),
    ):
        with pytest.raises(ValueError, match="Linear, ReLU"):
            relu.as_gdln(wrong, X=x, Y=y)


def test_imitation_is_exact_where_no_unit_switches():
    # Positive inputs and targets, and no unit with a negative weight: every unit stays on.
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0.2, 1, (6, 3)), rng.uniform(0.5, 1, (6, 2))
    start = {"x->h1": rng.uniform(0.1, 0.3, (5, 3)), "h1->y": rng.uniform(0.1, 0.3, (2, 5))}
    net = relu.train(x, y, [5], lr=0.01, steps=100, save=6, weights=start)
    assert all(net.gates(k)[0].all() for k in range(6))
    half = relu.imitate(net, nr.tasks.gated(x, y, [[1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]], hidden=3))
    assert half.members == {"p0h1": 5, "p1h1": 0}
    assert half.distance.max() < 1e-12
    assert np.allclose(half.loss, half.relu_loss, rtol=1e-12)
    everywhere = relu.imitate(net, half.task, matching="all")
    assert everywhere.distance.max() > 1e-3
    some = relu.imitate(net, nr.tasks.gated(x, y, np.ones((1, 6)), columns={0: [0, 2]}))
    assert some.distance.max() > 1e-2
    for wrong, message in (
        (lambda: relu.imitate(net, nr.tasks.xor()), "6 samples"),
        (lambda: relu.imitate(net, nr.tasks.gated(x, y + 1, np.ones((1, 6)))), "targets of the network"),
        (lambda: relu.imitate(net, nr.tasks.gated(x + 1, y, np.ones((1, 6)))), "columns of the network"),
        (lambda: relu.imitate(net, net.task), "linear pathways"),
        (lambda: relu.imitate(3, net.task), "net must be"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()


# -- patterns --------------------------------------------------------------------------------


def refuted(pattern, x):
    """Farkas: there is no such w iff a nonnegative combination, with weight 1 on the samples that are on,
    vanishes. By non-negative least squares, no linear program."""
    on = pattern > 0
    rows = np.where(on, 1.0, -1.0)[:, None] * x
    system = np.concatenate([rows.T, on[None].astype(float)])
    return nnls(system, np.append(np.zeros(x.shape[1]), 1.0))[1] < 1e-9


@pytest.mark.parametrize(
    "x",
    [
        np.random.default_rng(0).normal(size=(9, 2)),
        np.random.default_rng(1).normal(size=(8, 4)),
        np.random.default_rng(2).integers(-1, 2, (8, 3)).astype(float),
        nr.tasks.separability(0.0).arrays[0],
        nr.tasks.separability(1.0).arrays[0],
        grid(3, 3),
        grid(5, 2),
    ],
    ids=["plane", "space", "degenerate", "xor", "separable", "3x3", "5x2"],
)
@pytest.mark.parametrize("bias", [False, True])
def test_implementable_agrees_with_exhaustive_search(x, bias):
    n = len(x)
    seen = np.concatenate([x, np.ones((n, 1))], axis=1) if bias else x
    every = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    expected = {tuple(g) for g in every if not g.any() or not refuted(g, seen)}
    listed = relu.implementable_patterns(x, bias=bias)
    assert {tuple(g) for g in listed.astype(int)} == expected
    assert len(listed) == len(expected)
    w = np.random.default_rng(5).normal(size=(seen.shape[1], 2000))
    assert {tuple(g) for g in (seen @ w > 0).T.astype(int)} <= expected
    some = np.random.default_rng(6).choice(len(every), min(40, len(every)), replace=False)
    for g in every[some]:
        assert relu.implementable(g, x, bias=bias) == (tuple(g) in expected)


def test_lemma_4_1_and_the_nested_patterns():
    assert not relu.implementable([0, 1, 1, 0], grid(2, 2))
    assert relu.implementable([1, 1, 1, 0], grid(2, 2))  # neither by context nor a single sample
    found = relu.implementable_patterns(grid(3, 3))
    assert len(found) == 230
    # Nested: a_i + b_c > 0. All orders of three a and three -b, ties included.
    levels = np.stack(np.meshgrid(*[range(6)] * 6), axis=-1).reshape(-1, 6)
    nested = (levels[:, None, :3] > levels[:, 3:, None]).reshape(-1, 9)
    assert {tuple(g) for g in nested.astype(int)} == {tuple(g) for g in found.astype(int)}
    # With a bias nothing is gained: context bits sum to one.
    assert len(relu.implementable_patterns(grid(3, 3), bias=True)) == 230


def test_scale_of_inputs_does_not_matter():
    x = np.random.default_rng(3).normal(size=(6, 3)) * 10.0 ** np.arange(-6, 6, 2)[:, None]
    plain = relu.implementable_patterns(x / np.linalg.norm(x, axis=1, keepdims=True))
    assert np.array_equal(relu.implementable_patterns(x), plain)


def strength(x, e, w):
    return np.linalg.norm(np.maximum(w @ x.T, 0) @ e, axis=-1) / np.linalg.norm(w, axis=-1) / len(x)


@pytest.mark.parametrize("case", range(6))
def test_self_consistent_patterns_are_maxima(case):
    rng = np.random.default_rng(case)
    n, size, out = ((7, 3, 2), (10, 4, 1), (8, 2, 3), (12, 5, 4), (6, 3, 1), (9, 4, 2))[case]
    x, e = rng.normal(size=(n, size)), rng.normal(size=(n, out))
    found = relu.self_consistent(x, e, starts=100, seed=case)
    assert len(found.rates) > 0
    assert found.shares.sum() + found.dead == pytest.approx(1)
    assert np.all(np.diff(found.rates) < 1e-6 * found.rates[0])
    assert np.allclose(strength(x, e, found.directions), found.rates, rtol=1e-9)
    assert found.leftover.max() < 1e-6
    for w, g, rate, u in zip(found.directions, found.patterns, found.rates, found.readouts, strict=True):
        # Nearer than the next region of other gates, where another maximum may begin.
        apart = np.abs(x @ w) / np.linalg.norm(x, axis=1)
        for part in (0.2, 0.02):
            near = w + part * min(0.01, apart[apart > 1e-9].min()) * rng.normal(size=(400, size))
            assert strength(x, e, near).max() <= rate * (1 + 1e-9)
        # The gradient along the sphere vanishes with these gates.
        pull = (g * (e @ u)) @ x / n
        assert np.abs(pull - rate * w).max() < 1e-6 * rate
        if np.isin(g, (0, 1)).all():
            _, s, vt = np.linalg.svd((g[:, None] * e).T @ x / n)
            assert s[0] == pytest.approx(rate, rel=1e-9)
            v = vt[0] * np.sign(vt[0] @ w)
            assert np.array_equal(x @ v > 0, g > 0)
    # No random direction beats the fastest.
    assert strength(x, e, rng.normal(size=(20_000, size))).max() <= found.rates[0] * (1 + 1e-9)


def test_self_consistent_on_separability():
    for delta in (0.3, 1.2):
        x, y = nr.tasks.separability(delta).arrays
        found = relu.self_consistent(x, y)
        by = {relu.pattern_text(g): r for g, r in zip(found.patterns, found.rates, strict=True)}
        if delta < 0.8:
            assert by["1000"] == pytest.approx(np.sqrt(2 + delta**2) / 4, rel=1e-9)
        else:
            assert by["0110"] == pytest.approx(delta / 2, rel=1e-9)
    silent = relu.self_consistent(x, 0 * y)
    assert silent.dead == 1
    assert silent.patterns.shape == (0, 4)


def test_predicted_pathways():
    crossover = nr.exact.separability_crossover()
    for delta in (0.0, 0.4, crossover - 0.01, crossover + 0.01, 1.0, 2.0):
        found = relu.predict_pathways(*nr.tasks.separability(delta).arrays)
        gating = "xor" if delta < crossover else "linear"
        expected = [g for _, g in nr.tasks.separability(delta, gating).samples.gates.items()]
        assert {tuple(g) for g in found.patterns} == {tuple(g) for g in np.array(expected, float)}, delta
        assert found.status is nr.Status.FINISHED
        assert found.outcome.startswith("finished")
        assert found.loss[-1] < 1e-12
    for n in (3, 4):
        found = relu.predict_pathways(*nr.tasks.contexts(n).arrays, starts=100)
        assert found.patterns[0].all()
        assert (found.rounds == 0).sum() == 1
        open_in = (found.patterns[1:].reshape(-1, n, 8).mean(axis=2) > 0.5).sum(axis=1)
        assert set(open_in) == {3: {1, 2}, 4: {2}}[n]


# -- race ------------------------------------------------------------------------------------


def test_race_of_separability():
    for delta in (0.5, 0.9, 0.95, 2.0):
        result = nr.race(
            {g: nr.tasks.separability(delta, g) for g in ("linear", "xor")}, level=0.2, strength=np.sqrt(1e-3)
        )
        exact = {
            g: brentq(lambda t: nr.exact.separability_loss(t, delta, g, 1e-3) - 0.2, 0, 100)
            for g in ("linear", "xor")
        }
        assert result.winner == min(exact, key=exact.__getitem__)
        for g, t in exact.items():
            assert result.times[g] == pytest.approx(t, rel=1e-5)
    assert result.names == ("linear", "xor")
    assert "linear" in repr(result)
    never = nr.race({g: nr.tasks.separability(0.0, g) for g in ("linear", "xor")}, t1=200.0)
    assert never.winner == "xor"
    assert never.times["linear"] == np.inf  # no weights get there
    assert never.names[-1] == "linear"
    assert "no weights go below 0.5" in repr(never)
    late = nr.race({g: nr.tasks.separability(2.0, g) for g in ("linear", "xor")}, t1=8.0)
    assert (late.winner, late.statuses["xor"]) == ("linear", nr.Status.UNSETTLED)
    assert np.isnan(late.times["xor"])
    assert "not by 8" in repr(late)


def test_race_over_unions_of_contexts():
    x = grid(2, 3)
    y = nr.tasks.contexts(3).arrays[1].reshape(3, 8, 60)[:, ::4].reshape(6, 60)
    candidates = relu.context_candidates(x, y, [0, 0, 1, 1, 2, 2], columns=range(2), hidden=4)
    assert list(candidates) == ["1", "2", "1+2"]
    assert len(candidates["1+2"].graph.hidden) == 7
    result = nr.race({k: candidates[k] for k in ("1", "2")}, level=0.3, t1=500.0)
    assert result.level == 0.3
    assert result.trajectories["2"].status is nr.Status.REACHED_LOSS
    assert nr.learning_time(result.trajectories["2"], 0.3) == result.times["2"]
    assert result.winner == "2"
    assert result.how["2"] == "full flow"
    task = candidates["2"]
    w = nr.init.decoupled(nr.reduce(task, basis="pathwise", directions=2), 1e-3)
    assert nr.flow(task, w, 500.0, 2, stop_loss=0.3).end == pytest.approx(result.times["2"], rel=1e-5)


def test_pattern_candidates():
    x = grid(3, 3)
    place = np.arange(9).reshape(3, 3)
    orders = ([1, 0, 2], [1, 2, 0])
    moves = [place[o].ravel() for o in orders] + [place[:, o].ravel() for o in orders]
    candidates = relu.pattern_candidates(x, np.eye(9), symmetries=moves)
    everything = relu.pattern_candidates(x, np.eye(9))
    assert len(everything) == 228
    assert sum(len(t.graph.hidden) - 1 for t in candidates.values()) == 228
    assert len(candidates) == 18
    sizes = {t.samples.gates["p1h1"].sum(): len(t.graph.hidden) for t in candidates.values()}
    assert sizes[1] == 10


def test_wrong_input_says_what_is_wrong(small):
    x, y = small
    plain = nr.tasks.xor()
    for wrong, message in (
        (lambda: nr.tasks.contexts(1), "n must be at least 2"),
        (lambda: nr.tasks.contexts(3, ("ring", "cross")), "structures must name 3"),
        (lambda: nr.tasks.contexts(2, ("ring", "square")), r"structures\[1\] must be one of"),
        (lambda: nr.tasks.contexts(3, gating="double"), "gating must be one of"),
        (lambda: nr.tasks.separability(-1.0), "delta must be at least 0"),
        (lambda: nr.tasks.separability(1.0, gating="and"), "gating must be one of"),
        (lambda: nr.tasks.gated(x, y, np.ones((1, 11))), "patterns must have shape"),
        (lambda: nr.tasks.gated(x, y, np.ones((1, 12)), columns={1: [0]}), "columns names pathway 1"),
        (lambda: nr.tasks.gated(x, y, np.ones((1, 12)), columns={0: [3]}), r"columns\[0\] must list"),
        (lambda: relu.train(x, y[:5]), "Y must have as many rows"),
        (lambda: relu.train(x, y, hidden=[]), "hidden must list"),
        (lambda: relu.train(x, y, hidden=700), "hidden must be a list of sizes"),
        (lambda: relu.train(x, y, objective="total"), "objective must be one of"),
        (lambda: relu.train(x, y, method="flow"), "method must be 'descend', nr.Adaptive"),
        (lambda: relu.train(x, y, lr=0.0), "lr must be greater"),
        (lambda: relu.train(x, y, std=-1.0), "std must be greater"),
        (lambda: relu.implementable([1, 0], x), r"shape \(12,\); got \(2,\)"),
        (lambda: relu.implementable(np.full(12, 0.5), x), "pattern must hold 0 and 1"),
        (lambda: relu.implementable_patterns(np.ones((20, 2))), "at most 16 samples"),
        (lambda: relu.self_consistent(x, y[:5]), "residual must have shape"),
        (lambda: relu.self_consistent(x, y, starts=0), "starts must be at least 1"),
        (lambda: relu.predict_pathways(x, y[:5]), "Y must have as many rows"),
        (lambda: relu.predict_pathways(x, y, max_rounds=0), "max_rounds must be at least 1"),
        (lambda: nr.race({}), "candidates must be a dict"),
        (lambda: nr.race({"a": 3}), r"candidates\['a'\] must be a Task"),
        (lambda: nr.race({"a": plain}, level=-1.0), "level must be greater"),
        (lambda: relu.context_candidates(x, y, [0, 1]), "context must have one label per sample"),
        (lambda: relu.context_candidates(x, y, [0] * 12), "2 to 10 different labels, got 1"),
        (lambda: relu.pattern_candidates(x, y, np.ones((2, 3))), "patterns must have shape"),
        (lambda: relu.pattern_candidates(x, y, np.ones((1, 12)), symmetries=[[0, 1]]), "permutations of 12"),
    ):
        with pytest.raises(nr.errors.InputError, match=message):
            wrong()


ODD = (None, 3, 2.5, "text", True, [], {"a": 1}, {1}, np.nan, [np.nan], ["a"], [[1], [1, 2]], 10**400, -1)
ODD += (2**31, 2**63, object(), 1j, np.zeros((2, 0)), np.array("a"), np.ma.masked_array([1.0, 2.0], [0, 1]))


@pytest.mark.parametrize(
    ("function", "arguments", "odd"),
    [
        (
            relu.train,
            {},
            "X Y hidden std lr steps save objective bias method weights readout stop_loss optimizer",
        ),
        (relu.train_like, {}, "net task weights"),
        (relu.as_gdln, {}, "net i"),
        (relu.imitate, {}, "net task matching at"),
        (relu.implementable, {"pattern": [1, 0, 0, 1]}, "pattern X bias"),
        (relu.implementable_patterns, {}, "X bias"),
        (
            relu.self_consistent,
            {"residual": np.ones((4, 1)), "starts": 3, "iterations": 8},
            "X residual starts seed iterations",
        ),
        (relu.predict_pathways, {"starts": 3, "max_rounds": 1}, "X Y share max_rounds starts seed tie bias"),
        (relu.context_candidates, {"context": [0, 0, 1, 1]}, "X Y context columns common hidden"),
        (
            relu.pattern_candidates,
            {"patterns": [[1, 1, 0, 0]]},
            "X Y patterns symmetries columns common hidden",
        ),
        (nr.race, {"strength": 0.1, "t1": 20.0}, "candidates level strength t1"),
        (
            relu.discover,
            {},
            "X Y hidden k runs std lr steps every seed layer max_clusters tolerance follow weighted",
        ),
        (relu.mixed_share, {"context": [0, 0, 1, 1]}, "net context i layer"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_odd_input_is_an_input_error(function, arguments, odd):
    x, y = np.eye(4), np.array([[1.0], [1.0], [-1.0], [-1.0]])
    net = relu.train(x, y, [3], 0.1, 0.1, 2, save=2)
    task = nr.tasks.gated(x, y, [[1, 1, 0, 0], [0, 0, 1, 1]])
    known = {
        "X": x, "Y": y, "net": net, "task": task, "weights": nr.init.gaussian(task.graph, 0.1),
        "candidates": {"a": task},
    }  # fmt: skip
    if function is relu.train:
        known = {"X": x, "Y": y, "hidden": [3], "steps": 2, "save": 2}
    elif function is relu.discover:
        known = {"X": x, "Y": y, "hidden": [3], "steps": 2, "every": 1, "runs": 1}  # too short to learn
    given = {
        n: v for n, v in known.items() if n in odd.split() or n in inspect.signature(function).parameters
    }
    for name in odd.split():
        for value in ODD:
            try:
                function(**{**given, **arguments, name: value})
            except nr.errors.InputError as error:
                assert str(error)  # noqa: PT017


def test_a_network_is_a_trajectory(small, tmp_path):
    x, y = small
    net = relu.train(x, y, [5], 0.1, 1e-3, 40, save=3, seed=[4, 7], bias=True)
    assert isinstance(net, nr.Trajectory)
    assert list(net.weights) == ["x->h1", "h1->y", "h1", "y"]
    assert net.status == (nr.Status.FINISHED,) * 2
    assert net.runs["seed"].tolist() == [4, 7]
    one = net[1]
    assert (one.settings["objective"], one.loss_scale) == ("sum", 12)
    assert np.allclose(one.rescaled(1).loss, nr.loss(net.task, one.weights), rtol=1e-12)
    assert one.rescaled(1).time("steps").tolist() == one.time("steps").tolist() == [0, 20, 40]
    assert nr.learning_time(one, one.loss[1]) == pytest.approx(one.t[1])
    one.save(tmp_path / "net")
    assert np.array_equal(nr.Trajectory.load(tmp_path / "net").loss, one.loss)
    with pytest.raises(nr.errors.InputError, match=r"net\[0\]"):
        relu.as_gdln(net)
    linear = nr.Task(nr.Graph.chain([3, 5, 2]), x, y)
    beside = relu.train_like(one, linear, nr.init.gaussian(linear.graph, 0.1))
    assert np.allclose(beside.loss, 12 * nr.loss(linear, beside.weights), rtol=1e-12)
    wild = relu.train(x, y, [5], 1.0, 10.0, 40, save=3)
    assert wild.status is nr.Status.DIVERGED
    assert "smaller lr than 10" in wild.outcome


def test_gates_are_kept_beside_what_else_is_recorded(small):
    settings = {"hidden": [5], "std": 0.5, "lr": 1e-3, "steps": 20, "save": 3}
    size = lambda state: {"size": (state.weights["x->h1"] ** 2).sum()}  # noqa: E731
    light = relu.train(*small, save_weights=False, record=size, **settings)
    full = relu.train(*small, **settings)
    assert np.allclose(light.recorded["size"], (full.weights["x->h1"] ** 2).sum(axis=(1, 2)))
    assert np.array_equal(light.gates(1)[0], full.gates(1)[0])


@pytest.mark.parametrize("bias", [False, True])
def test_readout_in_the_span_of_the_targets_is_the_network_that_starts_there(bias):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 2)) @ rng.normal(size=(2, 7))
    settings = {"hidden": [6, 4], "std": 0.4, "lr": 0.02, "steps": 200, "save": 5, "bias": bias}
    net = nr.relu.train(x, y, seed=range(2), readout="targets", **settings)
    start = {e: w[:, 0] for e, w in net.weights.items()}
    outside = np.eye(7) - np.linalg.pinv(y) @ y
    assert np.abs(outside @ start["h2->y"]).max() < 1e-12
    plain = nr.relu.train(x, y, weights=start, **settings)
    assert np.allclose(net.loss, plain.loss, rtol=1e-10)
    for e, w in net.weights.items():
        assert np.allclose(w, plain.weights[e], atol=1e-10)
    assert net[0].predict(-1)["y"].shape == (5, 7)
    gates = nr.relu.train(x, y, seed=range(2), readout="targets", save_weights=False, **settings)
    assert np.array_equal(gates.gates(-1)[0], net.gates(-1)[0])
    with pytest.raises(ValueError, match="readout must be one of all, targets"):
        nr.relu.train(x, y, readout="some", **settings)


def test_networks_with_decay_in_one_layer_are_not_repeated():
    rates = nr.Rates(decay={"x->h1": 0.5})
    net = nr.relu.train([[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]], [4], 0.1, 0.1, 20, save=3, rates=rates)
    with pytest.raises(nr.errors.InputError, match="same learning rate and weight decay"):
        nr.relu.train_like(net, net.task, net.at(0))


def test_one_dimensional_targets_are_one_column():
    x, y = np.eye(3), np.array([1.0, -1.0, 0.5])
    a, b = (relu.train(x, targets, [4], std=0.1, lr=0.1, steps=5, save=2) for targets in (y, y[:, None]))
    assert np.array_equal(a.loss, b.loss)
    assert np.array_equal(relu.pathway_residual(x, y), relu.pathway_residual(x, y[:, None]))
