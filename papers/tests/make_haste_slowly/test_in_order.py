import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import InputError
from neuralrace_papers.make_haste_slowly.stages import train_in_order

X, Y = nr.tasks.contexts(2).arrays
NET = nr.relu.train(X, Y, [4], std=0.1, lr=1e-2, steps=60, save=4)
TASK = nr.tasks.contexts(2, gating="shared", hidden=3)


def test_others_learn_on_what_the_first_leaves():
    start = nr.init.gaussian(TASK.graph, 0.3, seed=0)
    run = train_in_order(NET, TASK, start, ["p0h1"])
    w = {e: v.copy() for e, v in start.items()}
    gates = TASK.samples.gates
    for _ in range(60):
        maps = {}
        for k in range(3):
            x = X if k == 0 else X[:, :8]
            source = "x" if k == 0 else "x1"
            maps[k] = (gates[f"p{k}h1"][:, None] * x, w[f"{source}->p{k}h1"], w[f"p{k}h1->y"], source)
        outputs = {k: x @ w1.T @ w2.T for k, (x, w1, w2, _) in maps.items()}
        for k, (x, w1, w2, source) in maps.items():
            error = Y - outputs[0] - (outputs[1] + outputs[2] if k else 0)
            w[f"{source}->p{k}h1"] = w1 + 1e-2 * w2.T @ error.T @ x
            w[f"p{k}h1->y"] = w2 + 1e-2 * error.T @ x @ w1.T
    for e, v in w.items():
        assert np.allclose(run.weights[e][-1], v, rtol=1e-9, atol=1e-12), e
    assert np.allclose(run.loss, len(X) * nr.loss(TASK, run.weights))
    assert np.allclose(run.t, NET.t)


def test_what_cannot_be_trained_in_order_is_refused():
    start = nr.init.gaussian(TASK.graph, 0.3, seed=0)
    with pytest.raises(InputError, match=r"first names .*, which is no hidden node; there are p0h1"):
        train_in_order(NET, TASK, start, ["h1"])
    by_adam = nr.relu.train(X, Y, [4], std=0.1, lr=1e-2, steps=5, save=2, optimizer="adam")
    with pytest.raises(InputError, match="plain descent"):
        train_in_order(by_adam, TASK, start, ["p0h1"])
