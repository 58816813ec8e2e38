"""Flow on many samples of one context costs what it costs on few: a linear network sees only moments."""

import numpy as np

import neuralrace as nr
from benchmarks.measure import Row, fresh, race


def task_of(n: int) -> nr.Task:
    """Distinct samples, whitened so that tasks of any n have equal moments and the solver equal steps."""
    teacher = np.random.default_rng(0).standard_normal((5, 30)) / 5
    x = np.random.default_rng(n).standard_normal((n, 30))
    x = x @ np.linalg.inv(np.linalg.cholesky(x.T @ x / n)).T
    return nr.Task(nr.Graph.chain([30, 50, 50, 5]), x, x @ teacher.T)


def measure(few: int, many: int) -> dict[str, float]:
    tasks = {"base": task_of(few), "ours": task_of(many)}
    weights = nr.init.xavier(tasks["base"].graph, gain=0.3)
    flows = {
        name: lambda task=task: nr.flow(task, weights, t1=50.0, save=200) for name, task in tasks.items()
    }
    race(flows, 1)  # compiles, and gathers the moments
    return race(flows, 20)


def run(quick: bool) -> list[Row]:
    few, many = 10**3, 10**4 if quick else 10**6
    times = {name: {"warm": t} for name, t in fresh(measure, few, many).items()}
    return [Row("samples", f"flow, {many:,} samples", f"{few:,} samples", targets=("warm < 1.2",), **times)]
