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
