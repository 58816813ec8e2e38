import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import neuralrace as nr
from tests.strategies import graphs


@settings(max_examples=60)
@given(graphs())
def test_paths_are_counted_as_listed(graph):
    paths = graph.paths()
    assert graph.n_paths == len(paths) == len(set(paths))
    for edge in graph.edges:
        assert sorted(graph.paths_through(edge)) == sorted(p for p in paths if edge in p)
    for path in paths:
        assert graph.check_path("path", path) == path


def test_common_graphs():
    g = nr.Graph.chain([3, 128, 1])
    assert dict(g.nodes) == {"x": 3, "h1": 128, "y": 1}
    assert g.edges == {"x->h1": ("x", "h1"), "h1->y": ("h1", "y")}
    p = nr.Graph.pathways(8, 15, [[1000] * 6, [1000] * 6])
    assert p.n_paths == 2
    assert p.nodes["p1h6"] == 1000
    r = nr.Graph.routing(domains=7, size_in=4, hidden=(64, 64), size_out=7)
    assert r.n_paths == 49
    assert len(r.edges) == 15
    assert r.inputs[0] == "x0"
    assert r.outputs[-1] == "y6"


def test_counts_beyond_any_list():
    nodes = {f"n{k}": 1 for k in range(101)}
    edges = {f"{c}{k}": (f"n{k}", f"n{k + 1}") for k in range(100) for c in "ab"}
    assert nr.Graph(nodes, edges).n_paths == 2**100


def test_parallel_edges_skips_and_queries():
    g = nr.Graph(
        {"x": 2, "h": 3, "y": 1}, {"a": ("x", "h"), "b": ("x", "h"), "c": ("h", "y"), "s": ("x", "y")}
    )
    assert g.n_paths == 3
    assert g.paths_into("h") == [("a",), ("b",)]
    assert g.paths_into("x") == [()]
    assert g.paths_through("c") == [("a", "c"), ("b", "c")]
    assert g == nr.Graph(dict(g.nodes), dict(g.edges))
    assert hash(g) == hash(nr.Graph(dict(g.nodes), dict(g.edges)))
    assert g != g.resized({"h": 4})


@pytest.mark.parametrize(
    ("nodes", "edges", "keywords", "message"),
    [
        (
            {"x": 1, "h": 1, "y": 1},
            [("x", "h"), ("h", "y"), ("y", "h")],
            {},
            "cycle; one runs (h -> y -> h|y -> h -> y)$",
        ),
        ({"x": 1, "h": 1, "y": 1}, [("x", "h"), ("h", "h"), ("h", "y")], {}, "one runs h -> h$"),
        ({"x": 1, "y": 1}, [("x", "x"), ("x", "y")], {}, "cycle"),
        ({"x": 1, "y": 1}, [("x", "z")], {}, "'z'.*no node"),
        ({"x": 1, "y": 1, "z": 1}, [("x", "y")], {}, "'z' has no edges: connect it"),
        ({"x": 0, "y": 1}, [("x", "y")], {}, "size of node 'x' must be at least 1, got 0"),
        ({"x": -3, "y": 1}, [("x", "y")], {}, "at least 1, got -3"),
        ({"x": 1.5, "y": 1}, [("x", "y")], {}, "whole number"),
        ({"x": "two", "y": 1}, [("x", "y")], {}, "whole number"),
        ({"x": True, "y": 1}, [("x", "y")], {}, "whole number"),
        ({}, [("x", "y")], {}, "nodes"),
        ({"x": 1, "y": 1}, [], {}, "empty"),
        ({"x": 1, "y": 1}, "xy", {}, "edges"),
        ({"x": 1, "y": 1}, [("x",)], {}, "pairs"),
        ({"x": 1, "y": 1}, [("x", "y"), ("x", "y")], {}, "parallel edges need names"),
        ({"x": 1, "y": 1}, {"x": ("x", "y")}, {}, "different names"),
        ({"x/1": 1, "y": 1}, [("x/1", "y")], {}, "without '/'"),
        ({"x": 1, "y": 1}, [("x", "y")], {"activations": {"y": "cubic"}}, "must be one of linear"),
        ({"x": 1, "y": 1}, [("x", "y")], {"activations": {"q": "relu"}}, "'q'"),
        ({"x": 1, "y": 1}, [("x", "y")], {"activations": {"x": "relu"}}, "'x' is an input"),
        ({"x": 1, "y": 1}, [("x", "y")], {"biases": ["q"]}, "'q'"),
    ],
)
def test_wrong_graphs(nodes, edges, keywords, message):
    with pytest.raises(ValueError, match=message):
        nr.Graph(nodes, edges, **keywords)


def test_wrong_queries():
    g = nr.Graph.chain([2, 3, 1])
    for call in (g.paths_into, g.paths_through):
        with pytest.raises(ValueError, match="'q'"):
            call("q")
    with pytest.raises(ValueError, match="sizes"):
        nr.Graph.chain([3])
    with pytest.raises(ValueError, match="hidden"):
        nr.Graph.pathways(2, 2, [[3], []])
    with pytest.raises(ValueError, match="domains"):
        nr.Graph.routing(0, 4)


def test_nodes_say_what_else_there_is_to_them():
    nodes = {"x": 2, "a": nr.Node(3, "relu", bias=True), "b": nr.Node(3), "y": 1}
    edges = [("x", "a"), nr.Edge("a", "b", diagonal=True), ("b", "y")]
    graph = nr.Graph(nodes, edges, activations={"b": "tanh"}, biases=["y"])
    assert graph.nodes == {"x": 2, "a": 3, "b": 3, "y": 1}
    assert graph.activations == {"a": "relu", "b": "tanh"}
    assert set(graph.biases) == {"a", "y"}
    assert graph.shapes["a->b"] == (3,)
    assert graph.resized({"y": 4}).shapes["a->b"] == (3,)
    plain = nr.Graph(graph.nodes, graph.given_edges(), graph.activations, graph.biases)
    assert plain == graph


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nr.Graph({"x": 1, "y": nr.Node(0)}, [("x", "y")]), "size of node 'y' must be"),
        (lambda: nr.Graph({"x": 1, "y": nr.Node(1, "sine")}, [("x", "y")]), r"activations\['y'\] must be"),
        (lambda: nr.Graph({"x": 1, "y": nr.Node(1, bias=2)}, [("x", "y")]), "bias of node 'y' must be"),
        (lambda: nr.Graph({"x": nr.Node(1, "relu"), "y": 1}, [("x", "y")]), "'x' is an input"),
        (lambda: nr.Edge("x", "y", diagonal="yes"), "diagonal of 'x' -> 'y' must be"),
        (lambda: nr.Graph({"x": 1, "y": 2}, [nr.Edge("x", "y", diagonal=True)]), "must join nodes of equal"),
    ],
)
def test_wrong_nodes_and_edges(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_activation_and_a_loss_of_ones_own(monkeypatch):
    """One table each; functions of `jax.numpy`."""
    from neuralrace.network import LOSSES
    from neuralrace.tables import ACTIVATIONS

    monkeypatch.setitem(ACTIVATIONS, "sine", jnp.sin)
    monkeypatch.setitem(LOSSES, "quartic", lambda h, y: ((y - h) ** 4).sum(axis=-1))
    graph = nr.Graph.chain([1, 1, 1], activations="sine")
    task = nr.Task(graph, [0.5, 1.0], [1.0, 0.0])
    w = {"x->h1": [[2.0]], "h1->y": [[3.0]]}
    out = 3 * np.sin(np.array([1.0, 2.0]))
    assert np.allclose(nr.predict(task, w)["y"][:, 0], out)
    assert nr.loss(task, w, "quartic") == pytest.approx(((out - [1, 0]) ** 4).mean())
    step = nr.descend(task, w, lr=0.01, steps=1, save=2, loss="quartic")
    by_hand = nr.gradient(task, w, "quartic")["h1->y"]
    assert np.allclose(step.weights["h1->y"][1], 3 - 0.01 * by_hand)
