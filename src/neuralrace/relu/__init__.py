"""ReLU networks: which gated linear network is this one? (theory section 8)"""

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
    "Imitation",
    "Maxima",
    "Pathways",
    "Race",
    "ReluNetwork",
    "as_gdln",
    "context_candidates",
    "imitate",
    "implementable",
    "implementable_patterns",
    "pattern_candidates",
    "pattern_text",
    "predict_pathways",
    "race",
    "self_consistent",
    "train",
]
