"""Descent on two samples, with everything recorded at every step: what `train` compiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace_papers.zoo.network import Network

BLOCK = 16  # steps between two changes of the stored weights
LARGE = 200  # units
# Sums in any order, or the one pass of `_back` would go number by number; for a CPU.
HONOUR = ("nans", "infs", "division", "functions")
COMPILER = {"xla_cpu_enable_fast_math": True, "xla_cpu_prefer_vector_width": 512}
COMPILER |= {f"xla_cpu_fast_math_honor_{kind}": True for kind in HONOUR}
LEAST_ROOM = 4096  # steps for which a program has room


def run_descent(network: Network, optimizer: str, steps: int, runs: Any, gain: Any, lr: Any) -> Any:
    """dh2 (runs, times, layers), dy2, w, loss (runs, times) before every step and after the last.

    `runs` are seeds, inputs and targets, each with an axis of runs.
    """
    if optimizer == "adam" or network.channels or jax.default_backend() != "cpu":
        return _compiled(network, optimizer, steps, runs, gain, lr)
    series, descend = [], _fast()
    for run in zip(*runs, strict=True):
        start = _start(network, gain, *run)
        # Fetched one by one, as weights of runs to come would else wait in memory.
        series.append(
            jax.device_get(
                descend(network, max(LEAST_ROOM, 1 << steps.bit_length()), steps, gain, lr, *run, start)
            )
        )
    return jax.tree.map(lambda *v: np.stack([one[: steps + 1] for one in v]), *series)


def _fast() -> Any:
    """`_quick`, compiled with `COMPILER` where the compiler knows these options."""
    try:
        jax.jit(lambda v: v, compiler_options=COMPILER)(0.0)
    except (RuntimeError, ValueError):
        return jax.jit(_quick, static_argnums=(0, 1))
    return jax.jit(_quick, static_argnums=(0, 1), compiler_options=COMPILER)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _compiled(network: Network, optimizer: str, steps: int, runs: Any, gain: Any, lr: Any) -> Any:
    rule = _plain if optimizer == "adam" or network.channels else _low_rank
    one = partial(rule, network, optimizer, steps, gain, lr)
    if jax.default_backend() == "cpu":
        return jax.lax.map(lambda run: one(*run), runs)
    return jax.vmap(one)(*runs)


@partial(jax.jit, static_argnums=0)
def _start(network: Network, gain: Any, seed: Any, x: Any, y: Any) -> Any:
    """What `COMPILER` would draw with less precision."""
    return network.start(jax.random.split(jax.random.key(seed))[0], x.shape[1], y.shape[1], gain)


def _quick(network: Network, places: int, steps: Any, gain: Any, lr: Any, *run: Any) -> Any:
    return _low_rank(network, "sgd", places - 1, gain, lr, *run, last=steps)


def _measured(layers: list[Any], y: Any) -> tuple[Any, ...]:
    """dh2 of every hidden layer, dy2, w, loss."""
    dh2 = jnp.stack([((h[1] - h[0]) ** 2).sum() for h in layers[1:-1]])
    out, target = layers[-1][1] - layers[-1][0], y[1] - y[0]
    return dh2, (out**2).sum(), (out * (out - target)).sum(), _loss(layers, y)


def _loss(layers: list[Any], y: Any) -> Any:
    return ((layers[-1] - y) ** 2).sum() / (2 * len(y))


def _plain(
    network: Network, optimizer: str, steps: int, gain: Any, lr: Any, seed: Any, x: Any, y: Any
) -> Any:
    import optax

    first, noise = jax.random.split(jax.random.key(seed))
    rule = optax.adam(lr) if optimizer == "adam" else optax.sgd(lr)

    def step(carry: Any, k: Any) -> Any:
        weights, state = carry

        def loss(weights: Any) -> Any:
            layers = network.layers(x, network.affine(*weights), jax.random.fold_in(noise, k))
            return _loss(layers, y), layers

        slopes, layers = jax.grad(loss, has_aux=True)(weights)
        kept = _measured(network.layers(x, network.affine(*weights)) if network.dropout else layers, y)
        updates, state = rule.update(slopes, state)
        return (optax.apply_updates(weights, updates), state), kept

    weights = network.start(first, x.shape[1], y.shape[1], gain)
    return jax.lax.scan(step, (weights, rule.init(weights)), jnp.arange(steps + 1))[1]


def _low_rank(
    network: Network, _: str, steps: int, gain: Any, lr: Any, seed: Any, x: Any, y: Any, start: Any = None,
    last: Any = None,
) -> Any:  # fmt: skip
    """Descent of a fully connected network. What takes time is to move the weights between hidden layers
    through memory, and an update has rank two: factors of updates are kept, and added to the weights once
    per block of steps. `taps` are zeros added to what enters a layer, slopes by them the second factor.
    From a given start only the steps up to `last` are taken, and none where nothing moves any more."""
    first, noise = jax.random.split(jax.random.key(seed))
    (into, *weights, out), biases = start or network.start(first, x.shape[1], y.shape[1], gain)

    def block(carry: Any, start: Any) -> Any:
        weights, small = carry

        def step(carry: Any, k: Any) -> Any:
            small, ins, outs = carry

            def layers(small: Any, taps: Any, key: Any = None) -> list[Any]:
                into, out, biases = small

                def affine(i: int, h: Any) -> Any:
                    if i in (0, network.depth):
                        return h @ (out if i else into) + biases[i]
                    past = _times(_back(h, ins[i - 1]), outs[i - 1])
                    return _times(h, weights[i - 1]) + past + biases[i] + taps[i - 1]

                return network.layers(x, affine, key)

            def loss(small: Any, taps: Any) -> Any:
                activities = layers(small, taps, jax.random.fold_in(noise, start + k))
                return _loss(activities, y), activities

            none = [jnp.zeros((2, network.width))] * len(weights)
            (slopes, taps), activities = jax.grad(loss, (0, 1), has_aux=True)(small, none)
            kept = _measured(layers(small, none) if network.dropout else activities, y)
            # Never true, but then XLA knows that what is overwritten has been read, and copies nothing. (Side
            # by side on a GPU, runs had better share the row.)
            row = 2 * k + (slopes[0][0, 0] > jnp.inf if jax.default_backend() == "cpu" else 0)
            put = lambda rows, new: jax.lax.dynamic_update_slice(rows, new, (row, 0))  # noqa: E731
            small = jax.tree.map(lambda v, s: v - lr * s, small, slopes)
            ins, outs = [*map(put, ins, activities[1:-2])], [*map(put, outs, (-lr * s for s in taps))]
            return (small, ins, outs), kept

        empty = [jnp.zeros((2 * BLOCK, network.width))] * len(weights)
        (small, ins, outs), kept = jax.lax.scan(step, (small, empty, empty), jnp.arange(BLOCK))
        return ([w + a.T @ b for w, a, b in zip(weights, ins, outs, strict=True)], small), kept

    carry, starts = (weights, (into, out, biases)), jnp.arange(0, steps + 1, BLOCK)
    if start is None:
        kept = jax.lax.scan(block, carry, starts)[1]
    else:
        least = -1.0 if network.dropout else _rounding(network.width, y)
        kept = _until_rest(block, carry, starts, last // BLOCK + 1, least)
    return jax.tree.map(lambda v: v.reshape(-1, *v.shape[2:])[: steps + 1], kept)


def _rounding(width: int, y: Any) -> Any:
    """The loss of outputs that are the targets but for their difference times the rounding of a sum over a
    layer."""
    return width * jnp.finfo(y.dtype).eps ** 2 * ((y[1] - y[0]) ** 2).sum() / (2 * len(y))


def _until_rest(block: Callable[..., Any], carry: Any, starts: Any, count: Any, least: Any) -> Any:
    """A scan over the first `count` blocks that ends where the loss, last of what is kept, falls to `least`:
    nothing moves any more, and what was kept last stays."""

    def more(state: Any) -> Any:
        k, _, kept = state
        return (k < count) & ((k == 0) | ~(kept[-1][k - 1, -1] <= least))

    def go(state: Any) -> Any:
        k, carry, kept = state
        carry, new = block(carry, starts[k])
        return k + 1, carry, jax.tree.map(lambda rows, row: rows.at[k].set(row), kept, new)

    shapes = jax.eval_shape(block, carry, starts[0])[1]
    empty = jax.tree.map(lambda v: jnp.zeros((len(starts), *v.shape), v.dtype), shapes)
    done, _, kept = jax.lax.while_loop(more, go, (0, carry, empty))
    before = lambda v: (jnp.arange(len(starts)) < done).reshape(-1, *[1] * (v.ndim - 1))  # noqa: E731
    return jax.tree.map(lambda v: jnp.where(before(v), v, v[done - 1, -1]), kept)


@jax.custom_vjp
def _times(h: Any, w: Any) -> Any:
    return h @ w


@jax.custom_vjp
def _back(g: Any, w: Any) -> Any:
    """g @ w.T for few rows. A product of matrices would copy a large w on a CPU, and one row after the other
    read it as often: all sums are taken in one pass."""
    if len(w) < LARGE:
        return g @ w.T
    if jax.default_backend() != "cpu":
        return jnp.stack([w @ row for row in g])
    add = lambda a, b: tuple(p + q for p, q in zip(a, b, strict=True))  # noqa: E731
    return jnp.stack(jax.lax.reduce(tuple(row * w for row in g), (g.dtype.type(0),) * len(g), add, (1,)))


_times.defvjp(lambda h, w: (h @ w, w), lambda w, g: (_back(g, w), jnp.zeros_like(w)))
_back.defvjp(lambda g, w: (_back(g, w), w), lambda w, h: (h @ w, jnp.zeros_like(w)))
