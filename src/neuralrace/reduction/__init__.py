"""The neural race reduction: the small system that governs learning, and how exact it is."""

from neuralrace.reduction.attainable import AttainableLoss, attainable_loss
from neuralrace.reduction.certificate import mode_strengths
from neuralrace.reduction.constants import UNLEARNED, UNSOLVED
from neuralrace.reduction.equations import Kind
from neuralrace.reduction.latex import in_latex
from neuralrace.reduction.path_classes import class_rates
from neuralrace.reduction.reduction import BASES, Reduction, reduce
from neuralrace.reduction.solve import Solution, settled_time
from neuralrace.reduction.start import StartReduction

__all__ = [
    "BASES",
    "UNLEARNED",
    "UNSOLVED",
    "AttainableLoss",
    "Kind",
    "Reduction",
    "Solution",
    "StartReduction",
    "attainable_loss",
    "class_rates",
    "in_latex",
    "mode_strengths",
    "reduce",
    "settled_time",
]


def __dir__() -> list[str]:
    return __all__
