"""Fixed points of learning: where they are, how unstable, and which of them paths pass."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import landscape


def two_layers(strengths, hidden):
    n = len(strengths)
    rows = np.sqrt(n) * np.eye(n)
    return nr.Task(nr.Graph.chain([n, hidden, n]), rows, rows * strengths)


def factors(strengths, learned, hidden, seed):
    """A critical point by hand: any factors of the map of these modes, in random hidden coordinates."""
    n, rng = len(strengths), np.random.default_rng(seed)
    w1, w2 = np.zeros((hidden, n)), np.zeros((n, hidden))
    for row, k in enumerate(learned):
        w1[row, k], w2[k, row] = 1.0, strengths[k]
    turn = rng.standard_normal((hidden, hidden))
    return {"x->h1": turn @ w1, "h1->y": w2 @ np.linalg.inv(turn)}


def finite_hessian(task, weights, step=1e-4):
    flat = task.graph.flatten(weights)
    slope = [
        task.graph.flatten(nr.gradient(task, task.graph.unflatten(flat + d)))
        - task.graph.flatten(nr.gradient(task, task.graph.unflatten(flat - d)))
        for d in step * np.eye(len(flat))
    ]
    return np.array(slope) / (2 * step)


@pytest.mark.parametrize(("strengths", "hidden"), [((2.0, 1.0), 2), ((1.0, 3.0, 0.5), 4)])
def test_every_subset_of_modes_is_a_fixed_point_with_the_theorys_index(strengths, hidden):
    task = two_layers(strengths, hidden)
    found = landscape.two_layer_saddles(strengths, hidden)
    assert len({s.learned for s in found}) == 2 ** len(strengths)
    for k, saddle in enumerate(found):
        w = factors(strengths, saddle.learned, hidden, seed=k)
        assert max(np.abs(g).max() for g in nr.gradient(task, w).values()) < 1e-10
        assert np.isclose(nr.loss(task, w), saddle.loss)
        values = np.linalg.eigvalsh(finite_hessian(task, w))
        assert (values < -1e-5).sum() == saddle.index
        assert (np.abs(values) < 1e-5).sum() == saddle.flat
        assert landscape.index(task, w, flat=1e-6) == (saddle.index, saddle.flat)


def test_fixed_points_are_found_and_no_others():
    task = two_layers((2.0, 1.0), 3)
    found = landscape.fixed_points(task, nr.init.gaussian(task.graph, 1.0, seed=range(80)))
    assert len(found.norm) == len(found.start) > 40
    gradient = task.graph.flatten(nr.gradient(task, found.weights))
    assert np.linalg.norm(gradient, axis=1).max() < 1e-10
    maps = found.weights["h1->y"] @ found.weights["x->h1"]
    diagonal = np.diagonal(maps, axis1=1, axis2=2)
    assert np.abs(maps - diagonal[:, :, None] * np.eye(2)).max() < 1e-8
    learned = {tuple(np.flatnonzero(row > 1e-8).tolist()) for row in diagonal}
    assert learned == {s.learned for s in landscape.two_layer_saddles((2.0, 1.0), 3)}


def test_a_start_that_goes_nowhere_is_left_out():
    task = two_layers((2.0, 1.0), 3)
    found = landscape.fixed_points(task, nr.init.gaussian(task.graph, 1.0, seed=range(80)), max_steps=1)
    assert len(found.norm) == 0
    assert found.weights["x->h1"].shape == (0, 3, 2)


def test_roots_of_any_field():
    def field(w, _):
        return np.array([1.0, 2.0]) * (w**2 - np.array([1.0, 4.0]))

    found, norm = landscape.roots(field, [[0.5, 1.0], [-3.0, 9.0]])
    assert np.allclose(found, [[1, 2], [-1, 2]])
    assert norm.max() < 1e-11
    assert np.allclose(landscape.jacobian(field, found)[0], np.diag([2, 8]))


def test_wrong_input_is_refused():
    task = two_layers((2.0, 1.0), 3)
    one = nr.init.gaussian(task.graph, 1.0)
    for wrong, message in (
        (lambda: landscape.fixed_points(task, one), "starts must have a leading axis"),
        (
            lambda: landscape.fixed_points(task, nr.init.gaussian(task.graph, 1.0, seed=[0]), tol=0),
            "tol must be",
        ),
        (lambda: landscape.index(task, one, flat=-1), "flat must be"),
        (lambda: landscape.two_layer_saddles([1.0, 1.0], 3), "strengths must be positive and all different"),
        (lambda: landscape.two_layer_saddles([1.0, 0.0], 3), "strengths must be positive"),
        (lambda: landscape.two_layer_saddles([2.0, 1.0], 1), "hidden must be at least 2"),
        (
            lambda: landscape.two_layer_saddles(range(1, 27), 30),
            r"strengths must be at most 16, whose 2\^16 subsets are listed; got 26",
        ),
        (lambda: landscape.two_layer_saddles(None, 3), "strengths must"),
        (lambda: landscape.two_layer_saddles([2.0, 1.0], 2**70), "hidden must be at most"),
        (lambda: landscape.fixed_points(None, one), "task must be a Task"),
        (lambda: landscape.index(3, one), "task must be a Task"),
        (lambda: landscape.hessian_eigenvalues("a", one), "task must be a Task"),
        (lambda: landscape.roots(None, [[1.0]]), "field must be a hashable function"),
        (lambda: landscape.roots(lambda w, _: w[:1], [[1.0, 2.0]]), "field must return 2 numbers"),
        (lambda: landscape.roots(lambda w: w, [[1.0]]), "field failed with TypeError"),
        (lambda: landscape.roots(lambda w, _: w, [[1.0]], max_steps=2**31), "max_steps must be at most"),
        (lambda: landscape.roots(lambda w, _: w, [[1.0]], tol=10**400), "tol must be finite"),
        (lambda: landscape.jacobian(lambda w, _: w, "a"), "w must"),
    ):
        with pytest.raises(nr.errors.InputError, match=message):
            wrong()


def test_visits_are_the_saddles_past_which_learning_goes():
    """Two layers from small weights: the origin, then the stronger mode alone, then both."""
    task = two_layers((2.0, 1.0), 3)
    start = nr.init.gaussian(task.graph, 1e-3, seed=range(3))
    run = nr.flow(task, start, 18.0, save=400, method=nr.Adaptive(1e-9, 1e-11))
    passed = landscape.visits(task, run)
    for k in range(3):
        own = passed.run == k
        maps = (passed.weights["h1->y"] @ passed.weights["x->h1"])[own]
        assert np.allclose(maps, [np.diag(d) for d in ((0, 0), (2, 0), (2, 1))], atol=1e-8)
        assert (np.diff(passed.t[own]) > 0).all()
        steps = np.searchsorted(run.t, passed.t[own])
        gaps = [w[k, steps] - passed.weights[e][own] for e, w in run.weights.items()]
        assert np.allclose(np.sqrt(sum((g**2).sum(axis=(1, 2)) for g in gaps)), passed.distance[own])
        assert passed.distance[own].max() < 0.5


def test_slowest_points_of_a_path():
    found = landscape.slowest([[3.0, 1.0, 1.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
    assert found.tolist() == [[False, True, False, False], [True, False, False, False]]
