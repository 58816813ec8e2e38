"""Strengths that stand for gaussian weights: growth to first order, its blow-up, and networks themselves."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.reduction import start

from .test_directions import chain, signed_routing


def two_inputs(layers, width):
    """Two inputs of other singular vectors that share all hidden layers: only blocks are exact."""
    rng = np.random.default_rng(5)
    nodes = {"a": 3, "b": 3} | {f"h{k}": width for k in range(1, layers)} | {"y": 3}
    edges = [("a", "h1"), ("b", "h1"), *((f"h{k}", f"h{k + 1}") for k in range(1, layers - 1))]
    graph = nr.Graph(nodes, [*edges, (f"h{layers - 1}", "y")])
    on = np.repeat([1.0, 0.0], 3)
    inputs = {x: np.tile(np.eye(3), (2, 1)) * np.sqrt(3) for x in "ab"}
    targets = np.concatenate([2 * rng.normal(size=(3, 3)), rng.normal(size=(3, 3))])
    return nr.Task(graph, inputs, {"y": targets}, {"a": on, "b": 1 - on})


def two_pathways(width):
    """Two pathways of other frames, one of them open for half of the samples."""
    graph = nr.Graph.pathways(3, 3, [[width, width]] * 2)
    y = np.random.default_rng(0).normal(size=(6, 3))
    return nr.Task(graph, np.tile(np.eye(3), (2, 1)), y, {"p0h1": np.repeat([1.0, 0.0], 3)})


def test_the_force_is_the_part_of_the_gradient_that_is_linear_in_the_targets():
    task = two_inputs(3, 4)
    flipped = nr.Task(task.graph, task.samples.inputs, {"y": -task.samples.targets["y"]}, task.samples.gates)
    w = nr.init.gaussian(task.graph, 0.5, seed=1)
    force, flat = start.first_order(task, w, 3)
    plus, minus = (nr.gradient(t, w) for t in (flipped, task))
    wanted = task.graph.flatten({e: (plus[e] - minus[e]) / 2 for e in w})
    assert force(flat) == pytest.approx(wanted, abs=1e-12)
    assert force(2 * flat) == pytest.approx(4 * wanted, abs=1e-12)


@pytest.mark.parametrize("layers", [3, 4])
def test_one_mode_grows_as_the_closed_form_says(layers, monkeypatch):
    graph = nr.Graph.chain([1, *[30] * (layers - 1), 1])
    r = nr.reduce(nr.Task(graph, [[1.0]], [[-2.0]]), directions=2)
    followed = r.strength(1.0)
    monkeypatch.setattr(start, "_followed", lambda *_: None)
    assert followed == pytest.approx(r.strength(1.0), rel=1e-4)


def test_a_start_that_decays_has_no_time():
    force = lambda u: -u * np.abs(u)  # noqa: E731
    assert start._blow_up(force, np.ones(2), 3) == np.inf
    assert start._blow_up(lambda u: u * np.abs(u), np.full(2, 0.1), 3) == pytest.approx(10, rel=1e-5)


@pytest.mark.parametrize(
    ("task", "basis", "directions"),
    [
        (two_inputs(3, 64), "block", 1),
        (chain(3).on(nr.Graph.chain([2, 120, 30, 2])), "shared", 2),
        (signed_routing(2, [60, 60], 2), "shared", 4),
        (two_pathways(60), "pathwise", 2),
    ],
)
def test_times_are_those_of_wide_networks(task, basis, directions):
    r = nr.reduce(task, basis, directions=directions)
    level = r.untrained_loss - 0.2 * (r.untrained_loss - r.attainable.loss)
    w = nr.init.gaussian(task.graph, 0.01, seed=range(8))
    networks = nr.flow(task, w, 3000.0, 2, stop_loss=level, save_weights=False)
    time = nr.learning_time(r.solve(r.strength(0.01), t1=3000.0, stop_loss=level), level)
    assert time == pytest.approx(np.median(nr.learning_time(networks, level)), rel=0.1)
