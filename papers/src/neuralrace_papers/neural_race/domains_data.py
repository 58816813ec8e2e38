"""The items of neural_race Fig. 4-6, four of them with seven features, shown on many domains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import neuralrace as nr

# One feature of all items, one of either pair, and one of each item.
TARGETS = np.array(
    [
        [6.0, 4, 0, 3, 0, 0, 0],
        [6, 4, 0, 0, 3, 0, 0],
        [6, 0, 4, 0, 0, 3, 0],
        [6, 0, 4, 0, 0, 0, 3],
    ]
)
ITEMS, FEATURES = TARGETS.shape
S, D = np.linalg.svd(TARGETS)[1] / ITEMS, 1 / ITEMS  # strengths of modes, and variance of inputs
SILENT_LOSS = 0.5 * (TARGETS**2).sum() / ITEMS  # of a network without output


def task(domains: int, trained: Any, hidden: int) -> nr.Task:
    """Routing of the items through two shared layers; `trained` as in `nr.tasks.routing`."""
    return nr.tasks.routing(domains, trained, ITEMS, (hidden, hidden), inputs=np.eye(ITEMS), targets=TARGETS)


def answers(task: nr.Task, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """First hidden layer, and outputs side by side, for each item on each domain, `(run, sample, ...)`."""
    inputs = nr.tasks.on_each_domain(np.eye(ITEMS), len(task.graph.inputs))
    outputs = [nr.activity(task, weights, y, inputs) for y in task.graph.outputs]
    return nr.activity(task, weights, "h1", inputs), np.concatenate(outputs, axis=-1)


def layers(values: Mapping[str, np.ndarray], domains: int) -> list[np.ndarray]:
    """Values of the edges of each layer: input, hidden, output; `(run, t, domain, ...)`."""
    edges = [[f"x{i}->h1" for i in range(domains)], ["h1->h2"], [f"h2->y{i}" for i in range(domains)]]
    return [np.stack([values[e] for e in layer], axis=2) for layer in edges]


def eq15(domains: int, t: np.ndarray, b0: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Loss `(t,)` and strengths B1 and B2 `(t, mode)` by Eq. 15, from two strengths for all modes."""
    longer = np.pad(t, (0, -len(t) % 2048), "edge")  # equal lengths share a compilation
    b1, b2 = (b[: len(t)] for b in nr.exact.routing(longer[:, None], S, D, domains, b0))
    return loss(b1, b2), b1, b2


def loss(b1: np.ndarray, b2: np.ndarray) -> np.ndarray:
    """Loss of networks with strengths `(..., mode)` in their outer layers and in the hidden one."""
    return 0.5 * D * ((S / D - b2 * b1**2) ** 2).sum(axis=-1)


def same_item(similarity: Any, domains: int, pairs: np.ndarray | None = None) -> np.ndarray:
    """Cosine of an item on two domains, mean over items and over all pairs of domains, or those marked."""
    pairs = np.triu(np.ones((domains, domains), bool), 1) if pairs is None else pairs
    return nr.measure.domain_similarity(similarity, domains)[..., pairs].mean(axis=(-1, -2))


def unshared(gram: Any, domains: int) -> np.ndarray:
    """Inner products of items on two domains off their mean over domains, relative norm, `(run,)`."""
    g = np.asarray(gram).reshape(-1, domains, ITEMS, domains, ITEMS)
    off = g - g.mean(axis=(1, 3), keepdims=True)
    return np.sqrt((off**2).sum(axis=(1, 2, 3, 4)) / (g**2).sum(axis=(1, 2, 3, 4)))
