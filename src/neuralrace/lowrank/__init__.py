"""Gradient flow of wide linear networks as a reduced-order model (theory section 3).

The change of each weight matrix is written in bases of the signals that pass it, and only its small
coordinates move. Bases are enriched where the projection residual exceeds a tolerance, and truncated where
directions no longer matter. Steps are those of backward differentiation, implicit in the outputs.

`layout` is the network of a task, `network` what moves, `residual` and `enrich` what the bases miss and how
they change, `bdf` the steps, `solve` the whole, `saved` its results; all constants are in `constants`.
"""

from neuralrace.lowrank.constants import ROUNDING
from neuralrace.lowrank.enrich import initial_bases, reduced_network
from neuralrace.lowrank.layout import small_shapes
from neuralrace.lowrank.saved import Saved
from neuralrace.lowrank.solve import Solution, Tolerances, solve, solve_to

__all__ = [
    "ROUNDING",
    "Saved",
    "Solution",
    "Tolerances",
    "initial_bases",
    "reduced_network",
    "small_shapes",
    "solve",
    "solve_to",
]
