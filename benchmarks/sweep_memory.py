"""Peak memory of sweeps of 1,000, 10,000 and 100,000 runs against the bound that docs/sweeps.md states.

The runs compute nothing, so that what is measured is what the sweep itself holds; each sweep has a process of
its own.
"""

import tempfile
from time import perf_counter
from typing import Any

import neuralrace as nr
from benchmarks.measure import Row, fresh, peak_gib

BOUND = 4096  # bytes for every run, as docs/sweeps.md states
COUNTS = (1_000, 10_000, 100_000)
TASK = nr.tasks.xor()
WEIGHTS = nr.init.gaussian(TASK.graph, 0.1)


def described(scale: float, seed: int) -> nr.Run:
    return nr.Run(TASK, WEIGHTS, process=_nothing, measure=lambda run: {"loss": run.loss}, t1=1.0)


def _nothing(task: nr.Task, weights: Any, t1: float) -> nr.Trajectory:
    return DONE[0]


DONE: list[nr.Trajectory] = []


def peak(count: int) -> dict[str, float]:
    """Memory that a sweep of so many runs adds, in GiB, and its seconds."""
    DONE.append(nr.flow(TASK, WEIGHTS, 1.0, 10))
    swept(10)  # what is imported late
    before, start = peak_gib(), perf_counter()
    swept(count)
    return {"GiB": peak_gib() - before, "seconds": perf_counter() - start}


def swept(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        nr.sweep(described, {"scale": range(10)}, seeds=count // 10, out=folder, jobs=1)


def run(quick: bool) -> list[Row]:
    rows = []
    for count in COUNTS[:2] if quick else COUNTS:
        found = fresh(peak, count)
        bound = {"GiB of the bound": BOUND * count / 2**30}
        extra = {**found, "share of the bound": found["GiB"] / bound["GiB of the bound"], **bound}
        rows.append(
            Row("sweep-memory", f"{count:,} runs", "", extra=extra, targets=("share of the bound <= 1",))
        )
    return rows
