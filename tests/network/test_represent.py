"""What a task is compiled from changes nothing but the cost."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

import neuralrace as nr
from neuralrace.network import compile_program, loss_and_gradient, program
from neuralrace.network.represent import Described, by_bases, shared_maps
from neuralrace.task.gatings import single_paths, spanning
from tests import oracles
from tests.strategies import data, graphs, random_weights, seeds


def forms(task):
    """All that the task can be compiled from."""
    contexts = task.moment_contexts
    found = {"contexts": Described.of(contexts), "maps": shared_maps(task.graph, contexts)}
    gatings = task.data.gatings
    for name, make in (("paths", single_paths), ("span", spanning)):
        bases = {o: make(task.graph, gatings, o) for o in task.graph.outputs}
        if all(basis is not None for basis in bases.values()):
            found[name] = by_bases(task, bases)
    return found


def agree(task, w, truth, slope):
    flat = task.graph.flatten(w)
    for name, form in forms(task).items():
        made = compile_program(task.graph, form)
        loss, g = loss_and_gradient(made.stack, flat, made.data)
        assert loss == pytest.approx(truth, rel=1e-12), name
        found, size = task.graph.unflatten(g), max(np.abs(v).max() for v in slope.values())
        for e, v in found.items():
            assert np.abs(v - slope[e]).max() <= 1e-12 * max(size, 1e-3), (name, e)


@settings(max_examples=40)
@given(graphs(depth=4), seeds)
def test_all_forms_have_the_same_loss_and_gradient(graph, seed):
    rng = np.random.default_rng(seed)
    given = data(graph, rng, n=60, patterns=int(rng.integers(1, 40)))
    task, w = nr.Task(graph, *given), random_weights(graph, rng)
    agree(task, w, oracles.sample_loss(graph, w, *given), oracles.sample_gradient(graph, w, *given))


@settings(max_examples=10)
@given(graphs(depth=4), seeds)
def test_forms_of_contexts_that_are_given(graph, seed):
    """Pseudo-samples, contexts in which inputs and outputs are off, loss that no weights remove."""
    rng = np.random.default_rng(seed)
    contexts = []
    for _ in range(8):
        moments = {"gates": {n: float(rng.choice([0, 1, -0.5])) for n in graph.edges if rng.random() < 0.5}}
        xs = [x for x in graph.inputs if rng.random() < 0.8] or [graph.inputs[0]]
        rows = {x: rng.normal(size=(5, graph.nodes[x])) for x in xs}
        ys = {o: rng.normal(size=(5, graph.nodes[o])) for o in graph.outputs if rng.random() < 0.8}
        moments["sxx"] = {(a, b): rows[a].T @ rows[b] for a in xs for b in xs}
        moments["syx"] = {(o, x): y.T @ rows[x] for o, y in ys.items() for x in xs}
        moments["syy"] = {o: float((y**2).sum()) for o, y in ys.items()}
        contexts.append(moments)
    task, w = nr.Task.from_moments(graph, contexts), random_weights(graph, rng)
    made = compile_program(graph, Described.of(task.moment_contexts))
    loss, g = loss_and_gradient(made.stack, graph.flatten(w), made.data)
    agree(task, w, loss, graph.unflatten(g))


def pathways(contexts, paths=6, gates=None):
    rng = np.random.default_rng(0)
    graph = nr.Graph.pathways(3, 2, [[5]] * paths)
    names = [f"p{k}h1" for k in range(paths)]
    table = rng.integers(0, 2, (contexts, paths)).astype(float) if gates is None else gates
    x = rng.standard_normal((contexts, 3))
    y = rng.standard_normal((contexts, 2))
    return nr.Task(graph, x, y, gates=dict(zip(names, table.T, strict=True)))


def test_many_patterns_of_few_paths_are_compiled_from_paths():
    many, few = pathways(400), pathways(400, gates=np.ones((400, 6)))
    assert program(many, "squared").how == "paths"
    assert program(few, "squared").how == "contexts"
    sizes = [len(program(pathways(n), "squared").rows) for n in (400, 4000)]
    assert sizes == [6, 6]  # whatever the number of contexts


def test_few_patterns_of_many_paths_are_compiled_from_their_span():
    """A trunk of 5 x 5 x 5 paths, gated in its middle alone."""
    rng = np.random.default_rng(0)
    mid = {f"m{k}": 4 for k in range(6)}
    nodes = {"x": 4, **{f"a{k}": 4 for k in range(6)}, **mid, **{f"b{k}": 4 for k in range(6)}, "y": 2}
    layers = [["x"], [f"a{k}" for k in range(6)], list(mid), [f"b{k}" for k in range(6)], ["y"]]
    edges = [(s, t) for one, two in pairwise(layers) for s in one for t in two]
    gates = {m: rng.integers(0, 2, 500).astype(float) for m in mid}
    task = nr.Task(
        nr.Graph(nodes, edges), rng.standard_normal((500, 4)), rng.standard_normal((500, 2)), gates
    )
    assert task.graph.n_paths == 216
    made = program(task, "squared")
    assert (made.how, len(made.rows)) == ("paths", 6)
    w = nr.init.gaussian(task.graph, 0.3)
    plain = compile_program(task.graph, Described.of(task.moment_contexts))
    assert nr.loss(task, w) == pytest.approx(
        float(loss_and_gradient(plain.stack, task.graph.flatten(w), plain.data)[0]), rel=1e-12
    )


def test_nothing_is_read_of_an_output_that_no_path_reaches():
    task = pathways(40, gates=np.zeros((40, 6)))
    w = nr.init.gaussian(task.graph, 0.3)
    agree(task, w, nr.loss(task, {e: 0 * v for e, v in w.items()}), {e: 0 * v for e, v in w.items()})


def test_gates_of_single_neurons_are_left_to_contexts():
    rng = np.random.default_rng(0)
    gate = rng.integers(0, 2, (60, 5)).astype(float)
    task = nr.Task(
        nr.Graph.chain([3, 5, 2]), rng.standard_normal((60, 3)), rng.standard_normal((60, 2)), {"h1": gate}
    )
    assert task.data.gatings is None
    assert program(task, "squared").how == "contexts"
