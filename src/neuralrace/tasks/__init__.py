"""Tasks of the papers, each a `Task` on a sensible default graph."""

from neuralrace.tasks.routing import routing, sharing
from neuralrace.tasks.structured import hierarchy
from neuralrace.tasks.toy import xor

__all__ = ["hierarchy", "routing", "sharing", "xor"]
