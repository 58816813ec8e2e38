"""Quantities read off weights and trajectories."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.dynamics.history import History
from neuralrace.dynamics.history import crossing as first_below
from neuralrace.dynamics.setup import Rates
from neuralrace.errors import InputError, array, number
from neuralrace.graph import Graph
from neuralrace.network import Stack, check, precision, program, take
from neuralrace.task import Task

MOST_AXES = 8  # before those of a weight: seeds, sizes, times


def learning_time(trajectory: Any, level: float) -> Any:
    """First time at which the loss falls to `level`.

    Interpolates with the loss and its slope at the solver's own steps, so the result does not depend on
    which times were saved. For descent it is linear between steps; with mini-batches between saved steps.

    Parameters
    ----------
    trajectory : Trajectory
        One run or several. Anything with `t` and `loss` will do; it is then linear between these times.
    level : float
        Loss to reach, in the units of ``trajectory.loss``.

    Returns
    -------
    float or ndarray, shape (runs,)
        Flow time (tau = 1, mean loss); nan where the level is never reached.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.xor()
    >>> start = nr.init.decoupled(nr.reduce(task), 0.1)
    >>> few, many = (nr.flow(task, start, t1=100.0, save=n) for n in (2, 500))
    >>> bool(abs(learning_time(few, 0.1) / learning_time(many, 0.1) - 1) < 1e-3)
    True
    """
    level = number("level", level)
    history = getattr(trajectory, "history", None)
    if history is None:
        try:
            history = History(np.asarray(trajectory.t, float), np.asarray(trajectory.loss, float), None)
        except (AttributeError, TypeError, ValueError):
            raise InputError(f"trajectory must be a Trajectory, got {type(trajectory).__name__}") from None
    if history.loss.ndim == 1:
        return first_below(history, level)
    return np.array([first_below(history.run(k), level) for k in range(len(history.loss))])


def crossing(x: Any, y: Any, level: float) -> float:
    """The first x at which y `(n,)` is at or below `level`, linear between points; nan if never.

    >>> crossing([0.0, 1.0, 2.0], [4.0, 2.0, 1.0], 3.0)
    0.5
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    below = np.flatnonzero(y <= level)
    if not len(below):
        return float("nan")
    k = below[0]
    if k == 0 or y[k - 1] == y[k]:
        return float(x[k])
    return float(x[k - 1] + (x[k] - x[k - 1]) * (y[k - 1] - level) / (y[k - 1] - y[k]))


def plateau_share(t: Any, loss: Any) -> float:
    """Share of the time in which the loss `(n,)` falls more slowly than it will later.

    Zero for a loss that is convex in time, as it is for a constant tangent kernel (a sum of decaying
    exponentials); near one where drops come after long plateaus.
    """
    step = np.diff(np.asarray(t, float))
    rate = -np.diff(np.asarray(loss, float)) / step
    later = np.maximum.accumulate(rate[::-1])[::-1]
    return float(step @ (rate < later) / step.sum())


def tangent_kernel(task: Task, weights: Any) -> np.ndarray:
    """Empirical neural tangent kernel `J J^T`, J the slope of all outputs in all weights.

    Outputs are scaled so that the loss is half the sum of squared residuals r, and `dL/dt = -r^T K r` along
    gradient flow.

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
    checked = check(task, weights)
    flat, made = task.graph.flatten(checked), program(task, "squared")
    with precision(np.float64):
        return np.asarray(_kernel(made.stack, flat.ndim == 2, jnp.asarray(flat), made.data))


@partial(jax.jit, static_argnums=(0, 1))
def _kernel(stack: Stack, many: bool, flat: Any, data: Any) -> Any:
    def outputs(w: Any) -> Any:
        rows = [jnp.zeros(0, w.dtype)]
        for h, r, d in zip(stack.outputs(w, data), stack.readouts, data["readouts"], strict=True):
            scale = 1.0 if d["weight"] is None else jnp.sqrt(take(d["weight"], r.weight))[..., None]
            rows.append((h * scale).ravel())
        return jnp.concatenate(rows)

    def one(w: Any) -> Any:
        slope = jax.jacrev(outputs)(w)
        return slope @ slope.T

    return jax.lax.map(one, flat) if many else one(flat)


def conserved(task: Task, weights: Any, lr_scale: Mapping[str, float] | None = None) -> dict[str, np.ndarray]:
    """What gradient flow keeps constant at each hidden node: `sum_out W^T W - sum_in W W^T - b b^T`.

    The law holds between neurons that are gated alike in every sample, for linear nodes. With relu and
    leaky_relu, and at nodes with a diagonal edge, it holds only for each neuron with itself (theory section
    5).

    Parameters
    ----------
    task : Task
        Graph and gates.
    weights : dict of str to array_like
        Weights of every edge and bias, with any leading axes, such as those of `Trajectory.weights`.
    lr_scale : dict, optional
        Learning rates of some edges or biases: each term is divided by its rate. Nodes with a rate of 0 are
        left out.

    Returns
    -------
    dict of str to ndarray, shape (..., size, size)
        One for each hidden node; nodes with other activations are left out. Entries where the law does not
        hold are zero. Weight decay lets it shrink, by `exp(-2 lr_scale weight_decay t)` where that product
        is the same for all edges at the node; where it differs there is no such law.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 1, 1]), [1.0], [1.0])
    >>> conserved(task, {"x->h1": [[2.0]], "h1->y": [[3.0]]})["h1"]
    array([[5.]])
    """
    if not isinstance(task, Task):
        raise InputError(f"task must be a Task, got {type(task)}")
    g, found = task.graph, {}
    weights = g.check_weights(weights, most_axes=MOST_AXES)
    rate = Rates.of(g, 0.0, lr_scale, ()).scale
    contexts = task.sample_contexts if task.n_samples is not None else task.moment_contexts
    for node in g.hidden:
        activation = g.activations.get(node, "linear")
        if activation not in ("linear", "relu", "leaky_relu", "leaky_relu_torch"):
            continue
        if not all(rate[e] for e in (*g.outgoing[node], *g.incoming[node], *({node} & set(g.biases)))):
            continue
        holds = np.eye(g.nodes[node], dtype=bool)
        if activation == "linear" and not g.diagonal & {*g.incoming[node], *g.outgoing[node]}:
            gates = [c.gate(node) for c in contexts]
            single = np.array([gate for gate in gates if np.ndim(gate)]).reshape(-1, g.nodes[node])
            holds = (single[:, :, None] == single[:, None, :]).all(axis=0)
        full = {e: _matrix(g, e, weights[e]) for e in (*g.outgoing[node], *g.incoming[node])}
        out = sum(np.swapaxes(full[e], -1, -2) @ full[e] / rate[e] for e in g.outgoing[node])
        into = sum(full[e] @ np.swapaxes(full[e], -1, -2) / rate[e] for e in g.incoming[node])
        if node in g.biases:
            bias = weights[node]
            into = into + bias[..., :, None] * bias[..., None, :] / rate[node]
        found[node] = np.where(holds, out - into, 0.0)
    return found


def xor_strengths(w1: Any, w2: Any) -> np.ndarray:
    """Initial strength `a0` of each of the four pathways that a ReLU network grows on exclusive or.

    From small weights `w1` `(..., n, 2)` and `w2` `(..., 1, n)`; for samples in the order of `tasks.xor`,
    `(..., 4)`. While outputs are small the error is the target, and every unit learns by itself. It is active
    on two samples: with p along their sum and q along the difference of the positive and the negative one,
    `q' = v/2`, `v' = q/2`, until `|q| = |p|`. From there it slides along the diagonal, active on one sample,
    and its strength grows as that of a pathway (neural_race Eq. 21), by which it is taken back to time 0.

    >>> xor_strengths([[2.0, 0.0]], [[1.0]]).round(3)
    array([0.   , 0.832, 0.   , 0.   ])
    """
    w = array("w1", w1)
    v = array("w2", w2)[..., 0, :]
    if w.shape[-1] != 2 or v.shape != w.shape[:-1]:
        raise InputError(f"w1 must be (..., n, 2) and w2 (..., 1, n), got {np.shape(w1)} and {np.shape(w2)}")
    first = np.abs(w[..., 0]) >= np.abs(w[..., 1])
    p, other = np.where(first, w[..., 0], w[..., 1]), np.where(first, w[..., 1], w[..., 0])
    q = -np.sign(p) * other
    arrived = np.sqrt(p**2 + v**2 - q**2)  # |v| when |q| = |p|, as v^2 - q^2 is constant
    wait = np.abs(v + q) / np.maximum(np.abs(p) + arrived, 1e-300)  # exp(-t/2) at that time
    a = np.where(p == 0, 0.0, ((np.sqrt(2) * np.abs(p) + arrived) / 2 * wait ** np.sqrt(0.5)) ** 2)
    turned = np.sign(v + q) * -np.sign(p)
    x0, x1 = np.where(first, p, turned), np.where(first, turned, p)
    sample = 2 * (x0 < 0) + (x1 < 0)
    return np.stack([np.where(sample == k, a, 0.0).sum(axis=-1) for k in range(4)], axis=-1)


def _matrix(graph: Graph, edge: str, w: np.ndarray) -> np.ndarray:
    return w[..., None] * np.eye(w.shape[-1]) if edge in graph.diagonal else w
