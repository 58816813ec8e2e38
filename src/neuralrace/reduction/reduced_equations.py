"""The modes, classes and equations of a reduction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.dynamics.rates import Rates
from neuralrace.errors import InputError, flag, integer
from neuralrace.network import gradient, loss
from neuralrace.reduction import constants
from neuralrace.reduction.attainable import AttainableLoss, attainable_loss
from neuralrace.reduction.certificate import inexact_paths, omitted_modes
from neuralrace.reduction.equations import Kind, Numbers, Symbols, Written, laws, write
from neuralrace.reduction.family import Classes, Family
from neuralrace.reduction.latex import aligned, definitions
from neuralrace.reduction.path_classes import Expansion, TiedLoss, TooManyPathClasses, tied_loss
from neuralrace.task import Task

if TYPE_CHECKING:
    import sympy


@dataclass(frozen=True, eq=False)
class ReducedEquations:
    """The equations of motion of a task on a family of weights; see `Reduction`."""

    task: Task
    family: Family
    classes: Classes
    gradient_residual: dict[str, float]
    rates: Rates
    names: Mapping[str, str] = field(default_factory=dict)  # of the strengths, by an edge of each

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
        return self.residual < constants.EXACT

    @property
    def n_modes(self) -> int:
        """Number of modes; the width of the largest block, for blocks."""
        return self.family.modes

    @property
    def directions(self) -> int:
        """Hidden directions of each mode."""
        return self.family.directions

    @property
    def n_classes(self) -> int:
        """Number of classes of edges."""
        return len(self.classes)

    @cached_property
    def omitted_modes(self) -> int:
        """Modes that hidden layers are too narrow to carry."""
        return omitted_modes(self.family)

    @cached_property
    def inexact_paths(self) -> list[str]:
        """Paths (or edges, where paths are many) that break the reduction most; none where it is exact."""
        if self.exact:
            return []
        edges = sorted(self.gradient_residual, key=lambda e: -self.gradient_residual[e])[:3]
        return inexact_paths(self.task, self.family, constants.EXACT) or edges

    def __repr__(self) -> str:
        text = (
            f"Reduction({self.basis} basis, {self.n_modes} modes, {self.n_classes} classes; "
            f"equations {'exact' if self.exact else 'NOT exact'} for weights in its family "
            f"(residual {self.residual:.1e})"
        )
        if self.omitted_modes:
            modes = "1 mode" if self.omitted_modes == 1 else f"{self.omitted_modes} modes"
            text += f"; {modes} left out, for which hidden layers are too narrow"
        if not self.exact:
            text += f"; broken by {', '.join(self.inexact_paths)}"
        return text + ")"

    @cached_property
    def attainable(self) -> AttainableLoss:
        """The least loss of any weights (see `attainable_loss`)."""
        return attainable_loss(self.task)

    @cached_property
    def untrained_loss(self) -> float:
        """The loss where all strengths are 0."""
        return self.loss({e: np.zeros(s) for e, s in self.family.shape.items()})

    def loss(self, b: Mapping[str, np.ndarray]) -> float:
        """The loss of strengths b."""
        return self._loss_and_slope(b)[0]

    def slope(self, b: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The derivative of the loss by strengths b."""
        return self._loss_and_slope(b)[1]

    def velocity(self, b: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The right-hand sides of the equations, for each edge (tau = 1)."""
        slope, found, known = self.slope(b), {}, {}
        for e, v in b.items():
            scale, decay = self.rates.of(e)
            key = (id(slope[e]), id(v), scale, decay)  # the edges of a class share theirs
            if key not in known:
                known[key] = -scale * (slope[e] + decay * np.asarray(v))
            found[e] = known[key]
        return found

    def _loss_and_slope(self, b: Mapping[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        if self.is_tied(b) and self.tied is not None:
            value, slope = self.tied.loss_and_gradient(np.stack([b[c[0]] for c in self.classes])[None])
            slopes = slope[0] / self.tied.sizes[:, None]
            return float(value[0]), {e: v for c, v in zip(self.classes, slopes, strict=True) for e in c}
        return float(loss(self.family.small, b)), gradient(self.family.small, b)

    def is_tied(self, b: Mapping[str, np.ndarray]) -> bool:
        """Whether the edges of each class have equal strengths, up to rounding."""
        rounding = 1e-12 * max((float(np.abs(v).max(initial=0.0)) for v in b.values()), default=0.0)
        near = lambda v, first: v is first or np.abs(v - first).max(initial=0.0) <= rounding  # noqa: E731
        return all(near(b[e], b[c[0]]) for c in self.classes for e in c)

    # -- equations ---------------------------------------------------------------------------

    @cached_property
    def tied(self) -> TiedLoss | None:
        """The loss as a polynomial in the strengths of the classes; None where modes are coupled."""
        return None if self.basis == "block" or self.paths is None else tied_loss(self.paths, self.rates)

    @cached_property
    def paths(self) -> Expansion | None:
        """The network as polynomials in the strengths of the classes; None where these are too long."""
        try:
            return Expansion(self.family, self.classes)
        except TooManyPathClasses:
            return None

    @property
    def form(self) -> str:
        """What strengths are in `equations`: numbers, vectors of coupled modes, or matrices."""
        return "matrices" if self.basis == "block" else "numbers" if self.tied is not None else "vectors"

    def written(self, mode: int | None = None, *, merge: bool = False) -> Written:
        """The equations as records, from which all that follows is made; arguments as in `equations`."""
        if mode is not None:
            if self.form != "numbers":
                raise InputError(
                    f"mode must be None for {self.form}, got {mode!r}; statistics() has their numbers"
                )
            if integer("mode", mode, least=0) >= self.n_modes:
                raise InputError(f"mode must be between 0 and {self.n_modes - 1}, got {mode}")
        key = (mode, flag("merge", merge))
        if key not in self._written:
            self._written[key] = write(self, mode, merge)
        return self._written[key]

    @cached_property
    def _written(self) -> dict[Any, Written]:
        return {}

    def equations(self, mode: int | None = None, *, merge: bool = False) -> list[sympy.Eq]:
        """The equations of motion, `tau dB/dt = ...`: exact on the family of weights where `exact` says so.

        B1 is the strength of the edges in `classes[0]`, and so on, or has the name given to `reduce`. S and D
        are statistics, summed over the paths whose edges have the same classes and numbered by these classes
        of paths as they appear: S1, D12. Every class and every two classes have a symbol of their own, but
        for what holds whatever the data, by the graph and the gates alone. A D is 0 if no sample opens both
        paths to one output, D21 is D12, and paths from the same input to the same output have the same
        statistics where their gates are the same. (If a gate of 0 or 1 opens path 2 only where path 1 is
        open, D12 is D22.) What vanishes or is equal by the numbers of the data keeps its symbols. A single
        symbol has no number. Paths that no data reach are left out.

        Parameters
        ----------
        mode : int, optional
            Write the numbers of this mode instead of symbols. For decoupled modes.
        merge : bool
            Also let statistics share a symbol that are equal for these data, to nine digits, and leave out
            those that vanish.

        Returns
        -------
        list of sympy.Eq
            One per class. Decoupled modes have the same equations, for numbers B1, B2, ... . Of coupled modes
            B1 is a vector of modes, multiplied entry by entry. For blocks B1 is a matrix, with statistics Syx
            and Sxx. Vectors and matrices are `sympy.MatrixSymbol`; put numbers into `.rhs`, as SymPy cannot
            put them into a derivative of a matrix. More than 5,000 terms raise an `InputError`.

        Examples
        --------
        >>> import neuralrace as nr
        >>> nr.reduce(nr.tasks.xor()).equations()[0].rhs
        B1*(-B1**2*D + S)/4
        >>> task = nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 9, 7]))
        >>> nr.reduce(task, "block").equations()[0].rhs
        B2.T*(-B2*B1*Sxx + Syx)
        """
        return [eq.sympy for eq in self.written(mode, merge=merge).equations]

    def statistics(self, *, merge: bool = False) -> Numbers:
        """The numbers behind the statistics in `equations`.

        Parameters
        ----------
        merge : bool
            As in `equations`.

        Returns
        -------
        dict of sympy.Symbol or MatrixSymbol to float or ndarray
            An array (modes,) where modes decouple; of the shape of the matrix for a matrix. The name of a
            symbol does as well, also of one that another stands for: "D21", "D22".

        Examples
        --------
        >>> import neuralrace as nr
        >>> r = nr.reduce(nr.tasks.xor())
        >>> {str(symbol): v.round(3) for symbol, v in r.statistics().items()}
        {'S': array([1.414]), 'D': array([2.])}
        >>> r.statistics()["D"]
        array([2.])
        """
        return self.written(merge=merge).numbers(Kind.CORRELATION, Kind.COVARIANCE, Kind.FIXED)

    def parameters(self) -> Numbers:
        """The numbers behind the symbols eta and lambda of `equations` and `conserved`.

        Returns
        -------
        dict of sympy.Symbol to float
            The name of a symbol does as well.

        Examples
        --------
        >>> import neuralrace as nr
        >>> nr.reduce(nr.tasks.xor(), rates=nr.Rates(decay=0.1)).parameters()
        {lambda: 0.1}
        """
        symbols = Symbols()
        symbols.rates(self)
        return Numbers(symbols.made)

    def latex(self, mode: int | None = None, *, merge: bool = False) -> str:
        """The equations in LaTeX (amsmath), one per line with the edges of its class beside it.

        Parameters
        ----------
        mode, merge
            As in `equations`. Numbers of the data have three digits; 1/n, for a class of n edges, is exact.

        Returns
        -------
        str

        Examples
        --------
        >>> import neuralrace as nr
        >>> "frac{d}{dt} B_{1}" in nr.reduce(nr.tasks.xor()).latex()
        True
        """
        return aligned(self.written(mode, merge=merge).equations, self.classes)

    def definitions(self, *, merge: bool = False) -> list[str]:
        r"""What every symbol in `equations` is, and its size: sentences in LaTeX, to stand below `latex`.

        Parameters
        ----------
        merge : bool
            As in `equations`.

        Returns
        -------
        list of str
            On what weights and statistics of paths are, on each class of paths, and on each symbol.

        Examples
        --------
        >>> import neuralrace as nr
        >>> nr.reduce(nr.tasks.routing(3, 2), names={"h1->h2": "T"}).definitions()[-3:]
        ['$T$ is the strength of $\\text{h1} \\to \\text{h2}$.', '$S = s(P_{1})$.', '$D = d(P_{1}, P_{1})$.']
        """
        return definitions(self, self.written(merge=merge))

    def _repr_latex_(self) -> str | None:
        """The equations, what is in them, and whether they are exact, for a notebook."""
        try:
            text = "\n\n".join([f"$\\displaystyle {self.latex()}$", *self.definitions()])
        except InputError:
            return None
        exact = "exact" if self.exact else "NOT exact"
        return f"{text}\n\n{exact} on its family of weights (residual {self.residual:.1e})"

    def conserved(self) -> list[sympy.Expr]:
        """Quantities that are constant along the flow, in every mode.

        At each hidden node: the sum of `B^2/eta` over outgoing edges less that over incoming ones, with
        learning rates eta; for blocks, of `B^T B/eta` less that of `B B^T/eta`. With weight decay, and if
        `eta lambda` is the same for all edges at the node, this times `exp(2 eta lambda t/tau)` is constant.
        There is no such law at other nodes, nor at a node with an edge of rate 0 or a fixed edge.

        Returns
        -------
        list of sympy.Expr
            In the strengths of `equations` (and t, tau, eta, lambda), one per independent hidden node.

        Examples
        --------
        >>> import neuralrace as nr
        >>> nr.reduce(nr.tasks.routing(domains=7, trained=4)).conserved()
        [-7*B1**2 + B2**2]
        """
        return laws(self)
