"""Random gated tasks, and the slow attainable loss that other tests compare with."""

import numpy as np
import pytest

import neuralrace as nr
from benchmarks.ends import tasks
from benchmarks.ends.attainable import attainable_loss, initial_loss, learnable
from benchmarks.ends.races import winner


def two_pathways():
    g = nr.Graph.pathways(1, 1, [[20], [20]])
    return nr.Task(g, [[1.0], [1.0]], [[1.0], [-1.0]], gates={"p0h1": [1, 0], "p1h1": [0, 1]})


def test_attainable_loss_of_pathways_with_opposite_targets():
    assert attainable_loss(two_pathways()) < 1e-20
    assert initial_loss(two_pathways()) == 0.5


def test_attainable_loss_of_pathways_with_the_same_gates():
    g = nr.Graph.pathways(1, 1, [[20], [20]])
    task = nr.Task(g, [[1.0], [1.0]], [[1.0], [-1.0]], gates={"p0h1": [1, 1], "p1h1": [2, 2]})
    assert attainable_loss(task) == pytest.approx(0.5)


@pytest.mark.parametrize("seed", range(len(tasks.KINDS)))
def test_no_weights_are_below_the_attainable_loss(seed):
    task = tasks.draw(seed)
    weights = nr.init.gaussian(task.graph, tasks.std(task), seed=0)
    least, learn = attainable_loss(task), learnable(task)
    run = nr.flow(task, weights, 1e4, 2, stop_loss=least + 1e-3 * learn, method=nr.Adaptive(1e-5, 1e-7))
    assert run.status is nr.Status.REACHED_LOSS
    assert nr.loss(task, {e: w[-1] for e, w in run.weights.items()}) > least


def test_draws_are_repeated_and_differ():
    first, again, other = tasks.draw(4), tasks.draw(4), tasks.draw(10)
    y = [next(iter(t.samples.targets.values())) for t in (first, again, other)]
    assert np.array_equal(y[0], y[1])
    assert y[0].shape != y[2].shape or not np.allclose(y[0], y[2])


def test_needed_widths_of_gated_pathways():
    g = nr.Graph(
        {"x": 3, "h": 9, "a": 9, "b": 9, "y": 2}, [("x", "h"), ("h", "a"), ("h", "b"), ("a", "y"), ("b", "y")]
    )
    x = np.ones((2, 3))
    task = nr.Task(g, x, np.ones((2, 2)), gates={"a": [1, 0], "b": [0, 1]})
    assert tasks.needed_widths(task) == {"h": 3, "a": 2, "b": 2}
    ungated = nr.Task(g, x, np.ones((2, 2)))
    assert tasks.needed_widths(ungated) == {"h": 2, "a": 2, "b": 2}


def test_one_unit_below_the_needed_width():
    at, below = tasks.at_width(3, below=False), tasks.at_width(3, below=True)
    needed = tasks.needed_widths(at)
    assert {h: at.graph.nodes[h] for h in needed} == needed
    assert sum(needed.values()) - sum(below.graph.nodes[h] for h in needed) == 1


def test_a_race_is_decided_where_all_networks_agree_by_the_margin():
    assert winner({"a": [1.0, 1.0], "b": [1.2, np.inf]}) == "a"
    assert winner({"a": [1.0, 1.0], "b": [1.05, 2.0]}) is None
    assert winner({"a": [1.0, 2.0], "b": [2.0, 1.0]}) is None
    assert winner({"a": [1.0, np.nan], "b": [2.0, 2.0]}) is None
    assert winner({"a": [np.inf], "b": [np.inf]}) is None
