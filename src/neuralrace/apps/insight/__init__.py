"""A network of one's own: what it learned first, its representations, pathways and regime."""

from neuralrace.apps.insight.answer import Answer
from neuralrace.apps.insight.pathways import pattern_agreement
from neuralrace.apps.insight.recordings import Recordings
from neuralrace.apps.insight.regime import Regime
from neuralrace.apps.insight.verb import watch
from neuralrace.apps.insight.watching import Watch, huggingface_callback, lightning_callback

__all__ = [
    "Answer",
    "Recordings",
    "Regime",
    "Watch",
    "huggingface_callback",
    "lightning_callback",
    "pattern_agreement",
    "watch",
]
