"""Runs per second of a sweep against calls of `flow` in a loop, on all cores of this machine.

Not one thread: a sweep is made to use them. Both compute final loss and half time of the same 980 routing
runs (M = 7; 14 scales, 7 numbers of trained pairs, 10 seeds), after everything is compiled; numbers agree to
1e-9. The loop is timed as one writes it, and again without what the measures do not need: saved weights, and
losses at more than two times. The floor is the time that the products of the gradients alone take in NumPy,
on as many cores.
"""

import tempfile
from itertools import product
from pathlib import Path
from time import perf_counter

import numpy as np

import neuralrace as nr
from benchmarks.measure import Row
from neuralrace.apps.sweep.verb import cores

T1 = 40.0
STAGES = 13  # gradients of a solver's step


def described(scale: float, trained: int, seed: int) -> nr.Run:
    task = nr.tasks.routing(7, trained)
    return nr.Run(task, nr.init.orthogonal(task.graph, scale, seed=seed), t1=T1)


def measured(point: tuple[float, int, int], **options: object) -> tuple[float, float, int]:
    """Final loss, half time and steps of one run, by `flow`."""
    one = described(*point)
    run = nr.flow(one.task, one.weights, T1, **options)
    half = nr.learning_time(run, (run.loss[0] + run.loss[-1]) / 2)
    return float(run.loss[-1]), half, int(run.stats["steps"])


def floor(repeats: int = 200) -> float:
    """Seconds of the six products of a gradient, all routes at once."""
    rng = np.random.default_rng(0)
    first, hidden, last = (rng.standard_normal(s) for s in ((64, 28), (64, 64), (49, 64)))
    best = np.inf
    for _ in range(5):
        start = perf_counter()
        for _ in range(repeats):
            h = hidden @ first
            error = last @ h
            back = last.T @ error
            _ = error @ h.T, back @ first.T, hidden.T @ back
        best = min(best, (perf_counter() - start) / repeats)
    return best


def run(quick: bool) -> list[Row]:
    over = {"scale": np.geomspace(0.02, 1.0, 2 if quick else 14), "trained": range(1, 8)}
    points = list(product(over["scale"].tolist(), over["trained"], range(10)))
    lean = {"save": 2, "save_weights": False}
    loops, found = {}, []
    for name, options in (("loop", {}), ("lean loop", lean)):
        for trained in over["trained"]:
            measured((0.1, trained, 0), **options)
        start = perf_counter()
        found = [measured(point, **options) for point in points]
        loops[name] = perf_counter() - start
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cold", "warm"):
            start = perf_counter()
            ds = nr.sweep(described, over, seeds=10, out=Path(folder) / name, jobs=None if quick else cores())
            times[name] = perf_counter() - start
        ours = np.stack([ds.final_loss.values.ravel(), ds.half_time.values.ravel()], axis=1)
    gap = float(np.abs(ours - [row[:2] for row in found]).max())
    products = floor() * STAGES * sum(steps for *_, steps in found) / cores()
    row = Row(
        "sweep",
        f"{len(points)} routing runs, sweep",
        "flow in a loop, warm",
        ratio="baseline / ours",
        ours=times,
        base={"cold": loops["loop"], "warm": loops["loop"]},
        extra={
            "largest difference": gap,
            "runs per second": len(points) / times["warm"],
            "lean loop / ours": loops["lean loop"] / times["warm"],
            "loop / products alone": loops["loop"] / products,
        },
        targets=("warm >= 8", "largest difference < 1e-9"),
    )
    return [row]
