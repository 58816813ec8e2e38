"""The neural race reduction: the small system that governs learning, and how exact it is."""

from neuralrace.reduction.make import reduce
from neuralrace.reduction.reduction import Reduction
from neuralrace.reduction.solution import Solution

__all__ = ["Reduction", "Solution", "reduce"]
