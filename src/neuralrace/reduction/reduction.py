"""A reduction: the equations, certificate and solution of the small system of a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.dynamics.methods import Adaptive
from neuralrace.dynamics.setup import Rates, coordinates
from neuralrace.dynamics.times import save_times
from neuralrace.errors import InputError, array, known, number
from neuralrace.reduction.certificate import (
    EXACT,
    inexact_paths,
    omitted_modes,
    share_outside,
)
from neuralrace.reduction.conserved import laws
from neuralrace.reduction.equations import write
from neuralrace.reduction.family import FAMILIES, Family
from neuralrace.reduction.growth import growing_blocks, growing_strengths, off_manifold_fraction
from neuralrace.reduction.latex import aligned
from neuralrace.reduction.make_system import make_system
from neuralrace.reduction.path_classes import TiedLoss, class_rates, tied_loss
from neuralrace.reduction.solution import Solution
from neuralrace.reduction.solve import solve_small, solve_tied
from neuralrace.reduction.symbols import Written, rate_values
from neuralrace.reduction.system import System
from neuralrace.reduction.ties import Classes
from neuralrace.task import Task

if TYPE_CHECKING:
    import sympy


@dataclass(frozen=True, eq=False)
class Reduction:
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

    task: Task
    family: Family
    classes: Classes
    gradient_residual: dict[str, float]
    rates: Rates

    @property
    def basis(self) -> str:
        """Which frames: "shared", "pathwise" or "block"."""
        return self.family.basis

    @property
    def residual(self) -> float:
        """The certificate: the largest of `gradient_residual`."""
        return max(self.gradient_residual.values())

    @property
    def exact(self) -> bool:
        """Whether the residual is below 1e-8."""
        return self.residual < EXACT

    @property
    def n_modes(self) -> int:
        """Number of modes; the width of the largest block, for blocks."""
        return self.family.modes

    @property
    def n_classes(self) -> int:
        """Number of classes of edges."""
        return len(self.classes)

    @property
    def weight_decay(self) -> dict[str, float]:
        """Edges whose weights decay, and how fast."""
        return {e: v for e, v in self.rates.decay.items() if v}

    @property
    def lr_scale(self) -> dict[str, float]:
        """Edges whose learning rate is not 1."""
        return {e: v for e, v in self.rates.scale.items() if v != 1}

    @cached_property
    def omitted_modes(self) -> int:
        """Modes that hidden layers are too narrow to carry."""
        return omitted_modes(self.family)

    @cached_property
    def inexact_paths(self) -> list[str]:
        """Paths (or edges, where paths are many) that most of the residual comes from."""
        edges = sorted(self.gradient_residual, key=lambda e: -self.gradient_residual[e])[:3]
        return inexact_paths(self.task, self.family, EXACT) or edges

    def __repr__(self) -> str:
        text = (
            f"Reduction({self.basis} basis, {self.n_modes} modes, {self.n_classes} classes; "
            f"equations {'exact' if self.exact else 'NOT exact'} for weights in its family "
            f"(residual {self.residual:.1e})"
        )
        if self.omitted_modes:
            text += f"; {self.omitted_modes} modes left out, hidden layers are too narrow for them"
        if not self.exact:
            text += f"; broken by {', '.join(self.inexact_paths)}"
        return text + ")"

    # -- equations ---------------------------------------------------------------------------

    @cached_property
    def tied(self) -> TiedLoss | None:
        """The loss as a polynomial in the strengths of the classes; None where modes are coupled."""
        return tied_loss(self.family, self.classes, self.rates)

    def equations(self, mode: int | None = None) -> list[sympy.Eq]:
        """The equations of motion, `tau dB/dt = ...`: exact on the family of weights where `exact` says so.

        B1 is the strength of the edges in `classes[0]`, and so on. S and D are statistics, summed over the
        paths whose edges have the same classes and numbered by these classes of paths as they appear: S1,
        D12. Equal ones share a symbol; a single one has no number. `statistics` has their numbers,
        `parameters` those of learning rates eta and weight decays lambda.

        Parameters
        ----------
        mode : int, optional
            Write the numbers of this mode instead of symbols. Blocks have no modes.

        Returns
        -------
        list of sympy.Eq
            One per class. Decoupled modes have the same equations, for numbers B1, B2, ... . Coupled modes
            have their own, for B1_2 (class 1, mode 2) and so on, if these are at most 12; else B1 is a vector
            of modes, multiplied entry by entry. For blocks B1 is a matrix, with statistics Syx and Sxx.
            Vectors and matrices are `sympy.MatrixSymbol`; put numbers into `.rhs`, as SymPy cannot put them
            into a derivative of a matrix. More than 5,000 terms raise an `InputError`.

        Examples
        --------
        >>> import neuralrace as nr
        >>> nr.reduce(nr.tasks.xor()).equations()[0].rhs
        B1*(-B1**2*D + S)/4
        >>> task = nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 9, 7]))
        >>> nr.reduce(task, "block").equations()[0].rhs
        B2.T*(-B2*B1*Sxx + Syx)
        """
        return list(self._written.equations if mode is None else write(self, mode).equations)

    def statistics(self) -> dict[Any, Any]:
        """The numbers behind the statistics in `equations`.

        Returns
        -------
        dict of sympy.Symbol or MatrixSymbol to float or ndarray
            An array (modes,) where modes decouple; of the shape of the matrix for a matrix.

        Examples
        --------
        >>> import neuralrace as nr
        >>> {str(symbol): v.round(3) for symbol, v in nr.reduce(nr.tasks.xor()).statistics().items()}
        {'S': array([1.414]), 'D': array([2.])}
        """
        return dict(self._written.values)

    def parameters(self) -> dict[sympy.Symbol, float]:
        """The numbers behind the symbols eta and lambda of `equations` and `conserved`.

        Returns
        -------
        dict of sympy.Symbol to float

        Examples
        --------
        >>> import neuralrace as nr
        >>> nr.reduce(nr.tasks.xor(), weight_decay=0.1).parameters()
        {lambda: 0.1}
        """
        return rate_values(*class_rates(self.classes, self.rates))

    def latex(self, mode: int | None = None) -> str:
        """The equations in LaTeX (amsmath), one per line with the edges of its class beside it.

        Parameters
        ----------
        mode : int, optional
            As in `equations`; numbers have three digits.

        Returns
        -------
        str

        Examples
        --------
        >>> import neuralrace as nr
        >>> "frac{d}{dt} B_{1}" in nr.reduce(nr.tasks.xor()).latex()
        True
        """
        return aligned(self._written if mode is None else write(self, mode), self.classes)

    def _repr_latex_(self) -> str | None:
        """The equations, and whether they are exact, for a notebook."""
        try:
            text = self.latex()
        except InputError:
            return None
        exact = "exact" if self.exact else "NOT exact"
        return f"$\\displaystyle {text}$\n\n{exact} on its family of weights (residual {self.residual:.1e})"

    @cached_property
    def _written(self) -> Written:
        return write(self)

    def conserved(self) -> list[sympy.Expr]:
        """Quantities that are constant along the flow, in every mode.

        At each hidden node: the sum of `B^2/eta` over outgoing edges less that over incoming ones, with
        learning rates eta; for blocks, of `B^T B/eta` less that of `B B^T/eta`. With weight decay, and if
        `eta lambda` is the same for all edges at the node, this times `exp(2 eta lambda t/tau)` is constant.
        There is no such law at other nodes, nor at a node with an edge of rate 0.

        Returns
        -------
        list of sympy.Expr
            In B1, B2, ... (and t, tau, eta, lambda), one per independent hidden node.

        Examples
        --------
        >>> import neuralrace as nr
        >>> nr.reduce(nr.tasks.routing(domains=7, trained=4)).conserved()
        [-7*B1**2 + B2**2]
        """
        blocks = [self.family.shape[c[0]] for c in self.classes] if self.basis == "block" else None
        return laws(self.task.graph, self.classes, self.rates, blocks)

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
            return growing_blocks(self.family, FAMILIES["pathwise"](self.task, np.random.default_rng(0)), w)
        return growing_strengths(self.family, w)

    def _check(self, b: Any) -> dict[str, np.ndarray]:
        if not isinstance(b, Mapping):
            raise InputError(f"b must be a dict from edge names to strengths, got {type(b)}")
        known("b", b, self.task.graph.edges, "edge")
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
            raise InputError(f"method must be nr.Adaptive(...), got {method!r}")
        if sum(v is not None for v in (strength, b0, weights)) != 1:
            raise InputError("give one of strength, b0 and weights")
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
            raise InputError(f"strength must be at least 0, a number or one for each run; got {strength!r}")
        shapes = self.family.shape
        one = {s: np.eye(*s) if len(s) == 2 else np.ones(s) for s in set(shapes.values())}
        b = {s: value[(...,) + (None,) * len(s)] * v for s, v in one.items()}
        return {e: b[s] for e, s in shapes.items()}

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
