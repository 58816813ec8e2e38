"""The reduced system against the full flow it stands for, and its cost against the number of edges."""

from typing import Any

import neuralrace as nr
from benchmarks.measure import Row, fresh, race, seconds


def against_flow(t1: float) -> dict[str, Any]:
    task = nr.tasks.routing(7, 4)
    cold = {}
    found: list[nr.Reduction] = []
    first = seconds(lambda: found.append(nr.reduce(task)))
    r = found[0]
    cold["ours"] = seconds(lambda: r.solve(strengths=0.1, t1=t1, save=200))
    weights = nr.init.decoupled(r, 0.1)
    cold["base"] = seconds(lambda: nr.flow(task, weights, t1=t1, save=200))
    many = 20  # a solve is over before the clock and the caches settle

    def solves() -> None:
        for _ in range(many):
            r.solve(strengths=0.1, t1=t1, save=200)

    warm = race({"ours": solves, "base": lambda: nr.flow(task, weights, t1=t1, save=200)}, 10)
    warm["ours"] /= many
    return {k: {"cold": cold[k], "warm": warm[k]} for k in cold} | {
        "extra": {"reduce s": first, "first solve s": cold["ours"]}
    }


def whole(domains: int) -> float:
    """Reduce, write the equations and solve, the first time in a process."""
    task = nr.tasks.routing(domains, 4)

    def all_of_it() -> None:
        r = nr.reduce(task)
        r.equations()
        r.solve(strengths=0.1, t1=300.0, save=200)

    return seconds(all_of_it)


def run(quick: bool) -> list[Row]:
    rows = [
        Row(
            "reduction",
            "solve, routing of 7 domains",
            "full flow",
            ratio="baseline / ours",
            targets=("warm >= 100", "first solve s < 3"),
            **fresh(against_flow, 20.0 if quick else 200.0),
        )
    ]
    sizes = [7, 14] if quick else [125, 250, 500, 1000]
    times = {m: fresh(whole, m) for m in sizes}
    extra = {f"{2 * m + 1} edges s": t for m, t in times.items()}
    small, large = sizes[-2:]
    what, baseline = f"reduce, write, solve, {2 * large + 1} edges", f"{2 * small + 1} edges"
    cold = {"ours": {"cold": times[large]}, "base": {"cold": times[small]}}
    target = () if quick else (f"{2 * large + 1} edges s < 5",)
    rows.append(Row("reduction", what, baseline, extra=extra, targets=target, **cold))
    return rows
