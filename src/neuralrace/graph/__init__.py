"""Architecture graphs: nodes are layers of neurons, edges are weight matrices."""

from neuralrace.graph.graph import Graph, check_graph
from neuralrace.graph.parts import Edge, Node, some
from neuralrace.graph.weights import WeightsLike

__all__ = ["Edge", "Graph", "Node", "WeightsLike", "check_graph", "some"]
