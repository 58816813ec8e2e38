"""The theory of how networks learn: gated deep linear networks and the neural race reduction."""

from neuralrace import errors, exact, experiments, init, landscape, plot, relu, tasks, universality
from neuralrace.dynamics import descend, flow
from neuralrace.graph import Graph
from neuralrace.measure import conserved, learning_time, tangent_kernel
from neuralrace.network import activity, error_rate, gradient, loss, predict
from neuralrace.reduction import Reduction, reduce
from neuralrace.relu.race import race
from neuralrace.task import Task
from neuralrace.trajectory import Trajectory

__version__ = "0.1.0"

__all__ = [
    "Graph",
    "Reduction",
    "Task",
    "Trajectory",
    "activity",
    "conserved",
    "descend",
    "error_rate",
    "errors",
    "exact",
    "experiments",
    "flow",
    "gradient",
    "init",
    "landscape",
    "learning_time",
    "loss",
    "plot",
    "predict",
    "race",
    "reduce",
    "relu",
    "tangent_kernel",
    "tasks",
    "universality",
]
