"""Tasks: samples or moments on a graph, gathered into contexts of equal gates (theory section 2)."""

from neuralrace.task.blocks import ArrayInterner, Block, Blocks
from neuralrace.task.context import Context, Gate
from neuralrace.task.task import Task

__all__ = ["ArrayInterner", "Block", "Blocks", "Context", "Gate", "Task"]
