"""The theory of how networks learn: gated deep linear networks and the neural race reduction."""

from neuralrace import errors, exact, experiments, init, landscape, plot, relu, tasks, universality
from neuralrace.dynamics import Adaptive, LowRank, State, Status, Trajectory, descend, flow
from neuralrace.expected import ExpectedTime, expected_learning_time
from neuralrace.graph import Graph
from neuralrace.measure import conserved, learning_time, tangent_kernel
from neuralrace.network import activity, error_rate, gradient, loss, predict
from neuralrace.reduction import Reduction, mode_strengths, reduce
from neuralrace.relu.race import race
from neuralrace.task import Task

__version__ = "0.1.0"

__all__ = [
    "Adaptive",
    "ExpectedTime",
    "Graph",
    "LowRank",
    "Reduction",
    "State",
    "Status",
    "Task",
    "Trajectory",
    "activity",
    "conserved",
    "descend",
    "error_rate",
    "errors",
    "exact",
    "expected_learning_time",
    "experiments",
    "flow",
    "gradient",
    "init",
    "landscape",
    "learning_time",
    "loss",
    "mode_strengths",
    "plot",
    "predict",
    "race",
    "reduce",
    "relu",
    "tangent_kernel",
    "tasks",
    "universality",
]
