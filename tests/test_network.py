from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuralrace as nr
from neuralrace.activations import ACTIVATIONS
from neuralrace.network import program
from tests import oracles
from tests.strategies import data, graphs, random_weights

few = settings(max_examples=15, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def close(a, b, tolerance=1e-10):
    scale = 1 + max(np.abs(v).max() for v in b.values())
    for name in b:
        assert np.abs(a[name] - b[name]).max() <= tolerance * scale, name


@few
@given(graphs(), seeds)
def test_loss_and_gradient_are_the_path_sums(graph, seed):
    rng = np.random.default_rng(seed)
    inputs, targets, gates, sample_weights = data(graph, rng)
    w = random_weights(graph, rng)
    task = nr.Task(graph, inputs, targets, gates, sample_weights)
    args = (graph, w, inputs, targets, gates, sample_weights)
    expected = oracles.path_loss(*args)
    assert nr.loss(task, w) == pytest.approx(expected, rel=1e-10)
    close(nr.gradient(task, w), oracles.path_gradient(*args))
    close(nr.gradient(task, w), oracles.sample_gradient(*args))


@few
@given(graphs(inputs=2, outputs=2, activations=tuple(ACTIVATIONS), biases=True), seeds, st.booleans())
def test_any_network_is_the_forward_pass(graph, seed, cross_entropy):
    rng = np.random.default_rng(seed)
    inputs, targets, gates, sample_weights = data(graph, rng, neuron_gates=True)
    kind = "cross_entropy" if cross_entropy else "squared"
    if cross_entropy:
        targets = {o: np.abs(y) / np.abs(y).sum(axis=1, keepdims=True) for o, y in targets.items()}
    w = random_weights(graph, rng)
    task = nr.Task(graph, inputs, targets, gates, sample_weights)
    args = (graph, w, inputs, targets, gates, sample_weights)
    with jax.enable_x64(True):
        assert nr.loss(task, w, kind) == pytest.approx(
            float(oracles.sample_loss(*args, kind=kind)), rel=1e-10
        )
        h = oracles.forward(graph, w, inputs, gates)
    close(nr.gradient(task, w, kind), oracles.sample_gradient(*args, kind=kind))
    close(nr.predict(task, w), {o: np.asarray(h[o]) for o in graph.outputs})


@few
@given(graphs(inputs=3, outputs=2, biases=True), seeds, st.booleans())
def test_linear_with_biases_needs_moments_only(graph, seed, many_samples):
    rng = np.random.default_rng(seed)
    inputs, targets, gates, sample_weights = data(graph, rng, n=120 if many_samples else 12)
    w = random_weights(graph, rng)
    task = nr.Task(graph, inputs, targets, gates, sample_weights)
    args = (graph, w, inputs, targets, gates, sample_weights)
    assert max(c.rows for c in task.moment_contexts) <= 1 + sum(graph.nodes[x] for x in graph.inputs)
    with jax.enable_x64(True):
        assert nr.loss(task, w) == pytest.approx(float(oracles.sample_loss(*args)), rel=1e-10)
    close(nr.gradient(task, w), oracles.sample_gradient(*args))


@few
@given(graphs(), seeds)
def test_relabelling_and_splitting_change_nothing(graph, seed):
    rng = np.random.default_rng(seed)
    inputs, targets, gates, sample_weights = data(graph, rng)
    w = random_weights(graph, rng)
    loss = nr.loss(nr.Task(graph, inputs, targets, gates, sample_weights), w)

    new = {n: f"node {k}" for k, n in enumerate(rng.permutation(list(graph.nodes)))}
    renamed = nr.Graph(
        {new[n]: graph.nodes[n] for n in new}, {e: (new[s], new[t]) for e, (s, t) in graph.edges.items()}
    )
    task = nr.Task(
        renamed,
        {new[x]: v for x, v in inputs.items()},
        {new[y]: v for y, v in targets.items()},
        {new.get(n, n): v for n, v in gates.items()},
        sample_weights,
    )
    assert nr.loss(task, w) == pytest.approx(loss, rel=1e-12)

    order = np.tile(rng.permutation(len(sample_weights)), 2)  # each sample twice, in another order
    split = nr.Task(
        graph,
        {x: v[order] for x, v in inputs.items()},
        {y: v[order] for y, v in targets.items()},
        {n: v[order] for n, v in gates.items()},
        sample_weights[order],
    )
    assert nr.loss(split, w) == pytest.approx(loss, rel=1e-12)


def test_contexts_with_equal_gates_before_the_output_share_one_map():
    rng = np.random.default_rng(0)
    graph = nr.Graph({"x": 3, "h": 4, "a": 2, "b": 2}, [("x", "h"), ("h", "a"), ("h", "b")])
    n = 400
    which = np.arange(n) % 8
    x, ya, yb = (rng.normal(size=(n, k)) for k in (3, 2, 2))
    gates = {"h->a": rng.normal(size=8)[which], "b": rng.normal(size=8)[which]}
    task = nr.Task(graph, x, {"a": ya, "b": yb}, gates)
    stack = program(task, "squared").stack
    hidden = [g for g in stack.groups if g.size == 4]
    assert [g.items for g in hidden] == [1]
    w = random_weights(graph, rng)
    close(nr.gradient(task, w), oracles.sample_gradient(graph, w, {"x": x}, {"a": ya, "b": yb}, gates))


def equations(function, *args):
    """Number of equations in a jaxpr, inner ones included."""

    def count(jaxpr):
        total = 0
        for eqn in jaxpr.eqns:
            total += 1
            for value in jax.tree.leaves(eqn.params, is_leaf=lambda v: hasattr(v, "eqns")):
                inner = getattr(value, "jaxpr", value)
                total += count(inner) if hasattr(inner, "eqns") else 0
        return total

    return count(jax.make_jaxpr(function)(*args).jaxpr)


def test_program_does_not_grow_with_domains_or_contexts():
    sizes = set()
    for domains, trained in ((7, 4), (40, 4), (40, 30)):
        task = nr.tasks.routing(domains, trained, hidden=(8, 8))
        made = program(task, "squared")
        flat = np.zeros(task.graph.n_weights)
        with jax.enable_x64(True):
            sizes.add(equations(jax.grad(lambda f, made=made: made.stack.loss(f, made.data)), flat))
    assert len(sizes) == 1


def test_program_does_not_grow_with_irregular_pairs():
    rng = np.random.default_rng(1)
    counts = []
    for domains in (12, 48):
        graph = nr.Graph.routing(domains, 3, (5, 5), 2)
        contexts = []
        for i in range(domains):
            x = rng.normal(size=(int(rng.integers(2, 30)), 3))
            for j in rng.permutation(domains)[: rng.integers(1, 9)]:
                y = x @ rng.normal(size=(3, 2))
                contexts.append(
                    {
                        "sxx": {f"x{i}": x.T @ x},
                        "syx": {(f"y{j}", f"x{i}"): y.T @ x},
                        "syy": {f"y{j}": (y**2).sum()},
                    }
                )
        made = program(nr.Task.from_moments(graph, contexts), "squared")
        flat = np.zeros(graph.n_weights)
        with jax.enable_x64(True):
            counts.append(equations(jax.grad(lambda f, made=made: made.stack.loss(f, made.data)), flat))
    assert counts[1] <= counts[0] * 1.5


def ladder(stages):
    nodes = {"x": 3, **{f"h{k}": 3 for k in range(stages - 1)}, "y": 3}
    row = list(nodes)
    edges = {f"{s}{c}{t}": (s, t) for s, t in pairwise(row) for c in "ab"}
    return nr.Graph(nodes, edges)


def test_ladder_has_too_many_paths_to_list_and_needs_none():
    graph = ladder(60)
    assert graph.n_paths == 2**60
    with pytest.raises(ValueError, match="paths to list"):
        graph.paths()
    short = ladder(6)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    for g in (short, graph):
        w = random_weights(g, rng, scale=0.4)
        task = nr.Task(g, x, y)
        close(nr.gradient(task, w), oracles.sample_gradient(g, w, {"x": x}, {"y": y}, {}))
    w = random_weights(short, rng, scale=0.4)
    close(nr.gradient(nr.Task(short, x, y), w), oracles.path_gradient(short, w, {"x": x}, {"y": y}, {}))


def flops(function, *args):
    return jax.jit(function).lower(*args).compile().cost_analysis()["flops"]


def test_one_gradient_costs_less_than_eight_forward_passes():
    rng = np.random.default_rng(0)
    task = nr.Task(ladder(60), rng.normal(size=(5, 3)), rng.normal(size=(5, 3)))
    made, flat = program(task, "squared"), rng.normal(size=task.graph.n_weights)
    with jax.enable_x64(True):
        loss = lambda f: made.stack.loss(f, made.data)  # noqa: E731
        assert flops(jax.grad(loss), flat) < 8 * flops(loss, flat)


def test_large_outputs_are_computed_block_by_block(monkeypatch):
    rng = np.random.default_rng(0)
    task = nr.tasks.routing(6, 3, hidden=(5, 5))
    w = random_weights(task.graph, rng)
    plain = nr.loss(task, w), nr.gradient(task, w)
    monkeypatch.setattr("neuralrace.network.plan._BULK", 1)
    jax.clear_caches()
    blocked = nr.loss(task, w), nr.gradient(task, w)
    jax.clear_caches()
    assert blocked[0] == pytest.approx(plain[0], rel=1e-13)
    close(blocked[1], plain[1], 1e-13)


def test_seeds_axis_and_jax_transformations():
    task = nr.tasks.xor()
    many = nr.init.gaussian(task.graph, 0.5, seed=range(3))
    losses, grads, outputs = nr.loss(task, many), nr.gradient(task, many), nr.predict(task, many)
    assert losses.shape == (3,)
    assert outputs["y"].shape == (3, 4, 1)
    for k in range(3):
        one = {n: v[k] for n, v in many.items()}
        assert nr.loss(task, one) == pytest.approx(losses[k], rel=1e-14)
        close(nr.gradient(task, one), {n: v[k] for n, v in grads.items()}, 1e-14)
        close(nr.predict(task, one), {"y": outputs["y"][k]}, 1e-14)

    one = {n: v[0] for n, v in many.items()}
    single = {n: jnp.asarray(v, jnp.float32) for n, v in one.items()}
    assert not jax.config.jax_enable_x64
    traced = jax.jit(lambda w: nr.loss(task, w))(single)
    assert traced.dtype == jnp.float32
    assert float(traced) == pytest.approx(losses[0], rel=1e-5)
    slope = jax.grad(lambda w: nr.loss(task, w))(single)
    close({n: np.asarray(v) for n, v in slope.items()}, {n: v[0] for n, v in grads.items()}, 1e-5)
    batched = jax.vmap(lambda w: nr.predict(task, w)["y"])({n: jnp.asarray(v) for n, v in many.items()})
    assert np.abs(np.asarray(batched) - outputs["y"]).max() < 1e-5


def test_results_are_float64_whatever_the_setting():
    task = nr.tasks.xor()
    w = nr.init.gaussian(task.graph, 0.5)
    as_lists = {n: v.tolist() for n, v in w.items()}
    as_jax = {n: jnp.asarray(v) for n, v in w.items()}
    reference = nr.loss(task, w)
    assert isinstance(reference, float)
    assert nr.loss(task, as_lists) == reference
    assert nr.loss(task, as_jax) == pytest.approx(reference, rel=1e-6)
    with jax.enable_x64(True):
        assert nr.loss(task, w) == reference
    for value in (*nr.gradient(task, w).values(), *nr.predict(task, w).values()):
        assert type(value) is np.ndarray
        assert value.dtype == np.float64
