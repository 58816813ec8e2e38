"""The items of neural_race Fig. 4-6: four of them, with seven features, on many domains."""

from __future__ import annotations

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
