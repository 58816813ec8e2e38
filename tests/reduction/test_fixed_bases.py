"""Reductions around a start in fixed bases, against the full flow and the full network."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.dynamics.setup import Setup
from neuralrace.reduction import fixed_bases

from .test_start import three_contexts, true_error, wide_chain


def prepared(task, w):
    rest = {"record": None, "save_weights": True, "compress": False}
    return Setup.prepare(task, w, "squared", nr.Rates(), None, np.float64, **rest)


@pytest.mark.parametrize("task", [wide_chain(3, 60), three_contexts(60)], ids=["chain", "gated"])
def test_the_share_that_bases_miss_is_that_of_the_full_network(task):
    """Twin: the full gradient, its part between the bases, and what the rest does to the outputs."""
    start = nr.init.xavier(task.graph, 0.7, seed=1)
    (bases,) = fixed_bases.fixed_bases(prepared(task, start))
    rng, q = np.random.default_rng(0), bases.net.basis
    project = {v: r.T @ r for v, r in q.items()}
    w, small = {}, {}
    for e, (s, t) in task.graph.edges.items():
        change = 0.1 * rng.standard_normal(start[e].shape)
        change = change @ project[s] if s in q else change
        change = project[t] @ change if t in q else change
        w[e] = part = start[e] + change
        part = part @ q[s].T if s in q else part
        small[e] = (q[t] @ part if t in q else part)[None]
    outside = {}
    every = nr.gradient(task, w)
    for e, (s, t) in task.graph.edges.items():
        inside = every[e] @ project[s] if s in q else every[e]
        outside[e] = every[e] - (project[t] @ inside if t in q else inside)

    def speed(direction):
        ends = [nr.predict(task, {e: w[e] + h * direction[e] for e in w})["y"] for h in (1e-4, -1e-4)]
        return np.linalg.norm(ends[0] - ends[1])

    assert 1e-4 < fixed_bases._missed(bases, small) < 1
    assert fixed_bases._missed(bases, small) == pytest.approx(speed(outside) / speed(every), rel=1e-5)


def test_it_is_the_flow_in_numpy_and_compiled():
    task = wide_chain(3, 150)
    w = nr.init.xavier(task.graph, 0.5, seed=1)
    full = nr.flow(task, w, 8.0, [0.5, 3.0], method=nr.Adaptive())
    for _ in range(2):  # the second time it is compiled
        sol = nr.reduce(task, weights=w).solve(t1=8.0, save=[0.5, 3.0])
        assert sol.settings["bases"] == "fixed"
        assert (sol.t == full.t).all()
        assert true_error(full, sol) < sol.stats["error"] < 1e-3
        for e, v in full.weights.items():
            moved = np.linalg.norm(v[-1] - w[e])
            assert np.linalg.norm(sol.weights[e][-1] - v[-1]) < 1e-2 * moved


def test_several_starts_that_stop_at_a_level():
    task = three_contexts(130)
    w = nr.init.xavier(task.graph, 0.5, seed=range(2))
    level = 0.6 * nr.loss(task, w).min()
    full = nr.flow(task, w, 3.0, 20, method=nr.Adaptive(), stop_loss=level)
    sol = nr.reduce(task, weights=w).solve(t1=3.0, save=20, stop_loss=level, runs={"seed": range(2)})
    assert sol.settings["bases"] == "fixed"
    assert sol.statuses == full.statuses == (nr.Status.REACHED_LOSS,) * 2
    assert sol.end == pytest.approx(full.end, rel=1e-3)
    assert (sol.t == full.t).all()
    assert (true_error(full, sol) < sol.stats["error"]).all()
    assert sol[1].runs["seed"] == 1
    assert sol[1].weights["h1->h2"] == pytest.approx(full.weights["h1->h2"][1], abs=1e-3)


def test_an_error_that_fixed_bases_miss_is_met_by_others():
    task = wide_chain(3, 150)
    w = nr.init.xavier(task.graph, 0.3, seed=1)
    setup = prepared(task, w)
    assert fixed_bases.flow_in_fixed_bases(setup, 8.0, 20, 1e-6, None, 1000) is None
    assert fixed_bases.flow_in_fixed_bases(setup, 8.0, 21, 1e-2, None, 3) is None  # too few steps
    sol = nr.reduce(task, weights=w, error=1e-6).solve(t1=8.0, save=20)
    assert "bases" not in sol.settings
    assert sol.stats["error"] < 1e-6


@pytest.mark.parametrize("sizes", [(1, 150, 250, 3), (2, 200, 200, 1)])
def test_orthogonal_starts_whose_bases_close(sizes):
    """What the initial weights bring to closed bases is rounding, which must not be taken for directions."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((30, sizes[0]))
    task = nr.Task(nr.Graph.chain(sizes), x, x @ rng.standard_normal((sizes[0], sizes[-1])))
    w = nr.init.orthogonal(task.graph, 0.3, seed=1)
    for bases in fixed_bases.fixed_bases(prepared(task, w)):
        for q in (*bases.net.basis.values(), *bases.larger.basis.values()):
            assert np.allclose(q @ q.T, np.eye(len(q)), atol=1e-12)
    full = nr.flow(task, w, 15.0, 50, method=nr.Adaptive())
    sol = nr.reduce(task, weights=w).solve(t1=15.0, save=50)
    assert sol.settings["bases"] == "fixed"
    assert true_error(full, sol) < sol.stats["error"] < 1e-5


@pytest.mark.parametrize("zero", [("x->h1", "h2->y"), ("x->h1", "h1->h2", "h2->y")])
def test_layers_of_zeros(zero):
    """No signal reaches the hidden nodes: there are no bases."""
    task = nr.tasks.hierarchy(4, graph=nr.Graph.chain([8, 200, 200, 15]))
    w = {e: v * (e not in zero) for e, v in nr.init.xavier(task.graph, 0.7, seed=1).items()}
    sol = nr.reduce(task, weights=w).solve(t1=2.0)
    assert np.allclose(sol.loss, nr.loss(task, w), rtol=1e-12)
