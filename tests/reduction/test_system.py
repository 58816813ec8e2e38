"""The reduced system as pure functions, against the full network, its flow and finite differences."""

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import neuralrace as nr
from neuralrace.reduction.system import Statistics
from tests.strategies import data, graphs, seeds

few = settings(max_examples=3)  # each compiles several programs


def task_with_skip(seed=0, width=3):
    """Two inputs, a skip connection, gates on nodes and edges, samples of unequal weight."""
    rng = np.random.default_rng(seed)
    nodes = {"a": 3, "b": 2, "h": width, "k": width, "y": 2, "z": 2}
    edges = [("a", "h"), ("b", "h"), ("h", "k"), ("k", "y"), ("h", "z"), ("b", "y")]
    which = np.arange(12) % 3
    gates = {"h": [1.0, 0.5, 1.0], "b->y": [1.0, 0.0, 0.3], "k": [0.7, 1.0, 1.0]}
    inputs = {n: rng.normal(size=(12, nodes[n])) for n in "ab"}
    targets = {n: rng.normal(size=(12, 2)) for n in "yz"}
    each = {n: np.array(g)[which] for n, g in gates.items()}
    return nr.Task(nr.Graph(nodes, edges), inputs, targets, each, rng.random(12) + 0.5)


def random_strengths(system, rng, size=0.5):
    return {e: size * rng.normal(size=b.shape) for e, b in system.strengths.items()}


def with_gates(task, gates):
    """The same samples under other gates, `(contexts,)` each: the slow twin of changed arguments."""
    s = task.samples
    context = np.zeros(s.n, int)
    for k, (_, index) in enumerate(s.patterns):
        context[index] = k
    return nr.Task(
        task.graph,
        s.inputs,
        s.targets,
        {n: np.asarray(g)[context] for n, g in gates.items()},
        s.sample_weight,
    )


def lifted_velocity(task, system, strengths):
    return system.project({e: -g for e, g in nr.gradient(task, system.lift(strengths)).items()})


@few
@given(graphs(inputs=3, outputs=3, depth=4), seeds)
def test_loss_and_velocity_are_those_of_the_network_under_any_gates(graph, seed):
    rng = np.random.default_rng(seed)
    task = nr.Task(graph, *data(graph, rng, patterns=3))
    system = nr.reduce(task, "block").to_jax()
    b = random_strengths(system, rng)
    changed = {n: rng.uniform(0, 1.5, v.shape) * (rng.random(v.shape) < 0.8) for n, v in system.gates.items()}
    for gates in (system.gates, changed):
        twin = with_gates(task, gates)
        assert system.loss(b, system.statistics, gates) == pytest.approx(
            nr.loss(twin, system.lift(b)), rel=1e-10
        )
        move = system.velocity(b, system.statistics, gates)
        full = nr.gradient(twin, system.lift(b))
        moved = {e: system.family.left[e] @ v @ system.family.right[e].T for e, v in move.items()}
        for e, v in full.items():  # the whole gradient: nothing of it leaves the system
            assert np.abs(moved[e] + v).max() < 1e-10 * (1 + np.abs(v).max())


def test_closed_inputs_can_be_opened():
    """A context that closes an input keeps its data, which moments leave out."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 2)), rng.normal(size=(12, 1))
    gates = {"x": (np.arange(12) % 2).astype(float), "h1": 0.5 + np.arange(12) % 2}
    task = nr.Task(nr.Graph.chain([2, 3, 1]), x, y, gates)
    system = nr.reduce(task).to_jax()
    b = random_strengths(system, rng)
    for gates in (system.gates, {**system.gates, "x": [0.4, 0.8]}):
        twin = with_gates(task, gates)
        assert system.loss(b, system.statistics, gates) == pytest.approx(nr.loss(twin, system.lift(b)))
    few_samples = nr.Task(task.graph, x[:2], y[:2], {"x": [0.0, 1.0]})
    system = nr.reduce(few_samples, "block").to_jax()
    b = random_strengths(system, rng)
    opened = nr.Task(task.graph, x[:2], y[:2])
    assert system.loss(b, system.statistics, {}) == pytest.approx(nr.loss(opened, system.lift(b)))


def test_outputs_that_a_context_leaves_out_do_not_count():
    moments = [
        {"sxx": {"x": np.eye(2)}, "syx": {("y", "x"): [[1.0, 0.5]]}, "gates": {"h": 0.5}},
        {"sxx": {"x": np.eye(2)}, "syx": {("z", "x"): [[0.2, 0.1]]}, "syy": {"z": 2.0}},
    ]
    graph = nr.Graph({"x": 2, "h": 3, "y": 1, "z": 1}, [("x", "h"), ("h", "y"), ("h", "z")])
    task = nr.Task.from_moments(graph, moments)
    system = nr.reduce(task, "block").to_jax()
    b = random_strengths(system, np.random.default_rng(1))
    assert system.statistics.counts["y"].tolist() == [1.0, 0.0]
    assert system.loss(b, system.statistics, system.gates) == pytest.approx(nr.loss(task, system.lift(b)))


def test_rates_and_decay_are_those_of_the_flow():
    task = task_with_skip()
    rates = nr.Rates(decay={"a->h": 0.3}, scale={"h->k": 2.0})
    system = nr.reduce(task, "block", rates=rates).to_jax()
    b = random_strengths(system, np.random.default_rng(2))
    expected = lifted_velocity(task, system, b)
    expected["a->h"] = expected["a->h"] - 0.3 * b["a->h"]
    expected["h->k"] = 2 * expected["h->k"]
    found = system.velocity(b, system.statistics, system.gates)
    assert all(np.allclose(found[e], v, atol=1e-12) for e, v in expected.items())


@pytest.mark.parametrize("basis", ["shared", "block"])
def test_solution_is_that_of_the_reduction_and_of_the_flow(basis):
    task = nr.tasks.routing(3, 2, hidden=(6, 6))
    r = nr.reduce(task, basis)
    system = r.to_jax(strength=0.1)
    ts = np.linspace(0.0, 60.0, 7)
    losses, b = system.solve(system.strengths, system.statistics, system.gates, ts)
    assert np.abs(losses - r.solve(strengths=0.1, t1=60.0, save=ts).loss).max() < 1e-6
    full = nr.flow(task, system.lift(system.strengths), save=ts)
    assert np.abs(losses - full.loss).max() < 1e-6
    lifted = system.lift({e: v[-1] for e, v in b.items()})
    assert max(np.abs(lifted[e] - w[-1]).max() for e, w in full.weights.items()) < 1e-6


def test_solution_follows_weights_of_any_width_under_other_gates():
    """Each hidden node touches inputs and outputs only, so that few dimensions hold for ever."""
    task = nr.tasks.xor(hidden=50)
    w = nr.init.gaussian(task.graph, 0.1, seed=0)
    system = nr.reduce(task).to_jax(weights=w)
    assert system.strengths["x->p0h1"].shape == (3, 2)
    assert all(np.allclose(v, w[e], atol=1e-14) for e, v in system.lift(system.strengths).items())
    assert all(np.allclose(v, system.strengths[e]) for e, v in system.project(w).items())
    gates = {"p0h1": [1.0, 1.0, 0.0, 0.2], "p1h1": [0.0, 0.3, 1.0, 1.0], "p2h1": 0.5}
    twin = with_gates(task, {n: np.broadcast_to(g, 4) for n, g in gates.items()})
    full = nr.flow(twin, w, 20.0, 5)
    losses, b = system.solve(system.strengths, system.statistics, gates, full.t)
    assert np.abs(losses - full.loss).max() < 1e-6
    lifted = system.lift({e: v[-1] for e, v in b.items()})
    assert max(np.abs(lifted[e] - v[-1]).max() for e, v in full.weights.items()) < 1e-6
    time = system.learning_time(system.strengths, system.statistics, gates, 0.1, 100.0)
    assert time == pytest.approx(nr.learning_time(nr.flow(twin, w, 40.0), 0.1), rel=1e-4)


def test_deeper_networks_keep_as_many_dimensions_as_their_weights_need():
    task = task_with_skip(width=9)
    w = nr.init.xavier(task.graph, 0.5, seed=1)
    system = nr.reduce(task, "block").to_jax(weights=w)
    full = nr.flow(task, w, 5.0, 3)
    losses, _ = system.solve(system.strengths, system.statistics, system.gates, full.t)
    assert np.abs(losses - full.loss).max() < 1e-6


@pytest.mark.parametrize("sizes", [(4, 20, 7), (4, 10, 10, 7)])
def test_weights_whose_outputs_lie_outside_the_targets(sizes):
    task = nr.tasks.hierarchy(3, graph=nr.Graph.chain(sizes))  # targets span 4 of 7 directions
    w = nr.init.gaussian(task.graph, 0.5, seed=4)
    system = nr.reduce(task).to_jax(weights=w)
    assert float(system.loss(system.strengths, system.statistics, system.gates)) == pytest.approx(
        nr.loss(task, w), rel=1e-6
    )
    full = nr.flow(task, w, 5.0, 5)
    losses, _ = system.solve(system.strengths, system.statistics, system.gates, full.t)
    assert np.abs(losses - full.loss).max() < 1e-5


# -- derivatives ---------------------------------------------------------------------------------


def finite_differences(function, tree, step=1e-4):
    """Central differences of a function by every number of a pytree of NumPy arrays."""
    leaves, structure = jax.tree.flatten(tree)
    found = []
    for k, leaf in enumerate(leaves):
        slope = np.zeros(leaf.shape)
        for place in np.ndindex(leaf.shape):
            ends = []
            for sign in (1, -1):
                moved = leaf.copy()
                moved[place] += sign * step
                ends.append(function(jax.tree.unflatten(structure, [*leaves[:k], moved, *leaves[k + 1 :]])))
            slope[place] = (ends[0] - ends[1]) / (2 * step)
        found.append(slope)
    return jax.tree.unflatten(structure, found)


def agree(found, expected, within=1e-4):
    scale = max(np.abs(v).max() for v in jax.tree.leaves(expected))
    off = jax.tree.map(lambda a, b: np.abs(np.asarray(a) - b).max(), found, expected)
    return max(jax.tree.leaves(off)) < within * scale


def test_derivatives_of_a_learning_time_are_finite_differences():
    """By every gate, every strength and every number of the data."""
    task = task_with_skip()
    system = nr.reduce(task, "block").to_jax(weights=nr.init.xavier(task.graph, 0.4, seed=0))
    start = (system.strengths, system.statistics, system.gates)
    level = 0.5 * system.loss(*start) + 0.5 * system.solve(*start, [0.0, 200.0])[0][-1]
    time = lambda given: system.learning_time(*given, level, 200.0)  # noqa: E731
    with jax.enable_x64(True):
        at_level = lambda given, level: system.learning_time(*given, level, 200.0)  # noqa: E731
        value, (slopes, by_level) = jax.jit(jax.value_and_grad(at_level, (0, 1)))(start, level)
    assert float(value) == pytest.approx(time(start), rel=1e-8)
    assert 0 < float(value) < 200
    expected = finite_differences(time, start)
    for part, (found, wanted) in enumerate(zip(slopes, expected, strict=True)):
        assert agree(found, wanted), part
    closer = {e: system.learning_time(*start, level + e, 200.0) for e in (1e-4, -1e-4)}
    assert float(by_level) == pytest.approx((closer[1e-4] - closer[-1e-4]) / 2e-4, rel=1e-4)


def test_derivatives_of_a_solution_are_finite_differences():
    task = nr.tasks.xor(hidden=2)
    system = nr.reduce(task).to_jax(strength=0.2)
    ts = np.array([0.0, 2.0, 5.0])

    def total(given):
        losses, b = system.solve(*given, ts)
        return losses @ np.array([0.5, 1.0, 2.0]) + b["x->p0h1"][1].sum()

    start = (system.strengths, system.statistics, system.gates)
    with jax.enable_x64(True):
        slopes = jax.jit(jax.grad(total))(start)
    assert agree(slopes, finite_differences(total, start))


def test_tasks_of_equal_shape_side_by_side():
    systems = [nr.reduce(task_with_skip(seed), "block").to_jax(strength=0.5) for seed in range(3)]
    statistics = jax.tree.map(lambda *v: np.stack(v), *(s.statistics for s in systems))
    s = systems[0]
    levels = np.array([0.7 * t.loss(t.strengths, t.statistics, t.gates) for t in systems])
    with jax.enable_x64(True):
        one = jax.value_and_grad(lambda d, level: s.learning_time(s.strengths, d, s.gates, level, 100.0))
        times, slopes = jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(statistics, levels))
        alone = jax.jit(one)
        for k, t in enumerate(systems):
            time, slope = jax.tree.map(np.asarray, alone(t.statistics, levels[k]))
            assert times[k] == pytest.approx(time, rel=1e-7)
            assert agree(jax.tree.map(lambda v, k=k: v[k], slopes), slope, 1e-6)
            assert time == pytest.approx(
                t.learning_time(t.strengths, t.statistics, t.gates, levels[k], 100.0)
            )


def test_levels_that_are_never_or_already_reached():
    system = nr.reduce(nr.tasks.xor(hidden=2)).to_jax(strength=0.1)
    time = lambda g, level: system.learning_time(system.strengths, system.statistics, g, level, 30.0)  # noqa: E731
    closed = {**system.gates, "p0h1": np.zeros(4)}
    assert np.isnan(time(closed, 0.1))
    assert time(closed, 0.9) == 0.0
    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(time))
        assert np.isnan(slope(closed, 0.1)["p1h1"]).all()
        assert (slope(closed, 0.9)["p1h1"] == 0).all()
    few_steps = nr.Adaptive(max_steps=3)
    assert np.isnan(system.learning_time(system.strengths, system.statistics, {}, 0.1, 30.0, few_steps))


def test_precision_is_the_callers():
    system = nr.reduce(nr.tasks.xor(hidden=2)).to_jax(strength=0.1)
    time = lambda g: system.learning_time(system.strengths, system.statistics, g, 0.1, 100.0)  # noqa: E731
    single = jax.jit(jax.value_and_grad(time))
    value, slope = single(system.gates)
    assert value.dtype == jnp.float32
    assert slope["p0h1"].dtype == jnp.float32
    with jax.enable_x64(True):
        double, slope_of_double = single(system.gates)
    assert double.dtype == jnp.float64
    assert value == pytest.approx(float(double), rel=1e-4)
    assert agree(slope, jax.tree.map(np.asarray, slope_of_double), 1e-3)
    assert isinstance(time(system.gates), float)


# -- the example ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parents[2] / "examples" / "gates_by_gradient.py"
    spec = importlib.util.spec_from_file_location("gates_by_gradient", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_fastest_gates_of_xor_are_halves(example):
    """Not those of the paper, one sample each, which a ReLU unit keeps."""
    problem = example.xor()
    gates = problem.fastest(problem.random_gates(0), 0.05)
    assert all(p in example.HALVES for p in example.patterns(gates))
    time, paper = (problem.evaluated(g, 0.05)[0] for g in (gates, np.eye(4)))
    assert 0.6 < time / paper < 0.75
    twin = with_gates(problem.task, dict(zip(problem.nodes, gates, strict=True)))
    full = nr.flow(twin, problem.weights, 20.0)
    assert nr.learning_time(full, 0.05 * 0.5) == pytest.approx(time, rel=1e-3)


def test_the_fastest_gates_of_contexts_are_pairs_without_a_common_pathway(example):
    """To 5% of the loss. To half of it, which an always open network can reach, it is the other way round."""
    problem = example.contexts()
    paper, single, pairs = example.CONTEXT_GATES.values()
    (late, slope), (early, slope_early) = (problem.evaluated(paper, share) for share in (0.05, 0.5))
    assert (slope[0] > 0).all()
    assert (slope_early[0] < 0).all()
    assert problem.evaluated(pairs, 0.05)[0] < late < problem.evaluated(single, 0.05)[0]
    assert problem.evaluated(pairs, 0.5)[0] > early > problem.evaluated(np.ones((4, 3)), 0.5)[0]
    found = problem.fastest(problem.random_gates(2), 0.05, steps=30)
    ends = example.patterns(found)
    assert {p for p in ends if sum(p) == 2} == {tuple(p) for p in example.PAIRS}
    assert (1, 1, 1) not in ends
    assert problem.evaluated(found, 0.05)[0] < 0.95 * late


# -- wrong input ---------------------------------------------------------------------------------


def test_wrong_arguments_are_named():
    system = nr.reduce(task_with_skip(), "block").to_jax()
    b, d, g = system.strengths, system.statistics, system.gates
    blocks = {e: v for e, v in b.items() if e != "a->h"}
    wrong = [
        ((blocks, d, g), "strengths must hold every edge; 'a->h'"),
        (({**b, "a->h": b["a->h"][:, :2]}, d, g), r"strengths\['a->h'\] must have shape \(3, 3\)"),
        (({**b, "more": b["a->h"]}, d, g), "strengths names 'more'"),
        ((b, d, {**g, "h": np.ones(2)}), r"gates\['h'\] must be a number or have shape \(3,\)"),
        ((b, d, {"hidden": 1.0}), "gates names 'hidden'"),
        ((b, d, [1.0]), "gates must be a dict"),
        ((b, tuple(d), g), "statistics must be a Statistics"),
        ((b, d._replace(irreducible_loss=1.0), g), "irreducible_loss must have shape"),
        ((b, d._replace(inputs={**d.inputs, "a": d.inputs["a"][:2]}), g), r"statistics.inputs\['a'\]"),
        ((b, d._replace(targets={"y": d.targets["y"]}), g), "statistics.targets must hold every output"),
        ((b, d._replace(counts={**d.counts, "y": np.ones(4)}), g), r"statistics.counts\['y'\]"),
        ((b, d, {**g, "h": [np.nan, 1.0, 1.0]}), "must be finite"),
    ]
    for given_, message in wrong:
        with pytest.raises(nr.errors.InputError, match=message):
            system.loss(*given_)
    with pytest.raises(nr.errors.InputError, match="must have shape"):
        jax.vmap(lambda a: system.loss({**b, "a->h": a}, d, g))(np.ones((4, 2, 2)))
    for ts in ([], [[1.0]], [2.0, 1.0], [-1.0, 1.0], [0.0]):
        with pytest.raises(nr.errors.InputError, match="ts must"):
            system.solve(b, d, g, ts)
    with pytest.raises(nr.errors.InputError, match="level must"):
        system.learning_time(b, d, g, [0.1], 10.0)
    with pytest.raises(nr.errors.InputError, match="t1 must be greater than 0"):
        system.learning_time(b, d, g, 0.1, 0.0)
    with pytest.raises(nr.errors.InputError, match="method must be"):
        system.learning_time(b, d, g, 0.1, 1.0, "fast")
    assert isinstance(d, Statistics)


def test_a_system_has_one_start():
    task = task_with_skip()
    w = nr.init.xavier(task.graph)
    r = nr.reduce(task, "block")
    with pytest.raises(nr.errors.InputError, match="must not both be given"):
        r.to_jax(0.1, weights=w)
    with pytest.raises(nr.errors.InputError, match="single network"):
        r.to_jax(weights={e: np.stack([v, v]) for e, v in w.items()})
    with pytest.raises(nr.errors.InputError, match="strength must be at least 0"):
        r.to_jax(-1.0)
