"""Fixed edges, against the same network with these edges among its weights, frozen."""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import neuralrace as nr
from tests import oracles
from tests.dynamics.test_compiled import compiled
from tests.strategies import data, graphs, random_weights, seeds, some_fixed

few = settings(max_examples=4)  # each compiles programs of new shapes
SKIP = nr.Edge("x", "h2", fixed=np.eye(3))
GRAPH = nr.Graph({"x": 3, "h1": 5, "h2": 3, "y": 2}, [("x", "h1"), ("h1", "h2"), SKIP, ("h2", "y")])
RNG = np.random.default_rng(0)
TASK = nr.Task(GRAPH, RNG.normal(size=(12, 3)), RNG.normal(size=(12, 2)))
W = nr.init.gaussian(GRAPH, 0.3, seed=0)


def unfixed(graph):
    """The graph, with all edges among the weights that learn."""
    return nr.Graph(graph.nodes, graph.edges, graph.activations, graph.biases)


def residual_network(blocks, n=4, hidden=6):
    """Blocks h + W2 W1 h, and a readout."""
    nodes, edges, last = {"x": n}, [], "x"
    for k in range(1, blocks + 1):
        nodes |= {f"a{k}": hidden, f"h{k}": n}
        edges += [(last, f"a{k}"), (f"a{k}", f"h{k}"), nr.Edge(last, f"h{k}", fixed=np.eye(n))]
        last = f"h{k}"
    return nr.Graph({**nodes, "y": 2}, [*edges, (last, "y")])


def test_a_fixed_edge_is_no_weight():
    assert list(GRAPH.fixed) == ["x->h2"]
    assert list(GRAPH.shapes) == ["x->h1", "h1->h2", "h2->y"] == list(W)
    assert GRAPH.n_weights == 15 + 15 + 6
    assert GRAPH.n_paths == 2
    assert set(nr.gradient(TASK, W)) == set(W)
    assert set(nr.flow(TASK, W, 1.0, 2).weights) == set(W)
    assert set(nr.descend(TASK, W, 0.1, 2, 2).weights) == set(W)
    with pytest.raises(ValueError, match="weights names 'x->h2', which is no edge or bias that learns"):
        nr.loss(TASK, W | GRAPH.fixed)
    with pytest.raises(ValueError, match="frozen names 'x->h2'"):
        nr.flow(TASK, W, 1.0, 2, rates=nr.Rates(frozen="x->h2"))


def test_equal_graphs_have_equal_constants():
    same = nr.Graph(GRAPH.nodes, GRAPH.given_edges())
    other = nr.Graph(GRAPH.nodes, GRAPH.given_edges({"x->h2": 2 * np.eye(3)}))
    assert same == GRAPH
    assert hash(GRAPH) == hash(same)
    assert other != GRAPH
    assert unfixed(GRAPH) != GRAPH
    assert GRAPH.resized({"h1": 9}).nodes["h1"] == 9
    assert (GRAPH.resized({"h2": 2}, {"x->h2": np.ones((2, 3))}).fixed["x->h2"] == 1).all()
    named = nr.Graph(GRAPH.nodes, dict(zip("abcd", GRAPH.given_edges().values(), strict=True)))
    assert list(named.fixed) == ["c"]
    given = np.eye(3)
    kept = nr.Edge("x", "y", fixed=given)
    given[0, 0] = 5.0
    assert kept.fixed[0, 0] == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nr.Edge("x", "y", fixed=[[np.nan]]), "fixed of 'x' -> 'y' must be finite"),
        (lambda: nr.Edge("x", "y", fixed=1.0), "must have shape"),
        (lambda: nr.Graph({"x": 3, "y": 1}, [nr.Edge("x", "y", fixed=np.eye(3))]), r"\(1, 3\), got \(3, 3\)"),
        (lambda: nr.Graph({"x": 1, "y": 1}, [nr.Edge("x", "y", fixed=np.eye(1))]), "must not all be fixed"),
        (lambda: nr.Graph({"x": 1, "y": 1}, [nr.Edge("x", "z")]), "'z'"),
        (lambda: nr.Graph({"x": 1, "y": 1}, [nr.Edge("x", "y"), ("x", "y")]), "stands twice"),
        (lambda: GRAPH.resized({"h2": 4}), "fixed of edge 'x->h2' must have shape"),
        (lambda: nr.Edge("x", "y", fixed=np.eye(2), diagonal=True), "is fixed: leave out diagonal"),
    ],
)
def test_wrong_fixed_edges(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@few
@given(graphs(activations=("linear", "relu", "tanh"), biases=True), seeds)
def test_loss_gradient_and_outputs(graph, seed):
    rng = np.random.default_rng(seed)
    graph = some_fixed(graph, rng)
    given = data(graph, rng, neuron_gates=True)
    w, task = random_weights(graph, rng), nr.Task(graph, *given)
    every = w | graph.fixed
    truth = oracles.sample_gradient(graph, every, *given)
    for how in (nullcontext, compiled):
        with how():
            found = nr.gradient(task, w)
            assert all(np.allclose(found[e], truth[e], rtol=1e-10, atol=1e-12) for e in w)
    assert nr.loss(task, w) == pytest.approx(oracles.sample_loss(graph, every, *given), rel=1e-12)


def twins(many):
    """A task with fixed edges and weights, the same with these edges among the weights, and its rates."""
    graph, rng = residual_network(2), np.random.default_rng(2)
    given = rng.normal(size=(20, 4)), rng.normal(size=(20, 2))
    w = nr.init.gaussian(graph, 0.1, seed=range(2) if many else 0)
    lead = (2,) if many else ()
    every = w | {e: np.broadcast_to(v, (*lead, *v.shape)) for e, v in graph.fixed.items()}
    return (nr.Task(graph, *given), w), (nr.Task(unfixed(graph), *given), every), tuple(graph.fixed)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("learn", "decay"),
    [
        (lambda *a, rates: nr.flow(*a, 3.0, 5, method=nr.Adaptive(1e-11, 1e-13), rates=rates), 0.01),
        (lambda *a, rates: nr.flow(*a, 3.0, 5, method=nr.LowRank(1e-6), rates=rates), 0.0),
        (lambda *a, rates: nr.descend(*a, 0.05, 30, 5, momentum=0.9, rates=rates), 0.01),
        (lambda *a, rates: nr.descend(*a, 0.05, 30, 5, batch_size=5, rates=rates), 0.01),
    ],
)
def test_learning_is_that_of_frozen_weights(learn, decay, many):
    ours, twin, fixed = twins(many)
    found, true = learn(*ours, rates=nr.Rates(decay)), learn(*twin, rates=nr.Rates(decay, frozen=fixed))
    assert np.abs(found.loss - true.loss).max() < 1e-8
    assert all(np.abs(found.weights[e] - true.weights[e]).max() < 1e-7 for e in ours[1])
    assert found.settings["weight_decay"] == (dict.fromkeys(ours[1], decay) if decay else {})


@pytest.mark.parametrize("method", [nr.Adaptive(), nr.LowRank(1e-6)])
def test_activities_are_recorded(method):
    (task, w), (twin, every), _ = twins(False)
    run = nr.flow(task, w, 1.0, 3, method=method, record=lambda s: {"h": s.activity("h1")})
    for k, h in enumerate(run.recorded["h"]):
        now = every | {e: v[k] for e, v in run.weights.items()}
        assert np.allclose(h, nr.activity(twin, now, "h1"), atol=1e-6)


def test_jax_differentiates_the_weights_that_learn():
    with jax.enable_x64(True):
        found = jax.grad(lambda w: nr.loss(TASK, w))({e: jnp.asarray(v) for e, v in W.items()})
        outputs = jax.jit(lambda w: nr.predict(TASK, w)["y"])(W)
    assert all(np.allclose(found[e], g, atol=1e-12) for e, g in nr.gradient(TASK, W).items())
    assert np.allclose(outputs, nr.predict(TASK, W)["y"])


def test_trajectories_are_saved_and_loaded(tmp_path):
    run = nr.flow(TASK, W, 5.0, 4)
    run.save(tmp_path / "run.zarr")
    again = nr.Trajectory.load(tmp_path / "run.zarr")
    assert set(again.weights) == set(W)
    assert all((again.weights[e] == w).all() for e, w in run.weights.items())
    assert again.to_xarray()["weights:h1->h2"].dims == ("t", "h2", "h1")


def test_measures():
    twin = nr.Task(unfixed(GRAPH), *TASK.arrays)
    every = W | GRAPH.fixed
    assert np.allclose(nr.end_to_end(GRAPH, W), nr.end_to_end(twin.graph, every))
    more = np.trace(nr.tangent_kernel(twin, every) - nr.tangent_kernel(TASK, W))
    by_skip = np.square(W["h2->y"]).sum() * np.square(TASK.arrays[0]).sum() / 12  # y = W3 (x + ...)
    assert more == pytest.approx(by_skip)
    assert set(nr.conserved(TASK, W)) == {"h1"}
    run = nr.flow(TASK, W, 5.0, 9, method=nr.Adaptive(1e-10, 1e-12))
    law = nr.conserved(TASK, run.weights)["h1"]
    assert np.abs(law - law[0]).max() < 1e-8
