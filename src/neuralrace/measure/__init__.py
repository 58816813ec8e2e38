"""Quantities read off weights and trajectories.

Each takes a trajectory where that is natural, else arrays with any leading axes (runs, times, modes).
"""

from neuralrace.measure.kernels import (
    distance_moved,
    kernel_change,
    kernel_turn,
    linearised_loss,
    tangent_kernel,
)
from neuralrace.measure.maps import (
    concentration,
    conserved,
    contributions,
    end_to_end,
    group_strengths,
    growing_part,
    off_diagonal_share,
    pathway_coordinates,
    pathway_maps,
    power_law_exponent,
    unit_sizes,
    xor_strengths,
)
from neuralrace.measure.representations import (
    cosine,
    cosine_similarity,
    domain_similarity,
    gram,
    multidimensional_scaling,
    plot_representations,
    principal_components,
    share_within,
    squared_distances,
)
from neuralrace.measure.times import (
    crossing,
    drawn_distance,
    half_time,
    last_crossing,
    learning_time,
    plateau_share,
    stopping_time,
)

__all__ = [
    "concentration",
    "conserved",
    "contributions",
    "cosine",
    "cosine_similarity",
    "crossing",
    "distance_moved",
    "domain_similarity",
    "drawn_distance",
    "end_to_end",
    "gram",
    "group_strengths",
    "growing_part",
    "half_time",
    "kernel_change",
    "kernel_turn",
    "last_crossing",
    "learning_time",
    "linearised_loss",
    "multidimensional_scaling",
    "off_diagonal_share",
    "pathway_coordinates",
    "pathway_maps",
    "plateau_share",
    "plot_representations",
    "power_law_exponent",
    "principal_components",
    "share_within",
    "squared_distances",
    "stopping_time",
    "tangent_kernel",
    "unit_sizes",
    "xor_strengths",
]


def __dir__() -> list[str]:
    return __all__
