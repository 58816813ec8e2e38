"""Runs per second of a sweep against calls of `flow` in a loop, on all cores of this machine.

Not one thread: a sweep is made to use them. Both compute the same 980 routing runs (M = 7; 14 scales, 7
numbers of trained pairs, 10 seeds), after everything is compiled; numbers agree to 1e-9.
"""

import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

import neuralrace as nr
from benchmarks.measure import Row
from neuralrace.compiling import compile_here

TIMES = {"t1": 40.0, "save": 100}


def described(scale: float, trained: int, seed: int) -> nr.Run:
    task = nr.tasks.routing(7, trained)
    return nr.Run(task, nr.init.orthogonal(task.graph, scale, seed=seed), **TIMES, save_weights=False)


def run(quick: bool) -> list[Row]:
    over = {"scale": np.geomspace(0.02, 1.0, 2 if quick else 14), "trained": range(1, 8)}
    seeds = 10
    loop: list[float] = []

    def all_in_a_loop() -> None:
        loop.clear()
        for scale in over["scale"]:
            for trained in over["trained"]:
                for seed in range(seeds):
                    one = described(float(scale), trained, seed)
                    loop.append(float(nr.flow(one.task, one.weights, **TIMES, save_weights=False).loss[-1]))

    with compile_here():  # what is small is computed in NumPy at first
        for trained in over["trained"]:
            one = described(0.1, trained, 0)
            nr.flow(one.task, one.weights, **TIMES, save_weights=False)
    start = perf_counter()
    all_in_a_loop()
    alone = perf_counter() - start
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cold", "warm"):
            start = perf_counter()
            ds = nr.sweep(described, over, seeds=seeds, out=Path(folder) / name, jobs=None if quick else 2)
            times[name] = perf_counter() - start
        gap = float(np.abs(ds.final_loss.values.ravel() - loop).max())
    row = Row(
        "sweep",
        f"{len(loop)} routing runs, sweep",
        "flow in a loop, warm",
        ratio="baseline / ours",
        ours=times,
        base={"cold": alone, "warm": alone},
        extra={"largest difference": gap, "runs per second": len(loop) / times["warm"]},
        targets=("warm >= 8", "largest difference < 1e-9"),
    )
    return [row]
