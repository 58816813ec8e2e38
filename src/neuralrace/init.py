"""Initial weights. Every draw takes `seed`, an int or several (then a leading axis), or a JAX `key`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from neuralrace.errors import InputError, integer, number
from neuralrace.graph import Graph

if TYPE_CHECKING:
    from neuralrace.reduction import Reduction


class Weights(dict[str, np.ndarray]):
    """Weights by edge name that remember how they were drawn, so that results can say it."""

    origin: dict[str, Any]

    def __init__(self, values: dict[str, np.ndarray], origin: dict[str, Any]):
        super().__init__(values)
        self.origin = origin


def gaussian(graph: Graph, std: float, seed: int | Iterable[int] = 0, key: Any = None) -> Weights:
    """Independent normal entries of standard deviation `std`; biases zero.

    >>> w = gaussian(Graph.chain([3, 128, 1]), std=1e-3, seed=range(10))
    >>> w["x->h1"].shape
    (10, 128, 3)
    """
    std = number("std", std, above=0)
    return _draw(graph, lambda rng, out, size: std * rng.standard_normal((out, size)), seed, key, std=std)


def xavier(graph: Graph, gain: float = 1.0, seed: int | Iterable[int] = 0, key: Any = None) -> Weights:
    """Normal entries of standard deviation `gain sqrt(2 / (inputs + outputs))`; biases zero."""
    gain = number("gain", gain, above=0)

    def layer(rng: np.random.Generator, out: int, size: int) -> np.ndarray:
        return gain * np.sqrt(2 / (out + size)) * rng.standard_normal((out, size))

    return _draw(graph, layer, seed, key, gain=gain)


def orthogonal(graph: Graph, scale: float = 1.0, seed: int | Iterable[int] = 0, key: Any = None) -> Weights:
    """All singular values equal to `scale`, directions uniform; biases zero."""
    scale = number("scale", scale, above=0)
    return _draw(graph, lambda rng, out, size: scale * random_frame(rng, out, size), seed, key, scale=scale)


def balanced(
    graph: Graph, lam: float, scale: float = 1.0, seed: int | Iterable[int] = 0, key: Any = None
) -> Weights:
    """Two-layer chains with `W2^T W2 - W1 W1^T = lam I`; `scale` is the std of the freely drawn layer."""
    lam, scale = number("lam", lam), number("scale", scale, above=0)
    if len(graph.hidden) != 1 or len(graph.edges) != 2 or graph.biases or not graph.is_linear:
        raise InputError("graph must be a linear chain of two layers without biases for balanced weights")
    n_in, n_hidden, n_out = (graph.nodes[n] for n in (*graph.inputs, *graph.hidden, *graph.outputs))
    if lam > 0 and n_hidden > n_out:
        raise InputError(
            f"lam = {lam:g} > 0 needs W2^T W2 of full rank, so at most {n_out} hidden neurons; got {n_hidden}"
        )
    if lam < 0 and n_hidden > n_in:
        raise InputError(
            f"lam = {lam:g} < 0 needs W1 W1^T of full rank, so at most {n_in} hidden neurons; got {n_hidden}"
        )
    # Draw the layer that may have any rank; the other follows from it.
    first = lam > 0 or (lam == 0 and n_in <= n_out)

    def chain(rng: np.random.Generator) -> dict[str, np.ndarray]:
        free = scale * rng.standard_normal((n_hidden, n_in if first else n_out))
        hidden, s, _ = np.linalg.svd(free)
        s = np.append(s, np.zeros(n_hidden - len(s)))
        rank = min(n_hidden, n_out if first else n_in)
        other = random_frame(rng, n_out if first else n_in, rank)
        other = (other * np.sqrt(s[:rank] ** 2 + abs(lam))) @ hidden[:, :rank].T
        w1, w2 = (free, other) if first else (other.T, free.T)
        return {graph.incoming[graph.hidden[0]][0]: w1, graph.outgoing[graph.hidden[0]][0]: w2}

    return _seeded(graph, chain, seed, key, {"init": "balanced", "lam": lam, "scale": scale})


def decoupled(reduction: Reduction, strength: float) -> Weights:
    """Weights in the frames of a reduction, all strengths equal: its solution is then the true flow."""
    value = number("strength", strength, above=0)
    b = {e: value * (np.eye(*s) if len(s) == 2 else np.ones(s)) for e, s in reduction.family.shape.items()}
    return Weights(reduction.lift(b), {"init": "decoupled", "strength": value})


def random_frame(rng: np.random.Generator, out: int, size: int) -> np.ndarray:
    """A matrix whose singular values are all 1, uniform among such."""
    q, r = np.linalg.qr(rng.standard_normal((max(out, size), min(out, size))))
    q = q * np.where(np.diagonal(r) < 0, -1.0, 1.0)
    return q if out >= size else q.T


Layer = Callable[[np.random.Generator, int, int], np.ndarray]


def _draw(graph: Graph, layer: Layer, seed: Any, key: Any, **settings: float) -> Weights:
    def network(rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {
            name: np.zeros(shape)
            if name in graph.biases
            else layer(rng, *shape, *(1,) * (2 - len(shape))).reshape(shape)
            for name, shape in graph.shapes.items()
        }

    name = {"std": "gaussian", "gain": "xavier", "scale": "orthogonal"}[next(iter(settings))]
    return _seeded(graph, network, seed, key, {"init": name, **settings})


def _seeded(
    graph: Graph,
    network: Callable[[np.random.Generator], dict[str, np.ndarray]],
    seed: Any,
    key: Any,
    origin: dict[str, Any],
) -> Weights:
    if not isinstance(graph, Graph):
        raise InputError(f"graph must be a Graph, got {type(graph)}")
    if key is not None:
        key = key if jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(key)
        entropy = [int(k) for k in np.asarray(jax.random.key_data(key)).ravel()]
        return Weights(network(np.random.default_rng(entropy)), {**origin, "key": entropy})
    if isinstance(seed, Iterable):
        seeds = [integer("seed", s, least=0) for s in seed]
        if not seeds:
            raise InputError("seed must name at least one seed, got none")
        drawn = [network(np.random.default_rng(s)) for s in seeds]
        return Weights({n: np.stack([d[n] for d in drawn]) for n in drawn[0]}, {**origin, "seed": seeds})
    seed = integer("seed", seed, least=0)
    return Weights(network(np.random.default_rng(seed)), {**origin, "seed": seed})
