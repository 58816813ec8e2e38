"""How well reductions around a start predict random networks: half times, stated errors, seconds.

Each case is solved by `nr.reduce(task, weights=w)` and by the full flow, from several random starts. The half
time is when the loss is midway between its start and its end in the full flow. True errors are the largest
differences of the loss curves at saved times, relative to the initial loss. Run as

    python -m benchmarks.starts [--seeds 20] [--only chain] [--out FILE]
"""

import argparse
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

import neuralrace as nr

Draw = Callable[[int], tuple[nr.Task, dict[str, np.ndarray]]]
SCALES = (0.5, 0.8, 1.1)  # of weights, in units of 1/sqrt(size of the layer before)


def chain(depth: int, width: int, scale: float) -> Draw:
    """Eight white inputs, six outputs, singular values from 1 to 3."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for n in (6, 8))
    x = np.sqrt(8) * np.eye(8)
    task = nr.Task(
        nr.Graph.chain([8] + [width] * (depth - 1) + [6]),
        x,
        x @ (left * np.linspace(3, 1, 6) @ right[:, :6].T).T,
    )
    return lambda seed: (task, nr.init.gaussian(task.graph, scale / np.sqrt(width), seed=seed))


def given(task: nr.Task, gain: float) -> Draw:
    """One of the tasks of the papers, from weights of Xavier's size times a factor."""
    return lambda seed: (task, nr.init.xavier(task.graph, gain, seed=seed))


def random_graph(scale: float, width: int = 200) -> Draw:
    """Two or three hidden layers with skip connections, three contexts with random gates, data not white."""

    def draw(seed: int) -> tuple[nr.Task, dict[str, np.ndarray]]:
        rng = np.random.default_rng(seed)
        layers = int(rng.integers(2, 4))
        nodes = ["x", *(f"h{k}" for k in range(1, layers + 1)), "y"]
        sizes = [5, *rng.integers(width // 2, width, layers).tolist(), 4]
        edges = list(pairwise(nodes))
        edges += [(a, b) for i, a in enumerate(nodes) for b in nodes[i + 2 :] if rng.random() < 0.4]
        graph = nr.Graph(dict(zip(nodes, sizes, strict=True)), edges)
        n, context = 30, rng.integers(0, 3, 30)
        skips = [f"{a}->{b}" for a, b in edges if nodes.index(b) > nodes.index(a) + 1]
        gates = {e: rng.integers(0, 2, 3)[context] for e in skips}
        gates["h1"] = np.array([1.0, 1.0, 0.5])[context]
        x = rng.standard_normal((n, 5)) * rng.uniform(0.3, 2, 5)
        task = nr.Task(graph, x, x @ rng.standard_normal((5, 4)) + 0.3 * rng.standard_normal((n, 4)), gates)
        return task, nr.init.xavier(graph, scale, seed=seed)

    return draw


def cases() -> Iterator[tuple[str, Draw]]:
    """All cases, by name."""
    for depth in (2, 3, 4, 5, 7):
        for width in (50, 500):
            for scale in SCALES:
                yield f"chain of {depth} layers, width {width}, scale {scale}", chain(depth, width, scale)
    graph = nr.Graph.pathways(8, 15, [[200] * 3] * 2)
    for gain in (0.3, 0.7, 1.0):
        yield f"routing M = 7, hidden 64, gain {gain}", given(nr.tasks.routing(7, 4), gain)
        yield (
            f"routing M = 7, hidden 500, gain {gain}",
            given(nr.tasks.routing(7, 4, hidden=(500, 500)), gain),
        )
        yield f"sharing, hidden 500, gain {gain}", given(nr.tasks.sharing(6, 3, hidden=(500, 500)), gain)
        yield f"contexts C = 3 (gated), gain {gain}", given(nr.tasks.contexts(3), gain)
        yield f"two pathways of 4 layers of 200, gain {gain}", given(nr.tasks.hierarchy(4, graph=graph), gain)
        yield f"random graphs, skips, gates, gain {gain}", random_graph(gain)


def horizon(task: nr.Task, w: dict[str, np.ndarray]) -> float:
    """A time by which nearly all is learned that the network learns before it rests."""
    t = 1.0
    while True:
        run = nr.reduce(task, weights=w, error=0.1).solve(t1=t, save=2)
        fallen = run.loss[0] - run.loss[-1]
        rests = -run.history.slope[-1] * t < 0.02 * fallen and fallen > 0.1 * run.loss[0]
        if rests or t > 1e4:
            return t
        t *= 2


def one(task: nr.Task, w: dict[str, np.ndarray], cold: bool) -> dict[str, Any]:
    """Errors and warm seconds of one start; `cold` where its shapes have not been compiled before."""
    t1, seconds = horizon(task, w), {}
    runs: dict[str, Any] = {}
    for name, solve in {
        "full": lambda: nr.flow(task, w, t1, 200, method=nr.Adaptive()),
        "reduced": lambda: nr.reduce(task, weights=w).solve(t1=t1, save=200),
    }.items():
        if cold:
            solve()
        begin = perf_counter()
        runs[name] = solve()
        seconds[name] = perf_counter() - begin
    full, reduced = runs["full"], runs["reduced"]
    level = (full.loss[0] + full.loss[-1]) / 2
    times = [nr.learning_time(r, level) for r in (full, reduced)]
    graphs = reduced.reduction.family.small.graph, task.graph
    few, many = (sum(g.nodes[n] for n in g.hidden) for g in graphs)
    return {
        "half": float(abs(times[1] / times[0] - 1)),
        "true": float(np.abs(full.loss - reduced.loss).max() / full.loss[0]),
        "stated": float(reduced.stats["error"]),
        "seconds": seconds,
        "share": few / many,
        "change": float(
            np.mean([np.linalg.norm(v[-1] - v[0]) / np.linalg.norm(v[0]) for v in full.weights.values()])
        ),
    }


def main(seeds: int, only: str, out: str | None) -> None:
    """Print a row for each case."""
    heads = ("case", "half time off, median", "worst", "true error", "stated / true", "dimensions", "change")
    print("|", " | ".join((*heads, "times faster")), "|")
    print("|---|---|---|---|---|---|---|---|")
    found: dict[str, Any] = {}
    for name, draw in cases():
        if only not in name:
            continue
        new = "random" in name  # other shapes each time
        rows = found[name] = [one(*draw(seed), new or seed == 0) for seed in range(seeds)]
        half, true, stated, share, change = (
            np.array([r[k] for r in rows]) for k in ("half", "true", "stated", "share", "change")
        )
        faster = np.median([r["seconds"]["full"] / r["seconds"]["reduced"] for r in rows])
        ratio = np.median(stated / np.maximum(true, 1e-9))
        print(
            f"| {name} | {np.median(half):.1e} | {half.max():.1e} | {np.median(true):.0e} | {ratio:.0f} "
            f"(least {np.min(stated / np.maximum(true, 1e-9)):.1f}) | {np.median(share):.2f} "
            f"| {np.median(change):.2f} | {faster:.1f} |",
            flush=True,
        )
        if out:
            with open(out, "w") as file:
                json.dump(found, file, indent=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--out", help="JSON file of all numbers")
    asked = parser.parse_args()
    main(asked.seeds, asked.only, asked.out)
