"""One full-batch gradient of a large routing network against the matrix products it cannot avoid.

Every input domain has its own covariance of full rank, so a linear network sees n pseudo-samples of it, n the
number of inputs; every pair of domains has its own targets. The products for each of the m input domains,
with k outputs of size o and two hidden layers of size h (rows x inner x columns):

    H1 = X W1^T   n x n x h      dW1 = dH1^T X    h x n x n
    H2 = H1 W2^T  n x h x h      dW2 = dH2^T H1   h x n x h     dH1 = dH2 W2   n x h x h
    Y = H2 W3^T   n x h x ko     dW3 = E^T H2    ko x n x h     dH2 = E W3     n x ko x h
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks.measure import Row, duel, fresh, seconds


def moments(m: int, k: int, n: int, o: int) -> Iterator[dict[str, Any]]:
    """Contexts one at a time, so that the samples never exist together."""
    rng = np.random.default_rng(0)
    for i in range(m):
        x = rng.standard_normal((n + 200, n)) * rng.uniform(0.5, 2, n)
        sxx = x.T @ x / len(x)
        for j in range(i, i + k):
            syx = rng.standard_normal((o, len(x))) @ x / len(x)
            yield {"sxx": {f"x{i}": sxx}, "syx": {(f"y{j % m}", f"x{i}"): syx}, "probability": 1 / (m * k)}


def products(m: int, k: int, n: int, h: int, o: int) -> Callable[[], None]:
    rng = np.random.default_rng(1)
    x, w1, w2, w3 = (rng.standard_normal(s) for s in ((m, n, n), (m, h, n), (h, h), (m, k * o, h)))
    h1, h2, y, dh1, dh2 = (np.empty((m, n, size)) for size in (h, h, k * o, h, h))
    dw1, dw2, dw3 = (np.empty_like(w) for w in (w1, w2, w3))
    rows, t = (lambda a: a.reshape(m * n, h)), (lambda a: a.swapaxes(-1, -2))

    def run() -> None:
        np.matmul(x, t(w1), out=h1)
        np.matmul(rows(h1), t(w2), out=rows(h2))
        np.matmul(h2, t(w3), out=y)
        np.matmul(t(y), h2, out=dw3)
        np.matmul(y, w3, out=dh2)
        np.matmul(t(rows(dh2)), rows(h1), out=dw2)
        np.matmul(rows(dh2), w2, out=rows(dh1))
        np.matmul(t(dh1), x, out=dw1)

    return run


def measure(m: int, k: int, n: int, h: int, o: int) -> dict[str, Any]:
    graph, tasks = nr.Graph.routing(m, n, (h, h), o), []
    build = seconds(lambda: tasks.append(nr.Task.from_moments(graph, moments(m, k, n, o))))
    weights = nr.init.orthogonal(graph, scale=0.5)
    found = duel(lambda: nr.gradient(tasks[0], weights), lambda: products(m, k, n, h, o), 5)
    found["extra"]["seconds to build the task"] = build
    return found


def run(quick: bool) -> list[Row]:
    m, k, n, h, o = (10, 4, 50, 16, 10) if quick else (100, 40, 784, 128, 10)
    what, targets = f"gradient {m} domains x {k}, {n}-{h}-{h}-{o}", ("warm <= 3", "GiB < 2")
    found = fresh(measure, m, k, n, h, o)
    return [Row("routing-gradient", what, "its matrix products", targets=targets, **found)]
