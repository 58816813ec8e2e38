"""Tasks of the papers, each a `Task` on a sensible default graph."""

from neuralrace.tasks.routing import circulant, routing, sharing
from neuralrace.tasks.structured import hierarchy
from neuralrace.tasks.toy import contextual_classification, xor

__all__ = ["circulant", "contextual_classification", "hierarchy", "routing", "sharing", "xor"]
