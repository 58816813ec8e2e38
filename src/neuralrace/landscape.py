"""Fixed points of learning: where they are, and in how many directions they are unstable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import InputError, array, integer, number
from neuralrace.network import Stack, check, precision, program
from neuralrace.task import Task

Field = Callable[..., Any]  # (flat weights, data) -> their velocity, or the gradient


class FixedPoints(NamedTuple):
    """Weights with a leading axis, one entry per point found; `norm` of the gradient there, `start` it came
    from."""

    weights: dict[str, np.ndarray]
    norm: np.ndarray
    start: np.ndarray


@dataclass(frozen=True)
class Saddle:
    """Critical points of a two-layer linear network that have learned the modes `learned`."""

    learned: tuple[int, ...]
    loss: float  # above that of the minimum
    index: int
    flat: int


def fixed_points(task: Task, starts: Any, tol: float = 1e-11, max_steps: int = 2000) -> FixedPoints:
    """Fixed points of gradient flow, saddles as well as minima, sought from each of `starts`.

    Levenberg-Marquardt steps solve `dL/dW = 0`; a start that does not get the norm of the gradient below
    `tol` is left out. Deep networks have manifolds of fixed points, so tell them apart by their loss or their
    end-to-end map. `starts` are weights with a leading axis.

    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1, 1]), [[1.0]], [[1.0]])
    >>> found = fixed_points(task, nr.init.gaussian(task.graph, 1.0, seed=range(20)))
    >>> np.unique(nr.loss(task, found.weights).round(9))
    array([0. , 0.5])
    """
    flat = task.graph.flatten(check(task, starts, "squared"))
    if flat.ndim != 2:
        raise InputError("starts must have a leading axis on every weight")
    made = program(task, "squared")
    found, norm = roots(_Gradient(made.stack), flat, made.data, tol=tol, max_steps=max_steps)
    good = np.flatnonzero(norm < tol)
    return FixedPoints(task.graph.unflatten(found[good]), norm[good], good)


def index(task: Task, weights: Any, flat: float = 1e-7) -> tuple[Any, Any]:
    """Number of negative and of flat directions of the loss: eigenvalues of its Hessian at `weights`.

    Eigenvalues within `flat` times the largest (and times 1) of zero count as flat, among them directions
    along a manifold of fixed points. Numbers, or arrays where the weights have a leading axis.
    """
    tol = number("flat", flat, above=0)
    values = hessian_eigenvalues(task, weights)
    near = np.abs(values) <= tol * np.maximum(np.abs(values).max(axis=-1, keepdims=True), 1)
    counts = ((values < 0) & ~near).sum(axis=-1), near.sum(axis=-1)
    return counts if values.ndim > 1 else tuple(int(c) for c in counts)  # pyright: ignore[reportReturnType]


def hessian_eigenvalues(task: Task, weights: Any) -> np.ndarray:
    """Eigenvalues of the Hessian of the loss in all weights, in rising order: `(..., n)`."""
    w = task.graph.flatten(check(task, weights, "squared"))
    made = program(task, "squared")
    matrix = jacobian(_Gradient(made.stack), np.atleast_2d(w), made.data)
    values = np.linalg.eigvalsh((matrix + matrix.swapaxes(-1, -2)) / 2)
    return values if w.ndim == 2 else values[0]


def two_layer_saddles(strengths: Sequence[float], hidden: int) -> list[Saddle]:
    """All critical points of a two-layer linear network: one manifold for every subset of its modes.

    `strengths` are the singular values of `Syx Sxx^(-1/2)`, all different and none zero, with as many inputs
    and outputs as there are modes and at least as many hidden neurons (Baldi & Hornik 1989). Where r modes
    are learned the layers are any factors of that map, a manifold of `r (2 hidden - r)` dimensions. The
    Hessian splits by pairs: a mode that is not learned falls along the `hidden - r` free hidden directions,
    and can take over those of every weaker mode that is learned.

    >>> [(s.learned, s.index, s.flat) for s in two_layer_saddles([2.0, 1.0], hidden=3)]
    [((), 6, 0), ((0,), 2, 5), ((1,), 3, 5), ((0, 1), 0, 8)]
    """
    s = array("strengths", strengths, (None,))
    hidden = integer("hidden", hidden)
    if len(s) == 0 or s.min() <= 0 or len(set(s.tolist())) < len(s):
        raise InputError(f"strengths must be positive and all different, got {s.tolist()}")
    if hidden < len(s):
        raise InputError(f"hidden must be at least {len(s)}, a neuron for each mode; got {hidden}")
    found = []
    for r in range(len(s) + 1):
        for learned in combinations(range(len(s)), r):
            left = [j for j in range(len(s)) if j not in learned]
            down = sum(hidden - r + sum(bool(s[a] < s[j]) for a in learned) for j in left)
            found.append(Saddle(learned, float((s[left] ** 2).sum() / 2), down, r * (2 * hidden - r)))
    return found


def roots(
    field: Field, starts: Any, data: Any = None, tol: float = 1e-11, max_steps: int = 2000
) -> tuple[np.ndarray, np.ndarray]:
    """Where Levenberg-Marquardt steps on `field(w, data) = 0` end from each row of `starts` `(n, size)`.

    Also the norm of the field there `(n,)`. Written with `jax.numpy`; the same function compiles once.
    """
    tol, max_steps = number("tol", tol, above=0), integer("max_steps", max_steps)
    with precision(np.float64):
        found = _roots(field, max_steps, jnp.asarray(array("starts", starts, (None, None))), data, tol)
    return np.asarray(found[0]), np.asarray(found[1])


def jacobian(field: Field, w: Any, data: Any = None) -> np.ndarray:
    """Slopes of a field at each row of `w` `(n, size)`: `(n, size, size)`."""
    with precision(np.float64):
        return np.asarray(_jacobian(field, jnp.asarray(w), data))


@partial(jax.jit, static_argnums=(0, 1))
def _roots(field: Field, max_steps: int, starts: Any, data: Any, tol: float) -> Any:
    import optimistix  # takes part of a second

    # Near a root steps shrink at once, so that the field is below tol where they are a tenth of it.
    solver = optimistix.LevenbergMarquardt(rtol=tol / 10, atol=tol / 10, norm=optimistix.two_norm)

    def one(start: Any) -> Any:
        w = optimistix.least_squares(field, solver, start, data, max_steps=max_steps, throw=False).value
        return w, jnp.linalg.norm(field(w, data))

    return jax.lax.map(one, starts)


@partial(jax.jit, static_argnums=0)
def _jacobian(field: Field, w: Any, data: Any) -> Any:
    return jax.lax.map(lambda v: jax.jacfwd(field)(v, data), w)


@dataclass(frozen=True)
class _Gradient:
    """The gradient of a stack as a field; equal ones share a compilation."""

    stack: Stack

    def __call__(self, flat: Any, data: Any) -> Any:
        return jax.grad(lambda w: self.stack.loss(w, data, "squared"))(flat)
