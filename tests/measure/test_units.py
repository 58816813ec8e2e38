"""Sizes of units and the growing part of two layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import neuralrace as nr
from neuralrace.measure import growing_part, unit_sizes

RNG = np.random.default_rng(0)


def test_unit_sizes_are_those_of_each_unit():
    w1, w2 = RNG.normal(size=(2, 3, 5, 4)), RNG.normal(size=(2, 3, 2, 5))
    sizes = unit_sizes(w1, w2)
    for at in np.ndindex(2, 3):
        for k in range(5):
            expected = np.linalg.norm(w1[at][k]) * np.linalg.norm(w2[at][:, k])
            assert np.isclose(sizes[at][k], expected)
    shares = unit_sizes(w1, w2, normalise=True)
    assert np.allclose(shares.sum(axis=-1), 1)
    assert np.allclose(shares / shares[..., :1], sizes / sizes[..., :1])


def test_unit_sizes_in_a_record():
    task = nr.tasks.hierarchy(2, hidden=3)
    run = nr.flow(
        task, nr.init.gaussian(task.graph, 0.3), t1=1.0, save=3,
        record=lambda s: {"size": unit_sizes(s.weights["x->h1"], s.weights["h1->y"])},
    )  # fmt: skip
    assert np.allclose(run.recorded["size"], unit_sizes(run.weights["x->h1"], run.weights["h1->y"]))
    assert isinstance(jax.jit(unit_sizes)(jnp.ones((2, 3)), jnp.ones((1, 2))), jax.Array)


def test_growing_part_is_what_grows():
    task = nr.tasks.hierarchy(2, hidden=5)
    x, y = task.arrays
    u, s, vt = np.linalg.svd(y.T @ x / len(x), full_matrices=False)
    start = nr.init.gaussian(task.graph, 1e-5, seed=range(3))
    t = 1.5 / s[0]  # the network is still small
    run = nr.flow(task, start, t, save=2, method=nr.Adaptive(1e-10, 1e-16))
    for k in range(len(s)):
        before, after = (
            growing_part(run.weights["x->h1"][:, i], run.weights["h1->y"][:, i], vt.T, u)[..., k]
            for i in (0, -1)
        )
        assert np.allclose(after, np.exp(s[k] * t) * before, rtol=1e-5)
    w1, w2 = start["x->h1"][0], start["h1->y"][0]
    assert np.allclose(growing_part(w1, w2, vt.T, u)[:, 1], (w1 @ vt[1] + u[:, 1] @ w2) / 2)
    square = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 4))
    assert np.allclose(growing_part(*square), growing_part(*square, np.eye(3), np.eye(3)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: unit_sizes(np.ones((3, 2)), np.ones((3, 2))), r"incoming must be \(..., units, in\)"),
        (lambda: unit_sizes([1.0], [[1.0]]), "incoming must have at least 2 axes"),
        (lambda: growing_part(np.ones((3, 2)), np.ones((4, 3))), "must both be"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
