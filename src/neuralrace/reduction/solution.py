"""The result of `Reduction.solve`: a trajectory of strengths. Weights are computed from them on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from neuralrace.dynamics.lifted import LiftedWeights
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.network import predict
from neuralrace.reduction.certificate import gradient_residual
from neuralrace.reduction.ties import Classes

if TYPE_CHECKING:
    import xarray

    from neuralrace.reduction.family import Family
    from neuralrace.reduction.reduction import Reduction


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Trajectory):
    """A solved reduction: a `Trajectory` in few numbers.

    Attributes
    ----------
    reduction : Reduction
        The reduction that was solved.
    b : mapping
        Edge name -> (save, modes), or (save, rows, columns) for blocks; runs are a leading axis.
    weights : mapping
        Edge name -> (save, out, in), computed from `b` on demand.
    held : bool or ndarray, shape (runs,)
        Whether a run stays at a saddle that it would have left by rounding alone.

    See `Trajectory` for the others.

    Examples
    --------
    >>> import neuralrace as nr
    >>> sol = nr.reduce(nr.tasks.xor()).solve(strength=0.1, t1=20.0, save=5)
    >>> sol.loss.shape, sol.strengths.shape, sol.weights["x->p0h1"].shape
    ((5,), (5, 1, 1), (5, 32, 2))
    """

    reduction: Reduction = field(kw_only=True)
    b: Mapping[str, np.ndarray] = field(kw_only=True)
    held: Any = False

    @cached_property
    def strengths(self) -> np.ndarray:
        """Strength of each mode in each class, (save, modes, classes); singular values for blocks."""
        first = [np.asarray(self.b[members[0]]) for members in self.reduction.classes]
        if self.reduction.basis == "block":
            n = self.reduction.n_modes
            values = [np.linalg.svd(b, compute_uv=False) for b in first]
            first = [np.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, n - v.shape[-1])]) for v in values]
        return np.stack(first, axis=-1)

    def last(self, run: int = 0) -> dict[str, np.ndarray]:
        """Strengths at the end of a run; edges of a class share an array where they are stored once."""
        at = (run, -1) if self.many else (-1,)
        if isinstance(self.b, TiedStrengths):
            each = [(c, self.b[c[0]][at]) for c in self.b.classes]
            return {e: v for c, v in each for e in c}
        return {e: np.asarray(v)[at] for e, v in self.b.items()}

    def predict(self) -> dict[str, np.ndarray]:
        """Outputs for every sample along the solution.

        Returns
        -------
        dict of str to ndarray, shape (save, n, size)
            With a leading axis of runs where there are several.

        Examples
        --------
        >>> import neuralrace as nr
        >>> sol = nr.reduce(nr.tasks.xor()).solve(strength=0.1, t1=40.0, save=5)
        >>> sol.predict()["y"][-1, :, 0].round(2)  # at the end, of the four samples
        array([-1.,  1.,  1., -1.])
        """
        lead = self.loss.shape
        flat = {e: w.reshape(-1, *w.shape[len(lead) :]) for e, w in self.weights.items()}
        found = predict(self.reduction.task, flat)
        return {o: y.reshape(*lead, *y.shape[1:]) for o, y in found.items()}

    @cached_property
    def residual(self) -> float:
        """The certificate along this solution, at ten of its times (see `Reduction.residual`)."""
        at = np.unique(np.linspace(0, len(self.t) - 1, 10).round().astype(int))
        points = [{e: np.take(v, k, axis=self.loss.ndim - 1) for e, v in self.b.items()} for k in at]
        return max(gradient_residual(self.reduction.task, self.reduction.family, points).values())

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}; {self.reduction!r})"

    def _picked(self, k: Any, places: list[int]) -> Self:
        b = (
            self.b[k]
            if isinstance(self.b, TiedStrengths)
            else {e: np.asarray(v)[k] for e, v in self.b.items()}
        )
        bare = super(Solution, replace(self, weights={}))._picked(k, places)
        weights = lifted(self.reduction.family, b)
        return replace(bare, b=b, weights=weights, held=np.broadcast_to(self.held, len(self))[k])

    def to_xarray(self) -> xarray.Dataset:
        """As `Trajectory.to_xarray`, with `strengths` of axes `mode` and `class`."""
        axes = (*(("run",) if self.many else ()), "t", "mode", "class")
        return super().to_xarray().assign(strengths=(axes, self.strengths))


class TiedStrengths(Mapping[str, np.ndarray]):
    """Strengths of all edges, stored once per class: `by_class` (..., save, classes, modes)."""

    def __init__(self, classes: Classes, by_class: np.ndarray):
        self.classes: Classes = classes
        self.by_class: np.ndarray = by_class
        self.class_of: dict[str, int] = {e: k for k, members in enumerate(classes) for e in members}

    def __getitem__(self, edge: Any) -> Any:
        if isinstance(edge, str):
            return self.by_class[..., self.class_of[edge], :]
        return TiedStrengths(self.classes, self.by_class[edge])  # some runs

    def at(self, index: np.ndarray) -> TiedStrengths:
        """The strengths at some of the saved times."""
        return TiedStrengths(self.classes, self.by_class[..., index, :, :])

    def __iter__(self) -> Iterator[str]:
        return iter(self.class_of)

    def __len__(self) -> int:
        return len(self.class_of)


def lifted(family: Family, b: Mapping[str, np.ndarray]) -> LiftedWeights:
    """Weights (..., save, out, in) of each edge, computed from strengths on demand."""
    return LiftedWeights(family.network.shapes, lambda e: family.lift_edge(e, b))
