"""Any smooth network: how two representations move, given two effective learning rates; many by pairs."""

from neuralrace.universality.final import (
    FixedPoint,
    final_cdf,
    final_density,
    final_distance,
    fixed_points,
    initial_distance,
)
from neuralrace.universality.fits import fit_runs
from neuralrace.universality.fitting import Fit, fit, fit_rates
from neuralrace.universality.many_samples import (
    Comparison,
    compare,
    smooth_distances,
    structure,
    watch,
)
from neuralrace.universality.pairs import follow_pair
from neuralrace.universality.recording import Record, record
from neuralrace.universality.theory import (
    State,
    equal_targets,
    loss,
    plane_velocity,
    scales,
    solve,
    velocity,
)
from neuralrace.universality.training import train
from neuralrace.universality.trajectory import Training
from neuralrace.universality.zoo import ZOO, Network

__all__ = [
    "ZOO",
    "Comparison",
    "Fit",
    "FixedPoint",
    "Network",
    "Record",
    "State",
    "Training",
    "compare",
    "equal_targets",
    "final_cdf",
    "final_density",
    "final_distance",
    "fit",
    "fit_rates",
    "fit_runs",
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
    "train",
    "velocity",
    "watch",
]
