"""The neural race reduction: the small system that governs learning, and how exact it is."""

from neuralrace.reduction.attainable import UNLEARNED, AttainableLoss, attainable_loss
from neuralrace.reduction.growth import mode_strengths
from neuralrace.reduction.reduction import BASES, Reduction, reduce
from neuralrace.reduction.solve import Solution, settled_time
from neuralrace.reduction.start import StartReduction

__all__ = [
    "BASES",
    "UNLEARNED",
    "AttainableLoss",
    "Reduction",
    "Solution",
    "StartReduction",
    "attainable_loss",
    "mode_strengths",
    "reduce",
    "settled_time",
]


def __dir__() -> list[str]:
    return __all__
