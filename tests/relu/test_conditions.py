"""Conditions of a reduction, and the loss predicted in two stages."""

import numpy as np

import neuralrace as nr

X, Y = nr.tasks.contexts(3).arrays
CONTEXT = np.repeat([0, 1, 2], 8)
PATTERNS = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]])[:, CONTEXT]


def conditions(w1, w2):
    """Of a network that hardly moves from these weights, as the only one of its runs."""
    start = {"x->h1": np.asarray(w1, float)[None], "h1->y": np.asarray(w2, float)[None]}
    net = nr.relu.train(X, Y, [len(w1)], lr=1e-6, steps=3, save=2, weights=start)
    return nr.relu.reduction_conditions(net, PATTERNS)


def test_conditions_hold_for_a_network_in_the_first_mode_of_the_always_open_pathway():
    u, _, vt = np.linalg.svd(Y.T @ X)
    unit = np.array([[0.3], [0.5], [0.1], [0.4]])
    good = conditions(unit * np.abs(vt[:1]), np.abs(u[:, :1]) @ unit.T)
    assert np.allclose(good["match"], 1)
    assert np.allclose(good["moved"], 0)
    assert np.allclose(good["coupled"], 0, atol=1e-8)
    rng = np.random.default_rng(0)
    bad = conditions(rng.normal(size=(50, 11)), rng.normal(size=(60, 50)))
    assert bad["match"].max() < 0.8
    assert bad["coupled"].min() > 0.5


def test_conditions_count_units_by_size():
    """One of two equally large units is open for one item of a context too many: one gate of 48."""
    w1 = np.zeros((2, 11))
    w1[:, 8:] = [[1, 1, 1], [1, 1, -1]]
    w1[1, 0] = 2  # opens item 0 in context 3
    w2 = np.ones((60, 2))
    w2[:, 1] *= np.linalg.norm(w1[0]) / np.linalg.norm(w1[1])
    assert np.isclose(conditions(w1, w2)["match"][0, -1], 47 / 48, atol=1e-4)
