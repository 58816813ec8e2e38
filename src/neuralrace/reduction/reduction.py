"""`reduce`: from a task to its equations, certificate and solution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from neuralrace.dynamics.flow import flow
from neuralrace.dynamics.methods import Adaptive
from neuralrace.dynamics.times import save_times
from neuralrace.errors import InputError, array, choice, known, number
from neuralrace.network import precision, predict
from neuralrace.reduction.certificate import leaving, random_points
from neuralrace.reduction.equations import TiedLoss, refuse, tied_loss, write
from neuralrace.reduction.family import FAMILIES, Family
from neuralrace.reduction.growth import growing_blocks, growing_strengths, outside
from neuralrace.reduction.integrate import tied_flow
from neuralrace.reduction.ties import Classes, refine
from neuralrace.task import Task

if TYPE_CHECKING:
    import sympy

EXACT = 1e-8


def reduce(
    task: Task, basis: str = "auto", start: Mapping[str, float] | None = None, seed: int = 0
) -> Reduction:
    """The reduction of a linear network with scalar gates.

    `basis` is "shared" (one frame per node for all paths), "pathwise" (frames per pathway), "block" (small
    full blocks, always exact) or "auto": the first of these whose residual is below 1e-8. `start` says which
    edges start equal: those with the same number (all edges, if not given).

    >>> import neuralrace as nr
    >>> r = nr.reduce(nr.tasks.routing(domains=7, trained=7))
    >>> r.exact, r.n_modes, r.n_classes
    (True, 4, 2)
    """
    if not isinstance(task, Task):
        raise InputError(f"task must be a Task, got {type(task)}")
    choice("basis", basis, ("auto", *FAMILIES))
    g = task.graph
    if not g.is_linear or g.biases or g.diagonal:
        raise InputError("task must be on a linear graph without biases to be reduced")
    start = dict.fromkeys(g.edges, 1.0) if start is None else dict(start)
    known("start", start, g.edges, "edge")
    missing = [e for e in g.edges if e not in start]
    if missing:
        raise InputError(f"start must name every edge; {missing[0]!r} is missing")
    found = None
    for name in FAMILIES if basis == "auto" else (basis,):
        rng = np.random.default_rng(seed)
        family = FAMILIES[name](task, rng)
        left = leaving(task, family, random_points(family, rng))
        if found is None or max(left.values()) < EXACT:
            found = (family, left)
        if max(left.values()) < EXACT:
            break
    assert found is not None
    return Reduction(task, found[0], refine(found[0], start, np.random.default_rng(seed)), found[1])


@dataclass(frozen=True, eq=False)
class Reduction:
    """The small system of a task.

    `residual` is the largest part of the full gradient that leaves the family of weights, relative to the
    largest gradient, at random points of the family; `exact` is `residual < 1e-8`. `classes` are the edges
    that stay equal in all modes.
    """

    task: Task
    family: Family
    classes: Classes
    leaving: dict[str, float]

    @property
    def basis(self) -> str:
        return self.family.basis

    @property
    def residual(self) -> float:
        return max(self.leaving.values())

    @property
    def exact(self) -> bool:
        return self.residual < EXACT

    @property
    def n_modes(self) -> int:
        return self.family.modes

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @cached_property
    def left_modes(self) -> int:
        """Modes that hidden layers are too narrow to carry."""
        if self.basis == "block":
            return 0
        g, f = self.task.graph, self.family
        reached = {n: np.full(self.n_modes, n in g.inputs) for n in g.nodes}
        for n in g.order:
            for e in g.outgoing[n]:
                lives = (f.right[e] != 0).any(axis=0) & (f.left[e] != 0).any(axis=0)
                reached[g.edges[e][1]] = reached[g.edges[e][1]] | (reached[n] & lives)
        return int((~np.any([reached[o] for o in g.outputs], axis=0)).sum())

    def __repr__(self) -> str:
        text = (
            f"Reduction({self.basis} basis, {self.n_modes} modes, {self.n_classes} classes, "
            f"residual {self.residual:.1e}: {'exact' if self.exact else 'NOT exact'}"
        )
        if self.left_modes:
            text += f"; {self.left_modes} modes left out, hidden layers are too narrow for them"
        if not self.exact:
            text += f"; broken by {', '.join(self.breaking)}"
        return text + ")"

    @cached_property
    def breaking(self) -> list[str]:
        """Paths (or edges, where paths are many) that most of the residual comes from."""
        g = self.task.graph
        edges = sorted(self.leaving, key=lambda e: -self.leaving[e])[:3]
        worst = {}
        for p in g.paths() if g.n_paths <= 1000 else ():
            u, r = self.family.left[p[-1]], self.family.right[p[0]]
            s = self.task.syx(p)
            inside = u.T @ s @ r
            if self.basis != "block":
                inside = np.diag(np.diagonal(inside))
            x = self.task.sxx(p, p)
            inner = r.T @ x @ r if self.basis == "block" else np.diag(np.diagonal(r.T @ x @ r))
            worst[" ".join(p)] = max(
                np.abs(s - u @ inside @ r.T).max() / max(np.abs(s).max(), 1e-300),
                np.abs(x @ r - r @ inner).max() / max(np.abs(x).max(), 1e-300),
            )
        return [p for p in sorted(worst, key=lambda p: -worst[p])[:3] if worst[p] > EXACT] or edges

    # -- equations ---------------------------------------------------------------------------

    @cached_property
    def tied(self) -> TiedLoss | None:
        return tied_loss(self.family, self.classes)

    def equations(self, mode: int | None = None) -> list[sympy.Eq]:
        """One `sympy.Eq` per class for `tau dB/dt`, in B1, B2, ... by class, with S and D summed over the
        paths of each class of paths (S1, S2, D1, ... where they differ), or with the numbers of a mode."""
        if self.tied is None:
            raise refuse(self.family)
        if mode is not None and not 0 <= mode < self.n_modes:
            raise InputError(f"mode must be between 0 and {self.n_modes - 1}, got {mode}")
        return write(self.tied, mode)

    def latex(self, mode: int | None = None) -> str:
        """The equations as LaTeX, one per line."""
        import sympy as sp

        lines = [
            rf"\tau \frac{{d}}{{dt}} B_{{{k + 1}}} &= {sp.latex(eq.rhs, order='rev-lex')}"
            for k, eq in enumerate(self.equations(mode))
        ]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    def conserved(self) -> list[sympy.Expr]:
        """Expressions in B1, B2, ... that stay constant along the flow, one per independent hidden node."""
        import sympy as sp

        g, class_of = self.task.graph, {e: k for k, members in enumerate(self.classes) for e in members}
        rows: list[np.ndarray] = []
        for node in g.hidden:
            row = np.zeros(self.n_classes, int)
            for e in g.outgoing[node]:
                row[class_of[e]] += 1
            for e in g.incoming[node]:
                row[class_of[e]] -= 1
            if row.any() and np.linalg.matrix_rank(np.array([*rows, row])) > len(rows):
                rows.append(row)
        squares = [sp.Symbol(f"B{k + 1}") ** 2 for k in range(self.n_classes)]
        return [sum((int(n) * b for n, b in zip(row, squares, strict=True)), sp.Integer(0)) for row in rows]

    # -- to and from weights -----------------------------------------------------------------

    def project(self, weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Coordinates of the nearest weights in the family: edge -> (modes,), or small matrices."""
        return self.family.project(self.task.graph.check_weights(weights))

    def lift(self, b: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Weights with coordinates b."""
        return self.family.lift(self._check(b))

    def distance(self, weights: Mapping[str, Any]) -> float:
        """How far weights are from the family, relative to their size."""
        w = self.task.graph.check_weights(weights)
        near = self.family.lift(self.family.project(w))
        off = np.sqrt(sum(float(((w[e] - near[e]) ** 2).sum()) for e in w))
        return float(off / max(np.sqrt(sum(float((v**2).sum()) for v in w.values())), 1e-300))

    def misfit(self, weights: Mapping[str, Any]) -> Any:
        """Share of the squared norm of weights outside the family, its hidden frames turned to fit them.

        0 for decoupled weights with positive strengths in any hidden directions, near 1 for random ones. For
        the change since the start, `W(t) - W(0)`, it says how much of what was learned is not of the kind
        that the reduction describes; random weights that stay where they were do not count then. A float, or
        an array where the weights have a leading axis.
        """
        if self.basis == "block":
            raise InputError("misfit needs modes: reduce the task in the shared or the pathwise basis")
        found = outside(self.family, self.task.graph.check_weights(weights))
        return float(found) if found.ndim == 0 else found

    def strengths(self, weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Strengths from which the reduced system follows a network that starts at these weights.

        Coordinates, if the weights lie in the family; else what of them grows: in each mode, or as blocks.
        """
        w = self.task.graph.check_weights(weights)
        if self.distance(w) < 1e-6:
            return self.family.project(w)
        if self.basis == "block":
            return growing_blocks(self.family, FAMILIES["pathwise"](self.task, np.random.default_rng(0)), w)
        return growing_strengths(self.family, w)

    def _check(self, b: Mapping[str, Any]) -> dict[str, np.ndarray]:
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
        strength: float | None = None,
        t1: float | None = None,
        save: int | Iterable[float] = 200,
        *,
        b0: Mapping[str, Any] | None = None,
        weights: Mapping[str, Any] | None = None,
        rtol: float = 1e-9,
        atol: float = 1e-11,
    ) -> Solution:
        """The solution of the reduced system from a common strength, from given b0, or from actual weights.

        `b0` and `weights` may have a leading axis of runs. Time is flow time with tau = 1 on the mean loss.
        """
        if sum(v is not None for v in (strength, b0, weights)) != 1:
            raise InputError("give one of strength, b0 and weights")
        t1, ts = save_times(t1, save)
        rtol, atol = number("rtol", rtol, above=0), number("atol", atol, above=0)
        if strength is not None:
            value = number("strength", strength, above=0)
            if self.tied is not None:
                start = np.full((self.n_classes, self.n_modes), value)
                return _solve_tied(self, start, False, ts, t1, rtol, atol)
            b = {e: value * (np.eye(*s) if len(s) == 2 else np.ones(s)) for e, s in self.family.shape.items()}
        elif b0 is not None:
            b = self._check(b0)
        else:
            assert weights is not None
            b = self.strengths(weights)
        first = {members[0]: b[members[0]] for members in self.classes}
        tied = all(np.array_equal(b[e], b[m[0]]) for m in self.classes for e in m)
        many = next(iter(b.values())).ndim > len(next(iter(self.family.shape.values())))
        if tied and self.tied is not None:
            start = np.stack(list(first.values()), axis=-2)  # (..., classes, modes)
            return _solve_tied(self, start, many, ts, t1, rtol, atol)
        lead = next(iter(b.values())).shape[:1] if many else ()
        fixed = {n: np.broadcast_to(f, (*lead, *f.shape)) for n, f in self.family.fixed.items()}
        run = flow(self.family.small, {**b, **fixed}, t1, ts, frozen=fixed, method=Adaptive(rtol, atol))
        path = {e: run.weights[e] for e in self.task.graph.edges}
        return Solution(self, run.t, run.loss, path, run.outcome)


@dataclass(frozen=True, eq=False)
class Solution:
    """A solved reduction: `t` (save,), `loss` (save,), `b` edge -> (save, modes); runs are a leading axis."""

    reduction: Reduction
    t: np.ndarray
    loss: np.ndarray
    b: Mapping[str, np.ndarray]
    outcome: str

    @cached_property
    def strengths(self) -> np.ndarray:
        """Strength of each mode in each class, (save, modes, classes); singular values for blocks."""
        first = [np.asarray(self.b[members[0]]) for members in self.reduction.classes]
        if self.reduction.basis == "block":
            n = self.reduction.n_modes
            values = [np.linalg.svd(b, compute_uv=False) for b in first]
            first = [np.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, n - v.shape[-1])]) for v in values]
        return np.stack(first, axis=-1)

    def weights(self) -> dict[str, np.ndarray]:
        """Full weights along the solution, edge -> (save, out, in)."""
        return self.reduction.family.lift(self.b)

    def predict(self) -> dict[str, np.ndarray]:
        """Outputs for every sample along the solution, output -> (save, n, size)."""
        lead = self.loss.shape
        flat = {e: w.reshape(-1, *w.shape[len(lead) :]) for e, w in self.weights().items()}
        found = predict(self.reduction.task, flat)
        return {o: y.reshape(*lead, *y.shape[1:]) for o, y in found.items()}

    @cached_property
    def residual(self) -> float:
        """The certificate along this solution, at ten of its times."""
        at = np.unique(np.linspace(0, len(self.t) - 1, 10).round().astype(int))
        flat = {e: np.asarray(v) for e, v in self.b.items()}
        axis = self.loss.ndim - 1
        points = [{e: np.take(v, k, axis=axis) for e, v in flat.items()} for k in at]
        return max(leaving(self.reduction.task, self.reduction.family, points).values())

    def __repr__(self) -> str:
        return f"Solution({len(self.t)} times to t = {self.t[-1]:g}, {self.outcome}; {self.reduction!r})"


class _Tied(Mapping[str, np.ndarray]):
    """Strengths of all edges, of which each class is held once."""

    def __init__(self, classes: Classes, values: np.ndarray):
        self.class_of = {e: k for k, members in enumerate(classes) for e in members}
        self.values_of = values  # (..., save, classes, modes)

    def __getitem__(self, edge: str) -> np.ndarray:
        return self.values_of[..., self.class_of[edge], :]

    def __iter__(self) -> Any:
        return iter(self.class_of)

    def __len__(self) -> int:
        return len(self.class_of)


def _solve_tied(
    r: Reduction, start: np.ndarray, many: bool, ts: np.ndarray, t1: float, rtol: float, atol: float
) -> Solution:
    assert r.tied is not None
    scale = atol * np.minimum(1.0, np.abs(start).max(axis=(-1, -2), initial=0.0))
    with precision(np.float64):
        numbers = (r.tied.s, r.tied.d, r.tied.sizes, r.tied.constant, ts, np.float64(t1), rtol)
        path, loss, good = jax.device_get(tied_flow(r.tied.powers, many, start, scale, *numbers))
    outcome = (
        f"finished at t = {t1:g}" if good.all() else "step limit: the reduced system was not solved to t1"
    )
    if not good.all():
        keep = np.isfinite(loss).all(axis=0) if many else np.isfinite(loss)
        path, loss, ts = path[..., keep, :, :], loss[..., keep], ts[keep]
    return Solution(r, ts, loss, _Tied(r.classes, path), outcome)
