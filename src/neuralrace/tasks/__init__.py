"""Tasks of the papers, each a `Task` on a sensible default graph."""

from neuralrace.tasks.routing import routing
from neuralrace.tasks.structured import hierarchy
from neuralrace.tasks.toy import xor

__all__ = ["hierarchy", "routing", "xor"]
