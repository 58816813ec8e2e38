"""Reductions of networks with fixed edges."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given

import neuralrace as nr
from tests.graph.test_fixed import residual_network
from tests.reduction.test_equations import check_velocity
from tests.reduction.test_reduction import TIGHT, diagonalisable, few, grown
from tests.strategies import data, graphs, seeds, some_fixed

RNG = np.random.default_rng(0)
X = np.linalg.qr(RNG.standard_normal((20, 4)))[0] * np.sqrt(20)  # white
COLOURED = RNG.standard_normal((20, 4))
MAP = RNG.standard_normal((2, 4))
FIXED = RNG.standard_normal((3, 4))


def adapter(target, fixed=FIXED, hidden=5):
    """A map of rank `hidden` beside a constant one."""
    graph = nr.Graph({"x": 4, "h": hidden, "y": 3}, [("x", "h"), ("h", "y"), nr.Edge("x", "y", fixed=fixed)])
    return nr.Task(graph, X, X @ target.T)


def readout(fixed, hidden):
    """Two learned layers before a constant one."""
    edges = [("x", "a"), ("a", "h"), nr.Edge("h", "y", fixed=fixed)]
    return nr.Task(nr.Graph({"x": 4, "a": 6, "h": hidden, "y": 3}, edges), X, X @ FIXED.T)


def inner(fixed):
    """A constant edge between hidden nodes, beside a learned path."""
    edges = [("x", "h1"), nr.Edge("h1", "h2", fixed=fixed), ("h1", "a"), ("a", "h2"), ("h2", "y")]
    return nr.Task(nr.Graph({"x": 4, "h1": 6, "h2": 6, "a": 5, "y": 3}, edges), COLOURED, COLOURED @ FIXED.T)


U, S, VT = np.linalg.svd(FIXED, full_matrices=False)
ORTHOGONAL = np.linalg.qr(RNG.standard_normal((3, 3)))[0]
GATES = {"a1": np.repeat([1.0, 0.0], 20), "x->h1": np.repeat([1.0, 0.5], 20)}
TASKS = {
    "residual": (nr.Task(residual_network(4), X, X @ MAP.T), "shared"),
    "residual, coloured": (nr.Task(residual_network(2), COLOURED, COLOURED @ MAP.T), "block"),
    "residual, gated": (
        nr.Task(residual_network(2), np.tile(X, (2, 1)), np.concatenate([X @ MAP.T, 2 * X @ MAP.T]), GATES),
        "shared",
    ),
    "adapter": (adapter((U * [4, 3, 2]) @ VT), "shared"),
    "adapter elsewhere": (adapter(RNG.standard_normal((3, 4))), "block"),
    "readout": (readout(ORTHOGONAL, 3), "shared"),
    "any readout": (readout(RNG.standard_normal((3, 5)), 5), "block"),
    "inner identity": (inner(np.eye(6)), "block"),
}


def follows(task, r, rates=None):
    """The solution is the flow."""
    w = nr.init.decoupled(r, 0.2)
    sol = r.solve(0.2, 5.0, 11, method=TIGHT)
    run = nr.flow(task, w, 5.0, 11, method=TIGHT, rates=rates)
    assert set(sol.weights) == set(w) == set(task.graph.shapes)
    assert np.abs(sol.loss - run.loss).max() < 1e-6
    assert max(np.abs(sol.weights[e] - run.weights[e]).max() for e in w) < 1e-6
    assert sol.loss[-1] < 0.7 * sol.loss[0]


@pytest.mark.parametrize("name", TASKS)
def test_reductions_are_the_flow(name):
    task, basis = TASKS[name]
    r = nr.reduce(task)
    assert r.exact
    assert r.basis == basis
    follows(task, r)
    check_velocity(r)
    assert nr.reduce(task, "block").exact


def test_learning_rates_and_frozen_edges_beside_fixed_ones():
    task, _ = TASKS["residual, coloured"]
    rates = nr.Rates(0.01, {"x->a1": 2.0}, frozen=["a2->h2"])
    r = nr.reduce(task, rates=rates)
    follows(task, r, rates)
    assert r.equations()[3].rhs == sp.ZeroMatrix(*r.family.shape["a2->h2"])


@few
@given(graphs(inputs=3, outputs=2, depth=5), seeds)
def test_blocks_are_exact_for_any_data_and_any_fixed_edges(graph, seed):
    rng = np.random.default_rng(seed)
    graph = some_fixed(grown(graph, 2), rng)
    task = nr.Task(graph, *data(graph, rng)) if rng.random() < 0.5 else diagonalisable(graph, rng, 2)
    try:
        found = [nr.reduce(task, basis) for basis in ("shared", "block")]
    except nr.errors.NothingToReduceError:
        return
    assert found[1].exact
    for r in found:
        b = {e: rng.normal(size=s) for e, s in r.family.shape.items()}
        if r.exact:
            assert r.loss(b) == pytest.approx(nr.loss(task, r.lift(b)), rel=1e-7)


def test_the_certificate_sees_what_no_edge_learns():
    """The fixed map to the second output is not in the frames; nothing is learned there."""
    edges = {"a": ("x", "y"), "b": nr.Edge("x", "z", fixed=np.array([[1.0], [2.0]]))}
    graph = nr.Graph({"x": 1, "y": 1, "z": 2}, edges)
    task = nr.Task(graph, [[1.0], [-1.0]], {"y": [[1.0], [-1.0]], "z": [[1.0, 0.0], [0.0, 1.0]]})
    r = nr.reduce(task, "shared")
    assert not r.exact
    assert r.gradient_residual["a"] < 1e-12
    assert nr.reduce(task).basis == "block"


def test_equations_hold_the_constants():
    b1, b2, s, d = sp.symbols("B1 B2 S D")
    task = nr.Task(residual_network(1), X, X @ MAP.T)
    first, second = nr.reduce(task).equations()
    assert sp.simplify(first.rhs - b1 * b2 * (s - b2 * (1 + b1**2) * d)) == 0
    assert sp.simplify(second.rhs - (1 + b1**2) * (s - b2 * (1 + b1**2) * d)) == 0
    blocks = nr.reduce(TASKS["adapter elsewhere"][0])
    assert str(blocks.equations()[0].rhs) == "B2.T*(-(B2*B1 + C)*Sxx + Syx)"
    (constant,) = (v for symbol, v in blocks.statistics().items() if str(symbol) == "C")
    assert np.allclose(np.linalg.svd(constant, compute_uv=False), np.linalg.svd(FIXED, compute_uv=False))
    assert "C" in blocks.latex()
    identity = nr.reduce(TASKS["residual, coloured"][0])  # not written
    assert {str(symbol) for symbol in identity.statistics()} == {"Syx", "Sxx"}


def test_conserved_quantities_leave_out_nodes_with_fixed_edges():
    task, _ = TASKS["residual, coloured"]
    r = nr.reduce(task)
    assert [str(law) for law in r.conserved()] == ["-B1*B1.T + B2.T*B2", "-B3*B3.T + B4.T*B4"]
    sol = r.solve(0.3, 5.0, 9)
    for first, second in (("x->a1", "a1->h1"), ("h1->a2", "a2->h2")):
        b, c = sol.source.b[first], sol.source.b[second]
        law = np.swapaxes(c, 1, 2) @ c - b @ np.swapaxes(b, 1, 2)
        assert np.abs(law - law[0]).max() < 1e-7


@pytest.mark.parametrize("name", ["residual", "residual, coloured", "inner identity"])
def test_reductions_around_weights(name):
    task = TASKS[name][0]
    w = nr.init.gaussian(task.graph, 0.3, seed=0)
    run = nr.flow(task, w, 5.0, 9, method=TIGHT)
    sol = nr.reduce(task, weights=w).solve(5.0, 9)
    assert np.abs(sol.loss - run.loss).max() < sol.stats["error"] * run.loss[0] < 1e-3
    assert sol.strengths.shape[-1] == len(w)
    system = nr.reduce(task).to_jax(weights=w)
    losses, b = system.solve(system.strengths, system.statistics, system.gates, run.t)
    assert np.abs(losses - run.loss).max() < 1e-6
    last = system.lift({e: v[-1] for e, v in b.items()})
    assert all(np.abs(last[e] - v[-1]).max() < 1e-6 for e, v in run.weights.items())


def test_wide_layers_beside_a_skip_are_followed_in_small_bases():
    nodes = {"x": 6, "a": 300, "b": 300, "h": 6, "c": 300, "d": 300, "y": 2}
    pairs = [("x", "a"), ("a", "b"), ("b", "h"), ("h", "c"), ("c", "d"), ("d", "y")]
    graph = nr.Graph(nodes, [*pairs, nr.Edge("x", "h", fixed=np.eye(6))])
    x = np.random.default_rng(1).standard_normal((30, 6))
    task = nr.Task(graph, x, x[:, :2])
    w = nr.init.xavier(graph, 0.5, seed=0)
    sol = nr.reduce(task, weights=w).solve(1.0, 5)
    assert sol.dimensions["a"] < 100
    assert sol.dimensions["h"] == 6
    run = nr.flow(task, w, 1.0, 5, method=nr.LowRank(1e-6))
    assert np.abs(sol.loss - run.loss).max() < 1e-3 * run.loss[0]


def test_strengths_of_weights():
    task, _ = TASKS["residual"]
    r = nr.reduce(task)
    w = nr.init.decoupled(r, 0.3)
    assert all(np.allclose(v, 0.3) for v in r.strengths(w).values())
    run = nr.flow(task, w, 1.0, 3)
    found = nr.mode_strengths(run, task)
    assert set(found) == set(w)
    assert all(np.allclose(found[e][0], 0.3, atol=1e-6) for e in w)
    assert r.off_manifold_fraction(w) < 1e-9


def test_ends_with_fixed_edges():
    reached = nr.reduce(TASKS["adapter"][0]).solve(0.1, 200.0)
    assert reached.status is nr.Status.FINISHED
    assert nr.attainable_loss(TASKS["adapter"][0]).tight is None
    narrow = nr.reduce(readout(RNG.standard_normal((3, 2)), 2)).solve(0.1, 200.0)
    assert narrow.status is nr.Status.UNDECIDED  # the bound takes the readout for free


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: nr.reduce(t, "pathwise"), "graphs without fixed edges"),
        (lambda t: nr.reduce(t, directions=2), "directions must be 1 where edges are fixed"),
        (lambda t: nr.reduce(t).widened(), "widened needs a task without fixed edges"),
        (lambda t: nr.reduce(t).strength(0.1), "strength needs a task without fixed edges"),
        (
            lambda t: nr.reduce(t, ties=dict.fromkeys(t.graph.edges, 1.0)),
            "ties names 'x->y'",
        ),
        (lambda t: nr.reduce(t).lift(dict.fromkeys(t.graph.edges, np.ones(3))), "b names 'x->y'"),
    ],
)
def test_what_fixed_edges_do_not_allow(call, message):
    with pytest.raises(ValueError, match=message):
        call(TASKS["adapter"][0])


def test_races_and_landscapes():
    wide, narrow = adapter((U * [4, 3, 2]) @ VT), adapter((U * [4, 3, 2]) @ VT, hidden=2)
    race = nr.race({"narrow": narrow, "wide": wide}, level=0.01, strength=0.01)
    assert race.winner == "wide"
    r = nr.reduce(wide)
    true = nr.flow(wide, nr.init.decoupled(r, 0.01), 1e3, stop_loss=0.01)
    assert race.times["wide"] == pytest.approx(nr.learning_time(true, 0.01), rel=1e-3)
    w = nr.flow(wide, nr.init.gaussian(wide.graph, 0.1), 1e3, 2).weights
    end = nr.landscape.fixed_points(wide, {e: v[-1:] for e, v in w.items()})
    assert set(end.weights) == set(wide.graph.shapes)


def test_events():
    task, _ = TASKS["adapter"]
    run = nr.flow(task, nr.init.gaussian(task.graph, 0.05), 20.0, 60)
    assert nr.events(run, task)
    x, w = task.arrays[0], run.weights["h->y"] @ run.weights["x->h"]
    size = np.sqrt(np.square(x @ np.swapaxes(w, 1, 2)).sum(axis=(1, 2)) / len(x))
    found = nr.learning_time(run, 0.5, of="h", task=task)
    assert found == pytest.approx(np.interp(0.5 * size[-1], size, run.t), rel=0.02)
