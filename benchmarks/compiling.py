"""The first flow in a process: compiling must not grow with the number of domains."""

import neuralrace as nr
from benchmarks.measure import Row, fresh, seconds


def first_flow(domains: int) -> float:
    task = nr.tasks.routing(domains, 4)
    weights = nr.init.orthogonal(task.graph, scale=0.2)
    return seconds(lambda: nr.flow(task, weights, t1=1e-3, save=2))


def run(quick: bool) -> list[Row]:
    few, many, repeats = (4, 10, 1) if quick else (7, 300, 3)
    rounds = [[fresh(first_flow, m) for m in (few, many)] for _ in range(repeats)]
    base, ours = ({"cold": min(times)} for times in zip(*rounds, strict=True))
    what, baseline = f"first flow, {many} domains", f"{few} domains"
    return [Row("compile", what, baseline, ours=ours, base=base, targets=("cold < 2",))]
