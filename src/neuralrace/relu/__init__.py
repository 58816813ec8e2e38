"""ReLU networks: which gated linear network is this one? (theory.md section 8)"""

from neuralrace.relu.discovery import Discovery, discover, mixed_share
from neuralrace.relu.gates import Imitation, as_gdln, imitate, reduction_conditions
from neuralrace.relu.gatings import Race, context_candidates, pattern_candidates, race
from neuralrace.relu.pathways import Maxima, Pathways, pathway_residual, predict_pathways, self_consistent
from neuralrace.relu.patterns import (
    context_patterns,
    growth_rates,
    implementable,
    implementable_patterns,
    pattern_text,
)
from neuralrace.relu.training import train, train_like

__all__ = [
    "Discovery",
    "Imitation",
    "Maxima",
    "Pathways",
    "Race",
    "as_gdln",
    "context_candidates",
    "context_patterns",
    "discover",
    "growth_rates",
    "imitate",
    "implementable",
    "implementable_patterns",
    "mixed_share",
    "pathway_residual",
    "pattern_candidates",
    "pattern_text",
    "predict_pathways",
    "race",
    "reduction_conditions",
    "self_consistent",
    "train",
    "train_like",
]


def __dir__() -> list[str]:
    return __all__
