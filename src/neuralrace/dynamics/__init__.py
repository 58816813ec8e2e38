"""Learning: gradient flow and gradient descent, and the trajectories they return.

Time is flow time with tau = 1 on the mean loss; step k of descent is at `t = lr k` (theory.md section 6).
"""

from neuralrace.dynamics.descent import descend
from neuralrace.dynamics.gradient_flow import flow, flows
from neuralrace.dynamics.methods import Adaptive, LowRank
from neuralrace.dynamics.rates import Rates
from neuralrace.dynamics.record import State
from neuralrace.dynamics.run import Path, Problem
from neuralrace.dynamics.status import Ending, Status
from neuralrace.dynamics.trajectory import Trajectory, versions

__all__ = [
    "Adaptive",
    "Ending",
    "LowRank",
    "Path",
    "Problem",
    "Rates",
    "State",
    "Status",
    "Trajectory",
    "descend",
    "flow",
    "flows",
    "versions",
]


def __dir__() -> list[str]:
    return __all__
