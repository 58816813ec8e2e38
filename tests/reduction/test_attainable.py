"""The least loss of any weights, against a list of all paths and against what networks reach."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import neuralrace as nr
from benchmarks.ends import tasks
from neuralrace.reduction.basis import joined
from tests.oracles import attainable


def random_task(seed: int) -> nr.Task:
    """A small random graph with gates on nodes and edges, some of them no 0 or 1."""
    rng = np.random.default_rng(seed)
    layers = [[f"x{k}" for k in range(rng.integers(1, 3))]]
    layers += [[f"h{d}{k}" for k in range(rng.integers(1, 4))] for d in range(rng.integers(1, 3))]
    layers += [[f"y{k}" for k in range(rng.integers(1, 3))]]
    nodes = {n: int(rng.integers(1, 4)) for layer in layers for n in layer}
    edges = []
    for d, layer in enumerate(layers[1:], 1):
        for n in layer:
            before = [m for earlier in layers[:d] for m in earlier]
            near = layers[d - 1]
            chosen = {str(rng.choice(near)), *(m for m in before if rng.random() < 0.4)}
            edges += [(m, n) for m in before if m in chosen]
    fed = {s for s, _ in edges}
    edges += [(n, layers[d + 1][0]) for d, layer in enumerate(layers[:-1]) for n in layer if n not in fed]
    samples = int(rng.integers(2, 9))
    gates = {}
    for name in [*nodes, *(f"{s}->{t}" for s, t in edges)]:
        if rng.random() < 0.4:
            gates[name] = rng.choice([0.0, 1.0, 1.0, -0.5], samples)
    graph = nr.Graph(nodes, edges)
    x = {n: rng.standard_normal((samples, graph.nodes[n])) for n in graph.inputs}
    y = {n: rng.standard_normal((samples, graph.nodes[n])) for n in graph.outputs}
    return nr.Task(graph, x, y, gates)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
@example(98)  # at y0 some gatings have patterns of their own, and others have not
@example(8230)
def test_least_squares_over_listed_paths(seed):
    task = random_task(seed)
    assert nr.attainable_loss(task).loss == pytest.approx(attainable(task), abs=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_networks_as_wide_as_needed_reach_it(seed):
    task = random_task(seed)
    needed = nr.attainable_loss(task).needed
    task = task.on(task.graph.resized({n: max(size, 1) for n, size in needed.items()}))
    least = nr.attainable_loss(task)
    assert least.tight
    start = nr.loss(task, {e: np.zeros(s) for e, s in task.graph.shapes.items()})
    level = least.loss + 1e-3 * (start - least.loss) + 1e-12
    weights = nr.init.gaussian(task.graph, 0.5, seed=range(3))
    runs = nr.flow(task, weights, t1=3e4, save=2, stop_loss=level, method=nr.Adaptive(1e-5, 1e-7))
    assert nr.Status.REACHED_LOSS in runs.statuses


def test_a_bottleneck_is_only_a_bound():
    task = nr.Task(nr.Graph.chain([3, 1, 3]), np.eye(3), np.eye(3))
    least = nr.attainable_loss(task)
    assert (least.loss, least.tight, least.needed) == (pytest.approx(0.0, abs=1e-15), False, {"h1": 3})
    beside = nr.Graph.pathways(3, 3, [[1], [2]])  # together as wide as they need be
    assert nr.attainable_loss(nr.Task(beside, np.eye(3), np.eye(3))).tight is None
    gates = {"p0h1": [1, 1, 1], "p1h1": [0, 0, 1]}
    assert nr.attainable_loss(nr.Task(beside, np.eye(3), np.ones((3, 3)), gates)).tight is True
    assert nr.attainable_loss(nr.Task(beside, np.eye(3), np.eye(3), gates)).tight is False
    diagonal = nr.Graph({"x": 2, "y": 2}, [nr.Edge("x", "y", diagonal=True)])
    assert nr.attainable_loss(nr.Task(diagonal, np.eye(2), [[0, 1], [1, 0]])).tight is None


@pytest.mark.parametrize("seed", [2, 5, 8])
def test_networks_that_are_said_to_be_too_narrow_stay_above_it(seed):
    task = tasks.at_width(seed, below=True)
    least = nr.attainable_loss(task)
    assert least.tight is False
    start = nr.loss(task, {e: np.zeros(s) for e, s in task.graph.shapes.items()})
    level = least.loss + 1e-4 * (start - least.loss)
    weights = nr.init.gaussian(task.graph, 0.5, seed=range(3))
    runs = nr.flow(task, weights, t1=1e3, save=2, stop_loss=level, method=nr.Adaptive(1e-5, 1e-7))
    assert nr.Status.REACHED_LOSS not in runs.statuses
    assert runs.loss[:, -1].min() < 0.9 * start


def test_many_domains_and_contexts_without_lists():
    task = nr.tasks.routing(domains=30, trained=30)
    assert nr.attainable_loss(task).loss == pytest.approx(0.0, abs=1e-12)
    rng = np.random.default_rng(0)
    graph = nr.Graph.pathways(2, 1, [[4]] * 8)
    gates = {f"p{k}h1": rng.integers(0, 2, 400) for k in range(8)}
    x = rng.standard_normal((400, 2))
    y = sum(g[:, None] * x @ rng.standard_normal((2, 1)) for g in gates.values())
    assert nr.attainable_loss(nr.Task(graph, x, y, gates)).loss == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (3, "task must be a Task"),
        (nr.Task(nr.Graph.chain([1, 2, 1], activations="relu"), [[1.0]], [[1.0]]), "linear graph"),
        (nr.Task(nr.Graph.chain([1, 2, 1], biases=True), [[1.0]], [[1.0]]), "without biases"),
    ],
)
def test_wrong_tasks(task, message):
    with pytest.raises(nr.errors.InputError, match=message):
        nr.attainable_loss(task)


@settings(max_examples=200)
@given(st.lists(st.lists(st.integers(0, 7), max_size=3), max_size=8))
def test_parts_that_share_members_are_joined(parts):
    links = [[j for j, other in enumerate(parts) if {*part} & {*other} or part is other] for part in parts]
    reached = [{k} for k in range(len(parts))]
    for _ in parts:
        reached = [here.union(*(links[k] for k in here)) for here in reached]
    assert joined(parts) == [sorted(here) for k, here in enumerate(reached) if k == min(here)]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_rounding_is_no_loss(seed):
    """Targets without noise; a network of these widths comes below any number."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(40, 4))
    y, graph = x @ rng.normal(size=(4, 3)), nr.Graph.chain([4, 9, 3])
    assert nr.attainable_loss(nr.Task(graph, x, y)).loss == 0.0
    noisy = nr.attainable_loss(nr.Task(graph, x, y + 1e-6 * rng.normal(size=y.shape))).loss
    assert noisy == pytest.approx(1.35e-12, rel=0.5)  # 3 outputs, 36 of 40 directions, half of a square
