"""Laws: what gradient flow conserves, and exponents of power laws."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.dynamics.rates import Rates
from neuralrace.errors import InputError, without_nan
from neuralrace.measure.arrays import Floats, as_matrix, floats, plain
from neuralrace.task import Task

MOST_AXES = 8  # before those of a weight: seeds, sizes, times


def conserved(task: Task, weights: Mapping[str, ArrayLike], rates: Rates | None = None) -> dict[str, Floats]:
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
    rates : Rates, optional
        As in `flow`: each term is divided by its learning rate. Nodes with a rate of 0 or a fixed edge are
        left out.

    Returns
    -------
    dict of str to ndarray, shape (..., size, size)
        One for each hidden node; nodes with other activations are left out. Entries where the law does not
        hold are zero. Weight decay lets it shrink, by `exp(-2 scale decay t)` where that product
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
    g, law = task.graph, {}
    weights = g.check_weights(weights, most_axes=MOST_AXES)
    rate = Rates.check(rates, g).scales(g)
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
        full = {e: as_matrix(g, e, weights[e]) for e in (*g.outgoing[node], *g.incoming[node])}
        out = sum(np.swapaxes(full[e], -1, -2) @ full[e] / rate[e] for e in g.outgoing[node])
        into = sum(full[e] @ np.swapaxes(full[e], -1, -2) / rate[e] for e in g.incoming[node])
        if node in g.biases:
            bias = weights[node]
            into = into + bias[..., :, None] * bias[..., None, :] / rate[node]
        law[node] = np.where(holds, out - into, 0.0)
    return without_nan("weights", law)


def power_law_exponent(x: ArrayLike, y: ArrayLike) -> Floats:
    """The exponent of y in x: slope of the straight line through their logarithms by least squares.

    Parameters
    ----------
    x : array_like, shape (n,)
        At least two positive numbers.
    y : array_like, shape (..., n)
        Positive numbers, with any leading axes.

    Returns
    -------
    float or ndarray, shape (...)
        nan where y holds nan.

    Examples
    --------
    >>> round(power_law_exponent([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    xs, ys = floats("x", x, 1), floats("y", y, 1)
    if xs.ndim != 1 or ys.shape[-1] != len(xs):
        raise InputError(f"x must be (n,) and y (..., n), got {xs.shape} and {ys.shape}")
    if len(np.unique(xs)) < 2 or (xs <= 0).any() or (ys <= 0).any():
        raise InputError("x and y must be positive, with at least two different x")
    log_x = np.log(xs) - np.log(xs).mean()
    return plain(np.log(ys) @ log_x / (log_x @ log_x))
