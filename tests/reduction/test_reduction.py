from itertools import pairwise

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import neuralrace as nr
from neuralrace.reduction.basis import Links
from tests.strategies import data, graphs, seeds

B1, B2, B3, S, D = sp.symbols("B1 B2 B3 S D")
few = settings(max_examples=4)  # each compiles several programs


def same(equation, expected):
    return sp.simplify(equation.rhs - expected) == 0


@pytest.mark.parametrize(("domains", "trained"), [(2, 1), (3, 3), (5, 2), (7, 4)])
def test_routing_gives_the_printed_equations(domains, trained):
    """neural_race Eq. 13-14 and 44-46."""
    task = nr.tasks.routing(domains, trained, hidden=(6, 6))
    r = nr.reduce(task)
    assert r.basis == "shared"
    assert r.residual < 1e-12
    error = S - B2 * B1**2 * D
    first, second = r.equations()
    assert same(first, B2 * B1 * error / domains)
    assert same(second, B1**2 * error)
    (law,) = r.conserved()
    assert sp.simplify(law / (domains * B1**2 - B2**2)).is_number

    start = {e: 0.1 if e.startswith("x") else 0.2 for e in task.graph.edges}
    three = nr.reduce(task, ties=start)
    error = S - B3 * B2 * B1 * D
    expected = (B3 * B2 * error / domains, B3 * B1 * error, B2 * B1 * error / domains)
    assert three.n_classes == 3
    assert all(same(e, x) for e, x in zip(three.equations(), expected, strict=True))


def test_ratio_of_layers_tends_to_root_m():
    """neural_race Eq. 51, in the limit of small starts."""
    r = nr.reduce(nr.tasks.routing(7, 4, hidden=(6, 6)))
    gaps = []
    for strength in (0.3, 0.1, 0.03, 0.01):
        b = r.solve(strengths=strength, t1=30 / strength).strengths[-1, 0]
        gaps.append(np.sqrt(7) - b[1] / b[0])
    assert np.all(np.diff(gaps) < 0)
    assert 0 < gaps[-1] < 1e-3


@pytest.mark.parametrize(("domains", "group"), [(4, 1), (4, 2), (4, 4), (6, 2), (6, 3)])
def test_sharing(domains, group):
    """neural_race Eq. 16-17 and 56."""
    r = nr.reduce(nr.tasks.sharing(domains, group, hidden=(5, 5)))
    p = group**2
    assert r.exact
    if p == 1:  # all layers move alike and stay equal
        (only,) = r.equations()
        assert same(only, B1**2 * (S - B1**3 * D) / domains**2)
        return
    error = S - B2 * B1**2 * D
    first, second = r.equations()
    assert same(first, sp.sqrt(p) / domains**2 * B2 * B1 * error)
    assert same(second, sp.Rational(p, domains**2) * B1**2 * error)
    b = r.solve(strengths=0.01, t1=1e4 * domains**2 / p).strengths[-1, 0]
    assert b[1] / b[0] == pytest.approx(p**0.25, rel=1e-3)


def test_the_shared_pathway_wins_the_race():
    """neural_race section 4.2: shared and dedicated pathways in one network, all of them open."""
    domains = 3
    plain = nr.tasks.routing(domains, domains, items=2, hidden=(4, 4))
    nodes, edges = dict(plain.graph.nodes), list(plain.graph.edges.values())
    for i in range(domains):
        for j in range(domains):
            row = [f"x{i}", f"d{i}.{j}h1", f"d{i}.{j}h2", f"y{j}"]
            nodes |= {row[1]: 4, row[2]: 4}
            edges += pairwise(row)
    graph = nr.Graph(nodes, edges)
    moments = []
    for c in plain.moment_contexts:
        (x, rows), (y, target) = *c.inputs.items(), *c.targets.items()
        moments.append({"sxx": {x: rows.T @ rows}, "syx": {(y, x): target.T @ rows}})
    r = nr.reduce(nr.Task.from_moments(graph, moments))
    assert r.exact
    sol = r.solve(strengths=0.05, t1=1000.0)
    end = {members: sol.strengths[-1, 0, k] for k, members in enumerate(r.classes)}
    shared = next(v for members, v in end.items() if "h1->h2" in members)
    dedicated = next(v for members, v in end.items() if "d0.0h1->d0.0h2" in members)
    assert shared > 10 * dedicated


def test_xor_is_a_logistic():
    """neural_race Eq. 18-23."""
    r = nr.reduce(nr.tasks.xor(hidden=5))
    assert r.basis == "pathwise"
    assert r.exact
    assert r.n_classes == r.n_modes == 1
    s, d = np.sqrt(2) / 4, 2 / 4
    a0 = 1e-3
    sol = r.solve(strengths=np.sqrt(a0), t1=40.0)
    a = (s / d) / (1 - (1 - s / (d * a0)) * np.exp(-2 * s * sol.t))
    assert np.abs(sol.strengths[:, 0, 0] ** 2 - a).max() < 1e-7
    assert np.abs(sol.loss - (0.5 - np.sqrt(2) * a + a**2)).max() < 1e-7
    outputs = sol.predict()["y"]
    assert outputs.shape == (200, 4, 1)
    assert np.abs(outputs[-1] - r.task.arrays[1]).max() < 1e-3
    (equation,) = r.equations(mode=0)
    b = sp.Symbol("B1")
    assert float(equation.rhs.subs(b, 0.3)) == pytest.approx(0.3 * (s - d * 0.09))


def orthonormal(rng, n, k):
    return np.linalg.qr(rng.normal(size=(n, k)))[0]


def diagonalisable(graph, rng, modes, degenerate=False):
    """Random gates on data with hidden shared frames; sizes are at least the number of modes."""
    frames = {n: orthonormal(rng, graph.nodes[n], modes) for n in (*graph.inputs, *graph.outputs)}
    gates = {
        n: rng.choice([-1, 1], 4) * rng.uniform(0.5, 1.5, 4) * (rng.random(4) < 0.8)
        for n in (*graph.nodes, *graph.edges)
        if rng.random() < 0.5
    }
    inputs, targets = {}, {}
    for n, f in frames.items():
        size = rng.uniform(0.5, 1.5, (4, 1 if degenerate else modes, 1)) * np.ones((1, modes, 1))
        rows = (size * f.T).reshape(4 * modes, -1)
        (inputs if n in graph.inputs else targets)[n] = rows
    return nr.Task(graph, inputs, targets, {n: np.repeat(v, modes) for n, v in gates.items()})


def grown(graph, modes):
    return graph.resized({n: s + modes for n, s in graph.nodes.items()})


def reduced(task, basis, **rates):
    """The reduction, of tasks with an open path; other draws are left out."""
    try:
        return nr.reduce(task, basis, **rates)
    except nr.errors.NothingToReduceError:
        assert not any(task.syx(p).any() for p in task.graph.paths())
        reject()


TIGHT = nr.Adaptive(1e-11, 1e-13)  # flows may drift apart a hundred thousandfold until errors are seen


def full_flow_agrees(task, r, t1=3.0):
    rng = np.random.default_rng(0)
    b = {e: 0.4 * rng.uniform(0.5, 1, s) for e, s in r.family.shape.items()}
    sol = r.solve(strengths=b, t1=t1, save=7, method=TIGHT)
    true = nr.flow(task, r.lift(b), t1=t1, save=7, method=TIGHT)
    lifted = sol.weights
    scale = 1 + max(np.abs(v).max() for v in true.weights.values())
    assert max(np.abs(lifted[e] - true.weights[e]).max() for e in lifted) < 1e-6 * scale
    assert np.abs(sol.loss - true.loss).max() < 1e-6 * (1 + true.loss.max())
    assert sol.residual < 1e-8


@few
@given(graphs(inputs=3, outputs=2, depth=4), seeds, st.booleans())
def test_diagonalisable_data_reduce_exactly(graph, seed, degenerate):
    rng = np.random.default_rng(seed)
    task = diagonalisable(grown(graph, 2), rng, 2, degenerate)
    r = reduced(task, "shared")
    assert r.residual < 1e-10
    full_flow_agrees(task, r)
    strengths = r.solve(strengths=0.3, t1=3.0, save=7, method=TIGHT)
    decoupled = nr.flow(task, nr.init.decoupled(r, 0.3), t1=3.0, save=7, method=TIGHT)
    assert np.abs(strengths.loss - decoupled.loss).max() < 1e-6 * (1 + decoupled.loss.max())


@few
@given(graphs(inputs=2, outputs=2, depth=3), seeds)
def test_other_data_are_found_out_and_blocks_are_exact(graph, seed):
    rng = np.random.default_rng(seed)
    graph = grown(graph, 2)
    inputs, targets, gates, weights = data(graph, rng, n=40)
    gates[next(iter(graph.edges))] = np.ones(40)
    task = nr.Task(graph, inputs, targets, gates, weights)
    r = reduced(task, "shared")
    assert r.residual > 1e-3
    assert not r.exact
    assert "NOT exact" in repr(r)
    assert "broken by" in repr(r)
    block = nr.reduce(task, basis="block")
    assert block.residual < 1e-10
    full_flow_agrees(task, block)


def cross_correlated():
    """Two inputs with cross-correlation, two outputs, a skip connection, unequal hidden sizes."""
    rng = np.random.default_rng(0)
    graph = nr.Graph(
        {"a": 4, "b": 3, "h": 8, "k": 5, "y": 6, "z": 3},
        [("a", "h"), ("b", "h"), ("h", "k"), ("k", "y"), ("h", "z"), ("b", "y")],
    )
    f = {n: orthonormal(rng, graph.nodes[n], 3) for n in "abyz"}
    mean = lambda p, q, d: f[p] @ np.diag(d) @ f[q].T  # noqa: E731
    return nr.Task.from_moments(
        graph,
        [
            {
                "sxx": {
                    ("a", "a"): mean("a", "a", [1, 0.8, 0.6]),
                    ("b", "b"): mean("b", "b", [0.9, 0.7, 0.5]),
                    ("a", "b"): mean("a", "b", [0.5, 0.3, -0.2]),
                },
                "syx": {
                    ("y", "a"): mean("y", "a", [0.9, 0.5, 0.2]),
                    ("y", "b"): mean("y", "b", [0.4, 0.3, 0.1]),
                    ("z", "a"): mean("z", "a", [0.7, 0.2, 0.3]),
                    ("z", "b"): mean("z", "b", [0.2, 0.4, 0.1]),
                },
            }
        ],
    )


def test_two_inputs_two_outputs_and_a_skip():
    task = cross_correlated()
    r = nr.reduce(task)
    assert r.basis == "shared"
    assert r.residual < 1e-10
    assert r.n_modes == 3
    assert r.n_classes == 5  # h->k and k->y start equal and stay so
    assert ("h->k", "k->y") in r.classes
    full_flow_agrees(task, r, t1=20.0)


def test_degenerate_modes_do_not_spoil_the_reduction():
    rng = np.random.default_rng(0)
    reference = None
    for _ in range(5):
        turn = orthonormal(rng, 8, 8)  # another basis of the inputs each time
        y = nr.tasks.structured.tree_features(4)
        task = nr.Task(nr.Graph.chain([8, 20, 15]), turn, y)
        r = nr.reduce(task, seed=int(rng.integers(1000)))
        assert r.basis == "shared"
        assert r.residual < 1e-12
        assert r.n_modes == 8
        assert r.n_classes == 1
        loss = r.solve(strengths=0.05, t1=100.0).loss
        reference = loss if reference is None else reference
        assert np.abs(loss - reference).max() < 1e-8
        full_flow_agrees(task, r)


def test_narrow_hidden_layers_learn_the_strongest_modes():
    task = nr.tasks.hierarchy(4, graph=nr.Graph.chain([8, 3, 15]))
    r = nr.reduce(task)
    assert r.exact
    assert r.omitted_modes == 5
    assert "5 modes left out" in repr(r)
    end = r.solve(strengths=0.1, t1=300.0)
    best = nr.flow(task, nr.init.gaussian(task.graph, 0.1, seed=0), t1=3000.0)
    assert end.loss[-1] == pytest.approx(best.loss[-1], rel=1e-3)


def test_conserved_along_the_solution():
    r = nr.reduce(cross_correlated())
    sol = r.solve(strengths=0.2, t1=20.0)
    values = {sp.Symbol(f"B{k + 1}"): sol.strengths[..., k] for k in range(r.n_classes)}
    assert len(r.conserved()) == 1
    for law in r.conserved():
        along = sp.lambdify(list(values), law, "numpy")(*values.values())
        assert np.abs(along - along[0]).max() < 1e-8


def test_project_and_lift():
    r = nr.reduce(nr.tasks.routing(3, 2, hidden=(6, 5)))
    rng = np.random.default_rng(0)
    b = {e: rng.normal(size=(2, *s)) for e, s in r.family.shape.items()}
    w = r.lift(b)
    assert w["h1->h2"].shape == (2, 5, 6)
    back = r.project(w)
    assert all(np.allclose(back[e], b[e], atol=1e-12) for e in b)
    assert r.distance(w) < 1e-12
    assert r.distance(nr.init.gaussian(r.task.graph, 1.0)) > 0.5
    many = r.solve(strengths=b, t1=5.0, save=6)
    assert many.loss.shape == (2, 6)
    one = r.solve(strengths={e: v[1] for e, v in b.items()}, t1=5.0, save=6)
    assert np.allclose(many.loss[1], one.loss, atol=1e-8)


def half_time_errors(task, std, seeds, t1):
    r = nr.reduce(task)
    w = nr.init.gaussian(task.graph, std, seed=seeds)
    start = nr.loss(task, {e: np.zeros_like(v[0]) for e, v in w.items()})
    sim = nr.learning_time(nr.flow(task, w, t1=t1, save=2000), start / 2)
    theory = nr.learning_time(r.solve(strengths=r.strengths(w), t1=t1, save=2000), start / 2)
    return np.abs(theory - sim) / sim


def test_random_starts_of_two_layers_without_a_free_constant():
    errors = half_time_errors(nr.tasks.hierarchy(4), 1e-3, range(20), 60.0)
    assert np.median(errors) < 0.01


def test_learning_time_of_a_solution():
    r = nr.reduce(nr.tasks.xor(hidden=5))
    sol = r.solve(strengths=0.03, t1=60.0, save=2000)
    t = nr.learning_time(sol, 0.2)
    assert np.interp(t, sol.t, sol.loss) == pytest.approx(0.2, abs=1e-4)


R = nr.reduce(nr.tasks.routing(2, 1, hidden=(4, 4)))
OK = {e: np.full(4, 0.1) for e in R.task.graph.edges}
RELU = nr.tasks.xor(graph=nr.Graph.chain([2, 4, 1], activations={"h1": "relu"}))


def test_paths_that_break_a_reduction_are_named():
    """The gate shows the second path samples whose targets are turned; the first one sees them all."""
    x = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [1, 1], [1, -1.0]])
    y = np.vstack([x[:4] * [3, 1], x[4:, ::-1] * [1, 3]])
    graph = nr.Graph({"x": 2, "h": 5, "k": 5, "y": 2}, [("x", "h"), ("h", "y"), ("x", "k"), ("k", "y")])
    task = nr.Task(graph, x, y, gates={"k": [1, 1, 1, 1, 0, 0]})
    shared = nr.reduce(task, "shared")
    assert not shared.exact
    worst = {}
    for path in graph.paths():
        u, v = shared.family.left[path[-1]], shared.family.right[path[0]]
        turned = u.T @ task.syx(path) @ v
        worst[" ".join(path)] = np.abs(turned - np.diag(np.diagonal(turned))).max()
    assert shared.inexact_paths[0] == max(worst, key=worst.__getitem__)
    assert nr.reduce(task, "pathwise", directions=2).inexact_paths[0] in graph.edges  # its paths are many
    assert nr.reduce(task, "block").inexact_paths == []


NEURON_GATED = nr.Task(nr.Graph.chain([2, 3, 1]), np.eye(2), [[1], [2]], {"h1": [[1, 0, 0], [0, 1, 1]]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nr.reduce(R.task, basis="fourier"), "basis must be one of auto, shared, pathwise, block"),
        (lambda: nr.reduce("task"), "task must be a Task"),
        (lambda: nr.reduce(RELU), "linear graph"),
        (lambda: nr.reduce(NEURON_GATED), "scalar gates"),
        (lambda: nr.reduce(R.task, ties={"q": 1}), "ties names 'q'"),
        (lambda: nr.reduce(R.task, ties={"x0->h1": 1}), "missing"),
        (lambda: R.solve(strengths=np.nan, t1=1.0), "strengths must be finite"),
        (lambda: R.solve(strengths=-1, t1=1.0), "strength"),
        (lambda: R.solve(strengths=0.1, t1=0), "t1 must be greater than 0"),
        (lambda: R.solve(strengths=0.1, t1=-2.0), "t1"),
        (lambda: R.solve(strengths={**OK, "q": 1}, t1=1.0), "'q'"),
        (lambda: R.solve(strengths={"x0->h1": OK["x0->h1"]}, t1=1.0), "must name every edge that learns"),
        (lambda: R.solve(strengths={**OK, "h1->h2": [1, 2]}, t1=1.0), r"shape \(4,\)"),
        (lambda: R.lift({"q": 1}), "'q'"),
        (lambda: R.project({"q": 1}), "'q'"),
        (lambda: R.equations(mode=9), "mode must be between"),
        (
            lambda: nr.reduce(cross_correlated(), basis="block").equations(mode=0),
            "mode must be None for matrices",
        ),
        (lambda: nr.init.decoupled(R, 0), "strength"),
        (lambda: nr.tasks.sharing(6, 4), "group must divide"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_links_are_weighted_sums_over_paths():
    """What is found by walking from node to node against the list of all paths."""
    rng = np.random.default_rng(3)
    graph = nr.Graph(
        {"x0": 2, "x1": 3, "a": 4, "b": 4, "c": 4, "y0": 2, "y1": 3},
        [("x0", "a"), ("x1", "a"), ("a", "b"), ("b", "c"), ("a", "c"), ("x1", "b"), ("c", "y0"), ("b", "y1"),
         ("c", "y1")],
    )  # fmt: skip
    inputs = {"x0": rng.normal(size=(6, 2)), "x1": rng.normal(size=(6, 3))}
    targets = {"y0": rng.normal(size=(6, 2)), "y1": rng.normal(size=(6, 3))}
    gates = {"b": [1, 1, 0, 0, 2, 2], "a->c": [1, 0, 1, 0, 1, 0], "x0": [1, 1, 1, 0, 0, 0]}
    task = nr.Task(graph, inputs, targets, gates)
    links = Links.of(task, frozenset(graph.edges), np.random.default_rng(5))
    rng = np.random.default_rng(5)
    weight = dict(zip(graph.edges, rng.uniform(0.5, 1.5, 9), strict=True))
    of_output = dict(zip(graph.outputs, rng.uniform(0.5, 1.5, 2), strict=True))
    syx, sxx = {}, {}
    for p in graph.paths():
        x, y, wp = graph.edges[p[0]][0], graph.edges[p[-1]][1], np.prod([weight[e] for e in p])
        syx[y, x] = syx.get((y, x), 0) + wp * task.syx(p)
        for q in graph.paths_into(y):
            ends, wq = (x, graph.edges[q[0]][0]), np.prod([weight[e] for e in q])
            sxx[ends] = sxx.get(ends, 0) + of_output[y] * wp * wq * task.sxx(p, q)
    for found, expected in ((links.syx, syx), (links.sxx, sxx)):
        assert found.keys() == expected.keys()
        assert all(np.allclose(found[k], expected[k], atol=1e-12) for k in found)
