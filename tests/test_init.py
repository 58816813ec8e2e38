import jax
import numpy as np
import pytest

import neuralrace as nr

G = nr.Graph.chain([30, 50, 20])


def test_scales():
    w = nr.init.gaussian(G, std=0.1, seed=3)
    assert w["x->h1"].std() == pytest.approx(0.1, rel=0.05)
    w = nr.init.xavier(G, gain=2.0)
    assert w["x->h1"].std() == pytest.approx(2 * np.sqrt(2 / 80), rel=0.05)
    w = nr.init.orthogonal(G, scale=0.2)
    for value in w.values():
        assert np.allclose(np.linalg.svd(value, compute_uv=False), 0.2, atol=1e-14)


def test_seeds_and_keys():
    a, b = nr.init.gaussian(G, 0.1, seed=1), nr.init.gaussian(G, 0.1, seed=range(3))
    assert np.array_equal(a["x->h1"], b["x->h1"][1])
    assert not np.array_equal(b["x->h1"][0], b["x->h1"][1])
    key = jax.random.key(0)
    assert np.array_equal(
        nr.init.xavier(G, key=key)["h1->y"], nr.init.xavier(G, key=jax.random.PRNGKey(0))["h1->y"]
    )
    assert type(a) is dict


def test_biases_start_at_zero():
    w = nr.init.gaussian(nr.Graph.chain([2, 3, 1], biases=True), 1.0)
    assert np.array_equal(w["h1"], np.zeros(3))
    assert set(w) == {"x->h1", "h1->y", "h1", "y"}


@pytest.mark.parametrize("sizes", [(4, 4, 4), (6, 3, 4), (4, 3, 6), (3, 5, 4), (5, 7, 2)])
@pytest.mark.parametrize("lam", [-5, -1, 0, 1e-9, 0.5, 5])
def test_balanced(sizes, lam):
    n_in, n_hidden, n_out = sizes
    graph = nr.Graph.chain(list(sizes))
    if (lam > 0 and n_hidden > n_out) or (lam < 0 and n_hidden > n_in):
        with pytest.raises(ValueError, match="full rank"):
            nr.init.balanced(graph, lam)
        return
    w = nr.init.balanced(graph, lam, seed=2)
    w1, w2 = w["x->h1"], w["h1->y"]
    assert np.abs(w2.T @ w2 - w1 @ w1.T - lam * np.eye(n_hidden)).max() < 1e-12
    assert nr.init.balanced(graph, lam, seed=range(2))["x->h1"].shape == (2, n_hidden, n_in)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nr.init.gaussian(G, std=0), "std must be greater than 0"),
        (lambda: nr.init.gaussian(G, std="small"), "std must hold real numbers"),
        (lambda: nr.init.xavier(G, gain=-1), "gain"),
        (lambda: nr.init.orthogonal(G, scale=float("nan")), "scale must be finite"),
        (lambda: nr.init.gaussian(G, 1.0, seed=-1), "seed"),
        (lambda: nr.init.gaussian(G, 1.0, seed=1.5), "seed"),
        (lambda: nr.init.gaussian(G, 1.0, seed=[]), "seed"),
        (lambda: nr.init.gaussian("G", 1.0), "graph"),
        (lambda: nr.init.balanced(nr.Graph.chain([2, 2, 2, 2]), 0.0), "two layers"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
