"""A reduction of a task: to and from weights, and its solution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.dynamics.methods import Adaptive
from neuralrace.dynamics.setup import coordinates
from neuralrace.dynamics.times import save_times
from neuralrace.errors import InputError, array, known, number, short
from neuralrace.reduction.certificate import share_outside
from neuralrace.reduction.family import FAMILIES
from neuralrace.reduction.growth import growing_blocks, growing_strengths, off_manifold_fraction
from neuralrace.reduction.make_system import make_system
from neuralrace.reduction.reduced_equations import ReducedEquations
from neuralrace.reduction.solution import Solution
from neuralrace.reduction.solve import solve_small, solve_tied
from neuralrace.reduction.system import System


@dataclass(frozen=True, eq=False, repr=False)
class Reduction(ReducedEquations):
    """The small system of a task; made by `reduce`.

    Attributes
    ----------
    task : Task
    family : Family
        The frames in which weights are written.
    classes : tuple of tuples of str
        Edges that stay equal in all modes.
    gradient_residual : dict
        Edge -> largest part of the gradient outside the family of weights, relative to the largest
        gradient, at random points of the family.
    rates : Rates
        Learning rate and weight decay of each edge.

    Examples
    --------
    >>> import neuralrace as nr
    >>> r = nr.reduce(nr.tasks.routing(domains=3, trained=2))
    >>> r.exact, r.basis, r.n_modes, r.n_classes
    (True, 'shared', 4, 2)
    """

    # -- to and from weights -----------------------------------------------------------------

    def project(self, weights: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
        """Coordinates of the nearest weights in the family.

        Parameters
        ----------
        weights : dict
            Edge name -> (out, in), or with leading axes.

        Returns
        -------
        dict of str to ndarray
            Edge name -> (modes,), or (rows, columns) for blocks, with the leading axes of the weights.

        Examples
        --------
        >>> import neuralrace as nr
        >>> r = nr.reduce(nr.tasks.routing(domains=3, trained=2))
        >>> r.project(nr.init.decoupled(r, 0.1))["x0->h1"].round(6)
        array([0.1, 0.1, 0.1, 0.1])
        """
        return self.family.project(self.task.graph.check_weights(weights))

    def lift(self, b: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
        """Weights with coordinates b: the inverse of `project` on the family.

        Parameters
        ----------
        b : dict
            Edge name -> (modes,), or (rows, columns) for blocks; leading axes may be given.

        Returns
        -------
        dict of str to ndarray
            Edge name -> (out, in), with the leading axes of `b`.

        Examples
        --------
        >>> import numpy as np, neuralrace as nr
        >>> r = nr.reduce(nr.tasks.routing(domains=3, trained=2))
        >>> r.lift({e: np.full(4, 0.1) for e in r.task.graph.edges})["x0->h1"].shape
        (64, 4)
        """
        return self.family.lift(self._check(b))

    def distance(self, weights: Mapping[str, ArrayLike]) -> float:
        """Distance of weights from the family, relative to their norm.

        Parameters
        ----------
        weights : dict
            Edge name -> (out, in). Several runs (a leading axis) are one long vector.

        Returns
        -------
        float
            Between 0, in the family, and 1.

        Examples
        --------
        >>> import neuralrace as nr
        >>> r = nr.reduce(nr.tasks.routing(domains=3, trained=2))
        >>> r.distance(nr.init.decoupled(r, 0.1)) < 1e-12, r.distance(nr.init.xavier(r.task.graph)) > 0.9
        (True, True)
        """
        return float(
            np.sqrt(share_outside(self.family, self.task.graph.check_weights(weights), together=True))
        )

    def off_manifold_fraction(self, weights: Mapping[str, ArrayLike]) -> float | np.ndarray:
        """Fraction of the squared norm of weights outside the family, with hidden frames fitted to them.

        0 for decoupled weights with positive strengths in any hidden directions, near 1 for random ones. For
        the change since the start, `W(t) - W(0)`, it is the part of learning that the reduction does not
        describe; random weights that do not change do not count then.

        Parameters
        ----------
        weights : dict
            Edge name -> (out, in), or with leading axes.

        Returns
        -------
        float or ndarray
            With the leading axes of the weights.

        Examples
        --------
        >>> import neuralrace as nr
        >>> r = nr.reduce(nr.tasks.routing(domains=3, trained=2))
        >>> abs(r.off_manifold_fraction(nr.init.decoupled(r, 0.1))) < 1e-9
        True
        """
        if self.basis == "block":
            raise InputError(
                "off_manifold_fraction needs modes: reduce the task in the shared or the pathwise basis"
            )
        found = off_manifold_fraction(self.family, self.task.graph.check_weights(weights))
        return float(found) if found.ndim == 0 else found

    def strengths(self, weights: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
        """Initial strengths of the reduced system for a network that starts at these weights.

        For weights in the family: their coordinates. For other weights, only the component that grows under
        learning is kept (one strength per mode, or one small matrix per block).

        Parameters
        ----------
        weights : dict
            Edge name -> (out, in), or with leading axes.

        Returns
        -------
        dict of str to ndarray
            Edge name -> (modes,), or (rows, columns) for blocks, with the leading axes of the weights.

        Examples
        --------
        >>> import neuralrace as nr
        >>> r = nr.reduce(nr.tasks.xor())
        >>> r.strengths(nr.init.gaussian(r.task.graph, 0.01))["x->p0h1"].shape
        (1,)
        """
        w = self.task.graph.check_weights(weights)
        if np.sqrt(share_outside(self.family, w, together=True)) < 1e-6:
            return self.family.project(w)
        if self.basis == "block":
            modes = FAMILIES["shared" if self.task.graph.fixed else "pathwise"]
            return growing_blocks(self.family, modes(self.task, np.random.default_rng(0)), w)
        return growing_strengths(self.family, w)

    def _check(self, b: Any) -> dict[str, np.ndarray]:
        if not isinstance(b, Mapping):
            raise InputError(f"b must be a dict from edge names to strengths, got {type(b)}")
        known("b", b, self.family.shape, "edge that learns")
        found = {}
        for e, shape in self.family.shape.items():
            if e not in b:
                raise InputError(f"b lacks edge {e!r}")
            value = array(f"b[{e!r}]", b[e])
            if value.shape[value.ndim - len(shape) :] != shape:
                raise InputError(
                    f"b[{e!r}] must have shape {shape}, with leading axes at most; got {value.shape}"
                )
            found[e] = value
        return found

    # -- solving -----------------------------------------------------------------------------

    def solve(
        self,
        strength: ArrayLike | None = None,
        t1: float | None = None,
        save: int | Iterable[float] | None = None,
        *,
        b0: Mapping[str, ArrayLike] | None = None,
        weights: Mapping[str, ArrayLike] | None = None,
        method: Adaptive = Adaptive(rtol=1e-9, atol=1e-11),  # noqa: B008 (a frozen value)
        stop_loss: float | None = None,
        runs: Mapping[str, ArrayLike] | None = None,
    ) -> Solution:
        """Solve the reduced system.

        Parameters
        ----------
        strength : float or array, shape (runs,), optional
            Start from this strength in every mode of every edge.
        t1, save, stop_loss, runs
            As in `flow`. Flow time, tau = 1 on the mean loss.
        b0 : dict, optional
            Start from these strengths: edge -> (modes,), or blocks; a leading axis of runs may be given.
        weights : dict, optional
            Start from the strengths of these weights (see `strengths`).
        method : Adaptive

        Returns
        -------
        Solution
            A `Trajectory` with `b`, `strengths` and `outside` besides.

        Examples
        --------
        >>> import neuralrace as nr
        >>> sol = nr.reduce(nr.tasks.xor()).solve(strength=[0.01, 0.1], t1=40.0)
        >>> sol.loss.shape, sol[1].outcome
        ((2, 200), 'finished at t = 40')
        """
        if not isinstance(method, Adaptive):
            raise InputError(f"method must be nr.Adaptive(...), got {short(method)}")
        if sum(v is not None for v in (strength, b0, weights)) != 1:
            raise InputError("give one of strength, b0 and weights: where the solution starts")
        if isinstance(save, Iterator):
            save = list(save)  # a generator is read twice
        end, ts = save_times(t1, save)
        stop = None if stop_loss is None else number("stop_loss", stop_loss, above=0)
        b = self._start(strength, b0, weights)
        edge, shape = next(iter(self.family.shape.items()))
        lead = b[edge].shape[: b[edge].ndim - len(shape)]
        if len(lead) > 1 or any(v.shape != (*lead, *self.family.shape[e]) for e, v in b.items()):
            raise InputError(
                "strength, b0 and weights may have one leading axis, of runs, the same for all edges"
            )
        given = None if weights is None else self.task.graph.check_weights(weights)
        more = {
            "runs": coordinates(runs, lead[0] if lead else 1, bool(lead)),
            "outside": np.zeros(lead)[()] if given is None else share_outside(self.family, given),
            "start": given,
        }
        tied = all(b[e] is b[m[0]] or np.array_equal(b[e], b[m[0]]) for m in self.classes for e in m)
        if tied and self.tied is not None:
            return solve_tied(self, b, end, ts, save is None, method, stop, more)
        return solve_small(self, b, end, save, method, stop, more)

    def _start(self, strength: Any, b0: Any, weights: Any) -> dict[str, np.ndarray]:
        """Strengths to start from."""
        if b0 is not None:
            return self._check(b0)
        if weights is not None:
            return self.strengths(weights)
        value = array("strength", strength)
        if value.ndim > 1 or not value.size or (value < 0).any():
            raise InputError(
                f"strength must be at least 0, a number or one for each run; got {short(strength)}"
            )
        b = {s: value[(...,) + (None,) * len(s)] * v for s, v in self._ones.items()}
        return {e: b[s] for e, s in self.family.shape.items()}

    @cached_property
    def _ones(self) -> dict[tuple[int, ...], np.ndarray]:
        """Strengths of 1 in every mode, by their shape."""
        shapes = set(self.family.shape.values())
        return {s: np.eye(*s) if len(s) == 2 else np.ones(s) for s in shapes}

    def to_jax(
        self, strength: float | None = None, *, weights: Mapping[str, ArrayLike] | None = None
    ) -> System:
        """The reduced system in a block basis, as pure functions of strengths, data and gates for JAX.

        Parameters
        ----------
        strength : float, optional
            Size of the initial blocks, which are diagonal; 1 if not given.
        weights : dict, optional
            Start from these weights instead, in bases that they never leave.

        Returns
        -------
        System

        Examples
        --------
        >>> import neuralrace as nr
        >>> s = nr.reduce(nr.tasks.xor()).to_jax(strength=0.1)
        >>> round(s.loss(s.strengths, s.statistics, s.gates), 3)
        0.5
        """
        return make_system(self, strength, weights)
