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
from neuralrace.universality.zoo import ZOO, Network, Training, train, two_points

__all__ = [
    "ZOO",
    "Fit",
    "FixedPoint",
    "Network",
    "Record",
    "State",
    "Training",
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
    "train",
    "two_points",
    "velocity",
]
