"""Slow and obvious twins of what the library computes fast."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import expit, log_softmax, softmax

ACTIVATIONS = {  # each with its derivative
    "linear": (lambda a: a, np.ones_like),
    "relu": (lambda a: np.maximum(a, 0), lambda a: np.where(a > 0, 1.0, 0.0)),
    "leaky_relu": (lambda a: np.where(a >= 0, a, 0.01 * a), lambda a: np.where(a >= 0, 1.0, 0.01)),
    "leaky_relu_torch": (lambda a: np.where(a > 0, a, 0.01 * a), lambda a: np.where(a > 0, 1.0, 0.01)),
    "elu": (lambda a: np.where(a > 0, a, np.expm1(np.minimum(a, 0))), lambda a: np.exp(np.minimum(a, 0))),
    "tanh": (np.tanh, lambda a: 1 - np.tanh(a) ** 2),
    "swish": (lambda a: a * expit(a), lambda a: expit(a) * (1 + a * expit(-a))),
}


def column(gate, n):
    """A gate as (n, 1) or (n, size)."""
    gate = np.asarray(gate, float)
    return np.full((n, 1), gate) if gate.ndim == 0 else gate.reshape(n, -1)


def sums(graph, weights, inputs, gates):
    """What comes into every node, and its activity, sample by sample, straight from the definition."""
    n = len(next(iter(inputs.values())))
    a, h = {}, {}
    for node in graph.order:
        a[node] = np.zeros((n, graph.nodes[node]))
        for edge in graph.incoming[node]:
            a[node] += column(gates.get(edge, 1.0), n) * (h[graph.edges[edge][0]] @ weights[edge].T)
        if node in graph.biases:
            a[node] += weights[node]
        active = ACTIVATIONS[graph.activations.get(node, "linear")][0](a[node])
        h[node] = column(gates.get(node, 1.0), n) * inputs.get(node, active)
    return a, h


def forward(graph, weights, inputs, gates):
    """Activity `(samples, size)` of every node."""
    return sums(graph, weights, inputs, gates)[1]


def means(inputs, sample_weights):
    n = len(next(iter(inputs.values())))
    return np.full(n, 1 / n) if sample_weights is None else sample_weights / np.sum(sample_weights)


def sample_loss(graph, weights, inputs, targets, gates, sample_weights=None, kind="squared"):
    p_n, h = means(inputs, sample_weights), forward(graph, weights, inputs, gates)
    if kind == "squared":
        return sum(p_n @ (0.5 * (y - h[o]) ** 2).sum(axis=1) for o, y in targets.items())
    return sum(p_n @ -(y * log_softmax(h[o], axis=1)).sum(axis=1) for o, y in targets.items())


def sample_gradient(graph, weights, inputs, targets, gates, sample_weights=None, kind="squared"):
    """Errors sent back from node to node."""
    p_n, (a, h) = means(inputs, sample_weights)[:, None], sums(graph, weights, inputs, gates)
    n, grad, error = len(p_n), {}, {node: np.zeros_like(h[node]) for node in graph.nodes}
    for output, y in targets.items():
        wanted = softmax(h[output], axis=1) * y.sum(axis=1, keepdims=True) if kind != "squared" else h[output]
        error[output] = p_n * (wanted - y)
    for node in reversed(graph.order):
        slope = ACTIVATIONS[graph.activations.get(node, "linear")][1](a[node])
        into = error[node] * column(gates.get(node, 1.0), n) * slope
        for edge in graph.incoming[node]:
            source, gate = graph.edges[edge][0], column(gates.get(edge, 1.0), n)
            grad[edge] = (gate * into).T @ h[source]
            error[source] += gate * (into @ weights[edge])
        if node in graph.biases:
            grad[node] = into.sum(axis=0)
    return grad


def path_gate(graph, path, gates, n):
    g = column(gates.get(graph.edges[path[0]][0], 1.0), n)
    for edge in path:
        g = g * column(gates.get(edge, 1.0), n) * column(gates.get(graph.edges[edge][1], 1.0), n)
    return g[:, 0]


def path_product(weights, path, size):
    """W_p, the target on the left."""
    product = np.eye(size)
    for edge in path:
        product = weights[edge] @ product
    return product


def path_gradient(graph, weights, inputs, targets, gates, sample_weights=None):
    """neural_race Eq. 3-6, term by term; returns the gradient (minus the right side of Eq. 3)."""
    p_n = means(inputs, sample_weights)
    n = len(p_n)
    grad = {e: np.zeros((graph.nodes[t], graph.nodes[s])) for e, (s, t) in graph.edges.items()}
    for edge in graph.edges:
        for p in graph.paths_through(edge):
            xp, yp = graph.edges[p[0]][0], graph.edges[p[-1]][1]
            gp = path_gate(graph, p, gates, n)
            error = np.einsum("n,ny,nx->yx", p_n * gp, targets[yp], inputs[xp])
            for j in graph.paths_into(yp):
                xj = graph.edges[j[0]][0]
                gj = path_gate(graph, j, gates, n)
                sxx = np.einsum("n,na,nb->ab", p_n * gj * gp, inputs[xj], inputs[xp])
                error -= path_product(weights, j, graph.nodes[xj]) @ sxx
            k = p.index(edge)
            before = path_product(weights, p[:k], graph.nodes[xp])
            after = path_product(weights, p[k + 1 :], graph.nodes[graph.edges[edge][1]])
            grad[edge] -= after.T @ error @ before.T
    return grad


def path_loss(graph, weights, inputs, targets, gates, sample_weights=None):
    """Loss with outputs written as sums over paths."""
    p_n = means(inputs, sample_weights)
    n = len(p_n)
    total = 0.0
    for output in graph.outputs:
        h = np.zeros((n, graph.nodes[output]))
        for j in graph.paths_into(output):
            x = graph.edges[j[0]][0]
            h += path_gate(graph, j, gates, n)[:, None] * (
                inputs[x] @ path_product(weights, j, graph.nodes[x]).T
            )
        total += 0.5 * p_n @ ((targets[output] - h) ** 2).sum(axis=1)
    return total


def scipy_flow(graph, weights, ts, gradient):
    """Gradient flow by SciPy's DOP853 on the flattened weights, tighter than what it is compared with."""
    start = graph.flatten(weights)

    def velocity(t, flat):
        return -graph.flatten(gradient(graph.unflatten(flat)))

    solution = solve_ivp(velocity, (0, ts[-1]), start, "DOP853", ts, rtol=1e-11, atol=1e-13)
    assert solution.success
    return graph.unflatten(solution.y.T)


def flow_error(graph, t, weights, gradient):
    """Largest difference from `scipy_flow` over any one interval of `t`, in units of 1 + the largest weight.

    SciPy starts anew from the weights `(times, ...)` at the beginning of each interval. So flows that drift
    apart on their own, as beside a saddle, do not enlarge small errors of earlier intervals.
    """
    worst = 0.0
    for k in range(len(t) - 1):
        here = {e: w[k] for e, w in weights.items()}
        there = scipy_flow(graph, here, [t[k + 1] - t[k]], gradient)
        worst = max(worst, *(np.abs(there[e][0] - w[k + 1]).max() for e, w in weights.items()))
    return worst / (1 + max(np.abs(w).max() for w in weights.values()))


def numpy_descent(weights, lr, steps, gradient):
    weights = dict(weights)
    path = [weights]
    for _ in range(steps):
        grad = gradient(weights)
        weights = {k: w - lr * grad[k] for k, w in weights.items()}
        path.append(weights)
    return {k: np.stack([w[k] for w in path]) for k in weights}


def descent_error(lr, weights, gradient):
    """As `flow_error`, of weights `(steps + 1, ...)` from `numpy_descent`, step by step."""
    worst = 0.0
    for k in range(len(next(iter(weights.values()))) - 1):
        there = numpy_descent({e: w[k] for e, w in weights.items()}, lr, 1, gradient)
        worst = max(worst, *(np.abs(there[e][1] - w[k + 1]).max() for e, w in weights.items()))
    return worst / (1 + max(np.abs(w).max() for w in weights.values()))


def sum_of_terms(graph, weights, inputs, targets, gates, sample_weights=None):
    """The loss with all its terms made positive: what rounding errors of the loss are relative to."""
    absolute = [{k: np.abs(v) for k, v in table.items()} for table in (weights, inputs, gates)]
    opposite = {k: -np.abs(v) for k, v in targets.items()}
    return path_loss(graph, *absolute[:2], opposite, absolute[2], sample_weights)


def attainable(task):
    """The least loss of any weights: least squares over one map for each listed path."""
    g, s = task.graph, task.samples
    share, total = np.sqrt(s.share)[:, None], 0.0
    for o in g.outputs:
        features = [np.zeros((s.n, 1))]
        for path in g.paths_into(o):
            source = g.edges[path[0]][0]
            h = column(s.gates.get(source, 1.0), s.n) * s.inputs[source]
            for edge in path:
                h = column(s.gates.get(edge, 1.0), s.n) * column(s.gates.get(g.edges[edge][1], 1.0), s.n) * h
            features.append(h)
        a, y = share * np.concatenate(features, axis=1), share * s.targets[o]
        total += 0.5 * ((y - a @ np.linalg.lstsq(a, y, rcond=None)[0]) ** 2).sum()
    return total
