"""Solved reductions: where a trajectory of strengths comes from, and weights computed from it on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.dynamics.trajectory import LazyWeights, Trajectory
from neuralrace.reduction.certificate import gradient_residual
from neuralrace.reduction.family import Classes

if TYPE_CHECKING:
    from neuralrace.reduction.family import Family, Strengths
    from neuralrace.reduction.reduction import Reduction


@dataclass(frozen=True, eq=False)
class Solution:
    """A reduction, solved: the `source` of a trajectory.

    Attributes
    ----------
    reduction : Reduction
        The reduction that was solved.
    b : mapping
        Edge name -> (save, modes), or (save, rows, columns) for blocks; runs are a leading axis.
    held : bool or ndarray, shape (runs,)
        Whether a run stays at a saddle that it would have left by rounding alone.
    """

    reduction: Reduction
    b: Mapping[str, np.ndarray]
    held: Any = False

    def strengths(self, traj: Trajectory) -> np.ndarray:
        """Strength of each mode in each class, (save, modes, classes); singular values for blocks."""
        first = [np.asarray(self.b[members[0]]) for members in self.reduction.classes]
        if self.reduction.basis == "block":
            n = self.reduction.n_modes
            values = [np.linalg.svd(b, compute_uv=False) for b in first]
            first = [np.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, n - v.shape[-1])]) for v in values]
        return np.stack(first, axis=-1)

    def at(self, index: Any) -> Strengths:
        """Strengths at one of the saved times, `(i,)`, or of one run there, `(run, i)`.

        Edges of a class share an array where they are stored once.
        """
        if isinstance(self.b, TiedStrengths):
            each = [(c, self.b[c[0]][index]) for c in self.b.classes]
            return {e: v for c, v in each for e in c}
        return {e: np.asarray(v)[index] for e, v in self.b.items()}

    def residual(self, traj: Trajectory) -> float:
        """The certificate along a solution, at ten of its times (see `Reduction.residual`)."""
        at = np.unique(np.linspace(0, len(traj.t) - 1, 10).round().astype(int))
        points = [{e: np.take(v, k, axis=int(traj.many)) for e, v in self.b.items()} for k in at]
        return max(gradient_residual(self.reduction.task, self.reduction.family, points).values())

    def picked(self, k: Any) -> Solution:
        """One run, or several."""
        own = {e: np.asarray(v)[k] for e, v in self.b.items()}
        b = self.b.picked(k) if isinstance(self.b, TiedStrengths) else own
        return Solution(self.reduction, b, np.asarray(self.held)[k] if np.ndim(self.held) else self.held)

    def words(self, traj: Trajectory) -> str:
        """What it is."""
        return repr(self.reduction)


class TiedStrengths(Mapping[str, np.ndarray]):
    """Strengths of all edges, stored once per class: `by_class` (..., save, classes, modes)."""

    def __init__(self, classes: Classes, by_class: np.ndarray):
        self.classes: Classes = classes
        self.by_class: np.ndarray = by_class
        self.class_of: dict[str, int] = {e: k for k, members in enumerate(classes) for e in members}

    def __getitem__(self, edge: str) -> np.ndarray:
        return self.by_class[..., self.class_of[edge], :]

    def picked(self, k: Any) -> TiedStrengths:
        """Those of one run, or of several."""
        return TiedStrengths(self.classes, self.by_class[k])

    def __iter__(self) -> Iterator[str]:
        return iter(self.class_of)

    def __len__(self) -> int:
        return len(self.class_of)


class FamilyWeights(LazyWeights):
    """Weights (..., save, out, in) of each edge, computed from strengths on demand."""

    def __init__(self, family: Family, b: Mapping[str, np.ndarray], many: bool):
        self.names = family.network.shapes
        self.family, self.b, self.many = family, b, many

    def lift(self, edge: str) -> np.ndarray:
        return self.family.lift_edge(edge, self.b)

    def picked(self, k: int | np.ndarray) -> FamilyWeights:
        return FamilyWeights(self.family, {e: np.asarray(v)[k] for e, v in self.b.items()}, np.ndim(k) > 0)

    def at(self, i: int) -> dict[str, np.ndarray]:
        return self.family.lift({e: np.asarray(v)[:, i] if self.many else v[i] for e, v in self.b.items()})
