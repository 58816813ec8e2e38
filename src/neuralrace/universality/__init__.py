"""Any smooth network: how two representations move, given two effective learning rates; many by pairs."""

from neuralrace.universality.fitting import Fit, fit, fit_rates
from neuralrace.universality.many_samples import (
    Comparison,
    compare,
    smooth_distances,
    structure,
    watch,
)
from neuralrace.universality.recording import Record, fit_recorded, follow_pair, record
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
    "fit_rates",
    "fit_recorded",
    "fixed_points",
    "follow_pair",
    "initial_distance",
    "loss",
    "plane_velocity",
    "record",
    "scales",
    "smooth_distances",
    "solve",
    "structure",
    "velocity",
    "watch",
]


def __dir__() -> list[str]:
    return __all__
