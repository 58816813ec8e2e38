"""The modes, classes and equations of a reduction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.dynamics.rates import Rates
from neuralrace.errors import InputError
from neuralrace.network import gradient, loss
from neuralrace.reduction.attainable import AttainableLoss, attainable_loss
from neuralrace.reduction.certificate import EXACT, inexact_paths, omitted_modes
from neuralrace.reduction.conserved import laws
from neuralrace.reduction.equations import write
from neuralrace.reduction.family import Classes, Family
from neuralrace.reduction.latex import aligned
from neuralrace.reduction.path_classes import TiedLoss, class_rates, tied_loss
from neuralrace.reduction.symbols import Written, rate_values
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
        >>> nr.reduce(nr.tasks.xor(), rates=nr.Rates(decay=0.1)).parameters()
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
        There is no such law at other nodes, nor at a node with an edge of rate 0 or a fixed edge.

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
        return laws(self.family.graph, self.classes, self.rates, blocks)
