"""Solutions of the reduced dynamics in closed form, plain vectorised functions of time."""

from neuralrace.exact.chains import (
    chain,
    chain_time,
    context_strength,
    separability_crossover,
    separability_loss,
    separability_time,
    xor_loss,
)
from neuralrace.exact.parallel import (
    pathway_deep,
    pathway_far,
    pathway_field,
    pathway_invariant,
    pathway_split,
    pathways,
)
from neuralrace.exact.routes import routing, sharing
from neuralrace.exact.two_layers import balanced, balanced_qq, continual

__all__ = [
    "balanced",
    "balanced_qq",
    "chain",
    "chain_time",
    "context_strength",
    "continual",
    "pathway_deep",
    "pathway_far",
    "pathway_field",
    "pathway_invariant",
    "pathway_split",
    "pathways",
    "routing",
    "separability_crossover",
    "separability_loss",
    "separability_time",
    "sharing",
    "xor_loss",
]


def __dir__() -> list[str]:
    return __all__
