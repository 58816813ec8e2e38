"""ReLU networks: which gated linear network is this one? (theory section 8)"""

from neuralrace.relu.discovery import Discovery, discover, mixed_share
from neuralrace.relu.gates import Imitation, as_gdln, imitate
from neuralrace.relu.patterns import (
    Maxima,
    Pathways,
    implementable,
    implementable_patterns,
    pattern_text,
    predict_pathways,
    self_consistent,
)
from neuralrace.relu.race import Race, context_candidates, pattern_candidates, race
from neuralrace.relu.training import ReluNetwork, train

__all__ = [
    "Discovery",
    "Imitation",
    "Maxima",
    "Pathways",
    "Race",
    "ReluNetwork",
    "as_gdln",
    "context_candidates",
    "discover",
    "imitate",
    "implementable",
    "implementable_patterns",
    "mixed_share",
    "pattern_candidates",
    "pattern_text",
    "predict_pathways",
    "race",
    "self_consistent",
    "train",
]
