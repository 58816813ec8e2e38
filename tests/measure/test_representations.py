"""Similarities, distances, kernels and other comparisons, against loops over pairs."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.measure import (
    cosine,
    cosine_similarity,
    distance_moved,
    domain_similarity,
    gram,
    kernel_change,
    kernel_turn,
    multidimensional_scaling,
    power_law_exponent,
    principal_components,
    share_within,
    squared_distances,
)

RNG = np.random.default_rng(0)
H = RNG.normal(size=(2, 6, 4))  # runs, samples, units


def pairs(h, of):
    return np.array([[[of(a, b) for b in one] for a in one] for one in h])


def angle(a, b):
    return a @ b / np.sqrt((a @ a) * (b @ b))


def test_similarities_and_distances():
    centred = H - H.mean(axis=1, keepdims=True)
    assert np.allclose(gram(H), pairs(H, np.dot))
    assert np.allclose(gram(H, centre=True), pairs(centred, np.dot))
    assert np.allclose(cosine_similarity(H), pairs(H, angle))
    assert np.allclose(cosine_similarity(H, centre=True), pairs(centred, angle))
    assert np.allclose(squared_distances(H), pairs(H, lambda a, b: ((a - b) ** 2).sum()))
    far = 1e8 + np.array([[0.0], [1e-6]])
    assert squared_distances(far)[0, 1] == (far[1, 0] - far[0, 0]) ** 2  # a Gram matrix would round it away
    assert np.isnan(cosine_similarity([[0.0, 0.0], [1.0, 0.0]])[0, 1])


def test_domain_similarity():
    found = domain_similarity(gram(H), domains=3)  # two items on each
    for run, item, i, j in np.ndindex(found.shape):
        assert np.isclose(found[run, item, i, j], angle(H[run, 2 * i + item], H[run, 2 * j + item]))
    assert np.allclose(found, domain_similarity(cosine_similarity(H), domains=3))


def test_share_within_a_space_is_that_of_the_projections():
    rows, basis = np.random.default_rng(0).normal(size=(2, 5, 4)), np.linalg.qr(H[0, :4, :2])[0]
    inside = rows @ basis @ basis.T
    expected = [np.linalg.norm(a) ** 2 / np.linalg.norm(b) ** 2 for a, b in zip(inside, rows, strict=True)]
    assert np.allclose(share_within(rows, basis), expected)
    assert np.isnan(share_within(np.zeros((1, 4)), basis))


def test_cosine():
    a, b = RNG.normal(size=(3, 2, 2)), RNG.normal(size=(2, 2))
    assert np.allclose(cosine(a, b), [angle(v.ravel(), b.ravel()) for v in a])
    assert np.allclose(cosine(a, b, axes=1), [[angle(v[k], b[k]) for k in range(2)] for v in a])


def test_principal_components():
    found = principal_components(H, 2)
    assert found.shape == (2, 6, 2)
    flat = H.reshape(12, 4) - H.reshape(12, 4).mean(axis=0)
    values = np.sort(np.linalg.eigvalsh(flat.T @ flat))[::-1]
    assert np.allclose(np.einsum("rsi,rsj->ij", found, found), np.diag(values[:2]))
    exact = principal_components(H, 4).reshape(12, 4)
    assert np.allclose(squared_distances(exact), squared_distances(H.reshape(12, 4)))


def test_multidimensional_scaling_keeps_distances_that_fit_a_plane():
    rng = np.random.default_rng(0)
    plane = rng.standard_normal((16, 2))
    plane -= plane.mean(axis=0)
    frame = np.linalg.qr(rng.standard_normal((5, 2)))[0]
    points = np.linspace(0.1, 1, 4)[:, None, None] * (plane @ frame.T)
    flat = multidimensional_scaling(points, rounds=300)
    apart = [squared_distances(v.reshape(-1, v.shape[-1])) ** 0.5 for v in (flat, points)]
    assert np.abs(apart[0] - apart[1]).max() < 1e-3


def test_kernels():
    kernels = RNG.normal(size=(2, 3, 4, 4))
    for run, t in np.ndindex(2, 3):
        first, now = kernels[run, 0], kernels[run, t]
        assert np.isclose(kernel_turn(kernels)[run, t], 1 - angle(first.ravel(), now.ravel()))
        change = np.sqrt(((now - first) ** 2).sum() / (first**2).sum())
        assert np.isclose(kernel_change(kernels)[run, t], change)


def test_kernel_of_a_network_turns_far_more_from_small_weights_than_from_large():
    task = nr.tasks.hierarchy(2, hidden=12)
    turns = []
    for std in (0.01, 3.0):
        run = nr.flow(task, nr.init.gaussian(task.graph, std), t1=30.0, save=5)
        turns.append(kernel_turn(nr.tangent_kernel(task, run.weights))[-1])
    assert turns[0] > 10 * turns[1]


def test_distance_moved():
    graph = nr.Graph.chain([2, 3, 1], biases=True)
    task = nr.Task(graph, RNG.normal(size=(4, 2)), RNG.normal(size=(4, 1)))
    run = nr.flow(task, nr.init.gaussian(graph, 0.5, seed=range(2)), t1=1.0, save=3)
    found, relative = distance_moved(graph, run), distance_moved(graph, run, relative=True)
    for k, t in np.ndindex(2, 3):
        flat = [np.concatenate([w[k, i].ravel() for w in run.weights.values()]) for i in (0, t)]
        assert np.isclose(found[k, t], np.linalg.norm(flat[1] - flat[0]))
        assert np.isclose(relative[k, t], np.linalg.norm(flat[1] - flat[0]) / np.linalg.norm(flat[0]))


def test_power_law_exponent():
    x, y = RNG.uniform(1, 9, 5), RNG.uniform(1, 9, (3, 5))
    expected = [np.polyfit(np.log(x), np.log(v), 1)[0] for v in y]
    assert np.allclose(power_law_exponent(x, y), expected)
    assert np.isnan(power_law_exponent([1.0, 2.0], [1.0, np.nan]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: domain_similarity(np.eye(5), 2), "a multiple of 2 samples"),
        (lambda: cosine(np.ones((2, 3)), np.ones((3, 2))), "agree in their last 2 axes"),
        (lambda: share_within(np.ones((2, 3)), np.ones((2, 1))), "basis must have 3 rows"),
        (lambda: principal_components(H, 5), "k must be at most 4"),
        (lambda: power_law_exponent([1.0, 1.0], [1.0, 2.0]), "two different x"),
        (lambda: distance_moved(nr.Graph.chain([1, 1]), {}), "weights must hold those of 'x->y'"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
