"""Reductions around a start, against the full flow."""

from dataclasses import replace

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.lowrank import constants


def both(task, w, t1, error=1e-3):
    """The flow and the reduction at the same times."""
    full = nr.flow(task, w, t1, method=nr.Adaptive())
    return full, nr.reduce(task, weights=w, error=error).solve(t1=t1, save=full.t)


def true_error(full, sol):
    return np.abs(sol.loss - full.loss).max(axis=-1) / full.loss[..., 0]


def three_contexts(width, seed=0):
    """A skip connection that is open in some contexts, data that are not white."""
    rng = np.random.default_rng(seed)
    nodes = {"x": 4, "h1": width, "h2": width, "y": 3}
    graph = nr.Graph(nodes, [("x", "h1"), ("h1", "h2"), ("h2", "y"), ("x", "h2")])
    context = np.repeat([0, 1, 2], 8)
    x = rng.standard_normal((24, 4)) * [2.0, 1.0, 0.5, 1.0]
    y = np.einsum("coi,ci->co", rng.standard_normal((3, 3, 4))[context], x)
    gates = {"x->h2": np.array([1.0, 0.0, 1.0])[context], "h1": np.array([1.0, 1.0, 0.5])[context]}
    return nr.Task(graph, x, y, gates)


def wide_chain(depth=3, width=300):
    return nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, *[width] * (depth - 1), 7]))


@pytest.mark.parametrize("width", [100, 450])
def test_a_chain_of_three_layers_from_random_weights(width):
    """The first trial: theory reached a tenth of the loss at 8.1 where the network needs 11.7."""
    task = wide_chain(3, width)
    w = nr.init.gaussian(task.graph, std=0.5 / np.sqrt(width), seed=1)
    full, sol = both(task, w, 60.0)
    assert sol.settings["method"] == ("Adaptive" if width == 100 else "LowRank")
    for share in (0.5, 0.1):
        level = share * full.loss[0]
        assert nr.learning_time(sol, level) == pytest.approx(nr.learning_time(full, level), rel=1e-2)
    assert true_error(full, sol) < sol.stats["error"] < 1e-3


@pytest.mark.parametrize("width", [20, 100])
@pytest.mark.parametrize("gain", [0.1, 0.5, 1.0])
def test_a_skip_connection_and_three_contexts(width, gain):
    """The second trial: theory ended at a loss of 5.24 where the network has 3.74."""
    task = three_contexts(width)
    w = nr.init.xavier(task.graph, gain, seed=2)
    full, sol = both(task, w, 60.0)
    level = (full.loss[0] + full.loss[-1]) / 2
    assert nr.learning_time(sol, level) == pytest.approx(nr.learning_time(full, level), rel=1e-2)
    assert sol.loss[-1] == pytest.approx(full.loss[-1], rel=1e-2)
    assert true_error(full, sol) < sol.stats["error"] < 1e-3


def test_gates_and_skips_between_wide_layers():
    task = three_contexts(500)
    w = nr.init.xavier(task.graph, 0.5, seed=2)
    full, sol = both(task, w, 3.0)
    assert sol.settings["method"] == "LowRank"
    assert true_error(full, sol) < sol.stats["error"] < 1e-3


@pytest.mark.parametrize("depth", [3, 5])
def test_weights_are_those_of_the_flow(depth):
    task = wide_chain(depth, 450)
    w = nr.init.xavier(task.graph, 0.7, seed=3)
    full = nr.flow(task, w, 5.0, 5, method=nr.Adaptive())
    sol = nr.reduce(task, weights=w, error=1e-4).solve(t1=5.0, save=5)
    for e, v in full.weights.items():
        moved = np.linalg.norm(v[-1] - v[0])
        assert np.abs(sol.weights[e][0] - w[e]).max() < 1e-12
        assert np.linalg.norm(sol.weights[e][-1] - v[-1]) < 1e-2 * moved


def test_smaller_errors_are_met():
    task = wide_chain(3, 450)
    w = nr.init.xavier(task.graph, 0.7, seed=4)
    full = nr.flow(task, w, 10.0, 50, method=nr.Adaptive())
    errors = []
    for error in (1e-2, 1e-4, 1e-6):
        sol = nr.reduce(task, weights=w, error=error).solve(t1=10.0, save=50)
        assert true_error(full, sol) < sol.stats["error"] <= error
        errors.append(true_error(full, sol))
    assert errors[0] > errors[1] > errors[2]


def test_an_error_that_is_missed_is_said(monkeypatch):
    monkeypatch.setattr(constants, "MAX_SOLUTIONS", 1)
    factor, power = constants.STEP["loss"]
    monkeypatch.setitem(constants.STEP, "loss", (100 * factor, power))
    monkeypatch.setitem(constants.RESIDUAL, "loss", 100 * constants.RESIDUAL["loss"])
    task = wide_chain(4, 400)
    w = nr.init.xavier(task.graph, 0.7, seed=1)
    sol = nr.reduce(task, weights=w, error=1e-5).solve(t1=10.0, save=20)
    assert sol.status is nr.Status.MISSED_ERROR
    assert sol.outcome.startswith("missed error")
    full = nr.flow(task, w, 10.0, 20, method=nr.Adaptive())
    assert true_error(full, sol) < sol.stats["error"]


def test_several_starts_at_once():
    task = three_contexts(30)
    w = nr.init.xavier(task.graph, 0.5, seed=range(3))
    full = nr.flow(task, w, 10.0, 30, method=nr.Adaptive())
    sol = nr.reduce(task, weights=w).solve(t1=10.0, save=30, runs={"seed": range(3)})
    assert sol.loss.shape == (3, 30)
    assert (true_error(full, sol) < sol.stats["error"]).all()
    assert sol[1].loss.shape == (30,)
    assert sol[1].runs["seed"] == 1


def test_several_wide_starts_that_stop_at_a_level():
    task = three_contexts(130)
    w = nr.init.xavier(task.graph, 0.5, seed=range(2))
    level = 0.6 * nr.loss(task, w).min()
    full = nr.flow(task, w, 3.0, 20, method=nr.Adaptive(), stop_loss=level)
    sol = nr.reduce(task, weights=w).solve(t1=3.0, save=20, stop_loss=level, runs={"seed": range(2)})
    assert sol.settings["method"] == "LowRank"
    assert sol.statuses == full.statuses == (nr.Status.REACHED_LOSS,) * 2
    assert sol.end == pytest.approx(full.end, rel=1e-3)
    assert (sol.t == full.t).all()
    assert (true_error(full, sol) < sol.stats["error"]).all()
    assert sol[1].runs["seed"] == 1
    assert sol[1].weights["h1->h2"] == pytest.approx(full.weights["h1->h2"][1], abs=1e-3)


def test_the_same_call_gives_the_same_numbers():
    task = wide_chain(3, 150)
    w = nr.init.xavier(task.graph, 0.5, seed=1)
    first, second = (nr.reduce(task, weights=w).solve(t1=8.0, save=[0.5, 3.0]) for _ in range(2))
    assert first.settings == second.settings
    assert np.array_equal(first.loss, second.loss)


@pytest.mark.parametrize("sizes", [(1, 150, 250, 3), (2, 200, 200, 1)])
def test_orthogonal_starts_whose_bases_close(sizes):
    """What the initial weights bring to closed bases is rounding, which must not be taken for directions."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((30, sizes[0]))
    task = nr.Task(nr.Graph.chain(sizes), x, x @ rng.standard_normal((sizes[0], sizes[-1])))
    w = nr.init.orthogonal(task.graph, 0.3, seed=1)
    full, sol = both(task, w, 15.0)
    assert sol.settings["method"] == "LowRank"
    assert max(sol.dimensions.values()) <= 2 * (sizes[0] + sizes[-1])
    assert true_error(full, sol) < sol.stats["error"] < 1e-3


@pytest.mark.parametrize("zero", [("x->h1", "h2->y"), ("x->h1", "h1->h2", "h2->y")])
def test_layers_of_zeros(zero):
    """No signal reaches the hidden nodes: there are no bases."""
    task = nr.tasks.hierarchy(4, graph=nr.Graph.chain([8, 200, 200, 15]))
    w = {e: v * (e not in zero) for e, v in nr.init.xavier(task.graph, 0.7, seed=1).items()}
    sol = nr.reduce(task, weights=w).solve(t1=2.0)
    assert np.allclose(sol.loss, nr.loss(task, w), rtol=1e-12)


def test_default_times_and_a_level_to_stop_at():
    task = wide_chain(3, 450)
    w = nr.init.xavier(task.graph, 0.5, seed=1)
    level = 0.3 * nr.loss(task, w)
    full = nr.flow(task, w, 50.0, method=nr.Adaptive(), stop_loss=level)
    sol = nr.reduce(task, weights=w).solve(t1=50.0, stop_loss=level)
    assert sol.status is nr.Status.REACHED_LOSS
    assert sol.end == pytest.approx(full.end, rel=1e-2)
    assert sol.loss[-1] == pytest.approx(level, rel=1e-3)


@pytest.mark.parametrize("width", [60, 450])
def test_learning_rates(width):
    task = wide_chain(3, width)
    w = nr.init.xavier(task.graph, 0.5, seed=1)
    rates = {"x->h1": 2.0, "h2->y": 0.0}
    full = nr.flow(task, w, 10.0, 50, rates=nr.Rates(scale=rates), method=nr.Adaptive())
    sol = nr.reduce(task, weights=w, rates=nr.Rates(scale=rates)).solve(t1=10.0, save=50)
    assert true_error(full, sol) < sol.stats["error"] < 1e-3


def test_it_begins_at_its_own_start_only():
    task = three_contexts(20)
    w = nr.init.xavier(task.graph, seed=1)
    r = nr.reduce(task, weights=w)
    assert "hidden neurons" in repr(r)
    again = r.solve(t1=2.0, save=5, weights=w)
    assert np.array_equal(again.loss, r.solve(t1=2.0, save=5).loss)
    assert "estimated error of the loss: " in repr(again)
    assert again.dimensions == {n: task.graph.nodes[n] for n in task.graph.hidden}  # followed as they are
    assert again.residual == 0
    with pytest.raises(ValueError, match="around which"):
        r.solve(t1=2.0, weights=nr.init.xavier(task.graph, seed=2))
    with pytest.raises(ValueError, match="must not be given with weights"):
        nr.reduce(task, "block", weights=w)
    for given in ({"weights": w, "error": 0}, {"error": -3}, {"weights": w, "error": 5}):
        with pytest.raises(ValueError, match="error must be"):
            nr.reduce(task, **given)


def test_flow_chooses_its_method():
    narrow, wide = wide_chain(3, 30), wide_chain(3, 450)
    for task, name in ((narrow, "Adaptive"), (wide, "LowRank")):
        w = nr.init.xavier(task.graph, 0.7)
        run = nr.flow(task, w, 5.0, 20)
        full = nr.flow(task, w, 5.0, 20, method=nr.Adaptive())
        assert run.settings["method"] == name
        assert true_error(full, run) < 1e-6
    decays = nr.flow(wide, nr.init.xavier(wide.graph), 1.0, 2, rates=nr.Rates(decay=0.1))
    assert decays.settings["method"] == "Adaptive"


def test_where_the_first_method_fails_another_one_is_taken(monkeypatch):
    usual = nr.LowRank.solve
    monkeypatch.setattr(nr.LowRank, "solve", lambda self, problem: usual(replace(self, max_steps=3), problem))
    task = wide_chain(3, 450)
    run = nr.flow(task, nr.init.xavier(task.graph, 0.7), 1.0, 3)
    assert run.settings["method"] == "Adaptive"
    assert run.status is nr.Status.FINISHED


def test_mode_strengths_of_an_aligned_network_are_those_of_the_reduction():
    task = nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 12, 12, 7]))
    r = nr.reduce(task)
    sol = r.solve(strengths=0.3, t1=20.0, save=9)
    run = nr.flow(task, nr.init.decoupled(r, 0.3), 20.0, 9)
    found = nr.mode_strengths(run, task)
    for e, b in found.items():
        assert np.allclose(b, sol.source.b[e], atol=1e-5)


def test_modes_that_wait_do_not_take_the_directions_of_learned_ones():
    """Rounding is enough for that, where a middle layer is strong in one mode and weak in others."""
    task = nr.tasks.hierarchy(4, graph=nr.Graph.chain([8, 30, 30, 15]))
    reduction = nr.reduce(task)
    start = nr.init.decoupled(reduction, 0.1)
    expected = reduction.solve(strengths=reduction.strengths(start), t1=20.0, save=20).strengths
    assert np.ptp(expected[-1, :, 0]) > 1  # some are learned, others wait
    found = nr.reduce(task, weights=start).solve(t1=20.0, save=20).strengths
    assert np.abs(found - expected).max() < 1e-3


def test_mode_strengths_from_random_weights_end_where_the_task_says():
    """All layers of a chain carry a learned mode: their product is its strength."""
    task = wide_chain(3, 40)
    w = nr.init.xavier(task.graph, 0.3, seed=range(2))
    run = nr.flow(task, w, 200.0, 4)
    found = nr.mode_strengths(run, task)
    assert found["x->h1"].shape == (2, 4, 4)
    family = nr.reduce(task).family
    x, y = family.right["x->h1"], family.left["h2->y"]
    syx, sxx = task.syx(task.graph.paths()[0]), task.sxx(*task.graph.paths() * 2)
    wanted = np.einsum("ik,ij,jk->k", y, syx, x) / np.einsum("ik,ij,jk->k", x, sxx, x)
    assert np.allclose(np.prod([b[:, -1] for b in found.values()], axis=0), wanted, rtol=0.05)
    sol = nr.reduce(task, weights={e: v[0] for e, v in w.items()}).solve(t1=200.0, save=4)
    assert sol.strengths.shape == (4, 4, 3)
    assert np.allclose(sol.strengths[..., 0], found["x->h1"][0], atol=0.02)


def test_mode_strengths_need_weights():
    task = wide_chain(3, 20)
    run = nr.flow(task, nr.init.xavier(task.graph), 1.0, 2, save_weights=False)
    with pytest.raises(ValueError, match="must have the weights"):
        nr.mode_strengths(run, task)
