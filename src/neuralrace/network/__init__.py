"""The network of a task: compiled into a program (`compiler`), run (`plan`), and what is asked of it."""

from neuralrace.network.evaluate import activity, error_rate, gradient, loss, predict
from neuralrace.network.plan import Program, Stack, row_blocks, some_rows, take
from neuralrace.network.programs import LOSSES, cast, check, is_linear, precision, program

__all__ = [
    "LOSSES",
    "Program",
    "Stack",
    "activity",
    "cast",
    "check",
    "error_rate",
    "gradient",
    "is_linear",
    "loss",
    "precision",
    "predict",
    "program",
    "row_blocks",
    "some_rows",
    "take",
]
