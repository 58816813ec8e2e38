"""Reductions around a start: any depth, any width, any size of the initial weights, and a stated error.

A weight matrix learns only along the signals that pass it: forwards from the inputs, backwards from the
errors. They span few directions of a hidden layer, whatever its width, so the change of the weights is
followed in small bases of these signals (see `wide`). Bases are enriched until what leaves them is below
a tolerance. The system is solved twice, the second time with a tenth of the tolerance; the difference of the
two loss curves, which is the error of the worse one, is stated as that of the better one. A network that is
about as small as such bases would be is solved as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from neuralrace.dynamics.choice import is_wide
from neuralrace.dynamics.gradient_flow import flow
from neuralrace.dynamics.methods import Adaptive, LowRank
from neuralrace.dynamics.setup import Rates, weight_dims
from neuralrace.dynamics.trajectory import Status, Trajectory
from neuralrace.errors import InputError, number
from neuralrace.reduction.strengths import mode_strengths
from neuralrace.task import Task

# In small bases:
_FIRST = 0.1  # tolerance of the first solution, in errors allowed,
_LARGEST = 1e-4  # and at most: with larger ones differences do not tell errors
_FINER = 0.1  # of the next solution, in tolerances of the one before
_MOST = 4  # solutions after the first
# As they are:
_TOLERANCE = 0.01  # of the solver, in errors allowed
_STATED = 4.0  # error that is stated, in tolerances; .006 to 2.6, median .2, in the trials of docs/starts.md


@dataclass(frozen=True, eq=False)
class StartReduction:
    """The small system that predicts learning from given weights; made by `reduce(task, weights=...)`.

    Attributes
    ----------
    task : Task
    weights : dict
        The start, edge -> (out, in); a leading axis of runs may be there.
    error : float
        Error allowed of the loss curve, relative to the initial loss.
    rates : Rates
        Learning rate of each edge.
    """

    task: Task
    weights: dict[str, np.ndarray]
    error: float
    rates: Rates

    @classmethod
    def of(cls, task: Task, weights: Any, error: Any, rates: Rates) -> StartReduction:
        """From the arguments of `reduce`, checked."""
        if rates.decays:
            raise InputError("weight_decay must be 0 for a reduction around a start: solve it by nr.flow")
        return cls(task, task.graph.check_weights(weights), number("error", error, above=0), rates)

    @property
    def is_wide(self) -> bool:
        """Whether small bases are used: the network is wide, and its edges learn at rate 1 or not at all."""
        return self.rates.on_or_off and is_wide(self.task)

    def __repr__(self) -> str:
        hidden = sum(self.task.graph.nodes[n] for n in self.task.graph.hidden)
        how = "in bases of the signals that pass them" if self.is_wide else "as they are"
        return (
            f"StartReduction({hidden} hidden neurons, followed {how}; "
            f"error of the loss curve allowed: {self.error:g} of the initial loss)"
        )

    def solve(
        self,
        t1: float | None = None,
        save: int | Iterable[float] | None = None,
        *,
        weights: Mapping[str, Any] | None = None,
        stop_loss: float | None = None,
        runs: Mapping[str, Any] | None = None,
        max_steps: int = 100_000,
    ) -> StartSolution:
        """Predict learning from the start.

        Parameters
        ----------
        t1, save, stop_loss, runs
            As in `flow`. Flow time, tau = 1 on the mean loss.
        weights : dict, optional
            The start again, for those who like to say it; another one is refused.
        max_steps : int
            Steps after which a solution gives up.

        Returns
        -------
        StartSolution
            A `Trajectory`; `stats["error"]` states its error.
        """
        if weights is not None:
            given = self.task.graph.check_weights(weights)
            if any(not np.array_equal(given[e], w) for e, w in self.weights.items()):
                raise InputError("weights must be those around which the task was reduced")
        save = list(save) if isinstance(save, Iterator) else save  # a generator is read more than once
        given = {"t1": t1, "save": save, "stop_loss": stop_loss, "runs": runs}
        run, error = (self._in_bases if self.is_wide else self._as_it_is)(max_steps, given)
        return self._finished(run, error)

    def _in_bases(self, max_steps: int, given: dict[str, Any]) -> tuple[Trajectory, Any]:
        """Solutions in small bases with smaller and smaller tolerances, until two agree."""
        tolerance = min(_FIRST * self.error, _LARGEST)
        given |= {"save_weights": False}  # wide ones take longer to write down than to find
        before = self._solved(LowRank(self.error, max_steps, tolerance), given)
        if given["save"] is None:  # curves are compared at the same times
            end = before.settings["t1"]
            given |= {"save": before.t if before.t[-1] >= end else [*before.t, end]}
        left = _MOST
        while True:
            tolerance, left = tolerance * _FINER, left - 1
            method = LowRank(self.error, max_steps, tolerance)
            run = self._solved(method, given)
            error = _difference(before, run)
            failed = {Status.DIVERGED, Status.STEP_LIMIT} & set(run.statuses)
            if np.all(error <= self.error) or failed or not left:
                again = partial(self._solved, method, given | {"save_weights": True})
                weights = LazyWeights(self.task.graph.shapes, lambda: again().weights)
                return replace(run, weights=weights, dims=weight_dims(self.task.graph)), error
            before = run

    def _as_it_is(self, max_steps: int, given: dict[str, Any]) -> tuple[Trajectory, Any]:
        """One solution of the whole network, whose error goes with the tolerance of the solver."""
        tolerance = _TOLERANCE * self.error
        run = self._solved(Adaptive(tolerance, 1e-2 * tolerance, max_steps), given)
        return run, np.full(run.loss.shape[:-1], _STATED * tolerance)

    def _solved(self, method: Adaptive | LowRank, given: dict[str, Any]) -> Trajectory:
        scale = {e: s for e, s in self.rates.scale.items() if s != 1}
        return flow(self.task, self.weights, method=method, lr_scale=scale, **given)

    def _finished(self, run: Trajectory, error: np.ndarray) -> StartSolution:
        statuses, outcomes = list(run.statuses), list(run.outcomes)
        for k, value in enumerate(np.atleast_1d(error)):
            if not value <= self.error:
                outcomes[k] += f"; stated error {value:.2g}, above {self.error:g}"
                if statuses[k] in (Status.FINISHED, Status.REACHED_LOSS):
                    statuses[k] = Status.MISSED_ERROR
                    outcomes[k] = f"{Status.MISSED_ERROR.value}: {outcomes[k]}"
        parts = {f.name: getattr(run, f.name) for f in fields(Trajectory)}
        parts |= {
            "statuses": tuple(statuses),
            "outcomes": tuple(outcomes),
            "stats": {**run.stats, "error": error if run.many else float(error)},
            "settings": {**run.settings, "process": "reduction", "error": self.error},
        }
        return StartSolution(**parts, reduction=self)


@dataclass(frozen=True, eq=False, repr=False)
class StartSolution(Trajectory):
    """A prediction of learning from given weights: a `Trajectory` whose loss has a stated error.

    Attributes
    ----------
    reduction : StartReduction
    weights : mapping
        Edge name -> (save, out, in). Of wide networks they are written down when the first is asked for; the
        small system is then solved once more.
    outside : float
        Share of the start that is left out: 0.

    See `Trajectory` for the others.
    """

    reduction: StartReduction = field(kw_only=True)
    outside: float = 0.0

    @cached_property
    def strengths(self) -> np.ndarray:
        """Strength of each mode of the task in each edge, (save, modes, edges); see `mode_strengths`."""
        found = mode_strengths(self, self.reduction.task)
        return np.stack([found[e] for e in self.reduction.task.graph.edges], axis=-1)

    def __repr__(self) -> str:
        worst = float(np.max(self.stats["error"]))
        return f"{super().__repr__()[:-1]}; error of the loss curve at most {worst:.1g} of the initial loss)"


class LazyWeights(Mapping[str, np.ndarray]):
    """Weights (save, out, in) by name, found when the first is asked for."""

    def __init__(self, names: Iterable[str], find: Callable[[], Mapping[str, np.ndarray]]):
        self.names, self.find = tuple(names), find

    @cached_property
    def found(self) -> Mapping[str, np.ndarray]:
        return self.find()

    def __getitem__(self, name: str) -> np.ndarray:
        return self.found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _difference(before: Trajectory, run: Trajectory) -> np.ndarray:
    """Largest difference of two loss curves at times that both have, relative to the initial loss."""
    n = min(len(before.t), len(run.t))
    same = before.t[:n] == run.t[:n]
    apart = np.abs(before.loss[..., :n] - run.loss[..., :n])[..., same].max(axis=-1)
    first = np.abs(run.loss[..., 0])
    return apart / np.where(first > 0, first, 1.0)
