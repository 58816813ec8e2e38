"""The least loss of any weights, slowly and from the definition: every path by itself, sample by sample."""

from __future__ import annotations

import numpy as np

import neuralrace as nr


def path_gates(task: nr.Task, path: tuple[str, ...]) -> np.ndarray:
    """The gate of a path in each sample (n,)."""
    graph, gates = task.graph, task.samples.gates
    found = np.ones(len(next(iter(task.samples.inputs.values()))))
    names = [graph.edges[path[0]][0], *(n for e in path for n in (e, graph.edges[e][1]))]
    for name in names:
        found = found * np.ravel(np.asarray(gates.get(name, 1.0), float))
    return found


def attainable_loss(task: nr.Task) -> float:
    """Least squares over one free map for each distinct (input, output, gates over the samples)."""
    graph, samples = task.graph, task.samples
    loss = 0.0
    for output, y in samples.targets.items():
        patterns = {
            (graph.edges[path[0]][0], tuple(path_gates(task, path).round(12).tolist()))
            for path in graph.paths_into(output)
        }
        features = [np.array(gates)[:, None] * samples.inputs[x] for x, gates in sorted(patterns)]
        x = np.concatenate(features, axis=1)
        missed = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
        loss += 0.5 * float(np.mean(np.sum(missed**2, axis=1)))
    return loss


def initial_loss(task: nr.Task) -> float:
    """The loss of weights of zero."""
    return sum(0.5 * float(np.mean(np.sum(y**2, axis=1))) for y in task.samples.targets.values())


def learnable(task: nr.Task) -> float:
    """By how much weights can lower the loss."""
    return initial_loss(task) - attainable_loss(task)
