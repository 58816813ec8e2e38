import numpy as np
import pytest

import neuralrace as nr


def test_off_manifold_fraction():
    task = nr.tasks.routing(3, 2, hidden=(20, 20))
    r, rng = nr.reduce(task), np.random.default_rng(0)
    inside = r.lift({e: rng.uniform(0.5, 1.5, 4) for e in task.graph.edges})
    turn = {n: nr.init.random_frame(rng, 20, 20) for n in ("h1", "h2")}
    turned = {
        e: turn.get(t, np.eye(len(inside[e]))) @ inside[e] @ turn.get(s, np.eye(inside[e].shape[1])).T
        for e, (s, t) in task.graph.edges.items()
    }
    assert r.distance(turned) > 0.5
    assert r.off_manifold_fraction(turned) < 1e-10
    noise = nr.init.gaussian(task.graph, 1.0, seed=0)
    assert r.off_manifold_fraction(noise) > 0.7
    half = {e: np.stack([w, w + 0.2 * noise[e], noise[e]]) for e, w in turned.items()}
    shares = r.off_manifold_fraction(half)
    assert shares.shape == (3,)
    assert shares[0] < 1e-10
    assert shares[0] < shares[1] < shares[2] == pytest.approx(r.off_manifold_fraction(noise))


def test_off_manifold_fraction_of_what_small_weights_learn():
    task = nr.tasks.routing(3, 3, hidden=(10, 10))
    w = nr.init.orthogonal(task.graph, 0.01, seed=0)
    end = nr.flow(task, w, 2000.0, 2).weights
    change = {e: v[1] - v[0] for e, v in end.items()}
    r = nr.reduce(task)
    assert r.off_manifold_fraction(change) < 0.01 < 0.5 < r.off_manifold_fraction(w)


def test_off_manifold_fraction_needs_modes():
    task = nr.tasks.routing(2, 2, hidden=(4, 4))
    r = nr.reduce(task, basis="block")
    with pytest.raises(ValueError, match="modes"):
        r.off_manifold_fraction(nr.init.gaussian(task.graph, 1.0))
