"""How a run ended."""

from __future__ import annotations

import enum


class Status(enum.Enum):
    """How a run ended; values are the words with which `Trajectory.outcome` starts.

    Attributes
    ----------
    FINISHED
        It came to its end. A solution of a reduction also learned what can be learned.
    REACHED_LOSS
        It stopped at `stop_loss`.
    DIVERGED
        It is not finite from its end on.
    STEP_LIMIT
        It took `max_steps` steps.
    MISSED_ERROR
        Its stated error is above what was allowed.
    SADDLE
        The family of a reduction rests where networks do not.
    UNDECIDED
        A reduction rests above the attainable loss, and whether networks leave is not known.
    UNSETTLED
        A reduction still moves, above the attainable loss.
    """

    FINISHED = "finished"
    REACHED_LOSS = "reached loss"
    DIVERGED = "diverged"
    STEP_LIMIT = "step limit"
    MISSED_ERROR = "missed error"
    SADDLE = "saddle"
    UNDECIDED = "undecided"
    UNSETTLED = "not settled"
