"""Reductions around a start: any depth, any width, any size of the initial weights, and a stated error.

A weight matrix learns only along the signals that pass it: forwards from the inputs, backwards from the
errors. They span few directions of a hidden layer, whatever its width, so the change of the weights is
followed in small bases of these signals. They are enriched along the way until the estimated error of the
loss curve is below what is allowed (see `lowrank`). A network that is about as small as such bases is solved
as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuralrace.dynamics.gradient_flow import flow, is_wide
from neuralrace.dynamics.methods import Adaptive, LowRank
from neuralrace.dynamics.rates import Rates
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError
from neuralrace.reduction.growth import mode_strengths
from neuralrace.task import Task

_LARGE = 15_000  # weights between wide layers above which small bases are faster; `flow` asks for less error


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
        Learning rate and weight decay of each edge.
    """

    task: Task
    weights: dict[str, np.ndarray]
    error: float
    rates: Rates

    @classmethod
    def of(cls, task: Task, weights: Any, error: float, rates: Rates) -> StartReduction:
        """From the arguments of `reduce`; weights and rates are checked here."""
        return cls(task, task.graph.check_weights(weights), error, rates)

    @property
    def is_wide(self) -> bool:
        """Whether the network is wide, so that small bases are used: they cannot hold weights that decay."""
        return is_wide(self.task, _LARGE) and not self.rates.decays(self.task.graph)

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
        max_steps: int = 20_000,
    ) -> Trajectory:
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
        Trajectory
            `stats["error"]` states its error; `dimensions` and `residual` are of its bases.
        """
        if weights is not None:
            given = self.task.graph.check_weights(weights)
            if any(not np.array_equal(given[e], w) for e, w in self.weights.items()):
                raise InputError(
                    "weights must be those around which the task was reduced; for others call "
                    "nr.reduce(task, weights=...) again"
                )
        small = Adaptive.for_error(self.error, max_steps)
        method = LowRank(self.error, max_steps, of="loss") if self.is_wide else small
        run = flow(
            self.task, self.weights, t1, save,
            method=method, stop_loss=stop_loss, rates=self.rates, runs=runs,
        )  # fmt: skip
        stated = run.stats["error"] if self.is_wide else np.full(run.loss.shape[:-1], small.stated_error)
        missed = run.stats.get("residual", np.zeros_like(stated))
        stats = {"error": stated, "residual": missed}
        stats = {**run.stats, **(stats if run.many else {k: float(v) for k, v in stats.items()})}
        settings = {**run.settings, "process": "reduction", "error": self.error}
        return replace(run, stats=stats, settings=settings, source=Followed(self))


@dataclass(frozen=True, eq=False)
class Followed:
    """A reduction around given weights, solved: the `source` of a trajectory whose loss has a stated error.

    Attributes
    ----------
    reduction : StartReduction
    """

    reduction: StartReduction

    def residual(self, traj: Trajectory) -> Any:
        """Root of the largest share of velocities that bases missed, one per run; 0 where there are none."""
        return traj.stats["residual"]

    def strengths(self, traj: Trajectory) -> np.ndarray:
        """Strength of each mode of the task in each edge, (save, modes, edges); see `mode_strengths`."""
        found = mode_strengths(traj, self.reduction.task)
        return np.stack([found[e] for e in self.reduction.task.graph.shapes], axis=-1)

    def picked(self, k: Any) -> Followed:
        """The same: the reduction is of all runs."""
        return self

    def words(self, traj: Trajectory) -> str:
        """What was followed, and how exactly."""
        worst, missed = (float(np.max(traj.stats[name])) for name in ("error", "residual"))
        neurons = sum(self.reduction.task.graph.nodes[n] for n in traj.dimensions)
        return (
            f"{sum(traj.dimensions.values())} dimensions for {neurons} hidden neurons, "
            f"residual {missed:.1g}; "
            f"estimated error of the loss: {worst:.1g} of the initial one"
        )
