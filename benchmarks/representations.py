"""Whether all forms of a task agree, and whether the one that is chosen by a count is the fastest one.

    python -m benchmarks.representations [GRAPHS]

Random layered graphs with skips, gates on nodes and edges. Times are those of loss and gradient in NumPy, the
best of 15 rounds in which the forms take turns, in seconds of the processor.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from time import process_time
from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks.measure import seconds
from neuralrace.network import compile_program, loss_and_gradient
from neuralrace.network.represent import Described, forms


def random_graph(rng: np.random.Generator) -> nr.Graph:
    """Up to four hidden layers of up to four nodes; each takes from the two layers before it."""
    width, size = int(rng.integers(1, 5)), int(rng.choice([4, 8, 16, 32]))
    counts = [rng.integers(1, 4), *rng.integers(1, width + 1, rng.integers(1, 5)), rng.integers(1, 3)]
    layers = [[f"n{i}_{k}" for k in range(count)] for i, count in enumerate(counts)]
    edges = set()
    for i, (before, layer) in enumerate(pairwise(layers), 1):
        sources = [n for some in layers[max(0, i - 2) : i] for n in some]
        for n in layer:
            edges |= {(str(m), n) for m in rng.permutation(sources)[: rng.integers(1, 4)]}
            edges.add((str(rng.choice(before)), n))
        edges |= {(n, str(rng.choice(layer))) for n in before if not any(source == n for source, _ in edges)}
    ends = {*layers[0], *layers[-1]}
    nodes = {
        n: int(rng.integers(2, 9) if n in ends else rng.choice([size // 2, size]))
        for some in layers
        for n in some
    }
    return nr.Graph(nodes, sorted(edges))


def random_task(rng: np.random.Generator) -> nr.Task:
    graph, n = random_graph(rng), int(rng.choice([20, 50, 200, 1000, 5000]))
    patterns = min(n, int(rng.choice([4, 20, 100, 1000, 10_000])))
    which, share = rng.integers(0, patterns, n), rng.choice([0.2, 0.5, 1.0])
    names = [graph.hidden, [*graph.hidden, *graph.edges]][int(rng.integers(2))]
    gates = {m: rng.integers(0, 2, patterns).astype(float)[which] for m in names if rng.random() < share}
    rows: Any = lambda nodes: {m: rng.standard_normal((n, graph.nodes[m])) for m in nodes}  # noqa: E731
    return nr.Task(graph, rows(graph.inputs), rows(graph.outputs), gates or None)


def compared(seed: int) -> tuple[float, float]:
    """The largest relative difference of losses and gradients, time of the chosen form by the best."""
    task = random_task(np.random.default_rng(seed))
    flat = task.graph.flatten(nr.init.xavier(task.graph, 0.9))
    plain = compile_program(task.graph, Described.of(task.moment_contexts))
    loss, slope = loss_and_gradient(plain.stack, flat, plain.data)
    found = [compile_program(task.graph, f if f.whole is None else f.whole()) for f in forms(task)]
    runs = [lambda p=p: loss_and_gradient(p.stack, flat, p.data) for p in found]
    size = max(float(np.abs(slope).max()), 1e-300)
    off = max(max(abs(a / loss - 1), np.abs(g - slope).max() / size) for a, g in (run() for run in runs))
    best = np.full(len(found), np.inf)
    for _ in range(15):
        best = np.minimum(best, [seconds(lambda r=r: [r() for _ in range(10)], process_time) for r in runs])
    chosen = min(range(len(found)), key=lambda k: found[k].microseconds)
    return float(off), float(best[chosen] / best.min())


if __name__ == "__main__":
    rows = np.array([compared(seed) for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 200)])
    print(f"largest difference {rows[:, 0].max():.2g}; chosen by the best: at most {rows[:, 1].max():.2f}")
    for bound in (1.0, 1.05, 1.1, 1.2):
        print(f"within {bound - 1:.0%} of the best: {(rows[:, 1] <= bound).mean():.1%}")
