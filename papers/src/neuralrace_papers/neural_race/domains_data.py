"""The items of neural_race Fig. 4-6: four of them, with seven features, on many domains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace.tasks.structured import tree_features

TARGETS = tree_features(3) * [6, 4, 4, 3, 3, 3, 3]  # a feature of all items, of two each, of each item
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


def noisy_samples(pairs: np.ndarray) -> nr.Task:
    """All items on all trained routes, as samples; the domains that are gated off show and ask for noise."""
    routes, rng = np.repeat(np.argwhere(pairs), ITEMS, axis=0), np.random.default_rng(0)
    item = np.arange(len(routes)) % ITEMS
    samples, gates = {}, {}
    for side, (end, wanted) in enumerate((("x", np.eye(ITEMS)), ("y", TARGETS))):
        for k in range(len(pairs)):
            gates[f"{end}{k}"] = routes[:, side] == k
            noise = rng.standard_normal((len(routes), wanted.shape[1]))
            samples[f"{end}{k}"] = np.where(gates[f"{end}{k}"][:, None], wanted[item], noise)
    graph = nr.Graph.routing(len(pairs), ITEMS, (1, 1), FEATURES)
    inputs, targets = ({n: v for n, v in samples.items() if n[0] == end} for end in "xy")
    return nr.Task(graph, inputs, targets, gates)


def eq15(domains: int, t: np.ndarray, b0: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Loss `(t,)` and strengths B1 and B2 `(t, mode)` by Eq. 15, from two strengths for all modes."""
    longer = np.pad(t, (0, -len(t) % 2048), "edge")  # equal lengths share a compilation
    b1, b2 = (b[: len(t)] for b in nr.exact.routing(longer[:, None], S, D, domains, b0))
    return loss(b1, b2), b1, b2


def loss(b1: np.ndarray, b2: np.ndarray) -> np.ndarray:
    """Loss of networks with strengths `(..., mode)` in their outer layers and in the hidden one."""
    return 0.5 * D * ((S / D - b2 * b1**2) ** 2).sum(axis=-1)


def strengths_of_size(weights: Mapping[str, np.ndarray], domains: int) -> tuple[float, float]:
    """Strengths B1 and B2 of Eq. 15 that the size of initial weights gives: the root mean square of the
    singular values of outer layers and of the hidden one, mean over domains and starts."""
    first = layers({e: w[:, None] for e, w in weights.items()}, domains)
    into, hidden, out = (np.sqrt((w**2).sum(axis=(-1, -2)) / min(w.shape[-2:])).mean() for w in first)
    return (into + out) / 2, hidden


def same_item(similarity: Any, domains: int, pairs: np.ndarray | None = None) -> np.ndarray:
    """Cosine of an item on two domains, mean over items and over all pairs of domains, or those marked."""
    pairs = np.triu(np.ones((domains, domains), bool), 1) if pairs is None else pairs
    return nr.measure.domain_similarity(similarity, domains)[..., pairs].mean(axis=(-1, -2))


def unshared(gram: Any, domains: int) -> np.ndarray:
    """Inner products of items on two domains off their mean over domains, relative norm, `(run,)`."""
    g = np.asarray(gram).reshape(-1, domains, ITEMS, domains, ITEMS)
    off = g - g.mean(axis=(1, 3), keepdims=True)
    return np.sqrt((off**2).sum(axis=(1, 2, 3, 4)) / (g**2).sum(axis=(1, 2, 3, 4)))
