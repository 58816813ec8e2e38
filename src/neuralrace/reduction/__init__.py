"""The neural race reduction: the small system that governs learning, and how exact it is."""

from neuralrace.reduction.reduction import Reduction, Solution, reduce

__all__ = ["Reduction", "Solution", "reduce"]
