"""Architecture graphs: nodes are layers of neurons, edges are weight matrices."""

from neuralrace.graph.checks import some
from neuralrace.graph.graph import MOST_LISTED_PATHS, Graph

__all__ = ["MOST_LISTED_PATHS", "Graph", "some"]
