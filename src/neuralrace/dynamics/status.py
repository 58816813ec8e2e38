"""How a run ended."""

from __future__ import annotations

import enum


class Status(enum.Enum):
    """How a run ended; values are the words with which `Trajectory.outcome` starts."""

    FINISHED = "finished"
    REACHED_LOSS = "reached loss"
    DIVERGED = "diverged"
    STEP_LIMIT = "step limit"
    MISSED_ERROR = "missed error"
    SADDLE = "saddle"  # a reduction rests where networks do not
    UNDECIDED = "undecided"  # a reduction rests above the attainable loss; networks may or may not
    UNSETTLED = "not settled"  # a reduction still moves, above the attainable loss
