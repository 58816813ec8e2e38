"""Fixed points of learning: where they are, and in how many directions they are unstable."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from neuralrace.compiling import Compiled, Tree
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, affordable, array, integer, need_extra, number, short, without_nan
from neuralrace.graph import WeightsLike
from neuralrace.interrupts import Progress
from neuralrace.network import Stack, check, gradient, precision, program
from neuralrace.network.programs import check_task
from neuralrace.task import Task

__all__ = [
    "FixedPoints",
    "Saddle",
    "Visits",
    "fixed_points",
    "hessian",
    "hessian_eigenvalues",
    "index",
    "jacobian",
    "roots",
    "slowest",
    "two_layer_saddles",
    "visits",
]


def __dir__() -> list[str]:
    return __all__


_STRETCH = 5e8  # multiplications of a search, about n^3 a step, after which it comes back to Python
MAX_MODES = 16  # whose subsets are listed: 65,536 of them, in a second
Field = Callable[[jax.Array, Tree], jax.Array]  # (flat weights, data) -> their velocity, or the gradient


class FixedPoints(NamedTuple):
    """Fixed points of gradient flow, as `fixed_points` finds them.

    Attributes
    ----------
    weights : dict of str to ndarray
        With a leading axis, one entry per point.
    norm : ndarray, shape (points,)
        Norm of the gradient there.
    start : ndarray of int, shape (points,)
        Place among the starts of the one that led there.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1, 1]), [[1.0]], [[1.0]])
    >>> points = fixed_points(task, nr.init.gaussian(task.graph, 1.0, seed=range(2)))
    >>> bool(points.norm.max() < 1e-11), points.start.tolist()
    (True, [0, 1])
    """

    weights: dict[str, np.ndarray]
    norm: np.ndarray
    start: np.ndarray


class Visits(NamedTuple):
    """Fixed points that paths of learning pass, as `visits` finds them.

    Attributes
    ----------
    weights : dict of str to ndarray
        Of the fixed points, with a leading axis.
    run : ndarray of int, shape (points,)
        Which path passes.
    t : ndarray, shape (points,)
        When it does, in flow time.
    distance : ndarray, shape (points,)
        Norm of the difference of all weights then.
    """

    weights: dict[str, np.ndarray]
    run: np.ndarray
    t: np.ndarray
    distance: np.ndarray


@dataclass(frozen=True)
class Saddle:
    """Critical points of a two-layer linear network that have learned the same modes.

    Attributes
    ----------
    learned : tuple of int
        The modes that are learned.
    loss : float
        Above that of the minimum.
    index, flat : int
        Number of directions in which the loss falls, and in which it is flat.

    Examples
    --------
    >>> two_layer_saddles([2.0, 1.0], hidden=3)[1]
    Saddle(learned=(0,), loss=0.5, index=2, flat=5)
    """

    learned: tuple[int, ...]
    loss: float
    index: int
    flat: int


def fixed_points(task: Task, starts: WeightsLike, tol: float = 1e-11, max_steps: int = 2000) -> FixedPoints:
    r"""Fixed points of gradient flow, saddles as well as minima.

    Levenberg-Marquardt steps (optimistix) solve $\partial L/\partial W = 0$. Deep networks have manifolds of
    fixed points, so tell them apart by their loss or their end-to-end map.

    Parameters
    ----------
    task : Task
        Network and data; the loss is the squared one.
    starts : dict of str to array_like
        Weights with a leading axis: where to search from.
    tol : float, default 1e-11
        Norm of the gradient at a fixed point; starts that do not get below it are left out.
    max_steps : int, default 2000
        Most steps from each start.

    Returns
    -------
    FixedPoints
        Weights with a leading axis, the norm of the gradient, and the start of each.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1, 1]), [[1.0]], [[1.0]])
    >>> points = fixed_points(task, nr.init.gaussian(task.graph, 1.0, seed=range(20)))
    >>> np.unique(nr.loss(task, points.weights).round(9))
    array([0. , 0.5])
    """
    checked = check(task, starts, "squared")
    flat = task.graph.flatten(checked)
    if flat.ndim != 2:
        raise InputError(
            "starts must have a leading axis on every weight, as nr.init.gaussian(..., seed=range(20)) gives"
        )
    made = program(task, "squared")
    points, norm = roots(_Gradient(made.stack), flat, made.on_device, tol=tol, max_steps=max_steps)
    good = np.flatnonzero(norm < tol)
    return FixedPoints(task.graph.unflatten(points[good]), norm[good], good)


def visits(task: Task, runs: Trajectory) -> Visits:
    """Fixed points near which learning slows down.

    Where the gradient is smallest along a path, and at its end, the nearest fixed point is sought.

    Parameters
    ----------
    task : Task
        Network and data; the loss is the squared one.
    runs : Trajectory
        Several runs, with their weights.

    Returns
    -------
    Visits
        In the order of runs and times; searches that fail are left out.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.linear([[1.0]], hidden=1)
    >>> near_saddle = {"x->h1": [[[1.0]]], "h1->y": [[[-0.99]]]}
    >>> passed = visits(task, nr.flow(task, near_saddle, t1=10.0, save=500))
    >>> nr.loss(task, passed.weights).round(6)  # the saddle, then the minimum
    array([0.5, 0. ])
    """
    check_task(task)
    if not isinstance(runs, Trajectory) or not runs.many:
        raise InputError(f"runs must be a Trajectory of several runs, got {short(runs)}")
    many = {e: w.reshape(-1, *w.shape[2:]) for e, w in runs.weights.items()}
    speed = np.linalg.norm(task.graph.flatten(gradient(task, many)), axis=-1).reshape(runs.loss.shape)
    slow = slowest(speed)
    slow[:, -1] = True
    run, step = np.nonzero(slow)
    starts = {e: w[run, step] for e, w in runs.weights.items()}
    found = fixed_points(task, starts)
    gap = task.graph.flatten(found.weights) - task.graph.flatten(starts)[found.start]
    return Visits(found.weights, run[found.start], runs.t[step[found.start]], np.linalg.norm(gap, axis=-1))


def slowest(speed: ArrayLike) -> np.ndarray:
    """Where a path is slower than just before and not faster than just after, (..., times) of bool.

    >>> slowest([2.0, 1.0, 3.0, 2.0])
    array([False,  True, False,  True])
    """
    v = array("speed", speed)
    if not v.ndim:
        raise InputError(f"speed must have at least one axis, of times; got {v:g}")
    beyond = np.full((*v.shape[:-1], 1), np.inf)
    padded = np.concatenate([beyond, v, beyond], axis=-1)
    return (v < padded[..., :-2]) & (v <= padded[..., 2:])


def index(task: Task, weights: WeightsLike, flat: float = 1e-7) -> tuple[Any, Any]:
    """Number of negative and of flat directions of the loss, by the eigenvalues of its Hessian.

    Parameters
    ----------
    task : Task
        Network and data.
    weights : dict of str to array_like
        Where to look; may have a leading axis.
    flat : float, default 1e-7
        Eigenvalues within so much of zero, times the largest (and times 1), count as flat, among them
        directions along a manifold of fixed points.

    Returns
    -------
    tuple of int, or of ndarray of int, shape (points,)
        Negative and flat directions.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1, 1]), [[1.0]], [[1.0]])
    >>> index(task, {"x->h1": [[0.0]], "h1->y": [[0.0]]})
    (1, 0)
    """
    tol = number("flat", flat, above=0)
    values = hessian_eigenvalues(task, weights)
    near = np.abs(values) <= tol * np.maximum(np.abs(values).max(axis=-1, keepdims=True), 1)
    counts = ((values < 0) & ~near).sum(axis=-1), near.sum(axis=-1)
    return counts if values.ndim > 1 else tuple(int(c) for c in counts)  # pyright: ignore[reportReturnType]


def hessian_eigenvalues(task: Task, weights: WeightsLike) -> np.ndarray:
    """Eigenvalues of the Hessian of the loss in all weights.

    Parameters
    ----------
    task : Task
        Network and data.
    weights : dict of str to array_like
        Where to look; may have a leading axis.

    Returns
    -------
    ndarray, shape (..., n)
        In rising order, as many as there are weights.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1, 1]), [[1.0]], [[1.0]])
    >>> hessian_eigenvalues(task, {"x->h1": [[0.0]], "h1->y": [[0.0]]})
    array([-1.,  1.])
    """
    return np.linalg.eigvalsh(hessian(task, weights))


def hessian(task: Task, weights: Any) -> np.ndarray:
    """Hessian of the loss in all weights.

    Parameters
    ----------
    task : Task
        Network and data; the loss is the squared one.
    weights : dict of str to array_like
        Where to look; may have a leading axis.

    Returns
    -------
    ndarray, shape (..., n, n)
        Weights in the order of `Graph.flatten`.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1, 1]), [[1.0]], [[1.0]])
    >>> hessian(task, {"x->h1": [[0.0]], "h1->y": [[0.0]]})
    array([[ 0., -1.],
           [-1.,  0.]])
    """
    checked = check(task, weights, "squared")
    w, made = task.graph.flatten(checked), program(task, "squared")
    affordable("task", task, 4.0 * w.size * task.graph.n_weights)
    matrix = jacobian(_Gradient(made.stack), np.atleast_2d(w), made.on_device)
    symmetric = (matrix + matrix.swapaxes(-1, -2)) / 2
    without_nan("weights and data", [symmetric - symmetric])  # neither NaN nor infinite
    return symmetric if w.ndim == 2 else symmetric[0]


def two_layer_saddles(strengths: Sequence[float], hidden: int) -> list[Saddle]:
    r"""All critical points of a two-layer linear network: one manifold for every subset of its modes.

    It has as many inputs and outputs as there are modes (Baldi & Hornik 1989). Where $r$ of the modes are
    learned by $h$ hidden neurons, the layers are any factors of that map, a manifold of $r (2 h - r)$
    dimensions. The Hessian splits by pairs: a mode that is not learned falls along the $h - r$ free hidden
    directions, and can take over those of every weaker mode that is learned.

    Parameters
    ----------
    strengths : array_like, shape (modes,)
        Singular values of $\Sigma^{yx} (\Sigma^{xx})^{-1/2}$, all different and none zero; at most 16, which
        have 65,536 subsets.
    hidden : int
        Number of hidden neurons, at least that of modes.

    Returns
    -------
    list of Saddle
        One for each subset of the modes, those with fewest modes first.

    Examples
    --------
    >>> [(s.learned, s.index, s.flat) for s in two_layer_saddles([2.0, 1.0], hidden=3)]
    [((), 6, 0), ((0,), 2, 5), ((1,), 3, 5), ((0, 1), 0, 8)]
    """
    s = array("strengths", strengths, (None,))
    hidden = integer("hidden", hidden)
    if len(s) == 0 or s.min() <= 0 or len(set(s.tolist())) < len(s):
        raise InputError(f"strengths must be positive and all different, got {s.tolist()}")
    if len(s) > MAX_MODES:
        raise InputError(
            f"strengths must be at most {MAX_MODES}, whose 2^{MAX_MODES} subsets are listed; got {len(s)}"
        )
    if hidden < len(s):
        raise InputError(f"hidden must be at least {len(s)}, a neuron for each mode; got {hidden}")
    saddles = []
    for r in range(len(s) + 1):
        for learned in combinations(range(len(s)), r):
            left = [j for j in range(len(s)) if j not in learned]
            down = sum(hidden - r + sum(bool(s[a] < s[j]) for a in learned) for j in left)
            saddles.append(Saddle(learned, float((s[left] ** 2).sum() / 2), down, r * (2 * hidden - r)))
    return saddles


@dataclass(frozen=True)
class _Gradient:
    """The gradient of a stack as a field; equal ones share a compilation."""

    stack: Stack

    def __call__(self, flat: jax.Array, data: Tree) -> jax.Array:
        return self.stack.loss_and_gradient(flat, data)[1]


def roots(
    field: Field, starts: ArrayLike, data: Tree = None, tol: float = 1e-11, max_steps: int = 2000
) -> tuple[np.ndarray, np.ndarray]:
    """Roots of a field by Levenberg-Marquardt steps (optimistix).

    Parameters
    ----------
    field : callable
        `field(w, data)` of w (size,) returns as many numbers, written with `jax.numpy`; hashable. The same
        function compiles once.
    starts : array_like, shape (n, size)
        Where to search from.
    data : pytree of arrays, optional
        Second argument of the field.
    tol : float, default 1e-11
        Norm of the field to reach.
    max_steps : int, default 2000
        Most steps from each start.

    Returns
    -------
    w : ndarray, shape (n, size)
        Where the searches ended.
    norm : ndarray, shape (n,)
        Norm of the field there: a root where it is below `tol`.

    Examples
    --------
    >>> w, norm = roots(lambda w, _: w**2 - 2, [[1.0], [-3.0]])
    >>> w.round(6).tolist(), bool(norm.max() < 1e-11)
    ([[1.414214], [-1.414214]], True)
    """
    tol, max_steps = number("tol", tol, above=0), integer("max_steps", max_steps, most=2**31 - 1)
    rows = array("starts", starts, (None, None))
    need_extra("diffrax", "optimistix")
    with precision(np.float64):
        _check_field(field, rows, data)
        with Progress("fixed points") as progress:  # in stretches, so that a search can be interrupted
            ends, stretch = [], max(1, min(max_steps, int(_STRETCH / rows.shape[1] ** 3)))
            for k, row in enumerate(rows):
                norm = np.inf
                for _ in range(-(-max_steps // stretch)):
                    row, norm, done = _root(field, stretch, row, data, tol)
                    if done:
                        break
                ends.append(jax.device_get((row, norm)))
                progress(k / len(rows))
    return np.array([w for w, _ in ends]).reshape(rows.shape), np.array([norm for _, norm in ends])


def jacobian(field: Field, w: ArrayLike, data: Tree = None) -> np.ndarray:
    """Slopes of a field.

    Parameters
    ----------
    field : callable
        As in `roots`.
    w : array_like, shape (n, size)
        Where to look.
    data : pytree of arrays, optional
        Second argument of the field.

    Returns
    -------
    ndarray, shape (n, size, size)
        Derivatives of the field, second axis, by w, last axis.

    Examples
    --------
    >>> jacobian(lambda w, _: w**2, [[3.0]])
    array([[[6.]]])
    """
    rows = array("w", w, (None, None))
    with precision(np.float64):
        _check_field(field, rows, data)
        return np.asarray(_jacobian(field, jnp.asarray(rows), data))


def _check_field(field: Any, rows: np.ndarray, data: Tree) -> None:
    """Refuse what is no field on rows of this size, by its shapes alone."""
    if not callable(field) or not isinstance(field, Hashable):
        raise InputError(f"field must be a hashable function of (w, data), got {field!r}")
    try:
        given: Any = jax.eval_shape(field, jax.ShapeDtypeStruct(rows.shape[1:], np.float64), data)
        shape = given.shape
    except Exception as fault:
        raise InputError(f"field failed with {type(fault).__name__}: {fault}") from fault
    if shape != rows.shape[1:]:
        raise InputError(f"field must return {rows.shape[1]} numbers as it takes, got shape {shape}")


def _searched(field: Field, max_steps: int, start: jax.Array, data: Tree, tol: float) -> tuple[Any, ...]:
    import optimistix  # takes part of a second

    # Near a root steps shrink at once, so that the field is below tol where they are a tenth of it.
    solver = optimistix.LevenbergMarquardt(rtol=tol / 10, atol=tol / 10, norm=optimistix.two_norm)

    found = optimistix.least_squares(field, solver, start, data, max_steps=max_steps, throw=False)
    done = found.result == optimistix.RESULTS.successful
    return found.value, jnp.linalg.norm(field(found.value, data)), done


def _slopes(field: Field, w: jax.Array, data: Tree) -> jax.Array:
    return jax.lax.map(lambda v: jax.jacfwd(field)(v, data), w)


_root, _jacobian = Compiled(_searched, 2), Compiled(_slopes, 1)
