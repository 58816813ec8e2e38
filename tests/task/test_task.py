import gc
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings

import neuralrace as nr
from tests import oracles
from tests.strategies import data, graphs, random_weights, seeds


@settings(max_examples=40)
@given(graphs(), seeds)
def test_path_statistics_are_means_over_samples(graph, seed):
    rng = np.random.default_rng(seed)
    inputs, targets, gates, weights = data(graph, rng, n=int(rng.integers(3, 60)))
    task = nr.Task(graph, inputs, targets, gates, weights)
    n, p_n = len(weights), weights / weights.sum()

    def is_mean(found, gate, a, b):
        expected, size = np.einsum("n,na,nb->ab", p_n * gate, a, b), np.abs([gate.max(), gate.min()]).max()
        assert np.allclose(found, expected, rtol=0, atol=1e-13 * size * np.abs(a).max() * np.abs(b).max())

    for p in graph.paths()[:4]:
        x, y = inputs[graph.edges[p[0]][0]], targets[graph.edges[p[-1]][1]]
        gp = oracles.path_gate(graph, p, gates, n)
        is_mean(task.syx(p), gp, y, x)
        for j in graph.paths_into(graph.edges[p[-1]][1])[:4]:
            gj = oracles.path_gate(graph, j, gates, n)
            is_mean(task.sxx(j, p), gp * gj, inputs[graph.edges[j[0]][0]], x)


@settings(max_examples=6)
@given(graphs(inputs=3, outputs=2, depth=3), seeds)
def test_batches_and_moments_say_the_same_as_samples(graph, seed):
    rng = np.random.default_rng(seed)
    inputs, targets, gates, weights = data(graph, rng, n=80)
    task = nr.Task(graph, inputs, targets, gates, weights)

    def batches():
        for part in np.array_split(np.arange(80), 7):
            table = lambda values, part=part: {k: v[part] for k, v in values.items()}  # noqa: E731
            yield table(inputs), table(targets), table(gates), weights[part]

    streamed = nr.Task.from_batches(graph, batches())
    assert streamed.n_contexts == task.n_contexts
    given_moments = []
    p_n = weights / weights.sum()
    for pattern, index in task.samples.patterns:
        p = p_n[index]
        mean = lambda a, b, p=p, index=index: np.einsum("n,na,nb->ab", p, a[index], b[index])  # noqa: E731
        given_moments.append(
            {
                "gates": pattern,
                "sxx": {(a, b): mean(inputs[a], inputs[b]) for a in graph.inputs for b in graph.inputs},
                "syx": {(o, a): mean(targets[o], inputs[a]) for o in graph.outputs for a in graph.inputs},
                "syy": {o: np.trace(mean(targets[o], targets[o])) for o in graph.outputs},
            }
        )
    direct = nr.Task.from_moments(graph, given_moments)
    w = random_weights(graph, rng)
    for other in (streamed, direct, streamed.as_samples()):
        assert nr.loss(other, w) == pytest.approx(nr.loss(task, w), rel=1e-10)
        a, b = nr.gradient(other, w), nr.gradient(task, w)
        assert max(np.abs(a[e] - b[e]).max() for e in b) < 1e-9 * (
            1 + max(np.abs(v).max() for v in b.values())
        )


def test_equal_moments_are_stored_once():
    rng = np.random.default_rng(0)
    domains, trained, size = 10, 6, 20
    graph = nr.Graph.routing(domains, size, (4, 4), 3)
    data_of = [rng.normal(size=(200, size)) for _ in range(domains)]

    def batches():
        for half in (slice(0, 100), slice(100, 200)):
            for i in range(domains):
                for j in range(i, i + trained):
                    x = data_of[i][half]
                    yield {f"x{i}": x}, {f"y{j % domains}": x[:, :3] * j}

    task = nr.Task.from_batches(graph, batches())
    assert task.n_contexts == domains * trained
    inputs = {block for c in task.moment_contexts for block in c.input_blocks.values()}
    assert len(inputs) == domains
    assert all(block.shape == (size, size) for block in inputs)


def test_inputs_and_outputs_left_out_are_off():
    graph = nr.Graph(
        {"a": 2, "b": 2, "h": 3, "p": 1, "q": 1}, [("a", "h"), ("b", "h"), ("h", "p"), ("h", "q")]
    )
    rng = np.random.default_rng(0)
    xa, yp = rng.normal(size=(9, 2)), rng.normal(size=(9, 1))
    sparse = nr.Task.from_batches(graph, [({"a": xa}, {"p": yp})])
    zeros = np.zeros(9)
    dense = nr.Task(
        graph, {"a": xa, "b": np.ones((9, 2))}, {"p": yp, "q": zeros[:, None]}, {"b": zeros, "q": zeros}
    )
    moments = {"sxx": {"a": xa.T @ xa / 9}, "syx": {("p", "a"): yp.T @ xa / 9}, "syy": {"p": (yp**2).mean()}}
    given_moments = nr.Task.from_moments(graph, [moments])
    w = random_weights(graph, rng)
    for task in (sparse, given_moments):
        assert nr.loss(task, w) == pytest.approx(nr.loss(dense, w), rel=1e-12)
    halves = [{**moments, "probability": 0.5}] * 2
    assert nr.loss(nr.Task.from_moments(graph, halves), w) == pytest.approx(nr.loss(dense, w), rel=1e-12)


def test_pseudo_samples_know_gates_of_neurons_outputs_that_are_off_and_noise():
    graph = nr.Graph({"x": 2, "h": 3, "y": 2, "z": 1}, [("x", "h"), ("h", "y"), ("h", "z")])
    one = {"sxx": {("x", "x"): np.eye(2)}, "syx": {("y", "x"): [[1.0, 0.5], [0.0, 1.0]]}, "syy": {"y": 5.0}}
    two = {"sxx": {("x", "x"): 2 * np.eye(2)}, "syx": {("z", "x"): [[1.0, -1.0]]}, "probability": 0.3}
    task = nr.Task.from_moments(graph, [{**one, "gates": {"h": [1, 0, 2]}}, two])
    listed = task.as_samples()
    assert listed.n_samples == 2 + 1 + 2  # one row without an input has what no weights remove
    assert set(listed.samples.gates) == {"h", "y", "z"}
    w = nr.init.gaussian(graph, 0.5)
    assert nr.loss(listed, w) == pytest.approx(nr.loss(task, w), rel=1e-12)
    for e, g in nr.gradient(task, w).items():
        np.testing.assert_allclose(nr.gradient(listed, w)[e], g, atol=1e-12)


def test_moments_without_syy_mean_targets_without_noise():
    graph = nr.Graph.chain([2, 3, 1])
    task = nr.Task.from_moments(graph, [{"sxx": np.eye(2), "syx": [[1.0, 0.5]]}])
    w = {"x->h1": [[1.0, 0], [0, 1], [0, 0]], "h1->y": [[1.0, 0.5, 7]]}
    assert nr.loss(task, w) == pytest.approx(0, abs=1e-15)


def test_units_of_inputs_do_not_matter_for_the_rank():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3)) * [1, 1e-7, 1e7]
    y = x @ [[1.0], [1e7], [1e-7]]
    graph = nr.Graph.chain([3, 1])
    w = {"x->y": np.array([[0.3, 2e6, 3e-8]])}
    expected = oracles.sample_gradient(graph, w, {"x": x}, {"y": y}, {})["x->y"]
    assert np.allclose(nr.gradient(nr.Task(graph, x, y), w)["x->y"], expected, rtol=1e-9)


def test_collinear_inputs():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 6))
    y = x @ rng.normal(size=(6, 2)) + 0.1 * rng.normal(size=(50, 2))
    graph = nr.Graph.chain([6, 4, 2])
    task = nr.Task(graph, x, y)
    assert task.moment_contexts[0].rows == 2
    w = random_weights(graph, rng)
    expected = oracles.sample_gradient(graph, w, {"x": x}, {"y": y}, {})
    found = nr.gradient(task, w)
    assert all(np.allclose(found[e], expected[e], atol=1e-10) for e in expected)


def test_streaming_holds_no_samples():
    seen = []

    def batches():
        rng = np.random.default_rng(0)
        for _ in range(30):
            x = rng.normal(size=(1000, 5))
            seen.append(x.nbytes)
            yield x, x[:, :1]

    gc.collect()
    task = nr.Task.from_batches(nr.Graph.chain([5, 3, 1]), batches())
    held = sum(v.nbytes for c in task.moment_contexts for v in (*c.inputs.values(), *c.targets.values()))
    assert held < 500 < sum(seen)


def test_arrays_may_be_used_again():
    rng = np.random.default_rng(0)
    graph = nr.Graph.chain([4, 3, 2])
    x, y, gate, weights = rng.normal(size=(3, 4)), rng.normal(size=(3, 2)), np.ones(3), np.ones(3)
    task = nr.Task(graph, x, y, {"h1": gate}, weights)
    w = random_weights(graph, rng)
    expected = nr.loss(nr.Task(graph, x.copy(), y.copy()), w)

    def batches():
        for k in range(3):
            yield buffer_x, buffer_y
            buffer_x[:], buffer_y[:] = x0[(k + 1) % 3], y0[(k + 1) % 3]

    x0, y0 = x.copy(), y.copy()
    buffer_x, buffer_y = x0[:1].copy(), y0[:1].copy()
    streamed = nr.Task.from_batches(graph, batches())
    for used in (x, y, gate, weights):
        used[:] = 7
    assert nr.loss(task, w) == pytest.approx(expected, rel=1e-14)
    assert nr.loss(streamed, w) == pytest.approx(expected, rel=1e-14)


GRAPH = nr.Graph.chain([2, 3, 1])
X, Y = np.eye(2), np.ones((2, 1))
TWO = nr.Graph({"a": 1, "b": 1, "y": 1}, [("a", "y"), ("b", "y")])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nr.Task("graph", X, Y), "graph must be a Graph"),
        (lambda: nr.Task(GRAPH, {"q": X}, Y), "'q'.*no input node"),
        (lambda: nr.Task(GRAPH, X, {"q": Y}), "'q'.*no output node"),
        (lambda: nr.Task(GRAPH, X, Y, {"q": [1, 1]}), "gates names 'q'.*no node or edge"),
        (lambda: nr.Task(GRAPH, X[:, :1], Y), r"inputs\['x'\] must have shape \(any, 2\), got \(2, 1\)"),
        (lambda: nr.Task(GRAPH, X, np.ones((3, 1))), r"targets\['y'\] must have 2 samples.*got 3"),
        (
            lambda: nr.Task(GRAPH, X, Y, {"h1": [1, 1, 1]}),
            r"gates\['h1'\] must have shape \(2,\) or \(2, 3\)",
        ),
        (lambda: nr.Task(GRAPH, X, Y, {"x->h1": np.ones((2, 3))}), r"gates\['x->h1'\]"),
        (lambda: nr.Task(GRAPH, X, Y, [1, 1]), "gates must be a dict"),
        (lambda: nr.Task(GRAPH, X * np.nan, Y), r"inputs\['x'\] must be finite"),
        (lambda: nr.Task(GRAPH, X, Y * np.inf), r"targets\['y'\] must be finite"),
        (lambda: nr.Task(GRAPH, X, Y, {"h1": [1, np.nan]}), r"gates\['h1'\] must be finite"),
        (lambda: nr.Task(GRAPH, [["a", "b"]], [[1]]), r"inputs\['x'\] must hold real numbers"),
        (lambda: nr.Task(GRAPH, [["1", "2"]], [[1]]), r"inputs\['x'\] must hold real numbers"),
        (lambda: nr.Task(GRAPH, [[1, 2], [3]], Y), r"inputs\['x'\]"),
        (lambda: nr.Task(GRAPH, X * 1j, Y), "real numbers"),
        (lambda: nr.Task(GRAPH, np.zeros((0, 2)), np.zeros((0, 1))), "at least one sample"),
        (lambda: nr.Task(GRAPH, X, Y, sample_weight=[1, -1]), "sample_weight must be non-negative"),
        (lambda: nr.Task(GRAPH, X, Y, sample_weight=[0, 0]), "not all zero"),
        (lambda: nr.Task(GRAPH, X, Y, sample_weight=[1, 1, 1]), r"sample_weight must have shape \(2,\)"),
        (lambda: nr.Task(TWO, X, Y), "inputs must be a dict"),
        (lambda: nr.Task(TWO, {"a": Y}, Y), "'b' is missing"),
        (lambda: nr.Task.from_batches(GRAPH, []), "at least one context"),
        (lambda: nr.Task.from_batches(GRAPH, [X]), r"batches\[0\] must be"),
        (lambda: nr.Task.from_batches(GRAPH, [(X, Y), (X, Y[:1])]), r"batches\[1\].*2 samples"),
        (lambda: nr.Task.from_batches(GRAPH, 3), "batches must be an iterable"),
        (lambda: nr.Task.from_moments(GRAPH, []), "at least one context"),
        (lambda: nr.Task.from_moments(GRAPH, {"sxx": np.eye(2)}), "list of dicts"),
        (lambda: nr.Task.from_moments(GRAPH, [{"sxy": 1}]), "'sxy'.*no key"),
        (lambda: nr.Task.from_moments(GRAPH, [{"sxx": np.eye(3)}]), r"sxx.*shape \(2, 2\)"),
        (lambda: nr.Task.from_moments(GRAPH, [{"sxx": -np.eye(2)}]), "positive semi-definite"),
        (lambda: nr.Task.from_moments(GRAPH, [{"sxx": [[1, 2], [2, 1]]}]), "positive semi-definite"),
        (lambda: nr.Task.from_moments(GRAPH, [{"sxx": [[1, 0.5], [0, 1]]}]), "symmetric"),
        (lambda: nr.Task.from_moments(GRAPH, [{"sxx": np.diag([1, 0]), "syx": [[1, 1]]}]), "do not vary"),
        (lambda: nr.Task.from_moments(GRAPH, [{"sxx": np.eye(2), "syx": [[1, 1]], "syy": 1}]), "at least 2"),
        (lambda: nr.Task.from_moments(GRAPH, [{"sxx": {"q": np.eye(2)}}]), "'q'.*input node"),
        (lambda: nr.Task.from_moments(GRAPH, [{"sxx": np.eye(2), "gates": {"q": 1}}]), "'q'"),
        (lambda: nr.Task.from_moments(GRAPH, [{"sxx": np.eye(2), "probability": -1}]), "probability"),
        (lambda: nr.Task(GRAPH, X, Y).syx(("x->h1",)), "from an input to an output"),
        (lambda: nr.Task(GRAPH, X, Y).syx(("x->h1", "q")), "'q'"),
        (lambda: nr.Task(GRAPH, X, Y, {"h1": np.eye(2, 3)}).syx(("x->h1", "h1->y")), "scalar gates"),
        (lambda: nr.Task.from_moments(GRAPH, [{"sxx": np.eye(2)}]).arrays, "no samples"),
    ],
)
def test_wrong_tasks(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_task_without_samples_refuses_what_needs_them():
    task = nr.tasks.routing(3, 2)
    w = nr.init.gaussian(task.graph, 0.1)
    with pytest.raises(ValueError, match="no samples"):
        nr.predict(task, w)
    with pytest.raises(ValueError, match="no samples"):
        nr.loss(task, w, loss="cross_entropy")
    with pytest.raises(ValueError, match="no samples"):
        nr.descend(task, w, lr=0.1, steps=2, batch_size=2)


def test_one_dimensional_inputs_and_targets_are_one_column():
    graph = nr.Graph.chain([1, 3, 1])
    w = nr.init.gaussian(graph, 1.0)
    flat = nr.Task(graph, [1.0, 2.0, 3.0], [0.0, 1.0, -1.0])
    assert flat.arrays[0].shape == flat.arrays[1].shape == (3, 1)
    assert nr.loss(flat, w) == nr.loss(nr.Task(graph, [[1.0], [2.0], [3.0]], [[0.0], [1.0], [-1.0]]), w)
    assert nr.loss(nr.Task.from_batches(graph, [([1.0, 2.0, 3.0], [0.0, 1.0, -1.0])]), w) == nr.loss(flat, w)
    with pytest.raises(ValueError, match=r"inputs\['x'\] must have shape \(any, 2\), got \(2,\)"):
        nr.Task(GRAPH, [1.0, 2.0], Y)


def test_masked_entries_are_refused():
    masked = np.ma.masked_array(X, [[0, 1], [0, 0]])
    for make in (
        lambda: nr.Task(GRAPH, masked, Y),
        lambda: nr.Task(GRAPH, list(masked), Y),
        lambda: nr.Task(GRAPH, X, np.ma.masked_array(Y, [[1], [0]])),
        lambda: nr.Task(GRAPH, X, Y, sample_weight=np.ma.masked_array([1.0, 2.0], [0, 1])),
        lambda: nr.Task(GRAPH, X, Y, {"h1": np.ma.masked_array([1.0, 2.0], [0, 1])}),
    ):
        with pytest.raises(ValueError, match="must have no masked entries"):
            make()
    assert nr.Task(GRAPH, np.ma.masked_array(X), Y).n_samples == 2


def test_sample_weights_may_be_huge():
    w = nr.init.gaussian(GRAPH, 1.0)
    expected = nr.loss(nr.Task(GRAPH, X, [1, 2], sample_weight=[1.0, 1.0]), w)
    huge = nr.Task(GRAPH, X, [1, 2], sample_weight=[1.5e308, 1.5e308])
    assert nr.loss(huge, w) == pytest.approx(expected, rel=1e-14)
    relu = huge.on(nr.Graph.chain([2, 3, 1], activations={"h1": "relu"}))
    assert nr.loss(relu, w) > 0
    with pytest.raises(ValueError, match=r"batches\[1\]: sample_weight must have a finite sum"):
        nr.Task.from_batches(GRAPH, [(X[:1], [1], {}, [1.5e308])] * 2)


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e-6])
def test_moments_are_checked_in_the_units_of_each_input(unit):
    units = np.array([1.0, unit])
    for sxx in ([[1, 0], [0, -1]], [[1, 2], [2, 1]], [[1, 0.5], [0, 1]]):
        with pytest.raises(ValueError, match="symmetric and positive semi-definite"):
            nr.Task.from_moments(GRAPH, [{"sxx": np.array(sxx) * np.outer(units, units)}])
    flat = np.ones((2, 2)) * np.outer(units, units)
    with pytest.raises(ValueError, match="do not vary"):
        nr.Task.from_moments(GRAPH, [{"sxx": flat, "syx": np.array([[1.0, 1.1]]) * units}])
    assert nr.Task.from_moments(GRAPH, [{"sxx": flat, "syx": np.array([[1.0, 1.0]]) * units}]).n_contexts == 1


@pytest.mark.parametrize("unit", [1.0, 1e-8, 1e8])
def test_moments_are_checked_in_the_units_of_each_node(unit):
    graph = nr.Graph({"a": 2, "b": 2, "y": 1}, [("a", "y"), ("b", "y")])
    scale, one = unit**2, np.eye(2)
    for b in ([[1, 0], [0, -0.1]], [[1, 0.3], [0, 1]]):
        with pytest.raises(ValueError, match="symmetric and positive semi-definite"):
            nr.Task.from_moments(graph, [{"sxx": {"a": one, "b": scale * np.array(b)}}])
    for cross in (0.5, 1.5):  # of the largest that is possible
        sxx = {"a": one, "b": scale * one, ("a", "b"): cross * unit * one}
        with pytest.raises(ValueError, match="semi-definite") if cross > 1 else nullcontext():
            nr.Task.from_moments(graph, [{"sxx": sxx}])


def test_contexts_of_probability_zero_count_nothing_and_are_checked():
    w = nr.init.gaussian(GRAPH, 1.0)
    good = {"sxx": np.eye(2), "syx": [[1.0, 2.0]], "syy": 6.0}
    both = nr.Task.from_moments(GRAPH, [good, {**good, "probability": 0.0}])
    assert nr.loss(both, w) == pytest.approx(nr.loss(nr.Task.from_moments(GRAPH, [good]), w), rel=1e-14)
    assert all(np.isfinite(v).all() for v in nr.gradient(both, w).values())
    with pytest.raises(ValueError, match="positive semi-definite"):
        nr.Task.from_moments(GRAPH, [{"sxx": -np.eye(2), "probability": 0.0}])


def test_moments_in_arrays_that_are_used_again():
    buffer = np.eye(2)

    def contexts():
        for scale in (1.0, 2.0):
            buffer[:] = scale * np.eye(2)
            yield {"sxx": buffer, "syx": [[1.0, 1.0]]}

    task = nr.Task.from_moments(GRAPH, contexts())
    path = ("x->h1", "h1->y")
    assert np.allclose(task.sxx(path, path), 3 * np.eye(2))


def test_on_keeps_inputs_and_outputs():
    task = nr.Task(GRAPH, X, Y)
    assert task.on(nr.Graph.chain([2, 9, 1])).graph.nodes["h1"] == 9
    with pytest.raises(ValueError, match="keep the size 2 of 'x'"):
        task.on(nr.Graph.chain([4, 3, 1]))
    with pytest.raises(ValueError, match="keep the size 1 of 'y'"):
        task.on(nr.Graph.chain([2, 3, 2]))
    with pytest.raises(ValueError, match="graph must be a Graph"):
        task.on(None)
    with pytest.raises(ValueError, match="gates of their own"):
        nr.Task(GRAPH, X, Y, {"h1": np.eye(2, 3)}).on(nr.Graph.chain([2, 9, 1]))


def test_contexts_share_data_by_reference():
    x = np.arange(6.0).reshape(3, 2)
    inputs, targets = np.concatenate([x, x]), np.arange(6.0)
    task = nr.Task(GRAPH, inputs, targets, {"h1": np.repeat([1.0, 0.5], 3)})
    first, second = task.sample_contexts
    assert first.input_blocks["x"] == second.input_blocks["x"]
    assert first.target_blocks["y"] != second.target_blocks["y"]
    assert np.array_equal(second.inputs["x"], x)
    with pytest.raises(ValueError, match="read-only"):
        second.inputs["x"][0] = 1


def test_tasks_show_themselves():
    html = nr.Task(GRAPH, X, Y, {"h1": [1, 0]})._repr_html_()
    assert "2 samples" in html
    assert "<svg" in html
    assert "h1" in html
    assert "moments" in nr.tasks.routing(3, 2)._repr_html_()
