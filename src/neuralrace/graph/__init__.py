"""Architecture graphs: nodes are layers of neurons, edges are weight matrices."""

from neuralrace.graph.checks import ACTIVATIONS, some
from neuralrace.graph.graph import MOST_LISTED_PATHS, Graph

__all__ = ["ACTIVATIONS", "MOST_LISTED_PATHS", "Graph", "some"]
