"""Which method solves a flow fastest."""

from __future__ import annotations

import numpy as np

from neuralrace.dynamics.methods import Adaptive, LowRank
from neuralrace.dynamics.setup import Setup
from neuralrace.network import is_linear
from neuralrace.subspace import rotation_invariant_nodes
from neuralrace.task import Task

_ERROR = 1e-6  # stated error up to which a method may be chosen
_LARGE = 60_000  # weights between wide layers above which small bases are faster
_WIDE = 5  # neurons of a wide layer for each signal that passes it


def fastest(setup: Setup) -> tuple[Adaptive | LowRank, ...]:
    """Methods to try, the one that should be fastest first."""
    double = np.dtype(setup.dtype) == np.float64  # the rounding of single precision is above that error
    linear = is_linear(setup.given, setup.kind) and not setup.rates.decays(setup.given.graph)
    low_rank = double and linear and is_wide(setup.given)
    return (LowRank(_ERROR), Adaptive()) if low_rank else (Adaptive(),)


def is_wide(task: Task, large: int = _LARGE) -> bool:
    """Whether a linear network is large, and its hidden layers much wider than the signals that pass them.

    Signals are the rows of inputs of all contexts, and the outputs.
    """
    g = task.graph
    rows = sum(c.rows for c in task.moment_contexts) + sum(g.nodes[o] for o in g.outputs)
    wide = {n for n in rotation_invariant_nodes(task) if g.nodes[n] > _WIDE * rows}
    return sum(g.nodes[s] * g.nodes[t] for s, t in g.edges.values() if {s, t} <= wide) > large
