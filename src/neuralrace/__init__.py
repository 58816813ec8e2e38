"""The theory of how networks learn: gated deep linear networks and the neural race reduction."""

from neuralrace import errors, exact, experiments, init, landscape, measure, plot, relu, tasks, universality
from neuralrace.apps.insight import Watch, watch
from neuralrace.apps.sweep import Run, sweep, sweep_figure
from neuralrace.dynamics import Adaptive, Chebyshev, LowRank, State, Status, Trajectory, descend, flow
from neuralrace.expected import ExpectedTime, expected_learning_time
from neuralrace.graph import Graph
from neuralrace.laboratory import lab
from neuralrace.measure import (
    conserved,
    end_to_end,
    half_time,
    learning_time,
    pathway_maps,
    tangent_kernel,
    unit_sizes,
)
from neuralrace.network import activity, error_rate, gradient, loss, predict
from neuralrace.reduction import Reduction, StartReduction, mode_strengths, reduce
from neuralrace.relu.gating_race import race
from neuralrace.task import Task

__version__ = "0.1.0"

__all__ = [
    "Adaptive",
    "Chebyshev",
    "ExpectedTime",
    "Graph",
    "LowRank",
    "Reduction",
    "Run",
    "StartReduction",
    "State",
    "Status",
    "Task",
    "Trajectory",
    "Watch",
    "activity",
    "conserved",
    "descend",
    "end_to_end",
    "error_rate",
    "errors",
    "exact",
    "expected_learning_time",
    "experiments",
    "flow",
    "gradient",
    "half_time",
    "init",
    "lab",
    "landscape",
    "learning_time",
    "loss",
    "measure",
    "mode_strengths",
    "pathway_maps",
    "plot",
    "predict",
    "race",
    "reduce",
    "relu",
    "sweep",
    "sweep_figure",
    "tangent_kernel",
    "tasks",
    "unit_sizes",
    "universality",
    "watch",
]
