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
        ({"x": 1, "y": 1}, [("x", "y")], {"activations": {"y": "softplus"}}, "must be one of linear"),
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
