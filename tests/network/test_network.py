from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuralrace as nr
from neuralrace.network import loss_and_gradient, program, programs
from neuralrace.network.plan import summed
from neuralrace.tables import ACTIVATIONS
from tests import oracles
from tests.strategies import data, graphs, random_weights, seeds

few = settings(max_examples=6)  # each compiles programs of new shapes


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
    assert nr.loss(task, w, kind) == pytest.approx(oracles.sample_loss(*args, kind=kind), rel=1e-10)
    h = oracles.forward(graph, w, inputs, gates)
    close(nr.gradient(task, w, kind), oracles.sample_gradient(*args, kind=kind))
    close(nr.predict(task, w), {o: h[o] for o in graph.outputs})


@few
@given(graphs(inputs=3, outputs=2, biases=True), seeds, st.booleans())
def test_linear_with_biases_needs_moments_only(graph, seed, many_samples):
    rng = np.random.default_rng(seed)
    inputs, targets, gates, sample_weights = data(graph, rng, n=120 if many_samples else 12)
    w = random_weights(graph, rng)
    task = nr.Task(graph, inputs, targets, gates, sample_weights)
    args = (graph, w, inputs, targets, gates, sample_weights)
    assert max(c.rows for c in task.moment_contexts) <= 1 + sum(graph.nodes[x] for x in graph.inputs)
    assert nr.loss(task, w) == pytest.approx(oracles.sample_loss(*args), rel=1e-10)
    close(nr.gradient(task, w), oracles.sample_gradient(*args))


@few
@given(graphs(), seeds)
def test_relabelling_and_splitting_change_nothing(graph, seed):
    rng = np.random.default_rng(seed)
    inputs, targets, gates, sample_weights = data(graph, rng)
    w = random_weights(graph, rng)
    loss = nr.loss(nr.Task(graph, inputs, targets, gates, sample_weights), w)
    rounding = 1e-13 * oracles.sum_of_terms(graph, w, inputs, targets, gates, sample_weights)

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
    assert abs(nr.loss(task, w) - loss) <= rounding

    order = np.tile(rng.permutation(len(sample_weights)), 2)  # each sample twice, in another order
    split = nr.Task(
        graph,
        {x: v[order] for x, v in inputs.items()},
        {y: v[order] for y, v in targets.items()},
        {n: v[order] for n, v in gates.items()},
        sample_weights[order],
    )
    assert abs(nr.loss(split, w) - loss) <= rounding


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


@pytest.mark.parametrize(("trained", "blocks"), [(2, (6, 1, 2)), (4, (1, 6, 6)), (6, (1, 6, 6))])
def test_routes_that_are_most_of_all_are_computed_in_one_product(trained, blocks):
    task = nr.tasks.routing(6, trained, hidden=(9, 64))
    outputs = program(task, "squared").stack.groups[-1]
    assert outputs.products[0].blocks == blocks
    w, expected = random_weights(task.graph, np.random.default_rng(0)), 0.0
    for c in task.moment_contexts:
        ((x, rows),), ((y, targets),) = c.inputs.items(), c.targets.items()
        out = w[f"h2->{y}"] @ w["h1->h2"] @ w[f"{x}->h1"] @ rows.T
        expected += 0.5 * np.square(targets.T - out).sum()
    assert nr.loss(task, w) == pytest.approx(expected)
    numpy_is_jax(task, "moments", np.random.default_rng(1))


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
    assert max(sizes) - min(sizes) <= 1  # what most pairs share is not gathered


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


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 1.0), (3.0, 3.5)])
def test_error_rate_of_one_output_is_the_side_of_the_midpoint(low, high):
    graph = nr.Graph.chain([2, 1])
    x = np.array([[1.0, 0], [1, 1], [1, 2], [1, 3]])
    y = np.array([low, low, high, high])
    middle = (low + high) / 2
    w = {"x->y": np.array([[[middle - 0.5, 1.0]], [[middle - 1.5, 1.0]], [[middle + 1.5, -1.0]]])}
    assert nr.error_rate(nr.Task(graph, x, y), w).tolist() == [[0.25], [0.0], [1.0]]
    # The two values are those of the whole task: here every sample is a context of its own.
    apart = nr.Task(graph, x, y, {"x->y": [1.0, 2.0, 3.0, 4.0]})
    outputs = nr.predict(apart, {"x->y": w["x->y"][1]})["y"][:, 0]
    expected = np.sign(outputs - middle) != np.sign(y - middle)
    assert nr.error_rate(apart, {"x->y": w["x->y"][1]}).tolist() == expected.tolist()


def test_silent_outputs_have_the_leading_axis_of_the_weights():
    graph = nr.Graph(
        {"x": 2, "h": 2, "y": 1, "z": 3},
        {"d": nr.Edge("x", "h", diagonal=True), "a": ("h", "y"), "b": ("h", "z")},
    )
    task = nr.Task(graph, np.eye(2), {"y": [1, 2], "z": np.ones((2, 3))}, {"b": 0.0})
    for seed, lead in ((0, ()), (range(4), (4,))):
        found = nr.predict(task, nr.init.gaussian(graph, 1.0, seed=seed))
        assert found["z"].shape == (*lead, 2, 3)
        assert found["y"].shape == (*lead, 2, 1)
        assert not found["z"].any()


@pytest.mark.parametrize("gates", [{"h1": 0.0}, {"x": 0.0}, {"y": [0, 0]}, {"h1": np.zeros((2, 3))}])
@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_a_task_whose_gates_are_all_zero(gates, activation):
    graph = nr.Graph.chain([2, 3, 1], activations={"h1": activation})
    task = nr.Task(graph, np.eye(2), [1.0, 3.0], gates)
    w = nr.init.gaussian(graph, 1.0, seed=range(2))
    one = {n: v[0] for n, v in w.items()}
    assert nr.loss(task, w).tolist() == pytest.approx([2.5, 2.5])
    assert not any(v.any() for v in nr.gradient(task, w).values())
    assert not nr.predict(task, w)["y"].any()
    assert nr.flow(task, one, t1=2.0, save=3).loss == pytest.approx(2.5)
    assert nr.descend(task, one, lr=0.1, steps=3, save=2, batch_size=1).loss == pytest.approx(2.5)
    assert np.isnan(nr.error_rate(task, w)).all()
    assert nr.error_rate(task, w).shape == (2, 1)
    assert not np.any(nr.tangent_kernel(task, one))
    assert float(jax.jit(lambda w: nr.loss(task, w))(one)) == pytest.approx(2.5)


def test_jax_transformations_take_plain_dicts_of_numpy_arrays():
    task = nr.tasks.xor(hidden=2)
    w = {n: np.asarray(v) for n, v in nr.init.gaussian(task.graph, 0.5).items()}
    many = {n: np.stack([v, 2 * v]) for n, v in w.items()}
    loss = lambda w: nr.loss(task, w)  # noqa: E731
    with jax.enable_x64(True):
        close({n: np.asarray(v) for n, v in jax.grad(loss)(w).items()}, nr.gradient(task, w), 1e-13)
        assert float(jax.jit(loss)(w)) == pytest.approx(nr.loss(task, w), rel=1e-13)
        assert np.asarray(jax.vmap(loss)(many)) == pytest.approx(nr.loss(task, many), rel=1e-13)
        assert np.asarray(jax.jit(loss)(many)) == pytest.approx(nr.loss(task, many), rel=1e-13)
        hessian = jax.hessian(loss)(w)
        step = {**w, "x->p0h1": w["x->p0h1"] + 1e-6 * np.eye(2)}
        change = (nr.gradient(task, step)["p0h1->y"] - nr.gradient(task, w)["p0h1->y"]) / 1e-6
        found = np.asarray(hessian["p0h1->y"]["x->p0h1"])[..., [0, 1], [0, 1]].sum(axis=-1)
        assert np.allclose(found, change, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: {**w, "x->h1": w["x->h1"].T}, r"weights\['x->h1'\] must have shape \(3, 2\)"),
        (lambda w: {n: v.astype(int) for n, v in w.items()}, "floats under JAX, got int32"),
        (lambda w: {"x->h1": w["x->h1"]}, "weights lack h1->y"),
        (lambda w: {**w, "q": w["x->h1"]}, "names 'q'"),
        (lambda w: {**w, "x->h1": w["x->h1"][None]}, "same leading axis"),
    ],
)
@pytest.mark.parametrize("function", [nr.loss, nr.gradient, nr.predict])
def test_wrong_weights_are_refused_under_jit(function, change, message):
    task = nr.Task(nr.Graph.chain([2, 3, 1]), np.eye(2), [1, 2])
    w = nr.init.gaussian(task.graph, 1.0)
    with pytest.raises(ValueError, match=message):
        jax.jit(lambda w: function(task, w))(change(w))


def test_unknown_losses_and_tasks_are_refused_under_jit():
    task = nr.tasks.routing(3, 2)
    w = dict(nr.init.gaussian(task.graph, 1.0))
    for function in (nr.loss, nr.gradient):
        with pytest.raises(ValueError, match="loss must be one of"):
            jax.jit(lambda w: function(task, w, "cubic"))(w)
        with pytest.raises(ValueError, match="holds no samples"):
            jax.jit(lambda w: function(task, w, "cross_entropy"))(w)
    with pytest.raises(ValueError, match="holds no samples"):
        jax.jit(lambda w: nr.predict(task, w))(w)


@few
@given(graphs(inputs=2, outputs=2, activations=tuple(ACTIVATIONS), biases=True), seeds)
def test_activity_is_that_of_the_forward_pass(graph, seed):
    rng = np.random.default_rng(seed)
    inputs, targets, gates, _ = data(graph, rng, neuron_gates=True)
    w = random_weights(graph, rng)
    task = nr.Task(graph, inputs, targets, gates)
    expected = oracles.forward(graph, w, inputs, gates)
    open_ = oracles.forward(graph, w, {x: v[:3] for x, v in inputs.items()}, {})
    for node in graph.nodes:
        close({node: nr.activity(task, w, node)}, {node: expected[node]}, 1e-12)
        shown = nr.activity(task, w, node, {x: v[:3] for x, v in inputs.items()})
        close({node: shown}, {node: open_[node]}, 1e-12)
        again = nr.activity(task, w, node, inputs, gates)
        close({node: again}, {node: nr.activity(task, w, node)}, 1e-13)


def test_activity_has_leading_axes_and_can_be_traced():
    task = nr.tasks.xor(hidden=3)
    many = nr.init.gaussian(task.graph, 1.0, seed=range(2))
    found = nr.activity(task, many, "p1h1")
    assert found.shape == (2, 4, 3)
    assert not found[:, [0, 2, 3]].any()
    one = {n: v[1] for n, v in many.items()}
    assert np.array_equal(nr.activity(task, one, "p1h1"), found[1])
    single = jax.jit(lambda w: nr.activity(task, w, "p1h1"))(one)
    assert single.dtype == jnp.float32
    assert np.allclose(single, found[1], atol=1e-6)
    shown = jax.jit(lambda w: nr.activity(task, w, "y", [[1.0, 2.0]], {"p0h1": 0.0}))(one)
    assert np.allclose(shown, nr.activity(task, one, "y", [[1.0, 2.0]], {"p0h1": 0.0}), atol=1e-5)
    assert np.array_equal(nr.activity(task, one, "y"), nr.predict(task, one)["y"])
    made = dict(programs._programs[task])
    nr.activity(task, one, "p2h1")
    assert programs._programs[task] == made


def test_activity_of_tasks_without_a_list_of_samples():
    task = nr.tasks.routing(3, 2, hidden=(4, 4))
    w = nr.init.gaussian(task.graph, 1.0)
    with pytest.raises(ValueError, match=r"inputs must be given.*holds no samples"):
        nr.activity(task, w, "h1")
    x = np.eye(4)[:2]
    assert np.allclose(nr.activity(task, w, "h2", {"x1": x}), x @ w["x1->h1"].T @ w["h1->h2"].T, atol=1e-12)
    base = nr.Task(nr.Graph.chain([2, 3, 2]), np.arange(10.0).reshape(5, 2), np.eye(2)[[0, 1, 0, 1, 1]])
    held = nr.tasks.transformed(base, 2, 1, hidden=(3,), samples=True)
    w = nr.init.gaussian(held.graph, 1.0)
    expected = [base.arrays[0] @ w[f"x{i}->h1"].T for i in range(2)]
    assert np.allclose(nr.activity(held, w, "h1"), np.concatenate(expected), atol=1e-12)
    zeros = np.zeros((5, 2))
    first = np.concatenate([expected[0] @ w["h1->y0"].T, zeros])
    assert np.allclose(nr.activity(held, w, "y0"), first, atol=1e-12)
    with pytest.raises(ValueError, match="gates must come with inputs"):
        nr.activity(held, w, "h1", gates={"h1": 0.0})
    with pytest.raises(ValueError, match="'q', which is no node"):
        nr.activity(held, w, "q")


def test_neurons_joined_by_a_diagonal_edge_share_no_conserved_quantity():
    rng = np.random.default_rng(0)
    graph = nr.Graph({"x": 3, "a": 3, "y": 2}, {"d": nr.Edge("x", "a", diagonal=True), "o": ("a", "y")})
    task = nr.Task(graph, rng.normal(size=(20, 3)), rng.normal(size=(20, 2)))
    path = nr.flow(task, nr.init.gaussian(graph, 1.0, seed=1), t1=3.0, save=5)
    law = nr.conserved(task, path.weights)["a"]
    assert law.shape == (5, 3, 3)
    assert np.abs(law - law[:1]).max() < 1e-7
    assert not law[:, ~np.eye(3, dtype=bool)].any()
    assert law[:, np.eye(3, dtype=bool)].all()


def numpy_is_jax(task, mode, rng):
    made, flat = program(task, "squared", mode), task.graph.flatten(random_weights(task.graph, rng))
    loss, gradient = loss_and_gradient(made.stack, flat, made.data)
    with jax.enable_x64(True):
        expected = jax.jit(jax.value_and_grad(made.stack.loss))(jnp.asarray(flat), made.on_device)
    assert loss == pytest.approx(float(expected[0]))
    assert made.stack.loss(flat, made.data) == pytest.approx(loss)
    assert np.abs(gradient - np.asarray(expected[1])).max() < 1e-12 * max(np.abs(gradient).max(), 1)
    several = np.stack([flat, 0.5 * flat, 2 * flat])  # leading axes
    alone = [loss_and_gradient(made.stack, v, made.data) for v in several]
    together = loss_and_gradient(made.stack, several, made.data)
    assert np.allclose(together[0], [v for v, _ in alone], rtol=1e-12)
    assert np.allclose(together[1], [v for _, v in alone], rtol=1e-10, atol=1e-12 * np.abs(together[1]).max())
    assert np.allclose(made.stack.loss(several, made.data), together[0], rtol=1e-10)


@few
@given(
    graphs(biases=True), seeds, st.booleans(), st.sampled_from((12, 60)),
    st.sampled_from(("moments", "samples", "merged")),
)  # fmt: skip
def test_loss_and_gradient_in_numpy_are_those_of_jax(graph, seed, neuron_gates, n, mode):
    rng = np.random.default_rng(seed)
    inputs, targets, gates, sizes = data(graph, rng, n, neuron_gates=neuron_gates)
    numpy_is_jax(nr.Task(graph, inputs, targets, gates, sizes), mode, rng)


@pytest.mark.parametrize("make", [nr.tasks.xor, lambda: nr.tasks.routing(5, 3)])
def test_diagonal_edges_in_numpy_are_those_of_jax(make):
    small = nr.reduce(make()).family.small
    assert small.graph.diagonal
    numpy_is_jax(small, "moments", np.random.default_rng(0))


def test_sums_into_many_places_are_those_into_few():
    rng = np.random.default_rng(0)
    values, index = rng.standard_normal((700, 3)), rng.integers(0, 401, 700).astype(np.int32)
    expected = np.zeros((401, 3))
    np.add.at(expected, index, values)
    for lead in ((), (2,)):  # 400 only pads
        found = summed(np.broadcast_to(values, (*lead, 700, 3)), index, 400, axis=-2)
        np.testing.assert_allclose(found, np.broadcast_to(expected[:400], (*lead, 400, 3)), atol=1e-14)
