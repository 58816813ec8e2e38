"""Which pathways a network of rectified units uses: the few patterns of gates, and what each carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from neuralrace.apps.insight.answer import Answer

MOST_PATTERNS = 8
MIXED = (
    0.25  # share of probes on which a unit differs from the pattern it belongs to, above which it is mixed
)
EARNED = 0.02  # gain of the silhouette score by which a further pattern earns its place
SILENT = 1e-3  # size of a unit, relative to the largest, below which it is left out


def rectified_layers(activity: Mapping[str, np.ndarray], network: Any) -> list[str]:
    """Layers of rectified units; of a function, those never negative and closed on some probes."""
    if hasattr(network, "rectified"):
        return [name for name in activity if network.rectified.get(name) and activity[name].max() > 0]
    return [
        name
        for name, a in activity.items()
        if a.min() >= 0 and 0.02 < (a == 0).mean() < 0.999 and a.max() > 0
    ]


def pathways_of(
    activity: Mapping[str, np.ndarray], network: Any, outputs: np.ndarray, y: np.ndarray
) -> Answer:
    """Patterns of the gates of rectified layers (probes, units), how much each carries, constant gates."""
    import xarray as xr

    layers = rectified_layers(activity, network)
    if not layers:
        return Answer(
            "Which pathways does it use?",
            "No layer has rectified units: a ReLU module, or activity that is never negative and often 0.",
            "A network without rectified units has one linear pathway where its activation is linear.",
            "Smooth activations (tanh, GELU) have no gates in this sense.",
            xr.Dataset(),
        )
    parts, told = {}, []
    for layer in layers:
        patterns, membership, mixed = _patterns(activity[layer])
        carried, gap = _effects(network, layer, patterns, membership, outputs)
        parts[f"patterns:{layer}"] = ((f"pattern:{layer}", "probe"), patterns)
        parts[f"membership:{layer}"] = (f"unit:{layer}", membership)
        parts[f"mixed:{layer}"] = (f"unit:{layer}", mixed)
        parts[f"carried:{layer}"] = (f"pattern:{layer}", carried)
        parts[f"constant_gates_error:{layer}"] = gap
        shown = (
            ", ".join(f"{c:.0%}" for c in -np.sort(-carried)) if np.isfinite(carried).all() else "not known"
        )
        gated = (
            f"constant gates change the output by {gap:.0%}"
            if np.isfinite(gap)
            else "outputs cannot be gated"
        )
        share = mixed[membership >= 0].mean()
        told.append(
            f"{layer}: {len(patterns)} patterns, {share:.0%} of units mixed; carried {shown}; {gated}"
        )
    return Answer(
        "Which pathways does it use?",
        ". ".join(told) + ".",
        "A ReLU network is a gated linear network. Where few patterns of gates describe all units, each is a "
        "pathway, and the network learns as a gated linear network with these pathways does.",
        "Patterns are of the probes. Carried is the share of the output that is lost without the units of a "
        "pattern; with later nonlinear layers shares need not add up. No more than "
        f"{MOST_PATTERNS} patterns are looked for.",
        xr.Dataset(parts),
    )


def _patterns(activity: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Patterns (patterns, probes) of the gates, the pattern of each unit (-1 if silent), and mixed units."""
    size = np.linalg.norm(activity, axis=0)
    used = np.flatnonzero(size > SILENT * size.max())
    gates = (activity[:, used] > 0).astype(float).T  # (units, probes)
    labels = _clustered(gates, size[used])
    weighted = lambda k: np.average(gates[labels == k], axis=0, weights=size[used][labels == k])  # noqa: E731
    patterns = np.stack([weighted(k) for k in range(labels.max() + 1)]) > 0.5
    membership, mixed = np.full(activity.shape[1], -1), np.zeros(activity.shape[1], bool)
    membership[used] = labels
    mixed[used] = (gates != patterns[labels]).mean(axis=1) > MIXED
    return patterns, membership, mixed


def _clustered(gates: np.ndarray, size: np.ndarray) -> np.ndarray:
    """A cluster for each unit: its own pattern where there are few, else by k-means."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    means: Any = KMeans
    own = np.unique(gates, axis=0, return_inverse=True)[1].ravel()
    distinct = own.max() + 1
    if distinct <= MOST_PATTERNS:
        return own
    labels, best = np.zeros(len(gates), int), -np.inf
    for k in range(2, min(MOST_PATTERNS, distinct - 1) + 1):
        found = means(k, n_init=4, random_state=0).fit(gates, sample_weight=size)
        score = silhouette_score(gates, found.labels_)
        if score > best + EARNED:
            labels, best = found.labels_, score
    return labels


def _effects(
    network: Any, layer: str, patterns: np.ndarray, membership: np.ndarray, outputs: np.ndarray
) -> tuple[np.ndarray, float]:
    """Share of the output lost without each pattern's units; relative change of it with constant gates."""
    if not hasattr(network, "with_gates") or network.units[layer] != len(membership):
        return np.full(len(patterns), np.nan), np.nan
    total = max(float(np.linalg.norm(outputs)), 1e-300)
    lost = [outputs - network.without_units(layer, membership != k) for k in range(len(patterns))]
    gates = np.where(membership >= 0, patterns[membership].T, False).astype(float)
    gap = float(np.linalg.norm(outputs - network.with_gates(layer, gates)) / total)
    return np.array([np.linalg.norm(v) / total for v in lost]), gap
