"""Any smooth network: how two representations move, given two effective learning rates; many by pairs."""

from neuralrace.universality.fit import Fit, fit
from neuralrace.universality.record import Record, record
from neuralrace.universality.structure import (
    Comparison,
    compare,
    squared_distances,
    structure,
    watch,
    weigh,
)
from neuralrace.universality.theory import (
    FixedPoint,
    State,
    equal_targets,
    final_cdf,
    final_density,
    final_distance,
    fixed_points,
    initial_distance,
    loss,
    plane_velocity,
    scales,
    solve,
    velocity,
)

__all__ = [
    "Comparison",
    "Fit",
    "FixedPoint",
    "Record",
    "State",
    "compare",
    "equal_targets",
    "final_cdf",
    "final_density",
    "final_distance",
    "fit",
    "fixed_points",
    "initial_distance",
    "loss",
    "plane_velocity",
    "record",
    "scales",
    "solve",
    "squared_distances",
    "structure",
    "velocity",
    "watch",
    "weigh",
]
