"""The items of neural_race Fig. 4-6: four of them, with seven features, on many domains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace.tasks.structured import tree_features

TARGETS = tree_features(3) * [6, 4, 4, 3, 3, 3, 3]  # a feature of all items, of two each, of each item
ITEMS, FEATURES = TARGETS.shape
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
    s, d = np.linalg.svd(TARGETS)[1] / ITEMS, 1 / ITEMS
    b1, b2 = nr.exact.routing(t[:, None], s, d, domains, b0)
    return 0.5 * d * ((s / d - b2 * b1**2) ** 2).sum(axis=1), b1, b2
