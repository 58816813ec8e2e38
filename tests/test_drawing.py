import xml.etree.ElementTree as ET

import pytest

import neuralrace as nr
from neuralrace.drawing import graph_svg

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("graph", "boxes"),
    [
        (nr.Graph.chain([3, 128, 1]), 3),
        (nr.Graph.routing(4, 4), 10),
        (nr.Graph({"a<b": 1, "y&": 2}, [("a<b", "y&")], biases=True), 2),
        (nr.Graph.routing(60, 4), 10),
        (nr.Graph.chain([3, *[4] * 30, 2]), 7),
    ],
)
def test_graphs_are_drawn(graph, boxes):
    svg = ET.fromstring(graph_svg(graph))
    assert len(svg.findall(f".//{SVG}rect")) == boxes
    assert svg.get("stroke") == "currentColor"
    texts = [t.text or "" for t in svg.findall(f".//{SVG}text")]
    assert any("…" in t for t in texts) == (boxes < len(graph.nodes))
    assert "<svg" in graph._repr_html_()


def test_every_edge_of_a_small_graph_is_a_curve():
    edges = {"a": ("x", "h"), "b": ("x", "h"), "c": ("h", "y"), "skip": ("x", "y")}
    graph = nr.Graph({"x": 2, "h": 2, "y": 1}, {**edges, "a": nr.Edge(*edges["a"], diagonal=True)})
    paths = ET.fromstring(graph_svg(graph)).findall(f"{SVG}path")
    assert [p.findtext(f"{SVG}title") for p in paths] == list(edges)
    assert [p.get("stroke-dasharray") is not None for p in paths] == [True, False, False, False]
    assert len({p.get("d") for p in paths}) == 4
