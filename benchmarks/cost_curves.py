"""What flows and reductions cost against the size of the problem: seconds, cold and warm, and peak memory.

    python -m benchmarks.cost_curves measure [NAME ...] [--quick]
    python -m benchmarks.cost_curves runs
    python -m benchmarks.cost_curves draw

`python -m benchmarks` measures all of them too. Each point is measured in a process of its own, on one
thread. Numbers go to `cost_curves.json`, where those of other curves stay; `draw` makes
docs/pictures/cost.svg of them and prints the table of docs/cost.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks.measure import Row, fresh, peak_gib, race, seconds

STORE = Path(__file__).with_name("cost_curves.json")
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "cost.svg"
STEPS = 100  # of a flow, whatever its size
Work = Callable[[], Any]


def flow(task: nr.Task) -> Work:
    """So many steps of the solver: their number would depend on the task."""
    weights = nr.init.xavier(task.graph, 1.0, seed=0)
    method = nr.Adaptive(max_steps=STEPS)

    def run() -> None:
        found = nr.flow(task, weights, 1e6, 2, method=method, save_weights=False)
        if found.status is not nr.Status.STEP_LIMIT:
            raise RuntimeError(f"not {STEPS} steps: {found.outcome}")

    return run


def random_task(graph: nr.Graph, samples: int, gates: dict[str, Any] | None = None) -> nr.Task:
    rng = np.random.default_rng(0)
    sizes = graph.nodes
    x, y = (rng.standard_normal((samples, sizes[n])) for n in (graph.inputs[0], graph.outputs[0]))
    return nr.Task(graph, x, y, gates)


def edges(m: int) -> Work:
    task = nr.tasks.routing((m - 1) // 2, 4)
    return lambda: nr.reduce(task)


def domains(m: int) -> Work:
    return flow(nr.tasks.routing(m, 4))


def contexts(c: int) -> Work:
    """40 input and 40 output domains; every trained pair is a context."""
    return flow(nr.tasks.routing(40, c // 40))


def depth(layers: int) -> Work:
    return flow(random_task(nr.Graph.chain([20, *[100] * (layers - 1), 20]), 100))


def width(n: int) -> Work:
    return flow(random_task(nr.Graph.chain([50, n, n, 50]), 200))


def samples(n: int) -> Work:
    """The task is made in every call: that is where samples are seen."""
    graph = nr.Graph.chain([50, 100, 10])
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n, 50)), rng.standard_normal((n, 10))
    return lambda: flow(nr.Task(graph, x, y))()


@dataclass(frozen=True)
class Curve:
    work: Callable[[int], Work]
    sizes: tuple[int, ...]
    what: str
    axis: str
    fitted: str = "warm"
    most: float | None = None  # exponent


CURVES = {
    "edges": Curve(edges, (101, 1001, 10_001, 30_001, 100_001), "reduction, routing", "edges", "cold", 1.1),
    "domains": Curve(domains, (10, 30, 100, 300, 1000), f"flow of {STEPS} steps, routing", "domains"),
    "contexts": Curve(
        contexts, (40, 120, 400, 800), f"flow of {STEPS} steps, 40 domains", "contexts", most=1.1
    ),
    "depth": Curve(depth, (2, 4, 8, 16, 32), f"flow of {STEPS} steps, width 100", "layers"),
    "width": Curve(width, (60, 120, 250, 500), f"flow of {STEPS} steps, three layers", "width"),
    "samples": Curve(samples, (100, 1000, 10_000, 100_000, 1_000_000), "task and flow", "samples"),
}
LONG, LONGER = 5.0, 30.0  # seconds of a call that is repeated once, and not at all


def point(name: str, size: int) -> dict[str, float]:
    work = CURVES[name].work(size)
    before = peak_gib()
    cold = seconds(work)
    warm = cold if cold > LONGER else race({"": work}, 1 if cold > LONG else 3)[""]
    return {"size": size, "cold": cold, "warm": warm, "GiB": peak_gib() - before}


def exponent(points: list[dict[str, float]], what: str) -> float:
    """Slope of the last three points in logarithms."""
    last = np.log([[p["size"], max(p[what], 1e-6)] for p in points[-3:]])
    return float(np.polyfit(*last.T, 1)[0])


def measure(names: list[str], quick: bool) -> dict[str, list[dict[str, float]]]:
    """The points of some curves; the quick form has the two smallest sizes, and stores nothing."""
    found = json.loads(STORE.read_text()) if STORE.exists() else {}
    measured = {}
    for name in names:
        sizes = CURVES[name].sizes[:2] if quick else CURVES[name].sizes
        points = [fresh(point, name, size) for size in sizes]
        print(name, [{k: f"{v:.3g}" for k, v in p.items()} for p in points], file=sys.stderr, flush=True)
        measured[name] = points
        if not quick:
            STORE.write_text(json.dumps(found | measured, indent=1) + "\n")
    return measured


def run(quick: bool) -> list[Row]:
    """A row for each curve: its largest size, and the exponent, which two small sizes do not tell."""
    rows = []
    for name, points in measure(list(CURVES), quick).items():
        curve, last = CURVES[name], points[-1]
        extra = {"GiB": last["GiB"]} | ({} if quick else {"exponent": exponent(points, curve.fitted)})
        what = f"{curve.what}, {last['size']:,} {curve.axis}"
        ours = {k: last[k] for k in ("cold", "warm")}
        targets = () if curve.most is None else (f"exponent < {curve.most}",)
        rows.append(Row(f"cost-{name}", what, "", ours=ours, extra=extra, targets=targets))
    return rows


def described(scale: float, seed: int) -> nr.Run:
    task = nr.tasks.routing(7, 4)
    weights = nr.init.orthogonal(task.graph, scale, seed=seed)
    return nr.Run(task, weights, t1=40.0, save=100, save_weights=False)


def runs(count: int = 100) -> dict[str, float]:
    """Runs per second of routing with 7 domains: one call each, one call for all, a sweep on two cores."""
    over = {"scale": np.geomspace(0.02, 1.0, count // 10)}
    one = [described(float(s), k) for s in over["scale"] for k in range(10)]
    task, many = one[0].task, {e: np.stack([r.weights[e] for r in one]) for e in one[0].weights}
    settings: dict[str, Any] = {"t1": 40.0, "save": 100, "save_weights": False}

    def alone() -> None:
        for r in one:
            nr.flow(r.task, r.weights, **settings)

    found = {}
    for name, work in (("calls", alone), ("one call", lambda: nr.flow(task, many, **settings))):
        found[f"{name}, cold"], found[name] = (count / seconds(work) for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("sweep on 2 cores, cold", "sweep on 2 cores"):
            start = perf_counter()
            nr.sweep(described, over, seeds=10, out=Path(folder) / name.replace(" ", "-"), jobs=2)
            found[name] = count / (perf_counter() - start)
    return found


def draw() -> None:
    from neuralrace import plot

    found = json.loads(STORE.read_text())
    fig, axes = plot.figure(2, 3, height=4.4, sharey=True)
    for (name, curve), ax in zip(CURVES.items(), axes.flat, strict=True):
        points = found[name]
        size = [p["size"] for p in points]
        for k, what in enumerate(("cold", "warm")):
            label = {"cold": "first call", "warm": "later calls"}[what]
            ax.plot(size, [p[what] for p in points], "o-", ms=3, color=plot.COLOURS[k], label=label)
        slope = exponent(points, curve.fitted)
        ax.set(xscale="log", yscale="log", xlabel=curve.axis)
        shown = size[::-2]
        ax.set_xticks(shown, [f"{n:,}" for n in shown])
        ax.minorticks_off()
        ax.set_title(f"{curve.what}\ngrows as {curve.axis}$^{{{slope:.2f}}}$", fontsize=8)
        print(
            f"| {curve.what} | {curve.axis}, {size[0]:,} to {size[-1]:,} | {points[-1]['cold']:.3g} "
            f"| {points[-1]['warm']:.3g} | {slope:.2f} | {points[-1]['GiB']:.2g} |"
        )
    for ax in axes[:, 0]:
        ax.set(ylabel="seconds", yticks=(0.1, 1, 10), yticklabels=("0.1", "1", "10"))
    axes.flat[0].legend(loc="lower right")
    fig.savefig(PICTURE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("measure", "runs", "draw"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CURVES))
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    if asked.what == "measure":
        measure(asked.names or list(CURVES), asked.quick)
    elif asked.what == "runs":
        print(json.dumps(runs(), indent=1))
    else:
        draw()
