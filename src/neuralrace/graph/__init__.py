"""Architecture graphs: nodes are layers of neurons, edges are weight matrices."""

from neuralrace.graph.checks import some
from neuralrace.graph.graph import Graph, check_graph
from neuralrace.graph.weights import WeightsLike

__all__ = ["Graph", "WeightsLike", "check_graph", "some"]
