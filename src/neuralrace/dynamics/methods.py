"""Methods that solve a flow; each is a small frozen object with its own options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.errors import InputError, integer, number


@dataclass(frozen=True)
class Adaptive:
    """Integrate all weights by an adaptive Runge-Kutta method of order 8.

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

    def absolute(self, start: np.ndarray) -> np.ndarray:
        """The absolute error allowed in each run, from its initial weights (runs, ...)."""
        largest = np.abs(start).max(axis=tuple(range(1, start.ndim)), initial=0.0)
        return self.atol * np.where(largest > 0, np.minimum(1.0, largest), 1.0)


@dataclass(frozen=True)
class LowRank:
    """Wide linear layers by the change of their weights, in a basis of low rank.

    Represents the change of each wide weight matrix in a low-rank basis, enlarged until the estimated error
    of the network's output is below `error`. `stats["error"]` of the result states the estimate for each
    run.

    Parameters
    ----------
    error : float
        Error allowed, relative to the largest output; at least 1e-10.
    max_steps : int
        Steps after which a run gives up.
    tolerance : float, optional
        Relative local error of a step. By default it is chosen, and made smaller until the stated error is
        below `error`; with a tolerance the flow is solved once.
    """

    error: float
    max_steps: int = 100_000
    tolerance: float | None = None

    def __post_init__(self) -> None:
        number("error", self.error, least=1e-10)
        if self.tolerance is not None:
            number("tolerance", self.tolerance, above=0)
        check_steps("max_steps", self.max_steps)


def check_steps(name: str, value: Any) -> int:
    """A number of steps that 32 bits can count."""
    if integer(name, value) >= 2**31 - 1:
        raise InputError(f"{name} must be below 2^31 - 1, got {value}")
    return int(value)


def check_method(method: Any) -> Adaptive | LowRank | None:
    """The method to use; None where it is to be chosen."""
    if method is not None and not isinstance(method, (Adaptive, LowRank)):
        raise InputError(f"method must be nr.Adaptive(...) or nr.LowRank(...), got {method!r}")
    return method
