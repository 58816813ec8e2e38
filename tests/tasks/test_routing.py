import numpy as np
import pytest

import neuralrace as nr


def test_each_item_is_shown_on_each_domain():
    graph, rng = nr.Graph.routing(3, 4, (8, 8), 7), np.random.default_rng(0)
    items, w = rng.normal(size=(5, 4)), nr.init.gaussian(graph, 0.5, seed=range(2))
    task = nr.tasks.routing(3, 2, graph=graph)
    inputs = nr.tasks.on_each_domain(items, 3)
    outputs = nr.activity(task, w, "y2", inputs).reshape(2, 3, 5, 7)
    maps = [w["h2->y2"] @ w["h1->h2"] @ w[f"x{i}->h1"] for i in range(3)]
    assert np.allclose(outputs, items @ np.stack(maps, axis=1).swapaxes(-1, -2), atol=1e-12)
    with pytest.raises(ValueError, match="domains must be at least 1"):
        nr.tasks.on_each_domain(items, 0)
    with pytest.raises(ValueError, match="items"):
        nr.tasks.on_each_domain([1.0, 2.0], 2)


def test_one_pathway_of_shared_ones_stands_for_all():
    """Groups share no weights, so each is a routing network whose clock runs (M / group)^2 slower."""
    whole, alone = nr.tasks.sharing(4, 2, hidden=(5, 5)), nr.tasks.routing(2, 2, hidden=(5, 5))
    start = nr.init.orthogonal(alone.graph, 0.5, seed=0)
    names = {"x0": "x0", "x1": "x1", "g0.0h1": "h1", "g0.0h2": "h2", "y0": "y0", "y1": "y1"}
    part = {e: f"{names[s]}->{names[t]}" for e, (s, t) in whole.graph.edges.items() if {s, t} <= set(names)}
    weights = {**nr.init.orthogonal(whole.graph, 0.5, seed=1), **{e: start[k] for e, k in part.items()}}
    long, short = nr.flow(whole, weights, 20.0, 5), nr.flow(alone, start, 5.0, 5)
    for e, k in part.items():
        assert np.abs(long.weights[e] - short.weights[k]).max() < 1e-6


def test_pathways_of_several_sizes_lie_in_one_network_and_add_up():
    """Outputs of a route are the sum over its pathways; others are closed, untrained pairs left out."""
    pairs = nr.tasks.circulant(4, 3)
    task = nr.tasks.sharing(4, (1, 2, 4), hidden=(3, 3), trained=pairs, inputs=np.eye(4))
    assert (task.n_contexts, len(task.graph.hidden)) == (12, 2 * (16 + 4 + 1))
    w = nr.init.gaussian(task.graph, 1.0, seed=0)
    targets = nr.tasks.routing(4, 4, inputs=np.eye(4)).syx(["x0->h1", "h1->h2", "h2->y0"]).T * 16 * 4
    total = 0.0
    for i, j in np.argwhere(pairs):
        names = [f"s{s}g{i // s}.{j // s}h" for s in (1, 2, 4)]
        y = sum(w[f"{n}2->y{j}"] @ w[f"{n}1->{n}2"] @ w[f"x{i}->{n}1"] for n in names)
        total += 0.5 * ((y.T - targets) ** 2).sum() / 4
    assert np.isclose(nr.loss(task, w), total / pairs.sum())
    with pytest.raises(ValueError, match="each size once"):
        nr.tasks.sharing(4, (2, 2))
    with pytest.raises(ValueError, match="group must divide"):
        nr.tasks.sharing(4, (1, 3))
