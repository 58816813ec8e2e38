"""Methods that solve a flow; each is a small frozen object with its own options."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np

from neuralrace.dynamics import constants
from neuralrace.dynamics.run import Path, Problem
from neuralrace.dynamics.solver import evolve
from neuralrace.errors import InputError, choice, integer, number, short
from neuralrace.network import is_linear
from neuralrace.subspace import rotation_invariant_nodes


class Method(Protocol):
    """How a flow is solved; bring your own by an object with this method."""

    def solve(self, problem: Problem) -> Path:
        """Losses and states of all runs of the problem at its times."""
        ...


@dataclass(frozen=True)
class Adaptive:
    """Integrate all weights by an adaptive Runge-Kutta method of order 8.

    What becomes stiff goes on by a method for that (see `stiff`).

    Parameters
    ----------
    rtol, atol : float
        Local errors allowed, relative and absolute. If the largest initial weight is below 1, `atol` is
        multiplied by it, so that small weights are integrated as accurately as large ones.
    max_steps : int
        Largest number of steps of a run, rejected ones included.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.xor()
    >>> nr.flow(task, nr.init.gaussian(task.graph, 0.1), t1=20.0, method=Adaptive(rtol=1e-6)).outcome
    'finished at t = 20'
    """

    rtol: float = 1e-8
    atol: float = 1e-10
    max_steps: int = 100_000

    def __post_init__(self) -> None:
        number("rtol", self.rtol, above=0)
        number("atol", self.atol, above=0)
        check_steps("max_steps", self.max_steps)

    @classmethod
    def for_error(cls, error: float, max_steps: int = 100_000) -> Adaptive:
        """Tolerances with which the error of the loss, relative to its start, should be below `error`."""
        error = number("error", error, above=0)
        return cls(constants.STEP_SHARE * error, 1e-2 * constants.STEP_SHARE * error, max_steps)

    @property
    def stated_error(self) -> float:
        """Estimate of the error of the loss curve, relative to its start."""
        return constants.STATED * self.rtol

    def solve(self, problem: Problem) -> Path:
        """Solve a flow."""
        units = problem.units
        least = 1e3 * np.finfo(problem.start.dtype).tiny  # smaller ones round to 0
        atols = np.maximum(self.atol * np.where(units > 0, np.minimum(1.0, units), 1.0), least)
        path = evolve(problem, self.rtol, atols, self.max_steps)
        return replace(path, settings={"method": "Adaptive", **asdict(self)})


@dataclass(frozen=True)
class LowRank:
    """Wide linear layers by the change of their weights, in a basis of low rank.

    Represents the change of each wide weight matrix in a low-rank basis, enlarged until the estimated error
    is below `error`. `stats["error"]` of the result states the estimate for each run.

    Parameters
    ----------
    error : float
        Error allowed; at least 1e-10.
    max_steps : int
        Steps after which a run gives up.
    of : {"outputs", "loss"}
        What the error is of: the network's outputs at the saved times, relative to the largest; or the loss
        curve, relative to the initial loss.
    """

    error: float
    max_steps: int = 100_000
    of: str = "outputs"

    def __post_init__(self) -> None:
        number("error", self.error, least=1e-10)
        check_steps("max_steps", self.max_steps)
        choice("of", self.of, ("outputs", "loss"))

    def solve(self, problem: Problem) -> Path:
        """Solve a flow of a linear network."""
        from neuralrace.dynamics.lowrank import low_rank_flow  # few flows need it

        setup = problem.network
        if setup is None or not is_linear(setup.given, setup.kind):
            raise InputError(
                "method=LowRank needs a network without activations and loss='squared'; take nr.Adaptive()"
            )
        if setup.rates.decays(setup.given.graph):
            raise InputError("method=LowRank takes no weight decay: use method=Adaptive")
        if not setup.frames or setup.frames.keys() != set(rotation_invariant_nodes(setup.given)):
            return low_rank_flow(self, problem)
        # The flow closes in small spaces: all that is left is the error of the solver.
        exact = Adaptive.for_error(min(self.error, 1e-6), self.max_steps)
        path = exact.solve(problem)
        stats = path.stats | {"error": np.full(len(path.losses), exact.stated_error)}
        return replace(path, stats=stats, settings=path.settings | {"method": "LowRank"})


def check_steps(name: str, value: Any) -> int:
    """A number of steps that 32 bits can count."""
    if integer(name, value) >= 2**31 - 1:
        raise InputError(f"{name} must be below 2^31 - 1, got {value}")
    return int(value)


def check_method(method: Any) -> Any:
    """The method to use; None where it is to be chosen."""
    if method is not None and (isinstance(method, type) or not callable(getattr(method, "solve", None))):
        raise InputError(
            "method must be nr.Adaptive(...), nr.LowRank(...) or an object with solve(problem), "
            f"got {short(method)}"
        )
    return method
