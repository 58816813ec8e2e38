"""Architecture graphs: nodes are layers of neurons, edges are weight matrices."""

from neuralrace.graph.checks import some
from neuralrace.graph.edge import Edge
from neuralrace.graph.graph import Graph, check_graph
from neuralrace.graph.weights import WeightsLike

__all__ = ["Edge", "Graph", "WeightsLike", "check_graph", "some"]
