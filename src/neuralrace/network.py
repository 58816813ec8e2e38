"""Predictions, loss and gradient of the network of a task."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import InputError, choice
from neuralrace.stack import Program, Stack, row_blocks, some_rows, stack, take
from neuralrace.task import Task, shared_maps

LOSSES = ("squared", "cross_entropy")


def loss(task: Task, weights: Any, loss: str = "squared") -> Any:
    """Mean over samples of half the squared error, or of the cross-entropy, summed over outputs.

    A float; an array `(seeds,)` where the weights have a leading axis; a JAX scalar under a JAX
    transformation.
    """
    return _apply(Stack.loss, task, weights, loss)


def gradient(task: Task, weights: Any, loss: str = "squared") -> dict[str, Any]:
    """Gradient of `loss` with respect to every weight, a dict like the weights."""
    return task.graph.unflatten(_apply(_GRADIENT, task, weights, loss))


def predict(task: Task, weights: Any) -> dict[str, Any]:
    """Activity of every output for every sample: output -> (n, size)."""
    rows = _apply(_outputs, task, weights, "squared", "merged")
    names = program(task, "squared", "merged").outputs
    found = {o: h[..., k, :, :] for h, os in zip(rows, names, strict=True) for k, (_, o) in enumerate(os)}
    lead = np.shape(next(iter(weights.values())))[:-2]
    silent = {o: np.zeros((*lead, task.samples.n, task.graph.nodes[o])) for o in task.graph.outputs}
    return {**silent, **found}


def error_rate(task: Task, weights: Any) -> np.ndarray:
    """Share of samples whose largest output is not that of the target, in each context: `(contexts,)`.

    Where a context has several outputs, the mean over them; nan where all are off. Weights may have a leading
    axis, which stays.
    """
    if not isinstance(task, Task) or not task.sampled:
        raise InputError("task must be a Task that holds samples")
    wrong = _apply(_wrong, task, weights, "squared", "samples")
    places = [c for here in program(task, "squared", "samples").outputs for c, _ in here]
    found = np.concatenate([np.asarray(w) for w in wrong], axis=-1)
    total = np.zeros((*found.shape[:-1], task.n_contexts))
    for k, c in enumerate(places):
        total[..., c] += found[..., k]
    with np.errstate(invalid="ignore"):
        return total / np.bincount(places, minlength=task.n_contexts)


def _wrong(stack: Stack, flat: Any, data: Any, kind: str) -> list[Any]:
    def weighted(rows: Any) -> list[Any]:
        found = []
        for h, r, d in zip(stack.outputs(flat, rows), stack.readouts, rows["readouts"], strict=True):
            missed = h.argmax(axis=-1) != take(d["target"], r.target).argmax(axis=-1)
            weight = take(d["weight"], r.weight)
            found.append(jnp.stack([(missed * weight).sum(axis=-1), weight.sum(axis=-1)]))
        return found

    sizes = {g["rows"].shape[1] for g in data["groups"] if "rows" in g}
    if len(sizes) == 1:  # block by block: all samples at once may not fit
        n = sizes.pop()
        blocks = jax.lax.map(lambda one: weighted(some_rows(data, one[0], n, one[1])), row_blocks(n))
        sums = [b.sum(axis=0) for b in blocks]
    else:
        sums = weighted(data)
    return [wrong / total for wrong, total in sums]


def _outputs(stack: Stack, flat: Any, data: Any, kind: str) -> list[Any]:
    return stack.outputs(flat, data)


_GRADIENT = jax.grad(Stack.loss, argnums=1)


def program(task: Task, kind: str, mode: str | None = None) -> Program:
    """The network of a task with its numbers as float64 JAX arrays, made once per task.

    `mode` is moments, samples or merged (every sample a row with its own gates); by default moments
    where they say all, which is for linear networks with squared error.
    """
    mode = mode or ("moments" if is_linear(task, kind) else "samples")
    if (mode, kind) not in task.programs:
        if mode == "moments":
            contexts = shared_maps(task.graph, task.moment_contexts)
        else:
            contexts = task.sample_contexts if mode == "samples" else [task.merged_context]
        made = stack(task.graph, contexts, kind)
        with precision(np.float64), jax.ensure_compile_time_eval():
            task.programs[mode, kind] = made._replace(data=jax.device_put(made.data))
    return task.programs[mode, kind]


def is_linear(task: Task, kind: str) -> bool:
    return task.graph.is_linear and kind == "squared"


def precision(dtype: Any) -> Any:
    """Context manager under which JAX computes in float64, unless `dtype` is single precision."""
    return jax.enable_x64(np.dtype(dtype) == np.float64)


def check(task: Any, weights: Any, kind: str) -> dict[str, np.ndarray]:
    """Refuse what cannot be computed; the weights as arrays."""
    if not isinstance(task, Task):
        raise InputError(f"task must be a Task, got {type(task)}")
    choice("loss", kind, LOSSES)
    if not is_linear(task, kind) and not task.sampled:
        raise InputError("this task was built from moments and holds no samples, which this network needs")
    return task.graph.check_weights(weights)


def _traced(weights: Any) -> bool:
    return isinstance(weights, dict) and any(isinstance(w, jax.core.Tracer) for w in weights.values())


def _apply(function: Callable[..., Any], task: Task, weights: Any, kind: str, mode: str | None = None) -> Any:
    if _traced(weights):
        flat = task.graph.flatten({n: jnp.asarray(weights[n]) for n in task.graph.shapes}, jnp)
        made = program(task, kind, mode)
        return function(made.stack, flat, cast(made.data, flat.dtype), kind)
    flat = task.graph.flatten(check(task, weights, kind))
    made = program(task, kind, mode)
    with precision(np.float64):
        found = _compiled(function, made.stack, kind, flat.ndim == 2, jnp.asarray(flat), made.data)
    return jax.tree.map(lambda v: float(v) if v.ndim == 0 else np.asarray(v), found)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _compiled(function: Any, plan: Stack, kind: str, many: bool, flat: Any, data: Any) -> Any:
    one = lambda w: function(plan, w, data, kind)  # noqa: E731
    return jax.vmap(one)(flat) if many else one(flat)


def cast(data: Any, dtype: Any) -> Any:
    """The numbers of a program in another precision, as NumPy arrays."""
    return jax.tree.map(lambda v: np.asarray(v, dtype), data)
