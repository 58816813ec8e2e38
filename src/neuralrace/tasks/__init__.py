"""Tasks of the papers, each a `Task` on a sensible default graph."""

from neuralrace.tasks.domains import circulant, on_each_domain, routing, sharing
from neuralrace.tasks.images import (
    cifar10,
    digits,
    domain_features,
    input_domains,
    mnist,
    patch_encoder,
    transformed,
)
from neuralrace.tasks.structured import World, contexts, gated, grid, hierarchy, linear, partition, ring, tree
from neuralrace.tasks.toy import (
    blobs,
    contextual_classification,
    modular_addition,
    separability,
    two_points,
    xor,
)

__all__ = [
    "World",
    "blobs",
    "cifar10",
    "circulant",
    "contexts",
    "contextual_classification",
    "digits",
    "domain_features",
    "gated",
    "grid",
    "hierarchy",
    "input_domains",
    "linear",
    "mnist",
    "modular_addition",
    "on_each_domain",
    "partition",
    "patch_encoder",
    "ring",
    "routing",
    "separability",
    "sharing",
    "transformed",
    "tree",
    "two_points",
    "xor",
]


def __dir__() -> list[str]:
    return __all__
