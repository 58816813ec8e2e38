"""The patterns that units have over training, gathered and clustered by k-means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuralrace.errors import InputError
from neuralrace.graph import Graph
from neuralrace.measure import unit_sizes
from neuralrace.relu.training import ReluNetwork, layer_gates

MAX_NUMBERS = 20_000_000  # in the patterns that are clustered


def unit_size(graph: Graph, weights: Mapping[str, np.ndarray], layer: int) -> np.ndarray:
    """Size of each unit of a layer (1 is the first), `(units,)`."""
    before, after = list(graph.edges)[layer - 1 : layer + 1]
    return unit_sizes(weights[before], weights[after])


def distinct_patterns(
    networks: Sequence[ReluNetwork], layer: int, weighted: bool
) -> tuple[np.ndarray, np.ndarray, float]:
    """Distinct patterns `(m, n)`, how much each counts `(m,)`, and the share of those left out."""
    n = len(networks[0].X)
    count: dict[bytes, float] = {}
    for one in networks:
        for i in range(len(one.t)):
            gates = layer_gates(one, i, layer).T
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
