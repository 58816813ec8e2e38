"""Descent on large weights, which lie by level and are changed apart from each other."""

import numpy as np
import optax
import pytest

import neuralrace as nr
from tests import oracles


@pytest.mark.parametrize("optimizer", ["sgd", optax.sgd(0.02, 0.9)])
def test_large_weights_descend_as_written_out(optimizer):
    hidden = {"p0h1": "tanh", "p0h2": "tanh", "p1h1": "tanh"}
    graph = nr.Graph.pathways(110, 2, [[110, 110], [110]], activations=hidden)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((5, 110)), rng.standard_normal((5, 2))
    w = nr.init.gaussian(graph, 0.1, seed=1)
    assert len(graph.stacks) == 1 + len({v.shape for v in w.values()})  # square ones of two levels
    rates = nr.Rates(decay={"p0h1->p0h2": 0.3}, scale={"p0h1->p0h2": 0.5})
    momentum = {"momentum": 0.9} if optimizer == "sgd" else {}
    run = nr.descend(nr.Task(graph, x, y), w, 0.02, 7, 2, optimizer=optimizer, **momentum, rates=rates)
    now, speed = dict(w), {e: 0.0 * v for e, v in w.items()}
    for _ in range(7):
        slopes = oracles.sample_gradient(graph, now, {"x": x}, {"y": y}, {})
        for e in now:
            decay, scale = (0.3, 0.5) if e == "p0h1->p0h2" else (0.0, 1.0)
            speed[e] = 0.9 * speed[e] + slopes[e] + decay * now[e]
            now[e] = now[e] - 0.02 * scale * speed[e]
    for e, end in now.items():
        np.testing.assert_allclose(run.weights[e][-1], end, atol=1e-12)
