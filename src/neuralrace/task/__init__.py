"""Tasks: samples or moments on a graph, gathered into contexts of equal gates (theory.md section 2)."""

from neuralrace.task.contexts import ArrayInterner, Block, Blocks, Context, Gate
from neuralrace.task.task import Task

__all__ = ["ArrayInterner", "Block", "Blocks", "Context", "Gate", "Task"]
