"""When learning is complete: a loss near the least that any weights reach, and when runs have settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neuralrace.dynamics.status import Status
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.measure import learning_time
from neuralrace.reduction.attainable import LEFT
from neuralrace.task import Task

if TYPE_CHECKING:
    from neuralrace.reduction.reduction import Reduction

LEARNED = LEFT  # share of what can be learned that may be left at the end


def complete_loss(r: Reduction) -> float:
    """The loss at which all but a share `LEARNED` of what any weights can learn is learned."""
    least = r.attainable.loss
    return least + LEARNED * (r.untrained_loss - least)


def settled_time(run: Trajectory) -> float:
    """Time at which all runs have learned all but a share `LEARNED` of what they learn by their end.

    Runs that stopped at the loss that was their goal have learned all at their end.
    """
    if set(run.statuses) == {Status.REACHED_LOSS}:
        return float(np.max(run.end))
    assert run.history is not None
    first, last = run.history.loss[..., 0], run.history.loss.min(axis=-1)
    return float(np.max(learning_time(run, last + LEARNED * (first - last))))


def strongest_correlation(task: Task) -> float:
    """The largest correlation of an input with a target in a context, which says how fast learning can be."""
    pairs = ((x, y) for c in task.moment_contexts for x in c.inputs.values() for y in c.targets.values())
    return max(float(np.linalg.norm(y.T @ x)) for x, y in pairs)
