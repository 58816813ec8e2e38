"""How the time of flow, reduce and descend grows with width, depth, contexts, domains and runs.

    python -m benchmarks.growth [NAME ...]

Each point is the first call in a process of its own after imports: seconds of the processor, and what it adds
to peak memory. A curve ends with the first point above 10 s. What is learned is learned by t1 = 40. Numbers
go to `growth.json`; what is printed is their table. Exponents are fitted to the last three points.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks.cost_curves import exponent
from benchmarks.measure import fresh, peak_gib, seconds

STORE = Path(__file__).with_name("growth.json")
T1, LONG = 40.0, 10.0
Made = tuple[Callable[[], nr.Task], float, Any]  # makes the task; scale of weights, seeds


def chain(layers: int, width: int) -> Made:
    graph = nr.Graph.chain([8, *[width] * (layers - 1), 15])
    return lambda: nr.tasks.hierarchy(4, graph=graph), 0.9, 0


def gated(contexts: int) -> Made:
    rng, graph = np.random.default_rng(0), nr.Graph.pathways(8, 6, [[32]] * 14)
    gates = {f"p{k}h1": rng.integers(0, 2, contexts).astype(float) for k in range(14)}
    x, y = rng.standard_normal((contexts, 8)), rng.standard_normal((contexts, 6))
    return lambda: nr.Task(graph, x, y, gates), 0.5, 0


def structured(contexts: int) -> Made:
    """Every context shuts one pathway."""
    return lambda: nr.tasks.contexts(contexts, gating="shared"), 0.3, 0


CURVES: dict[str, tuple[Callable[[int], Made], tuple[int, ...]]] = {
    "width": (lambda n: chain(3, n), (50, 100, 200, 500, 1000, 2000)),
    "depth": (lambda n: chain(n, 50), (2, 4, 8, 16, 32)),
    "contexts, random gates": (gated, (10, 100, 1000, 10_000, 100_000)),
    "contexts, shared pathways": (structured, (4, 8, 16, 30, 60)),
    "domains": (lambda n: (lambda: nr.tasks.routing(n, 4), 0.9, 0), (5, 20, 80, 300)),
    "runs": (lambda n: (nr.tasks.xor, 0.9, range(n)), (1, 10, 100, 1000, 10_000)),
}
VERBS: dict[str, Callable[[nr.Task, Any], Any]] = {
    "flow": lambda task, w: nr.flow(task, w(), T1, 2, save_weights=False),
    "reduce": lambda task, w: nr.reduce(task).solve(strengths=0.1, t1=T1, save=2),
    "reduce(weights=)": lambda task, w: nr.reduce(task, weights=w()).solve(t1=T1, save=2),
    "descend": lambda task, w: nr.descend(task, w(), 0.02, 500, 2, save_weights=False),
}


def point(curve: str, verb: str, size: int) -> dict[str, float]:
    make, scale, seeds = CURVES[curve][0](size)
    before, task = peak_gib(), make()
    weights = nr.init.xavier(task.graph, scale, seed=seeds)
    took = seconds(lambda: VERBS[verb](make(), lambda: weights), process_time)
    return {"size": size, "seconds": took, "GiB": peak_gib() - before}


def table(found: dict[str, list[dict[str, float]]]) -> str:
    lines = ["| what | against | seconds | exponent | GiB | exponent |", "|---|---|---|---|---|---|"]
    for name, points in found.items():
        (verb, curve), last = name.split(", ", 1), points[-1]
        if len(points) < 2:
            continue
        sizes = [f"{p['size']:,}: {p['seconds']:.2g}" for p in points]
        slopes = [f"{exponent(points, what):.1f}" for what in ("seconds", "GiB")]
        cells = [f"`{verb}`", curve, "; ".join(sizes), slopes[0], f"{last['GiB']:.2g}", slopes[1]]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(names: list[str]) -> None:
    found = json.loads(STORE.read_text()) if STORE.exists() else {}
    imported = ("scipy.integrate", "neuralrace.dynamics", "neuralrace.reduction")
    for curve, verb in itertools.product(names or CURVES, VERBS):
        points: list[dict[str, float]] = []
        for size in CURVES[curve][1]:
            points.append(fresh(point, curve, verb, size, packages=imported))
            if points[-1]["seconds"] > LONG:
                break
        found[f"{verb}, {curve}"] = points
        print(table({f"{verb}, {curve}": points}), file=sys.stderr, flush=True)
        STORE.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main(sys.argv[1:])
