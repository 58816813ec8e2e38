"""The result of `Reduction.solve`: a trajectory of strengths. Weights are computed from them on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from neuralrace.dynamics.gradient_flow import flow
from neuralrace.dynamics.lifted import LiftedWeights
from neuralrace.dynamics.methods import Adaptive
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError
from neuralrace.network import predict
from neuralrace.reduction.certificate import gradient_residual
from neuralrace.reduction.start import StartReduction
from neuralrace.reduction.ties import Classes

if TYPE_CHECKING:
    import xarray

    from neuralrace.reduction.family import Family
    from neuralrace.reduction.reduction import Reduction


ALLOWED = 1e-3  # error of the network's own curve, to which a solution is compared
NEGLIGIBLE = 1e-12  # share of a start outside the family


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
    outside : float or ndarray, shape (runs,)
        Share of the squared norm of the initial weights that lies outside the family of the reduction and is
        left out (plain projection: `Reduction.distance` squared); 0 for a start given by strengths.
    start : dict, optional
        The initial weights, where they were given.

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
    outside: Any = 0.0
    start: dict[str, np.ndarray] | None = None

    @cached_property
    def error(self) -> Any:
        """Largest difference of the loss from that of the network itself, relative to the initial loss.

        The network starts at the weights that were given to `solve`; the solution leaves out their part
        outside the family. The network is solved by `reduce(task, weights=...)` when this is first read. A
        float, or one per run.
        """
        if self.start is None:
            raise InputError("error needs a solution from weights: solve(weights=...)")
        task, rates, t1 = self.reduction.task, self.reduction.rates, float(self.t[-1])
        if rates.decays(task.graph):
            method = Adaptive()
            true = flow(task, self.start, t1, self.t, method=method, rates=rates)
            stated: Any = method.stated_error
        else:
            true = StartReduction.of(task, self.start, ALLOWED, rates).solve(t1=t1, save=self.t)
            stated = true.stats["error"]
        n = len(true.t)
        # A run that ended early repeats its last loss.
        reached = self.t[:n] <= np.asarray(self.end)[..., None] * (1 + 1e-12)
        off = np.where(reached, np.abs(self.loss[..., :n] - true.loss), 0.0).max(axis=-1)
        return off / np.abs(true.loss[..., 0]) + stated

    @cached_property
    def strengths(self) -> np.ndarray:
        """Strength of each mode in each class, (save, modes, classes); singular values for blocks."""
        first = [np.asarray(self.b[members[0]]) for members in self.reduction.classes]
        if self.reduction.basis == "block":
            n = self.reduction.n_modes
            values = [np.linalg.svd(b, compute_uv=False) for b in first]
            first = [np.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, n - v.shape[-1])]) for v in values]
        return np.stack(first, axis=-1)

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
        text = f"{super().__repr__()[:-1]}; {self.reduction!r}"
        if np.max(self.outside) > NEGLIGIBLE:
            off = "see `error`"  # which solves the network: not for many runs, unless it is known
            if not self.many or "error" in vars(self):
                off = f"so the loss is off by up to {np.max(self.error):.1g} of the initial one"
            share = f"{np.max(self.outside):.1%} of the squared start lies outside its family and is left out"
            text += f"; {share}, {off}; nr.reduce(task, weights=...) leaves nothing out"
        return text + ")"

    def _picked(self, k: Any, places: list[int]) -> Self:
        b = (
            self.b[k]
            if isinstance(self.b, TiedStrengths)
            else {e: np.asarray(v)[k] for e, v in self.b.items()}
        )
        bare = super(Solution, replace(self, weights={}))._picked(k, places)
        weights = lifted(self.reduction.family, b)
        start = None if self.start is None else {e: w[k] for e, w in self.start.items()}
        return replace(bare, b=b, weights=weights, outside=np.asarray(self.outside)[k], start=start)

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

    def __iter__(self) -> Iterator[str]:
        return iter(self.class_of)

    def __len__(self) -> int:
        return len(self.class_of)


def lifted(family: Family, b: Mapping[str, np.ndarray]) -> LiftedWeights:
    """Weights (..., save, out, in) of each edge, computed from strengths on demand."""
    return LiftedWeights(family.shape, lambda e: family.lift_edge(e, b[e]))
