"""The neural race reduction: the small system that governs learning, and how exact it is."""

from neuralrace.reduction.make import reduce
from neuralrace.reduction.reduction import Reduction
from neuralrace.reduction.solution import Solution
from neuralrace.reduction.start import StartReduction, StartSolution
from neuralrace.reduction.strengths import mode_strengths

__all__ = ["Reduction", "Solution", "StartReduction", "StartSolution", "mode_strengths", "reduce"]
