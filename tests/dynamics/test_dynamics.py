import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings

import neuralrace as nr
from tests import oracles
from tests.strategies import data, graphs, random_weights, seeds

few = settings(max_examples=4)  # each compiles programs of new shapes


def distance(a, b):
    return max(np.abs(a[e] - b[e]).max() for e in b)


@few
@given(graphs(inputs=3, outputs=2, depth=4), seeds)
def test_flow_agrees_with_scipy_and_descent_with_numpy(graph, seed):
    rng = np.random.default_rng(seed)
    inputs, targets, gates, weights = data(graph, rng)
    task, w = nr.Task(graph, inputs, targets, gates, weights), random_weights(graph, rng)
    gradient = lambda v: nr.gradient(task, v)  # noqa: E731
    traj = nr.flow(task, w, t1=5.0, save=6)
    assert traj.outcome == "finished at t = 5"
    assert distance({n: v[0] for n, v in traj.weights.items()}, w) == 0
    assert oracles.flow_error(graph, traj.t, traj.weights, gradient) < 1e-6
    assert np.allclose(traj.loss, nr.loss(task, traj.weights), rtol=1e-12, atol=1e-14)

    steps = nr.descend(task, w, lr=0.02, steps=20, save=21)
    assert distance({n: v[0] for n, v in steps.weights.items()}, w) == 0
    assert oracles.descent_error(0.02, steps.weights, gradient) < 1e-13
    assert np.allclose(steps.t, 0.02 * np.arange(21))
    assert np.allclose(steps.loss, steps.step_loss, rtol=1e-13)


def test_descent_converges_to_flow_at_first_order():
    task = nr.tasks.hierarchy(3)
    w = nr.init.gaussian(task.graph, 0.1, seed=1)
    end = nr.flow(task, w, t1=20.0, save=2, method=nr.Adaptive(1e-10, 1e-12)).weights
    errors = []
    for steps in (1000, 2000, 4000, 8000):
        run = nr.descend(task, w, lr=20 / steps, steps=steps, save=2).weights
        errors.append(max(np.abs(run[e][-1] - end[e][-1]).max() for e in end))
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    assert np.all(np.abs(ratios - 2) < 0.05), ratios


def hidden_balance(task, traj):
    """Largest change of each law, relative to the squared weights it is made of."""
    laws = nr.conserved(task, traj.weights)
    size = 1 + max(np.abs(w).max() for w in traj.weights.values()) ** 2
    return {n: np.abs(v - v[:1]).max() / size for n, v in laws.items()}


@few
@given(graphs(inputs=2, outputs=2, depth=4, biases=True), seeds)
def test_conservation_law(graph, seed):
    rng = np.random.default_rng(seed)
    inputs, targets, gates, weights = data(graph, rng)
    task, w = nr.Task(graph, inputs, targets, gates, weights), random_weights(graph, rng)
    drift = hidden_balance(task, nr.flow(task, w, t1=5.0, save=5))
    assert set(drift) == set(graph.hidden)
    assert all(d < 1e-6 for d in drift.values()), drift


def test_conservation_with_neuron_gates_and_activations():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    gate = (rng.random((20, 6)) < 0.5).astype(float)
    gate[:, 1] = gate[:, 0]
    task = nr.Task(nr.Graph.chain([3, 6, 2]), x, y, {"h1": gate})
    traj = nr.flow(task, random_weights(task.graph, rng), t1=5.0, save=5)
    law = nr.conserved(task, traj.weights)["h1"]
    assert np.abs(law - law[:1]).max() < 1e-7
    assert law[0][0, 1] != 0
    assert law[0][0, 2] == 0
    # Between neurons that are gated differently nothing is conserved, and none is claimed.
    w1, w2 = traj.weights["x->h1"], traj.weights["h1->y"]
    whole = w2.swapaxes(1, 2) @ w2 - w1 @ w1.swapaxes(1, 2)
    assert np.abs(whole - whole[:1]).max() > 1e-2

    for activation, holds in (("relu", True), ("leaky_relu", True), ("tanh", False)):
        graph = nr.Graph.chain([3, 6, 2], activations={"h1": activation}, biases=["h1"])
        task = nr.Task(graph, x[:6], y[:6])  # few samples: at each kink the solver takes many steps
        traj = nr.flow(task, random_weights(graph, rng), t1=2.0, save=3)
        laws = nr.conserved(task, traj.weights)
        assert ("h1" in laws) == holds
        if holds:
            assert np.abs(laws["h1"] - laws["h1"][:1]).max() < 1e-6
            assert np.count_nonzero(laws["h1"][0]) == 6


def test_nonlinear_flow_agrees_with_scipy():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(15, 3)), rng.normal(size=(15, 2))
    graph = nr.Graph.chain([3, 5, 4, 2], activations={"h1": "tanh", "h2": "swish"}, biases=True)
    task, w = nr.Task(graph, x, y), random_weights(graph, rng)
    traj = nr.flow(task, w, t1=8.0, save=9)
    reference = oracles.scipy_flow(
        graph, w, traj.t, lambda v: oracles.sample_gradient(graph, v, {"x": x}, {"y": y}, {})
    )
    assert distance(traj.weights, reference) < 1e-6


def test_many_starts_equal_single_runs():
    task = nr.tasks.routing(3, 2, hidden=(5, 5))
    many = nr.init.orthogonal(task.graph, 0.4, seed=range(4))
    flows = nr.flow(task, many, t1=30.0, save=7)
    steps = nr.descend(task, many, lr=0.1, steps=50, save=7)
    assert flows.loss.shape == steps.loss.shape == (4, 7)
    assert flows.outcome == "finished in all 4 runs"
    for k in range(4):
        one = {n: v[k] for n, v in many.items()}
        alone = nr.flow(task, one, t1=30.0, save=7)
        assert distance({n: v[k] for n, v in flows.weights.items()}, alone.weights) < 1e-9
        alone = nr.descend(task, one, lr=0.1, steps=50, save=7)
        assert distance({n: v[k] for n, v in steps.weights.items()}, alone.weights) < 1e-12


@pytest.mark.parametrize("width", [7, 40, 300])
def test_wide_layers_are_exact_in_few_dimensions(width):
    rng = np.random.default_rng(width)
    graph = nr.Graph(
        {"x": 3, "z": 2, "a": width, "b": width, "y": 2},
        [("x", "a"), ("z", "a"), ("z", "b"), ("a", "y"), ("b", "y"), ("x", "y")],
        biases=True,
    )
    inputs, targets, gates, weights = data(graph, rng, n=30)
    gates = {n: g for n, g in gates.items() if np.ndim(g) == 1}
    task = nr.Task(graph, inputs, targets, gates, weights)
    w = random_weights(graph, rng, scale=1 / np.sqrt(width))
    traj = nr.flow(task, w, t1=6.0, save=5, record=lambda s: {"map": s.weights["a->y"] @ s.weights["x->a"]})
    dims = traj.settings["dimensions"]
    assert all(d <= 3 + 2 + 2 + 1 for d in dims.values())
    assert ("a" in dims) == (width > 8)
    gradient = lambda v: oracles.sample_gradient(graph, v, inputs, targets, gates, weights)  # noqa: E731
    assert distance(traj.weights, oracles.scipy_flow(graph, w, traj.t, gradient)) < 1e-6
    assert np.allclose(traj.recorded["map"], traj.weights["a->y"] @ traj.weights["x->a"], atol=1e-12)
    assert distance({n: v[0] for n, v in traj.weights.items()}, w) == 0
    steps = nr.descend(task, w, lr=0.05, steps=30, save=31, momentum=0.5)
    path, velocity, here = [w], {n: 0 * v for n, v in w.items()}, w
    for _ in range(30):
        grad = gradient(here)
        velocity = {n: 0.5 * velocity[n] + grad[n] for n in w}
        here = {n: here[n] - 0.05 * velocity[n] for n in w}
        path.append(here)
    assert distance(steps.weights, {n: np.stack([p[n] for p in path]) for n in w}) < 1e-10


def test_gated_neurons_are_not_merged():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 2)), rng.normal(size=(12, 1))
    gate = (rng.random((12, 20)) < 0.5).astype(float)
    task = nr.Task(nr.Graph.chain([2, 20, 1]), x, y, {"h1": gate})
    w = random_weights(task.graph, rng)
    traj = nr.flow(task, w, t1=3.0, save=4)
    assert traj.settings["dimensions"] == {}
    gradient = lambda v: oracles.sample_gradient(task.graph, v, {"x": x}, {"y": y}, {"h1": gate})  # noqa: E731
    assert distance(traj.weights, oracles.scipy_flow(task.graph, w, traj.t, gradient)) < 1e-6


def test_save_times():
    task = nr.tasks.hierarchy(3)
    w = nr.init.gaussian(task.graph, 0.1)
    a = nr.flow(task, w, t1=10.0, save=[0, 1.5, 10])
    b = nr.flow(task, w, save=[1.5, 10.0])
    assert a.t.tolist() == [0, 1.5, 10]
    assert np.allclose(a.loss[1:], b.loss, rtol=1e-10)
    past = nr.flow(task, w, t1=0.3, save=[0.1, 0.1 * 3])  # 0.30000000000000004
    assert past.t.tolist() == [0.1, 0.3]
    c = nr.descend(task, w, lr=0.5, steps=20, save=4)
    assert c.t.tolist() == [0, 0.5 * 7, 0.5 * 13, 10]
    d = nr.descend(task, w, lr=0.5, steps=20, save=[3.5, 6.5])
    assert d.t.tolist() == [3.5, 6.5]
    assert np.array_equal(d.loss, c.loss[1:3])
    e = nr.descend(task, w, lr=0.5, steps=5, save=100)
    assert len(e.t) == 6


def test_outcomes():
    task = nr.tasks.hierarchy(3)
    w = nr.init.gaussian(task.graph, 0.1)
    stopped = nr.flow(task, w, t1=1e4, stop_loss=0.5)
    assert stopped.outcome.startswith("reached loss 0.5 at t = ")
    assert stopped.loss[-1] == pytest.approx(0.5, rel=1e-6)
    assert stopped.t[-1] == stopped.end < 1e4
    limited = nr.flow(task, w, t1=1e4, method=nr.Adaptive(max_steps=5))
    assert limited.outcome.startswith("step limit of 5")
    assert "max_steps" in limited.outcome
    assert np.isfinite(limited.loss).all()
    diverged = nr.descend(task, w, lr=500.0, steps=300)
    assert diverged.outcome.startswith("diverged at step")
    assert np.isfinite(diverged.loss).all()
    assert all(np.isfinite(v).all() for v in diverged.weights.values())
    reached = nr.descend(task, w, lr=1.0, steps=10_000, stop_loss=0.5)
    assert reached.outcome.startswith("reached loss 0.5 at step")
    assert reached.loss[-1] <= 0.5 < reached.step_loss[-2]
    assert (
        reached.loss[-1]
        == reached.step_loss[-1]
        == pytest.approx(nr.loss(task, {n: v[-1] for n, v in reached.weights.items()}), rel=1e-12)
    )

    mixed = {n: np.stack([v, 1e3 * v]) for n, v in w.items()}
    both = nr.descend(task, mixed, lr=1.0, steps=200, stop_loss=0.5)
    assert both.outcomes[0].startswith("reached loss")
    assert both.outcomes[1].startswith("diverged")
    assert both.outcome == "diverged in 1 of 2 runs (1)"
    assert np.isfinite(both.loss).all()
    assert both.loss[0, -1] <= 0.5


def test_minibatches_momentum_and_adam():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    y = np.eye(2)[(x[:, 0] > 0).astype(int)]
    gate = (rng.random(40) < 0.8).astype(float)
    graph = nr.Graph.chain([3, 8, 2], activations={"h1": "relu"}, biases=True)
    task, w = nr.Task(graph, x, y, {"h1": gate}), random_weights(graph, rng)

    whole = nr.descend(task, w, lr=0.1, steps=20, loss="cross_entropy")
    once = nr.descend(task, w, lr=0.1, steps=20, loss="cross_entropy", batch_size=40)
    assert distance(whole.weights, once.weights) < 1e-12

    key = jax.random.key(5)
    run = nr.descend(
        task, w, lr=0.1, steps=8, save=9, batch_size=8, loss="cross_entropy", seed=5, optimizer="adam"
    )
    with jax.enable_x64(True):
        adam = optax.adam(0.1)
        here = {n: jnp.asarray(v) for n, v in w.items()}
        state, path = adam.init(here), [w]
        for k in range(8):
            order = jax.random.permutation(jax.random.fold_in(key, k // 5), 40)
            index = np.asarray(order[(k % 5) * 8 : (k % 5 + 1) * 8])
            grad = oracles.sample_gradient(
                graph, here, {"x": x[index]}, {"y": y[index]}, {"h1": gate[index]}, kind="cross_entropy"
            )
            change, state = adam.update(grad, state)
            here = optax.apply_updates(here, change)
            path.append({n: np.asarray(v) for n, v in here.items()})
    assert distance(run.weights, {n: np.stack([p[n] for p in path]) for n in w}) < 1e-10
    assert run.loss[-1] == pytest.approx(
        nr.loss(task, {n: v[-1] for n, v in run.weights.items()}, "cross_entropy"), rel=1e-12
    )
    same = nr.descend(
        task, w, lr=0.1, steps=8, save=9, batch_size=8, loss="cross_entropy", seed=5, optimizer="adam"
    )
    assert distance(run.weights, same.weights) == 0
    custom = nr.descend(task, w, lr=0.1, steps=8, save=9, optimizer=optax.sgd(0.1))
    assert distance(custom.weights, nr.descend(task, w, lr=0.1, steps=8, save=9).weights) < 1e-14


def test_frozen_edges_record_and_precision():
    task = nr.tasks.hierarchy(3)
    w = nr.init.gaussian(task.graph, 0.3)
    for run in (
        nr.flow(task, w, t1=5.0, save=3, rates=nr.Rates(frozen=["x->h1"])),
        nr.descend(task, w, lr=0.1, steps=20, save=3, rates=nr.Rates(frozen="x->h1")),
    ):
        assert np.array_equal(run.weights["x->h1"][-1], w["x->h1"])
        assert np.abs(run.weights["h1->y"][-1] - w["h1->y"]).max() > 1e-3
    kept = nr.flow(
        task, w, t1=5.0, save=3, record=lambda s: {"n": jnp.sum(s.weights["x->h1"] ** 2)}, save_weights=False
    )
    assert kept.weights == {}
    full = nr.flow(task, w, t1=5.0, save=3)
    assert np.allclose(kept.recorded["n"], (full.weights["x->h1"] ** 2).sum(axis=(1, 2)))
    single = nr.flow(task, w, t1=5.0, save=3, dtype=np.float32, method=nr.Adaptive(1e-5, 1e-6))
    assert single.loss.dtype == np.float64
    assert 0 < np.abs(single.loss - full.loss).max() < 1e-4


def test_the_user_setting_of_jax_is_left_alone():
    before = jax.config.values.copy()
    task = nr.tasks.xor()
    w = nr.init.gaussian(task.graph, 0.1)
    runs = [nr.flow(task, w, t1=1.0, save=2), nr.descend(task, w, lr=0.1, steps=5, save=2)]
    assert jax.config.values == before
    with jax.enable_x64(True):
        again = [nr.flow(task, w, t1=1.0, save=2), nr.descend(task, w, lr=0.1, steps=5, save=2)]
    for a, b in zip(runs, again, strict=True):
        assert a.loss.dtype == np.float64
        assert np.array_equal(a.loss, b.loss)


def test_progress_bars_show_on_request_only(capfd):
    task = nr.tasks.hierarchy(3)
    w = nr.init.gaussian(task.graph, 0.1)
    nr.flow(task, w, t1=1.0)
    nr.descend(task, w, lr=0.1, steps=20)
    assert capfd.readouterr().err == ""
    nr.flow(task, w, t1=1.0, progress=True)
    assert "100" in capfd.readouterr().err
    nr.descend(task, w, lr=0.1, steps=20, progress=True)
    assert "100%" in capfd.readouterr().err
    wide = nr.tasks.hierarchy(2, graph=nr.Graph.pathways(2, 3, [[30, 30]]))
    w = nr.init.gaussian(wide.graph, 0.1, seed=range(2))
    nr.flow(wide, w, t1=1.0, method=nr.LowRank(1e-2))
    assert capfd.readouterr().err == ""
    nr.flow(wide, w, t1=1.0, method=nr.LowRank(1e-2), progress=True)
    assert "100%" in capfd.readouterr().err


TASK = nr.tasks.hierarchy(3)
W = nr.init.gaussian(TASK.graph, 0.1)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: nr.flow(TASK, W), "t1 must be a number"),
        (lambda: nr.flow(TASK, W, t1=0), "t1 must be greater than 0"),
        (lambda: nr.flow(TASK, W, t1=-1.0), "t1"),
        (lambda: nr.flow(TASK, W, t1=np.inf), "t1 must be finite"),
        (lambda: nr.flow(TASK, W, t1="long"), "t1 must be a number"),
        (lambda: nr.flow(TASK, W, t1=1.0, save=1), "save must be at least 2"),
        (lambda: nr.flow(TASK, W, t1=1.0, save=[0, 2]), "save must be increasing"),
        (lambda: nr.flow(TASK, W, t1=1.0, save=[0.5, 0.2]), "save must be increasing"),
        (lambda: nr.flow(TASK, W, t1=1.0, save=[]), "save|t1"),
        (lambda: nr.flow(TASK, W, t1=1.0, save="many"), "save"),
        (lambda: nr.flow(TASK, W, t1=1.0, save=10**12), "save must be at most"),
        (lambda: nr.flow(TASK, W, t1=1.0, method="rk"), "method must be nr.Adaptive"),
        (lambda: nr.Adaptive(rtol=0), "rtol"),
        (lambda: nr.Adaptive(atol=-1), "atol"),
        (lambda: nr.Adaptive(max_steps=0), "max_steps"),
        (lambda: nr.Adaptive(max_steps=2**31), "max_steps must be below"),
        (lambda: nr.LowRank(error=1e-12), "error must be at least"),
        (lambda: nr.flow(TASK, W, t1=1.0, rates=nr.Rates(-1)), "decay must be at least 0"),
        (lambda: nr.flow(TASK, W, t1=1.0, rates=nr.Rates({"q": 1.0})), "decay names 'q'"),
        (lambda: nr.flow(TASK, W, t1=1.0, rates=nr.Rates(scale={"q": 1.0})), "scale names 'q'"),
        (lambda: nr.Rates(scale=2.0), "scale must be a dict"),
        (lambda: nr.Rates(frozen=3), "frozen must be a list of edges"),
        (lambda: nr.flow(TASK, W, t1=1.0, rates=0.1), r"rates must be nr.Rates\("),
        (lambda: nr.flow(TASK, W, t1=1.0, runs={"seed": [1, 2]}), r"runs\['seed'\] must be a single value"),
        (lambda: nr.flow(TASK, W, t1=1.0, runs=[1]), "runs must be a dict"),
        (lambda: nr.flow(TASK, W, t1=1.0, record=lambda s: 2.0), "record must return a dict"),
        (lambda: nr.flow(TASK, W, t1=1.0, record=lambda s: {"a": "text"}), "record must return arrays"),
        (lambda: nr.flow(TASK, W, t1=1.0, record=lambda s: {"a": {"b": 1}}), "record must return arrays"),
        (lambda: nr.flow(TASK, W, t1=1.0, record=lambda s: {"a": s.weights["q"]}), "failed with KeyError"),
        (lambda: nr.descend(TASK, W, lr=0.1, steps=2**31), "steps must be below"),
        (lambda: nr.descend(TASK, W, lr=0.1, steps=5, seed=2**63), "seed must be"),
        (lambda: nr.flow(TASK, W, t1=1.0, stop_loss=0), "stop_loss"),
        (lambda: nr.flow(TASK, W, t1=1.0, loss="hinge"), "loss must be one of"),
        (lambda: nr.flow(TASK, W, t1=1.0, rates=nr.Rates(frozen=["q"])), "frozen names 'q'"),
        (lambda: nr.flow(TASK, W, t1=1.0, record=3), "record"),
        (lambda: nr.flow(TASK, W, t1=1.0, dtype=np.int32), "dtype"),
        (lambda: nr.flow("task", W, t1=1.0), "task must be a Task"),
        (lambda: nr.flow(TASK, {"x->h1": W["x->h1"]}, t1=1.0), "weights lack h1->y"),
        (lambda: nr.flow(TASK, {**W, "q": 1}, t1=1.0), "weights names 'q'"),
        (lambda: nr.flow(TASK, {**W, "x->h1": W["x->h1"].T}, t1=1.0), r"weights\['x->h1'\] must have shape"),
        (lambda: nr.flow(TASK, {**W, "x->h1": W["x->h1"][None]}, t1=1.0), "same leading axis"),
        (lambda: nr.flow(TASK, {**W, "x->h1": W["x->h1"] * np.nan}, t1=1.0), "finite"),
        (lambda: nr.flow(TASK, [1, 2], t1=1.0), "weights must be a dict"),
        (lambda: nr.descend(TASK, W, lr=0, steps=5), "lr must be greater than 0"),
        (lambda: nr.descend(TASK, W, lr=-0.1, steps=5), "lr"),
        (lambda: nr.descend(TASK, W, lr=0.1, steps=0), "steps must be at least 1"),
        (lambda: nr.descend(TASK, W, lr=0.1, steps=2.5), "steps must be a whole number"),
        (lambda: nr.descend(TASK, W, lr=0.1, steps=5, batch_size=0), "batch_size"),
        (lambda: nr.descend(TASK, W, lr=0.1, steps=5, batch_size=5), "batch_size must be at most"),
        (lambda: nr.descend(TASK, W, lr=0.1, steps=5, optimizer="lbfgs"), "optimizer"),
        (lambda: nr.descend(TASK, W, lr=0.1, steps=5, optimizer=3), "optimizer"),
        (lambda: nr.descend(TASK, W, lr=0.1, steps=5, momentum=-1), "momentum"),
        (lambda: nr.descend(TASK, W, lr=0.1, steps=5, momentum=0.9, optimizer="adam"), "momentum"),
        (lambda: nr.descend(TASK, W, lr=0.1, steps=5, seed=-2), "seed"),
    ],
)
def test_wrong_arguments(run, message):
    with pytest.raises(ValueError, match=message):
        run()


def test_a_steep_loss_after_a_long_plateau_is_reached_not_diverged():
    graph = nr.Graph.chain([1, 1, 1, 1, 1])
    task = nr.Task(graph, [[1.0]], [[30.0]])
    run = nr.flow(task, {e: np.full((1, 1), 1e-2) for e in graph.edges}, t1=1e6, save=3, stop_loss=100.0)
    assert run.outcome.startswith("reached loss 100 at t = 166.6")


def test_a_loss_that_is_reached_at_the_start_stops_both():
    for run in (nr.flow(TASK, W, t1=5.0, stop_loss=100.0), nr.descend(TASK, W, 0.1, 20, stop_loss=100.0)):
        assert run.status is nr.Status.REACHED_LOSS
        assert run.end == 0
        assert len(run.t) == 1


def test_zero_weights_rest():
    run = nr.flow(TASK, {n: 0 * v for n, v in W.items()}, t1=5.0)
    assert run.outcome == "finished at t = 5"
    assert (run.loss == run.loss[0]).all()


def test_descent_takes_all_its_steps_whatever_is_saved():
    run = nr.descend(TASK, W, lr=0.05, steps=20, save=[0.0, 0.5, 0.9])
    assert run.outcome == "finished after 20 steps, t = 1"
    assert run.t.tolist() == [0.0, 0.5, 0.9]
    assert run.step_loss.shape == (21,)
    assert np.isfinite(run.step_loss).all()
    assert run.loss[-1] == run.step_loss[18]


@few
@given(graphs(inputs=2, outputs=2, depth=3, biases=True), seeds)
def test_weight_decay_and_learning_rates_per_edge(graph, seed):
    rng = np.random.default_rng(seed)
    inputs, targets, gates, sample_weight = data(graph, rng)
    task, w = nr.Task(graph, inputs, targets, gates, sample_weight), random_weights(graph, rng)
    decay = {n: float(rng.random()) for n in graph.shapes}
    scale = {n: float(rng.random() + 0.5) for n in graph.shapes}

    def slope(v):
        g = nr.gradient(task, v)
        return {n: scale[n] * (g[n] + decay[n] * v[n]) for n in v}

    run = nr.flow(task, w, t1=3.0, save=5, rates=nr.Rates(decay, scale))
    assert oracles.flow_error(graph, run.t, run.weights, slope) < 1e-6
    assert np.allclose(run.loss, nr.loss(task, run.weights), rtol=1e-12, atol=1e-14)
    # The history has the slope of the loss, not of the loss with its penalty.
    for k, here in ((0, w), (-1, {n: v[-1] for n, v in run.weights.items()})):
        g, moved = nr.gradient(task, here), slope(here)
        falls = -sum(float((g[n] * moved[n]).sum()) for n in g)
        assert run.history.slope[k] == pytest.approx(falls, rel=1e-6, abs=1e-9)
    steps = nr.descend(task, w, lr=0.02, steps=10, save=11, rates=nr.Rates(decay, scale))
    assert oracles.descent_error(0.02, steps.weights, slope) < 1e-13


def test_wide_layers_with_decay_stay_exact_in_few_dimensions():
    rng = np.random.default_rng(0)
    task = nr.Task(nr.Graph.chain([3, 40, 2]), rng.normal(size=(20, 3)), rng.normal(size=(20, 2)))
    w = random_weights(task.graph, rng, 0.2)
    run = nr.flow(task, w, t1=5.0, save=6, rates=nr.Rates(decay=0.1))
    assert run.settings["dimensions"] == {"h1": 5}
    slope = lambda v: {n: g + 0.1 * v[n] for n, g in nr.gradient(task, v).items()}  # noqa: E731
    assert distance(run.weights, oracles.scipy_flow(task.graph, w, run.t, slope)) < 1e-6
    deep = nr.Task(nr.Graph.chain([3, 40, 40, 2]), *task.arrays)
    with pytest.raises(ValueError, match="takes no weight decay"):
        nr.flow(deep, random_weights(deep.graph, rng), 1.0, method=nr.LowRank(1e-2), rates=nr.Rates(0.1))


def test_record_sees_activity_in_full_coordinates_under_every_method():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
    graph = nr.Graph.chain([3, 30, 30, 2])
    task = nr.Task(graph, x, y, {"h2": (np.arange(8) % 2).astype(float)})
    w = random_weights(graph, rng, 0.3)
    other = rng.normal(size=(5, 3))

    def record(s):
        return {
            "h": s.activity("h2"), "y": s.outputs["y"], "t": s.t, "w": s.weights["h1->h2"],
            "other": s.activity("y", inputs=other), "half": s.activity("y", inputs=other, gates={"h2": 0.5}),
        }  # fmt: skip

    runs = [
        nr.flow(task, w, t1=2.0, save=3, record=record),
        nr.flow(task, w, t1=2.0, save=3, record=record, method=nr.LowRank(1e-6)),
        nr.descend(task, w, lr=0.01, steps=200, save=3, record=record),
    ]
    for run in runs:
        assert np.allclose(run.recorded["t"], run.t)
        assert np.allclose(run.recorded["w"], run.weights["h1->h2"], atol=1e-10)
        for k in range(3):
            here = {n: v[k] for n, v in run.weights.items()}
            active = oracles.forward(graph, here, {"x": x}, task.samples.gates)
            assert np.allclose(run.recorded["h"][k], active["h2"], atol=1e-8)
            assert np.allclose(run.recorded["y"][k], active["y"], atol=1e-6)
            shown = oracles.forward(graph, here, {"x": other}, {})["y"]
            assert np.allclose(run.recorded["other"][k], shown, atol=1e-6)
            assert np.allclose(run.recorded["half"][k], 0.5 * shown, atol=1e-6)
    moments = nr.Task.from_moments(graph, [{"sxx": np.eye(3), "syx": np.ones((2, 3))}])
    with pytest.raises(ValueError, match="inputs"):
        nr.flow(moments, w, t1=1.0, record=lambda s: {"y": s.outputs["y"]})
    shown = nr.flow(moments, w, 1.0, save=2, record=lambda s: {"y": s.activity("y", inputs=other)})
    assert shown.recorded["y"].shape == (2, 5, 2)


@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_descent_is_that_of_optax(momentum):
    """Also where a run ends early: at a loss, and where it diverges, with its last finite weights."""
    rates = nr.Rates(scale={next(iter(TASK.graph.edges)): 0.5})
    common = {"steps": 40, "save": 41, "loss": "cross_entropy", "rates": rates}
    for lr, stop in ((0.2, 0.98 * nr.loss(TASK, W, loss="cross_entropy")), (1e200, None)):
        ours = nr.descend(TASK, W, lr, momentum=momentum, stop_loss=stop, **common)
        same = nr.descend(TASK, W, lr, optimizer=optax.sgd(lr, momentum or None), stop_loss=stop, **common)
        assert ours.outcome == same.outcome
        assert np.allclose(ours.loss, same.loss, rtol=1e-12)
        assert distance(ours.weights, same.weights) <= 1e-12 * max(
            np.abs(v).max() for v in same.weights.values()
        )
        assert all(np.isfinite(v).all() for v in ours.weights.values())


def test_losses_of_a_flow_are_never_negative_and_never_rise():
    rng = np.random.default_rng(2)
    graph, x = nr.Graph.chain([4, 8, 8, 3]), rng.normal(size=(20, 4))
    task = nr.Task(graph, x, x @ rng.normal(size=(4, 3)))
    start = nr.init.gaussian(graph, 0.3)
    assert nr.flow(task, start, t1=100.0).loss.min() >= 0
    assert nr.reduce(task).solve(0.1, 100.0).loss.min() >= 0
    loose = nr.flow(task, start, t1=200.0, method=nr.Adaptive(rtol=1e-2, atol=1e-3))
    assert (np.diff(loose.loss) <= 0).all()


def test_a_long_flow_stops_at_rest_and_says_since_when():
    graph = nr.Graph.chain([1, 1, 1])
    task, start = nr.Task(graph, [1.0], [1.0]), {"x->h1": [[0.1]], "h1->y": [[0.3]]}
    for t1 in (1e6, 1e300):
        run = nr.flow(task, start, t1=t1, save=9, record=lambda s: {"t": s.t})
        assert run.status is nr.Status.FINISHED
        assert run.outcome.startswith(f"finished at t = {t1:g}, at rest since t = ")
        assert run.stats["steps"] < 2000
        assert run.end == run.t[-1] == t1
        assert len(run.t) == 9
        assert np.allclose(run.recorded["t"], run.t)
        assert 0 <= run.loss[-1] < 1e-18
        assert np.ptp(run.weights["h1->y"][1:]) == 0
    task = nr.tasks.hierarchy(4, graph=nr.Graph.chain([8, 30, 30, 15]))  # of which tiny numbers are rounding
    for t1 in (1e12, 1e30):
        large = nr.flow(task, nr.init.gaussian(task.graph, 0.3), t1=t1)
        assert "at rest since" in large.outcome
        assert large.stats["steps"] < 500
    task = nr.Task(graph, [1.0], [1.0])
    short = nr.flow(task, start, t1=40.0)
    assert short.outcome == "finished at t = 40"
    assert np.isclose(nr.learning_time(run, 0.01), nr.learning_time(short, 0.01), rtol=1e-6)


def test_slow_modes_and_tiny_weights_are_no_rest():
    graph = nr.Graph.chain([2, 2, 2])
    task = nr.Task(graph, np.diag([1.0, 1e-3]), np.eye(2))
    start = {e: np.diag([0.1, 1e-6]) for e in graph.edges}
    run = nr.flow(task, start, t1=3e7)
    assert np.allclose(nr.end_to_end(graph, run)[-1], np.diag([1.0, 1e3]), rtol=1e-3)


def test_weights_near_the_smallest_numbers_rest_or_grow_but_do_not_diverge():
    task = nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 6, 7]))
    times = [
        nr.learning_time(nr.flow(task, nr.init.gaussian(task.graph, s), t1=1.5e3, save=3), 0.1)
        for s in (1e-290, 1e-300)
    ]
    assert 30 < times[1] - times[0] < 40  # ten powers of ten at the rate of the first mode
    solved = nr.reduce(task).solve(1e-300, 3e3)
    assert solved.status is nr.Status.FINISHED
    rests = nr.reduce(nr.tasks.xor()).solve(0.1, 1e300)
    assert rests.outcome.startswith("finished at t = 1e+300, at rest since t = ")
    assert rests.loss[-1] < 2e-14 * rests.loss[0]  # solutions stop at about 1e-14
