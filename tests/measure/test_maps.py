"""Maps of networks and of their pathways, as products of weights and as a network answers."""

from functools import partial

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.measure import (
    concentration,
    contributions,
    end_to_end,
    group_strengths,
    off_diagonal_share,
    pathway_coordinates,
    pathway_maps,
)

RNG = np.random.default_rng(0)
PARALLEL = nr.Graph.pathways(3, 4, [[5], [2, 6], [3]])
SHARED = nr.Graph(
    {"x": 3, "h": 4, "p": 2, "q": 5, "y": 2},
    [("x", "h"), ("h", "p"), ("h", "q"), ("p", "y"), ("q", "y")],
)


def drawn(graph, *lead):
    return {e: RNG.normal(size=(*lead, *shape)) for e, shape in graph.shapes.items()}


def answers(graph, weights, closed=()):
    """What the network says to the unit vectors, one at a time, with some nodes closed."""
    task = nr.Task(graph, np.eye(graph.nodes["x"]), np.zeros((graph.nodes["x"], graph.nodes["y"])))
    rows = [nr.activity(task, weights, "y", e[None], dict.fromkeys(closed, 0.0)) for e in task.arrays[0]]
    return np.concatenate(rows).T


@pytest.mark.parametrize("graph", [PARALLEL, SHARED])
def test_maps_are_what_the_network_answers(graph):
    w = drawn(graph)
    assert np.allclose(end_to_end(graph, w), answers(graph, w))
    names = {"p0h1": "p0h1", "p1h1": "p1h1", "p2h1": "p2h1"} if graph is PARALLEL else {"p": "p", "q": "q"}
    maps = pathway_maps(graph, w)
    assert list(maps) == list(names)
    for name, m in maps.items():
        assert np.allclose(m, answers(graph, w, [n for n in names if n != name]))
    assert np.allclose(sum(maps.values()), end_to_end(graph, w))


def test_leading_axes_trajectories_and_states_agree():
    x, y = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 4))
    task = nr.Task(PARALLEL, x, y)
    u, _, vt = np.linalg.svd(y.T @ x, full_matrices=False)

    def record(state):
        maps = pathway_maps(PARALLEL, state)
        return {"map": end_to_end(PARALLEL, state), "k": contributions(PARALLEL, state, u, vt.T), **maps}

    start = nr.init.gaussian(PARALLEL, 0.3, seed=range(2))
    run = nr.flow(task, start, t1=2.0, save=4, record=record)
    k = contributions(PARALLEL, run, u, vt.T)
    assert k.shape == (2, 4, 3, 3, 3)
    assert np.allclose(run.recorded["k"], k)
    assert np.allclose(run.recorded["map"], end_to_end(PARALLEL, run))
    one = {e: w[1, 2] for e, w in run.weights.items()}
    for a, (name, m) in enumerate(pathway_maps(PARALLEL, one).items()):
        assert np.allclose(run.recorded[name][1, 2], m)
        assert np.allclose(k[1, 2, a], [[u[:, i] @ m @ vt[j] for j in range(3)] for i in range(3)])


def test_a_state_answers_with_its_activations_and_weights_as_if_linear():
    graph = nr.Graph.pathways(3, 2, [[4], [5]], activations={"p0h1": "relu", "p1h1": "relu"})
    w = drawn(graph)
    task = nr.Task(graph, np.eye(3), np.zeros((3, 2)))
    run = nr.flow(task, w, t1=0.1, save=2, record=partial(pathway_maps, graph))
    for a in range(2):
        first, last = w[f"x->p{a}h1"], w[f"p{a}h1->y"]
        assert np.allclose(run.recorded[f"p{a}h1"][0], last @ np.maximum(first, 0))
        assert np.allclose(pathway_maps(graph, w)[f"p{a}h1"], last @ first)


def test_several_inputs_outputs_and_diagonal_edges():
    graph = nr.Graph.routing(2, 3, (4, 4), 2)
    w = drawn(graph, 2)
    assert np.allclose(end_to_end(graph, w, "x1", "y0"), w["h2->y0"] @ w["h1->h2"] @ w["x1->h1"])
    graph = nr.Graph({"x": 3, "h": 3, "y": 2}, [nr.Edge("x", "h", diagonal=True), ("h", "y")])
    w = drawn(graph, 2)
    assert np.allclose(end_to_end(graph, w), w["h->y"] * w["x->h"][:, None])


def test_concentration():
    k = RNG.normal(size=(3, 2, 4, 4))  # two pathways
    diagonal = np.diagonal(k, axis1=-2, axis2=-1)
    expected = np.abs(diagonal[:, 0] - diagonal[:, 1]) / np.abs(diagonal.sum(axis=1))
    assert np.allclose(concentration(k), expected)
    one = np.stack([np.eye(2), 0 * np.eye(2), 0 * np.eye(2)])
    assert np.allclose(concentration(one), 1)
    assert np.allclose(concentration(np.tile(np.eye(2), (3, 1, 1))), 0)
    turn = np.linalg.qr(RNG.normal(size=(2, 2)))[0]
    other = np.linalg.qr(RNG.normal(size=(2, 2)))[0]
    split = np.stack([np.diag([3.0, 0.0]), np.diag([0.0, 3.0])])
    assert np.allclose(concentration(turn @ split @ other, [[0, 1]]), 1)


def test_off_diagonal_share():
    k = RNG.normal(size=(2, 3, 3))
    groups = [[0], [1, 2]]
    for m, share in zip(k, off_diagonal_share(k, groups), strict=True):
        outside = m[0, 1] ** 2 + m[0, 2] ** 2 + m[1, 0] ** 2 + m[2, 0] ** 2
        assert np.isclose(share, outside / (m**2).sum())
    assert off_diagonal_share(np.diag([1.0, 2.0])) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: end_to_end(nr.Graph.routing(2, 3), {}), "source must be one of x0, x1"),
        (lambda: end_to_end(PARALLEL, {}), "network names 'x->p0h1', which is no saved edge"),
        (lambda: end_to_end(nr.Graph.chain([1, 1, 1], biases=True), {}), "graph must have no biases"),
        (lambda: contributions(PARALLEL, drawn(PARALLEL), np.eye(3), np.eye(3)), "must have 4 and 3 rows"),
        (lambda: concentration(np.ones((1, 2, 2))), "at least two pathways"),
        (lambda: concentration(np.ones((2, 2, 3))), "k must be square"),
        (lambda: off_diagonal_share(np.ones((2, 2)), [[2]]), "modes from 0 to 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_coordinates_are_the_printed_ones_up_to_powers_of_sigma():
    """multipathway Eq. 5-7, written out; the last layer has sigma^-D instead of sigma^-2D."""
    w, r, s = drawn(PARALLEL, 2), drawn(PARALLEL), 0.7
    u, v = RNG.normal(size=(4, 2)), RNG.normal(size=(3, 2))
    found = pathway_coordinates(PARALLEL, w, r, u, v, s)
    assert list(found) == [e for path in PARALLEL.paths() for e in path]
    one, two, three = (f"{a}->{b}" for a, b in (("x", "p1h1"), ("p1h1", "p1h2"), ("p1h2", "y")))
    assert np.allclose(found[one], s**-2 * v.T @ r[one].T @ w[one] @ v)
    assert np.allclose(found[two], s**-4 * v.T @ r[one].T @ r[two].T @ w[two] @ r[one] @ v)
    printed = s**-6 * u.T @ w[three] @ r[two] @ r[one] @ v
    assert np.allclose(found[three], s**3 * printed)
    with pytest.raises(nr.errors.InputError, match="sigma must be greater than 0"):
        pathway_coordinates(PARALLEL, w, r, u, v, 0.0)


def test_strengths_of_modes_do_not_depend_on_the_basis_within_groups():
    k, groups = RNG.normal(size=(3, 2, 4, 4)), [[0], [1, 2, 3]]
    turn = np.eye(4)
    turn[1:, 1:] = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
    found = group_strengths(k, groups)
    assert found.shape == (3, 2, 4)
    assert np.allclose(group_strengths(turn.T @ k @ turn, groups), found)
    assert np.allclose(found[..., 0], k[..., 0, 0])
    assert np.allclose(found.sum(-1), np.trace(k, axis1=-2, axis2=-1))
    # Two pathways that together have learned a group of strength 2: the largest goes with the smallest.
    k[:, 1, 1:, 1:] = 2 * np.eye(3) - k[:, 0, 1:, 1:]
    found = group_strengths(k, groups)[..., 1:]
    assert np.allclose(found[:, 0] + found[:, 1, ::-1], 2)


def test_paths_that_share_nodes_go_by_their_edges():
    graph = nr.Graph.routing(2, 3, hidden=(4,), size_out=2)
    w = nr.init.gaussian(graph, 1.0, seed=range(3))
    maps = pathway_maps(graph, w)
    assert list(maps) == ["x0->h1 h1->y0", "x1->h1 h1->y0", "x0->h1 h1->y1", "x1->h1 h1->y1"]
    assert np.allclose(maps["x1->h1 h1->y0"], w["h1->y0"] @ w["x1->h1"])
    skip = nr.Graph({"x": 2, "h": 3, "y": 2}, [("x", "h"), ("h", "y"), ("x", "y")])
    w = nr.init.gaussian(skip, 1.0)
    maps = pathway_maps(skip, w)
    assert list(maps) == ["h", "x->y"]
    assert np.allclose(sum(maps.values()), end_to_end(skip, w))
    task = nr.Task(skip, np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match=r"x->y has none.*events"):
        nr.flow(task, w, t1=0.1, record=partial(pathway_maps, skip))
