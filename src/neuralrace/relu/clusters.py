"""Patterns that units have over training, clustered by k-means, and how many clusters there are.

Their number is chosen by how closely networks with these constant gates follow the ReLU network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuralrace.dynamics import Trajectory
from neuralrace.errors import InputError
from neuralrace.graph import Graph
from neuralrace.measure import unit_sizes
from neuralrace.network import activity, predict
from neuralrace.relu.patterns import nearest_pattern
from neuralrace.relu.training import relu_chain, train_like, unit_gates
from neuralrace.task import Task

MAX_NUMBERS = 20_000_000  # in the patterns that are clustered
CLOSE = 0.005  # distances, relative to the targets, that count as equal
WORSE_IN_A_ROW = 2  # numbers of clusters without a gain after which no more are tried


def unit_size(graph: Graph, weights: Mapping[str, np.ndarray], layer: int) -> np.ndarray:
    """Size of each unit of a layer (1 is the first), `(units,)`."""
    before, after = list(graph.edges)[layer - 1 : layer + 1]
    return unit_sizes(weights[before], weights[after])


def distinct_patterns(
    networks: Sequence[Trajectory], layer: int, weighted: bool
) -> tuple[np.ndarray, np.ndarray, float]:
    """Distinct patterns `(m, n)`, how much each counts `(m,)`, and the share of those left out."""
    n = len(networks[0].task.arrays[0])
    count: dict[bytes, float] = {}
    for one in networks:
        for i in range(len(one.t)):
            gates = unit_gates(one.task, one.at(i), layer).T
            size = np.sqrt(unit_size(one.task.graph, one.at(i), layer))
            alive = gates.any(axis=1) & (size > 0)
            size = size[alive] if weighted else np.ones(alive.sum())
            for key, s in zip(np.packbits(gates[alive], axis=1), size, strict=True):
                count[key.tobytes()] = count.get(key.tobytes(), 0.0) + s
    if not count:
        raise InputError(f"no unit of layer {layer} is active on a sample: there is no pattern to find")
    weights = np.array(list(count.values()))
    order = np.argsort(-weights, kind="stable")[: max(1, MAX_NUMBERS // n)]
    keys = list(count)
    packed = np.stack([np.frombuffer(keys[i], np.uint8) for i in order])
    patterns = np.unpackbits(packed, axis=1)[:, :n].astype(float)
    left_out = 1 - weights[order].sum() / weights.sum() if len(order) < len(keys) else 0.0
    return patterns, weights[order] / weights[order].sum(), float(left_out)


def cluster(patterns: np.ndarray, weights: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres `(k, n)` and shares `(k,)`, those open on most samples first."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    means: Any = KMeans  # its annotations are not those of its documentation
    with threadpool_limits(1):  # sums in the same order every time, and threads are slow at this size
        fit = means(k, n_init=10, random_state=seed).fit(patterns, sample_weight=weights * len(weights))
    centres = fit.cluster_centers_.clip(0.0, 1.0)
    shares = np.bincount(fit.labels_, weights, minlength=k)
    rows = open_patterns(centres)
    order = sorted(range(k), key=lambda c: (-rows[c].sum(), tuple(-rows[c]), -shares[c]))
    return centres[order], shares[order]


def open_patterns(centres: np.ndarray) -> np.ndarray:
    """1 where mean gates are above one half, else 0."""
    return (centres > 0.5).astype(float)


def has_equal_patterns(centres: np.ndarray) -> bool:
    """Whether two clusters have the same pattern."""
    return len(np.unique(open_patterns(centres), axis=0)) < len(centres)


def choose_count(
    elbow: Mapping[int, float], centres: Mapping[int, np.ndarray], follow: str, tolerance: float
) -> tuple[int, str]:
    """The number of clusters, and the rule by which it was chosen."""
    good = {m: d for m, d in elbow.items() if not has_equal_patterns(centres[m])}
    if follow == "trained":
        least = min(good.values())
        enough = least + max(CLOSE, tolerance * (elbow[1] - least))
        rule = f"the fewest clusters with {1 - tolerance:.0%} of the best gain over one"
        return min(m for m, d in good.items() if d <= enough), f"trained beside the network: {rule}"
    first, last = min(elbow), max(elbow)
    slope = (elbow[last] - elbow[first]) / max(1, last - first)
    below = {m: elbow[first] + slope * (m - first) - d for m, d in good.items()}
    chosen = max(below, key=lambda m: (below[m] + 1e-12 * (last - m), -m))
    rule = "where the distance lies farthest below the line from end to end"
    return chosen, f"gates swapped for patterns: {rule}"


def root_mean_square(values: Sequence[Any]) -> float:
    """Root of the mean over runs of the mean square of each."""
    return float(np.sqrt(np.mean([np.mean(np.square(v)) for v in values])))


def all_outputs(net: Trajectory) -> np.ndarray:
    """Outputs at all saved times, `(save, n, out)`."""
    return predict(net.task, net.weights)["y"]


def swapped_distance(net: Trajectory, outputs: np.ndarray, patterns: np.ndarray, layer: int) -> np.ndarray:
    """Distance from the outputs at each time, with each unit's gates swapped for the nearest pattern."""
    x, y = net.task.arrays
    g = net.task.graph
    node = g.hidden[layer - 1]
    others = {h: a for h, a in g.activations.items() if h != node}
    swapped = Task(Graph(g.nodes, g.edges, others, g.biases), x, y)
    distances = []
    for i, here in enumerate(outputs):
        own = unit_gates(net.task, net.at(i), layer)
        gates = patterns[nearest_pattern(own.T, patterns)].T * own.any(axis=0)
        apart = activity(swapped, net.at(i), "y", inputs=x, gates={node: gates}) - here
        distances.append(np.sqrt((apart**2).sum() / (y**2).sum()))
    return np.array(distances)


def trained_distance(net: Trajectory, outputs: np.ndarray, patterns: np.ndarray, layer: int) -> np.ndarray:
    """Distance from the outputs of a linear network with constant gates that is trained as `net` was."""
    y = net.task.arrays[1]
    span = _span_of_outputs(y, outputs)
    task, weights = _pathways(net, patterns, layer, span)
    path = train_like(net, task, weights)
    apart = predict(task, path.weights)["y"] - outputs[: len(path.t)] @ span.T
    return np.sqrt((apart**2).sum(axis=(1, 2)) / (y**2).sum())


def _span_of_outputs(y: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Directions `(k, out)` in which outputs move.

    Outside the span of the targets they stay what they are at the start: nothing, if that is small.
    """
    _, s, vt = np.linalg.svd(y, full_matrices=False)
    span = vt[s > 1e-9 * s[0]]
    if ((outputs - outputs @ span.T @ span) ** 2).sum(axis=(1, 2)).max() > 1e-8 * (y**2).sum():
        return np.eye(y.shape[1])
    return span


def _pathways(
    net: Trajectory, patterns: np.ndarray, layer: int, span: np.ndarray
) -> tuple[Task, dict[str, np.ndarray]]:
    """The network with each unit at the pattern nearest to its last gates, and its initial weights.

    Units with the same gates are a linear pathway. Rotating them changes nothing, so no pathway needs more
    units than it has inputs and outputs.
    """
    (x, y), start = net.task.arrays, net.at(0)
    first, second = net.task.graph.edges
    bias = net.task.graph.biases
    inward = np.column_stack([start[first], *([start["h1"]] if bias else [])])
    outward = span @ start[second]
    own = unit_gates(net.task, net.at(-1), layer).T
    member = np.where(own.any(axis=1), nearest_pattern(own, patterns), -1)
    size = min(inward.shape[1] + len(span), len(own))
    w1, w2 = np.zeros((len(patterns), size, inward.shape[1])), np.zeros((len(patterns), len(span), size))
    for c in range(len(patterns)):
        both = np.concatenate([inward[member == c], outward[:, member == c].T], axis=1)
        r = np.linalg.qr(both)[1] if len(both) > size else both
        w1[c, : len(r)], w2[c, :, : len(r)] = r[:, : inward.shape[1]], r[:, inward.shape[1] :].T
    w1, w2 = w1.reshape(-1, inward.shape[1]), np.concatenate(list(w2), axis=1)
    chain = relu_chain([x.shape[1], len(w1), len(span)], bool(bias))
    graph = Graph(chain.nodes, chain.edges, biases=chain.biases)
    task = Task(graph, x, y @ span.T, {"h1": np.repeat(patterns, size, axis=0).T})
    weights = {first: w1[:, : x.shape[1]], second: w2}
    if bias:
        weights |= {"h1": w1[:, -1], "y": span @ start["y"]}
    return task, weights
