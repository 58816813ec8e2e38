"""Initial weights. Every draw takes `seed`, an int or several, or a JAX `key`.

Sizes such as `std` may be arrays too. They broadcast with the seeds as in NumPy, and the result is a
leading axis (or several) on every weight; the same seed gives the same draw, scaled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from neuralrace.errors import (
    InputError,
    affordable,
    array,
    detached,
    listable,
    number,
    sequence,
    short,
    without_nan,
)
from neuralrace.graph import Graph, check_graph

if TYPE_CHECKING:
    from neuralrace.reduction import Reduction

__all__ = [
    "Weights",
    "balanced",
    "decoupled",
    "gaussian",
    "orthogonal",
    "random_frame",
    "xavier",
]


def __dir__() -> list[str]:
    return __all__


#: Edge name -> matrix of shape (out, in), or several of them along a leading axis.
Weights = dict[str, np.ndarray]
"""Edge name -> array (out, in), with leading axes where there are several draws."""

Seed = int | Iterable[int]


def gaussian(graph: Graph, std: ArrayLike, seed: Seed = 0, key: Any = None) -> Weights:
    """Independent normal entries; biases zero.

    Parameters
    ----------
    graph : Graph
        The network.
    std : float or array
        Standard deviation.
    seed : int or several
        One network for each seed.
    key : JAX key, optional
        Instead of seeds.

    Returns
    -------
    dict
        Edge name -> (out, in), with leading axes where `std` or `seed` has any.

    Examples
    --------
    >>> w = gaussian(Graph.chain([3, 128, 1]), std=1e-3, seed=range(10))
    >>> w["x->h1"].shape
    (10, 128, 3)
    >>> small, large = gaussian(Graph.chain([1, 1]), std=[1e-3, 1.0], seed=4)["x->y"].ravel()
    >>> round(large / small)
    1000
    """
    return _draw(graph, lambda rng, out, size: rng.standard_normal((out, size)), "std", std, seed, key)


def xavier(graph: Graph, gain: ArrayLike = 1.0, seed: Seed = 0, key: Any = None) -> Weights:
    r"""Normal entries of standard deviation $g \sqrt{2 / (\text{inputs} + \text{outputs})}$; biases zero.

    Parameters
    ----------
    graph : Graph
        The network.
    gain : float or array
        Factor $g$ of all weights.
    seed, key
        As in `gaussian`.

    Returns
    -------
    dict
        Edge name -> (out, in), with leading axes where `gain` or `seed` has any.

    Examples
    --------
    >>> xavier(Graph.chain([100, 300]), gain=2.0)["x->y"].std().round(2)
    np.float64(0.14)
    """

    def layer(rng: np.random.Generator, out: int, size: int) -> np.ndarray:
        return np.sqrt(2 / (out + size)) * rng.standard_normal((out, size))

    return _draw(graph, layer, "gain", gain, seed, key)


def orthogonal(graph: Graph, scale: ArrayLike = 1.0, seed: Seed = 0, key: Any = None) -> Weights:
    """All singular values equal to `scale`, directions uniform; biases zero.

    Parameters
    ----------
    graph : Graph
        The network.
    scale : float or array
        The singular values.
    seed, key
        As in `gaussian`.

    Returns
    -------
    dict
        Edge name -> (out, in), with leading axes where `scale` or `seed` has any.

    Examples
    --------
    >>> w = orthogonal(Graph.chain([3, 2]), scale=0.5)["x->y"]
    >>> np.linalg.svd(w)[1].round(6)
    array([0.5, 0.5])
    """
    return _draw(graph, random_frame, "scale", scale, seed, key)


def balanced(graph: Graph, lam: float, scale: ArrayLike = 1.0, seed: Seed = 0, key: Any = None) -> Weights:
    r"""Two-layer chains with $W_2^\top W_2 - W_1 W_1^\top = \lambda I$, lambda being `lam`.

    Parameters
    ----------
    graph : Graph
        A linear chain of two layers without biases.
    lam : float
        Above 0 it needs at most as many hidden neurons as outputs, below 0 as inputs.
    scale : float or array
        Standard deviation of the layer that is drawn freely; the other layer follows from it.
    seed, key
        As in `gaussian`.

    Returns
    -------
    dict
        Edge name -> (out, in), with leading axes where `scale` or `seed` has any.

    Examples
    --------
    >>> w = balanced(Graph.chain([4, 2, 3]), lam=0.5)
    >>> (w["h1->y"].T @ w["h1->y"] - w["x->h1"] @ w["x->h1"].T).round(6) + 0.0
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    check_graph(graph)
    lam = number("lam", lam)
    if len(graph.hidden) != 1 or len(graph.shapes) != 2 or graph.fixed or graph.biases or not graph.is_linear:
        raise InputError("graph must be a linear chain of two layers without biases for balanced weights")
    n_in, n_hidden, n_out = (graph.nodes[n] for n in (*graph.inputs, *graph.hidden, *graph.outputs))
    for sign, size, which in ((1, n_out, "W2^T W2"), (-1, n_in, "W1 W1^T")):
        if sign * lam > 0 and n_hidden > size:
            bound = "> 0" if sign > 0 else "< 0"
            raise InputError(
                f"lam = {lam:g} {bound} needs {which} of full rank, so at most {size} hidden neurons; "
                f"got {n_hidden}"
            )
    # Draw the layer that may have any rank; the other follows from it.
    first = lam > 0 or (lam == 0 and n_in <= n_out)

    def chain(rng: np.random.Generator, scale: float) -> Weights:
        free = scale * rng.standard_normal((n_hidden, n_in if first else n_out))
        hidden, s, _ = np.linalg.svd(free)
        s = np.append(s, np.zeros(n_hidden - len(s)))
        rank = min(n_hidden, n_out if first else n_in)
        other = random_frame(rng, n_out if first else n_in, rank)
        other = (other * np.sqrt(s[:rank] ** 2 + abs(lam))) @ hidden[:, :rank].T
        w1, w2 = (free, other) if first else (other.T, free.T)
        return {graph.incoming[graph.hidden[0]][0]: w1, graph.outgoing[graph.hidden[0]][0]: w2}

    return _seeded(graph, chain, "scale", _sizes("scale", scale), seed, key)


def decoupled(reduction: Reduction, strength: ArrayLike) -> Weights:
    """Weights in the basis of a reduction, all strengths equal: its solution is then the true flow.

    Parameters
    ----------
    reduction : Reduction
        What `nr.reduce` returned.
    strength : float or array
        Of every mode in every layer.

    Returns
    -------
    dict
        Edge name -> (out, in), with the axes of `strength` in front.

    Examples
    --------
    >>> import neuralrace as nr
    >>> reduction = nr.reduce(nr.tasks.xor())
    >>> reduction.project(decoupled(reduction, 0.1))["x->p0h1"].round(6)
    array([0.1])
    """
    value = _sizes("strength", strength)
    if not hasattr(reduction, "lift"):
        raise InputError(f"reduction must be what nr.reduce(task) returned, got {short(reduction)}")

    unit = reduction.family.start
    return reduction.lift({e: value[(...,) + (None,) * v.ndim] * v for e, v in unit.items()})


def random_frame(rng: np.random.Generator, out: int, size: int) -> np.ndarray:
    """A random matrix whose singular values are all 1, uniform among such.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws it.
    out, size : int
        Its shape.

    Returns
    -------
    ndarray, shape (out, size)

    Examples
    --------
    >>> w = random_frame(np.random.default_rng(0), 2, 3)
    >>> (w @ w.T).round(6) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    q, r = np.linalg.qr(rng.standard_normal((max(out, size), min(out, size))))
    q = q * np.where(np.diagonal(r) < 0, -1.0, 1.0)
    return q if out >= size else q.T


Layer = Callable[[np.random.Generator, int, int], np.ndarray]


def _sizes(name: str, value: Any) -> np.ndarray:
    sizes = array(name, value)
    if sizes.size == 0 or (sizes <= 0).any() or np.asarray(detached(value)).dtype.kind == "b":
        raise InputError(f"{name} must be greater than 0, got {short(value)}")
    return sizes


def _draw(graph: Graph, layer: Layer, name: str, size: Any, seed: Any, key: Any) -> Weights:
    check_graph(graph)

    def network(rng: np.random.Generator, size: float) -> Weights:
        return {
            n: np.zeros(shape)
            if n in graph.biases
            else size * layer(rng, *shape, *(1,) * (2 - len(shape))).reshape(shape)
            for n, shape in graph.shapes.items()
        }

    return _seeded(graph, network, name, _sizes(name, size), seed, key)


def _seeded(
    graph: Graph,
    network: Callable[[np.random.Generator, float], Weights],
    name: str,
    sizes: np.ndarray,
    seed: Any,
    key: Any,
) -> Weights:
    """One network for every seed and size, as they broadcast."""
    if key is not None:
        try:
            key = (
                key if jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(key)
            )
            entropy: Any = [int(k) for k in np.asarray(jax.random.key_data(key)).ravel()]
        except (AttributeError, TypeError, ValueError) as fault:
            raise InputError(f"key must be a JAX random key, got {short(key)}") from fault
        seeds = np.empty((), object)
        seeds[()] = entropy
    else:
        seeds = _seeds(seed)
    try:
        both = np.broadcast(seeds, sizes)
    except ValueError:
        raise InputError(
            f"seed of shape {seeds.shape} and {name} of shape {sizes.shape} do not broadcast; give one of "
            "either, or as many"
        ) from None
    affordable("graph", graph, 2 * graph.n_weights * both.size)
    drawn = [network(np.random.default_rng(s), float(x)) for s, x in both]
    without_nan(name, [np.float64(0.0) * w.sum() for one in drawn for w in one.values()])  # nor infinite
    return {n: np.stack([d[n] for d in drawn]).reshape(*both.shape, *v.shape) for n, v in drawn[0].items()}


def _seeds(seed: Any) -> np.ndarray:
    """Seeds as an array of Python ints, which may be of any size."""
    try:
        given = np.array(sequence("seed", seed, "seeds") if listable(seed) else seed, dtype=object)
    except InputError:
        raise
    except (TypeError, ValueError):
        given = np.empty(0, object)
    for s in given.ravel():
        if isinstance(s, (bool, np.bool_)) or not isinstance(s, (int, np.integer)):
            raise InputError(f"seed must be a whole number, or several; got {short(seed)}")
        if s < 0:
            raise InputError(f"seed must be at least 0, got {s}")
    if not given.size:
        raise InputError(f"seed must name at least one seed, got {short(seed)}")
    return given
