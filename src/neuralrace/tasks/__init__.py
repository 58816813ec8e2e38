"""Tasks of the papers, each a `Task` on a sensible default graph."""

from neuralrace.tasks.contexts import contexts, gated
from neuralrace.tasks.images import cifar10, digits, input_domains, mnist, patch_encoder, transformed
from neuralrace.tasks.routing import circulant, routing, sharing
from neuralrace.tasks.structured import hierarchy
from neuralrace.tasks.toy import contextual_classification, separability, xor

__all__ = [
    "cifar10",
    "circulant",
    "contexts",
    "contextual_classification",
    "digits",
    "gated",
    "hierarchy",
    "input_domains",
    "mnist",
    "patch_encoder",
    "routing",
    "separability",
    "sharing",
    "transformed",
    "xor",
]
