"""ReLU networks: which gated linear network is this one? (theory section 8)"""

from neuralrace.relu.candidates import context_candidates, pattern_candidates
from neuralrace.relu.discovery import Discovery, discover, mixed_share
from neuralrace.relu.gates import Imitation, as_gdln, imitate
from neuralrace.relu.gating_race import Race, race
from neuralrace.relu.maxima import Maxima, self_consistent
from neuralrace.relu.pathways import Pathways, predict_pathways
from neuralrace.relu.patterns import implementable, implementable_patterns, pattern_text
from neuralrace.relu.training import ReluNetwork, train, train_like

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
    "train_like",
]
