"""Statements of multipathway that do not hold, each with its algebra or a counterexample."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace_papers.multipathway import networks
from neuralrace_papers.multipathway.networks import S, U, V


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_random_layers_grow_depth_times_as_fast_as_eq_17(depth):
    """Main result 1. All layers of a random network learn from the start; by Eq. 17 only the last one does.

    With the last layer cut down to what the others span, K is the same and grows as Eq. 17 says, so that no
    equation in K alone describes both.
    """
    width, sigma = 400, 0.3
    task = networks.task([depth] * 2, width)
    w = dict(networks.draw(task, sigma / np.sqrt(width), 4, series=3))
    cut = dict(w)
    for path in task.graph.paths():
        signal = V
        for edge in path[:-1]:
            signal = w[edge] @ signal
        frame = np.linalg.qr(signal)[0]
        cut[path[-1]] = w[path[-1]] @ frame @ np.swapaxes(frame, -1, -2)
    (k, rate), (k_cut, rate_cut) = (networks.initial_growth(task, start, sigma) for start in (w, cut))
    assert np.allclose(k, k_cut, atol=1e-12)
    assert np.isclose(rate.mean(), depth, rtol=0.1)
    assert 0.8 < rate_cut.mean() < 1.3  # 1 in the limit of great width


def test_off_diagonal_parts_that_pathways_undo_for_each_other_stay():
    """Section 3.2, "will decay to zero": a fixed point whose pathways are not diagonal, of any size; and of
    all off-diagonal perturbations of a diagonal solution one in M D decays, the others are neutral."""
    n, depth = 3, 3
    graph = nr.Graph.pathways(n, n, [[n] * (depth - 1)] * 2)
    task = nr.Task(graph, np.eye(n), np.diag([3.0, 2.0, 1.0]))
    other = 5.0 * (1 - np.eye(n))
    w = {e: np.eye(n) for e in graph.edges}
    for path, sign in zip(graph.paths(), (1, -1), strict=True):
        w[path[-1]] = np.diag([3.0, 2.0, 1.0]) / 2 + sign * other
    assert nr.loss(task, w) == 0
    assert all(np.abs(g).max() == 0 for g in nr.gradient(task, w).values())
    k = nr.measure.contributions(graph, w, np.eye(n), np.eye(n))
    assert np.array_equal(k[0] - np.diag(np.diag(k[0])), other)

    diagonal = w | {path[-1]: np.diag([1.5, 1.0, 0.5]) for path in graph.paths()}
    off = graph.flatten(dict.fromkeys(graph.edges, 1 - np.eye(n))) > 0
    rates = -np.linalg.eigvalsh(nr.landscape.hessian(task, diagonal)[off][:, off])
    assert np.isclose((rates < -1e-9).mean(), 1 / (2 * depth))
    assert np.abs(rates[rates > -1e-9]).max() < 1e-12


def test_larger_weights_share_more_evenly():
    """After Eq. 31, "such larger fluctuations would only enhance the effect": by the paper's own reduction,
    with its power of sigma, layers of size 0.316 amplify the same fluctuations less than those of 0.01."""
    for lead, behind in np.abs(np.random.default_rng(0).standard_normal((20, 2))) / np.sqrt(1000):
        sizes = 0.01 * np.sqrt(1000), 0.01
        large, small = (nr.exact.pathways(1e9, S[0], [3, 3], (lead, behind), size) for size in sizes)
        assert np.isclose(large.sum(), S[0])
        assert np.isclose(small.sum(), S[0])
        assert abs(large[0] - large[1]) < 0.5 * abs(small[0] - small[1])


def test_modes_of_the_task():
    assert np.allclose(U @ np.diag(S) @ V.T, networks.Y.T)
