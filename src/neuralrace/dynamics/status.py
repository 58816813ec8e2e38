"""How a run ended."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, replace
from typing import Any


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


@dataclass(frozen=True)
class Ending:
    """How a run ended, in numbers, from which its words are made.

    Attributes
    ----------
    status : Status
    t : float
        Flow time of the end.
    step : int, optional
        The step of the end, of descent with learning rate `lr`.
    since : float, optional
        When the run came to rest.
    level : float, optional
        The loss at which the run was to stop.
    loss : float, optional
        The loss at the end of a descent that diverged.
    limit : int, optional
        The most steps of the solver.
    error, allowed : float, optional
        The stated error of a method, and the one that was asked for, where that was missed.
    why : str
        What else is to be said.
    said : str
        The words themselves, of a trajectory that was stored.
    """

    status: Status
    t: float
    step: int | None = None
    lr: float | None = None
    since: float | None = None
    level: float | None = None
    loss: float | None = None
    limit: int | None = None
    error: float | None = None
    allowed: float | None = None
    why: str = ""
    said: str = ""

    def scaled(self, factor: float) -> Ending:
        """The same with the loss in other units."""
        level, loss = (None if v is None else factor * v for v in (self.level, self.loss))
        return replace(self, level=level, loss=loss)

    @property
    def numbers(self) -> dict[str, Any]:
        """What there is besides status and time."""
        return {k: v for k, v in asdict(self).items() if k not in ("status", "t") and v not in (None, "")}

    @property
    def missed(self) -> str:
        """The stated error and the one that was asked for, where that was missed."""
        return "" if self.error is None else f"stated error {self.error:.2g}, above {self.allowed:g}"

    def __str__(self) -> str:
        return self.said or "; ".join(part for part in (self._words(), self.missed) if part)

    def _words(self) -> str:
        status, at = self.status, f"t = {self.t:g}"
        at = at if self.step is None else f"step {self.step}, {at}"
        if status is Status.REACHED_LOSS:
            return f"{status.value} {self.level:g} at {at}"
        if status is Status.STEP_LIMIT:
            return f"{status.value} of {self.limit} at {at}: try increasing max_steps, or looser tolerances"
        if status is Status.DIVERGED:
            if self.step is not None:
                return f"diverged at step {self.step}: loss {self.loss}; try a smaller lr than {self.lr:g}"
            return f"diverged at {at}: the solver found no step with finite weights"
        if status in (Status.FINISHED, Status.MISSED_ERROR):
            after = f"after {self.step} steps, t = {self.t:g}" if self.step is not None else f"at {at}"
            rest = "" if self.since is None else f", at rest since t = {self.since:g}"
            return f"{'' if status is Status.FINISHED else f'{status.value}: '}finished {after}{rest}"
        return f"{status.value} at {at}: {self.why}"
