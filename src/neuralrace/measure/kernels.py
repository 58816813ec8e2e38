"""How far a network has moved from its start: its tangent kernel and its weights."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from neuralrace.compiling import Compiled, Tree
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, flag, without_nan
from neuralrace.graph import Graph, check_graph
from neuralrace.measure.maps import Floats, floats
from neuralrace.measure.representations import cosine
from neuralrace.network import Stack, check, precision, program, take
from neuralrace.task import Task


def tangent_kernel(task: Task, weights: Mapping[str, ArrayLike]) -> Floats:
    r"""Empirical neural tangent kernel $K = J J^\top$, where $J$ is the slope of all outputs in all weights.

    Outputs are scaled so that the loss is half the sum of squared residuals $r$, and $dL/dt = -r^\top K r$
    along gradient flow.

    Parameters
    ----------
    task : Task
        Graph and data.
    weights : dict of str to array_like
        As in `loss`.

    Returns
    -------
    ndarray, shape (..., n, n)
        Rows are the outputs for every sample, times the root of its weight (1/n if all are equal); where the
        network is linear, for the few pseudo-samples with the same moments. With the leading axis of the
        weights.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1, 1]), [[1.0]], [[1.0]])
    >>> tangent_kernel(task, {"x->h1": [[2.0]], "h1->y": [[3.0]]})
    array([[13.]])
    """
    return _kernel_and_residual(task, weights)[0]


def linearised_loss(task: Task, weights: Mapping[str, ArrayLike], t: ArrayLike) -> Floats:
    """Loss of the network linearised around these weights, under gradient flow from them.

    With the tangent kernel $K$ of the start the residuals are $r(t) = e^{-K t} r(0)$, and the loss is a sum
    of decaying exponentials: what a network does whose kernel does not change.

    Parameters
    ----------
    task : Task
        Graph and data.
    weights : dict of str to array_like
        As in `loss`.
    t : array_like, shape (times,)
        Flow times, tau = 1 on the mean loss.

    Returns
    -------
    ndarray, shape (..., times)
        With the leading axis of the weights.

    Examples
    --------
    A network of one layer is its own linearisation:

    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1]), [[2.0]], [[1.0]])
    >>> run = nr.flow(task, {"x->y": [[0.0]]}, t1=1.0, save=5)
    >>> bool(np.abs(linearised_loss(task, {"x->y": [[0.0]]}, run.t) - run.loss).max() < 1e-6)
    True
    """
    times = floats("t", t, 1)
    kernel, residual = _kernel_and_residual(task, weights)
    rates, vectors = np.linalg.eigh(kernel)
    size = 0.5 * np.einsum("...nk,...n->...k", vectors, residual) ** 2
    decay = np.exp(-2 * rates[..., None, :] * times[:, None])
    return np.einsum("...tk,...k->...t", decay, size) + float(program(task, "squared").data["constant"])


def _kernel_and_residual(task: Task, weights: Mapping[str, ArrayLike]) -> list[np.ndarray]:
    checked = check(task, weights)
    flat, made = task.graph.flatten(checked), program(task, "squared")
    with precision(np.float64):
        found = _kernel(made.stack, flat.ndim == 2, jnp.asarray(flat), made.on_device)
        return without_nan("weights", [np.asarray(part) for part in found])


def _kernel_of(stack: Stack, many: bool, flat: jax.Array, data: Tree) -> tuple[jax.Array, jax.Array]:
    """Tangent kernel, and residuals in the order of its rows."""
    readouts = list(zip(stack.readouts, data["readouts"], strict=True))

    def scaled(rows: list[jax.Array]) -> jax.Array:
        parts = [jnp.zeros(0, flat.dtype)]
        for h, (r, d) in zip(rows, readouts, strict=True):
            scale = 1.0 if d["weight"] is None else jnp.sqrt(take(d["weight"], r.weight, -2))[..., None]
            parts.append((h * scale).ravel())
        return jnp.concatenate(parts)

    def outputs(w: jax.Array) -> jax.Array:
        return scaled(stack.outputs(w, data))

    def one(w: jax.Array) -> tuple[jax.Array, jax.Array]:
        slope, outs = jax.jacrev(outputs)(w), stack.outputs(w, data)
        wrong = [h - take(d["target"], r.target) for h, (r, d) in zip(outs, readouts, strict=True)]
        return slope @ slope.T, scaled(wrong)

    return jax.lax.map(one, flat) if many else one(flat)


_kernel = Compiled(_kernel_of, 2)


def kernel_turn(kernels: ArrayLike) -> Floats:
    """One minus the cosine between tangent kernels and the first of them: 0 while learning is lazy.

    Parameters
    ----------
    kernels : array_like, shape (..., times, n, n)
        As of `tangent_kernel`, with any leading axes.

    Returns
    -------
    ndarray, shape (..., times)
        Does not see a kernel that only grows.

    Examples
    --------
    >>> kernel_turn([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 5.0]]])
    array([0., 1.])
    """
    k = floats("kernels", kernels, 3)
    return 1 - cosine(k, k[..., :1, :, :])


def kernel_change(kernels: ArrayLike) -> Floats:
    """Norm of the change of tangent kernels since the first of them, relative to the norm of that.

    Parameters
    ----------
    kernels : array_like, shape (..., times, n, n)
        As of `tangent_kernel`, with any leading axes.

    Returns
    -------
    ndarray, shape (..., times)

    Examples
    --------
    >>> kernel_change([[[1.0, 0.0], [0.0, 0.0]], [[3.0, 0.0], [0.0, 0.0]]])
    array([0., 2.])
    """
    k = floats("kernels", kernels, 3)
    first = k[..., :1, :, :]
    return np.linalg.norm(k - first, axis=(-1, -2)) / np.linalg.norm(first, axis=(-1, -2))


def distance_moved(
    graph: Graph, weights: Trajectory | Mapping[str, ArrayLike], *, relative: bool = False
) -> Floats:
    """Norm of the change of all weights and biases since the first time.

    Parameters
    ----------
    graph : Graph
        Of the weights.
    weights : Trajectory or dict of str to array_like
        With an axis of times, as `Trajectory.weights`, and any axes before it.
    relative : bool
        Whether to divide by the norm of the first weights.

    Returns
    -------
    ndarray, shape (..., times)

    Examples
    --------
    >>> import neuralrace as nr
    >>> graph = nr.Graph.chain([1, 1, 1])
    >>> distance_moved(graph, {"x->h1": [[[0.0]], [[3.0]]], "h1->y": [[[1.0]], [[5.0]]]})
    array([0., 5.])
    """
    table = weights.weights if isinstance(weights, Trajectory) else weights
    moved: Floats = np.zeros(())
    size: Floats = np.zeros(())
    for name, shape in check_graph(graph).shapes.items():
        if not isinstance(table, Mapping) or name not in table:
            raise InputError(f"weights must hold those of {name!r}; was the trajectory saved without them?")
        w = floats(name, table[name], len(shape) + 1)
        if w.shape[-len(shape) :] != tuple(shape):
            raise InputError(f"{name} must have shape (..., times, {str(shape)[1:]}, got {w.shape}")
        w = w.reshape(*w.shape[: w.ndim - len(shape)], -1)
        first = w[..., :1, :]
        moved = moved + ((w - first) ** 2).sum(axis=-1)
        size = size + (first**2).sum(axis=-1)
    return np.sqrt(moved / size) if flag("relative", relative) else np.sqrt(moved)
