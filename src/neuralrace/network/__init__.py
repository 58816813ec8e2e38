"""The network of a task: compiled into a program (`compiler`), run (`plan`), and what is asked of it.

Programs run in JAX; those of small linear networks in NumPy too, where nothing is compiled."""

from neuralrace.network.compiler import compile_program
from neuralrace.network.evaluate import activity, error_rate, gradient, loss, loss_and_gradient, predict
from neuralrace.network.plan import Program, Stack, read, row_blocks, some_rows, take
from neuralrace.network.programs import cast, check, is_linear, precision, program, runs_in_numpy
from neuralrace.tables import LOSSES

__all__ = [
    "LOSSES",
    "Program",
    "Stack",
    "activity",
    "cast",
    "check",
    "compile_program",
    "error_rate",
    "gradient",
    "is_linear",
    "loss",
    "loss_and_gradient",
    "precision",
    "predict",
    "program",
    "read",
    "row_blocks",
    "runs_in_numpy",
    "some_rows",
    "take",
]
