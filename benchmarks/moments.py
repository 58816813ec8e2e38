"""Gathering the moments of samples that arrive in batches, in memory that does not grow with them."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks.measure import Row, duel, fresh


def batches(n: int, size: int = 20_000) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    teacher = rng.standard_normal((100, 10))
    for _ in range(n // size):
        x = rng.standard_normal((size, 100))
        yield x, x @ teacher


def plain(n: int) -> np.ndarray:
    total = np.zeros((100, 100))
    for x, _ in batches(n):
        total += x.T @ x
    return total


def measure(n: int) -> dict[str, Any]:
    graph = nr.Graph.chain([100, 50, 10])
    return duel(lambda: nr.Task.from_batches(graph, batches(n)), lambda: lambda: plain(n), 2)


def run(quick: bool) -> list[Row]:
    n = 10**5 if quick else 10**7
    what, baseline = f"from_batches, {n:,} samples", "draw, X^T X"
    return [Row("moments", what, baseline, targets=("GiB < 1",), **fresh(measure, n))]
