from contextlib import suppress

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import InputError

ODD = {
    "None": None,
    "int": 3,
    "huge": 10**400,
    "text": "text",
    "bytes": b"bytes",
    "ragged": [[1, 2], [3]],
    "dicts": [{}],
    "unhashable": [["x"]],
    "nested": {"x": None},
    "numbers as names": {3: 4},
    "masked": np.ma.masked,
    "function": len,
    "object": np.array(None),
    "complex": 1j,
    "empty": np.zeros((2, 0)),
}
GRAPH = nr.Graph.chain([2, 3, 1])
TWO = nr.Graph({"a": 1, "b": 1, "y": 1, "z": 1}, [("a", "y"), ("b", "y"), ("b", "z")])
X, Y = np.eye(2), [1.0, 2.0]
TASK = nr.Task(GRAPH, X, Y)
MOMENTS = nr.Task.from_moments(GRAPH, [{"sxx": np.eye(2), "syx": [[1.0, 1.0]]}])
W = nr.init.gaussian(GRAPH, 0.1)
NODES, EDGES, PATH = {"x": 2, "h": 3, "y": 1}, [("x", "h"), ("h", "y")], ("x->h1", "h1->y")
DIGITS = nr.tasks.digits(hidden=2)


def moments(**given):
    return nr.Task.from_moments(GRAPH, [{"sxx": np.eye(2), **given}])


CALLS = {
    "nodes": lambda o: nr.Graph(o, EDGES),
    "size": lambda o: nr.Graph({**NODES, "x": o}, EDGES),
    "edges": lambda o: nr.Graph(NODES, o),
    "edge": lambda o: nr.Graph(NODES, [o, ("h", "y")]),
    "end": lambda o: nr.Graph(NODES, {"a": ("x", o), "b": ("h", "y")}),
    "activations": lambda o: nr.Graph(NODES, EDGES, activations=o),
    "activation": lambda o: nr.Graph(NODES, EDGES, activations={"h": o}),
    "biases": lambda o: nr.Graph(NODES, EDGES, biases=o),
    "chain": lambda o: nr.Graph.chain(o),
    "pathways": lambda o: nr.Graph.pathways(2, 1, o),
    "routing": lambda o: nr.Graph.routing(2, 2, o),
    "paths_into": lambda o: GRAPH.paths_into(o),
    "resized": lambda o: GRAPH.resized(o),
    "graph": lambda o: nr.Task(o, X, Y),
    "inputs": lambda o: nr.Task(GRAPH, o, Y),
    "targets": lambda o: nr.Task(GRAPH, X, o),
    "gates": lambda o: nr.Task(GRAPH, X, Y, o),
    "gate": lambda o: nr.Task(GRAPH, X, Y, {"h1": o}),
    "sample_weight": lambda o: nr.Task(GRAPH, X, Y, sample_weight=o),
    "batches": lambda o: nr.Task.from_batches(GRAPH, o),
    "batch": lambda o: nr.Task.from_batches(GRAPH, [o]),
    "batch inputs": lambda o: nr.Task.from_batches(GRAPH, [(o, Y)]),
    "batch gates": lambda o: nr.Task.from_batches(GRAPH, [(X, Y, o)]),
    "batch weights": lambda o: nr.Task.from_batches(GRAPH, [(X, Y, {}, o)]),
    "contexts": lambda o: nr.Task.from_moments(GRAPH, o),
    "context": lambda o: nr.Task.from_moments(GRAPH, [o]),
    "sxx": lambda o: moments(sxx=o),
    "syx": lambda o: moments(syx=o),
    "syy": lambda o: moments(syy=o),
    "moment gates": lambda o: moments(gates=o),
    "moment gate": lambda o: moments(gates={"h1": o}),
    "default_gate": lambda o: moments(default_gate=o),
    "probability": lambda o: moments(probability=o),
    "pairs": lambda o: nr.Task.from_moments(TWO, [{"sxx": o, "syy": o}]),
    "from_contexts": lambda o: nr.Task.from_contexts(GRAPH, o),
    "on": lambda o: TASK.on(o),
    "path": lambda o: TASK.syx(o),
    "path_j": lambda o: MOMENTS.sxx(o, PATH),
    "loss": lambda o: nr.loss(TASK, W, o),
    "node": lambda o: nr.activity(TASK, W, o),
    "shown": lambda o: nr.activity(TASK, W, "h1", o),
    "shown gates": lambda o: nr.activity(TASK, W, "h1", X, o),
    "tasks.contexts": lambda o: (nr.tasks.contexts(o), nr.tasks.contexts(3, o)),
    "tasks.gated": lambda o: nr.tasks.gated(X, X, np.ones((1, 2)), columns=o),
    "tasks.linear": lambda o: nr.tasks.linear(X, hidden=o),
    "tasks.hierarchy": lambda o: nr.tasks.hierarchy(2, hidden=o),
    "tasks.routing": lambda o: nr.tasks.routing(3, o),
    "tasks.sharing": lambda o: nr.tasks.sharing(4, 2, hidden=o),
    "tasks.partition": lambda o: nr.tasks.partition(2, o),
    "tasks.tree": lambda o: nr.tasks.tree(o),
    "tasks.ring": lambda o: nr.tasks.ring(3, graph=o),
    "tasks.transformed": lambda o: nr.tasks.transformed(DIGITS, 2, 1, o),
    "tasks.transformed base": lambda o: nr.tasks.transformed(o, 2, 1),
    "tasks.mnist": lambda o: nr.tasks.mnist("/nowhere" if o is None else o),
}
TRAJ = nr.flow(TASK, W, t1=1.0, save=3)
TWICE = {e: np.stack([w, w]) for e, w in W.items()}
CALLS |= {
    "seed": lambda o: nr.init.gaussian(GRAPH, 0.1, seed=o),
    "key": lambda o: nr.init.gaussian(GRAPH, 0.1, key=o),
    "decoupled": lambda o: nr.init.decoupled(o, 0.1),
    "run": lambda o: nr.flow(TASK, TWICE, t1=1.0, save=2)[o],
    "runs": lambda o: nr.flow(TASK, TWICE, t1=1.0, save=2, runs=o),
    "coordinate": lambda o: nr.flow(TASK, TWICE, t1=1.0, save=2, runs={"a": o}),
    "record": lambda o: nr.flow(TASK, W, t1=1.0, save=2, record=o),
    "save": lambda o: nr.flow(TASK, W, t1=1.0, save=o),
    "method": lambda o: nr.flow(TASK, W, t1=1.0, save=2, method=o),
    "frozen": lambda o: nr.descend(TASK, W, lr=0.1, steps=2, rates=nr.Rates(frozen=o)),
    "decay": lambda o: nr.Rates(decay={"h1->y": o}),
    "scale": lambda o: nr.Rates(scale=o),
    "rates": lambda o: nr.flow(TASK, W, t1=1.0, rates=0 if o is None else o),
    "optimizer": lambda o: nr.descend(TASK, W, lr=0.1, steps=2, optimizer=o),
    "dtype": lambda o: nr.descend(TASK, W, lr=0.1, steps=2, dtype=o),
    "save_weights": lambda o: nr.descend(TASK, W, lr=0.1, steps=2, save_weights=o),
    "progress": lambda o: nr.descend(TASK, W, lr=0.1, steps=2, progress=o),
    "for_error": lambda o: nr.Adaptive.for_error(o),
    "LowRank": lambda o: nr.LowRank(1e-3, of=o),
    "path to save": lambda o: TRAJ.save("" if isinstance(o, str) else o),
    "path to load": lambda o: nr.Trajectory.load(o),
    "level": lambda o: nr.learning_time(TRAJ, o),
    "half_time": lambda o: nr.half_time([0.0, 1.0], [] if o is None else o),
    "first": lambda o: nr.half_time([0.0, 1.0], [0.0, 1.0], first=o),
    "axis": lambda o: nr.half_time([0.0, 1.0], [0.0, 1.0], axis=o),
    "end_to_end": lambda o: nr.end_to_end(o, W),
    "network": lambda o: nr.end_to_end(GRAPH, o),
    "source": lambda o: nr.end_to_end(GRAPH, W, o),
    "pathway_maps": lambda o: nr.pathway_maps(GRAPH, o),
    "unit_sizes": lambda o: nr.unit_sizes(o, W["h1->y"]),
    "normalise": lambda o: nr.unit_sizes(W["x->h1"], W["h1->y"], normalise=o),
    "mode_strengths": lambda o: nr.mode_strengths(o, TASK),
    "mode_strengths task": lambda o: nr.mode_strengths(TRAJ, o),
    "follow_pair": lambda o: nr.universality.follow_pair(o, X, Y),
    "chain_time": lambda o: nr.exact.chain_time(0.5, o, 0.1),
    "reduction_conditions": lambda o: nr.relu.reduction_conditions(o, np.ones((1, 2))),
    "growth_rates": lambda o: nr.relu.growth_rates(np.ones((1, 2)), X, o),
    "watch x": lambda o: nr.watch(lambda p, x: x, o, Y),
    "watch y": lambda o: nr.watch(lambda p, x: x, X, o),
    "watch layers": lambda o: nr.watch(lambda p, x: x, X, Y, layers=o),
    "watch branches": lambda o: nr.watch(lambda p, x: x, X, Y, branches=o),
    "watch labels": lambda o: nr.watch(lambda p, x: x, X, Y, items=o),
}
for function in (nr.loss, nr.gradient, nr.predict, nr.error_rate, nr.conserved, nr.tangent_kernel):
    CALLS[f"{function.__name__} task"] = lambda o, f=function: f(o, W)
    CALLS[f"{function.__name__} weights"] = lambda o, f=function: f(TASK, o)
    CALLS[f"{function.__name__} weight"] = lambda o, f=function: f(TASK, {**W, "x->h1": o})


@pytest.mark.parametrize("call", CALLS)
def test_odd_input_is_used_or_refused_with_a_message(call):
    for odd in ODD.values():
        with suppress(InputError):
            CALLS[call](odd)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nr.Graph({"x": 10**30, "y": 1}, [("x", "y")]), "size of node 'x' must be at most"),
        (lambda: nr.Graph(NODES, EDGES, biases=3), "biases must be a list of names, got 3"),
        (lambda: nr.Graph(NODES, EDGES, biases=[["h"]]), r"biases names \['h'\], which is no node"),
        (lambda: nr.Graph(NODES, EDGES, activations=["h"]), "activations must be a dict"),
        (lambda: TASK.syx(None), "path must be a list of edges, got None"),
        (lambda: nr.Task.from_moments(GRAPH, [None]), r"contexts\[0\] must be a dict"),
        (lambda: nr.Task(GRAPH, None, Y), r"inputs\['x'\] must hold real numbers, got None"),
        (lambda: nr.loss(TASK, [W]), "weights must be a dict"),
        (
            lambda: nr.tasks.contexts(100_000),
            r"n = 100000 is too large: its data would take 1\d,\d+ GiB, more",
        ),
        (lambda: nr.tasks.hierarchy(40), "levels = 40 is too large: its data would take"),
        (lambda: nr.tasks.routing(10**8, 2), "domains = 100000000 is too large"),
        (lambda: nr.tasks.ring(10**6), "n = 1000000 is too large"),
        (lambda: nr.tasks.xor(hidden=2**70), "must be at most"),
        (lambda: nr.tasks.modular_addition(10**5), "modulus = 100000 is too large"),
        (lambda: nr.expected_learning_time(TASK, "gaussian", 0.1, 0.1, draws=2**31), "draws must be at most"),
        (lambda: TRAJ.time("steps", lr=0.1, tau=None), "tau must be a number, got None"),
        (lambda: nr.relu.context_patterns(20, 20), "items and contexts must be fewer, got 20 and 20"),
        (lambda: nr.init.xavier(GRAPH, [1, 2], [1, 2, 3]), r"seed of shape \(3,\) and gain of shape \(2,\)"),
        (lambda: nr.flow(TASK, W, t1=1.0, runs={"loss": 1}), "runs must be named by text without ':', other"),
        (lambda: nr.flow(TASK, W, t1=1.0, runs={"a": 2**70}), "runs.'a'. must hold numbers of 64 bits"),
        (lambda: nr.tasks.routing(3, 2, seed=2**70), "seed must be at most 9223372036854775807"),
        (lambda: nr.tasks.linear(X, hidden=[[1, 2], [3]]), r"hidden must be a whole number, got \[1, 2\]"),
    ],
)
def test_messages_name_the_argument(make, message):
    with pytest.raises(InputError, match=message):
        make()
