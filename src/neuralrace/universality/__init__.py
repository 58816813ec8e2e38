"""Any smooth network: how two representations move, given two effective learning rates."""

from neuralrace.universality.fit import Fit, fit
from neuralrace.universality.record import Record, record
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
    "Fit",
    "FixedPoint",
    "Record",
    "State",
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
    "velocity",
]
