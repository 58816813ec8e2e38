"""How well reductions around a start predict networks from random weights, and how fast.

Each network is solved by `nr.reduce(task, weights=w)` and by its full flow. The half time is when the loss is
midway between its start and its end in the full flow. True errors are the largest differences of the two loss
curves at 200 saved times, relative to the initial loss. Run as

    python -m benchmarks.starts table [--seeds 20] [--jobs 16] [--only TEXT] [--out FILE]
    python -m benchmarks.starts errors [--seeds 100] [--jobs 16] [--out FILE]
    python -m benchmarks starts
"""

import argparse
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import numpy as np

import neuralrace as nr
from benchmarks.measure import Row, fresh

Weights = dict[str, np.ndarray]
Draw = Callable[[int], tuple[nr.Task, Weights]]
RICH, LAZY = 1.0, 0.2  # relative change of weights above, below which learning is called so


def chain(depth: int, width: int, scale: float) -> Draw:
    """Eight white inputs, six outputs, singular values from 1 to 3; weights of size scale/sqrt(width)."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for n in (6, 8))
    x = np.sqrt(8) * np.eye(8)
    y = x @ (left * np.linspace(3, 1, 6) @ right[:, :6].T).T
    task = nr.Task(nr.Graph.chain([8] + [width] * (depth - 1) + [6]), x, y)
    return lambda seed: (task, nr.init.gaussian(task.graph, scale / np.sqrt(width), seed=seed))


def given(task: nr.Task, gain: float) -> Draw:
    """One of the tasks of the papers, from weights of Xavier's size times a factor."""
    return lambda seed: (task, nr.init.xavier(task.graph, gain, seed=seed))


def contexts() -> nr.Task:
    """Items in three contexts; a pathway open in all of them, and one for each two (make_haste_slowly)."""
    x, y = nr.tasks.contexts(3).arrays
    context = np.repeat(range(3), len(x) // 3)
    return nr.tasks.gated(x, y, [context >= 0, *(context != k for k in range(3))], hidden=100)


def random_graph(gain: float, width: int = 200) -> Draw:
    """Two or three hidden layers with skip connections, three contexts with random gates, data not white."""

    def draw(seed: int) -> tuple[nr.Task, Weights]:
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
        return task, nr.init.xavier(graph, gain, seed=seed)

    return draw


def cases() -> Iterator[tuple[str, Draw]]:
    """All cases of the table, by name."""
    for depth in (2, 3, 4, 5, 7):
        for width in (50, 500):
            for scale in (0.3, 0.7, 1.2) if depth < 5 else (0.5, 0.8, 1.2):
                yield f"chain of {depth} layers, width {width}, scale {scale}", chain(depth, width, scale)
    two = nr.Graph.pathways(8, 15, [[200] * 3] * 2)
    for gain in (0.3, 0.7, 1.0):
        yield f"routing M = 7, hidden 64, gain {gain}", given(nr.tasks.routing(7, 4), gain)
        wide = nr.tasks.routing(7, 4, hidden=(500, 500))
        yield f"routing M = 7, hidden 500, gain {gain}", given(wide, gain)
        yield f"sharing, hidden 200, gain {gain}", given(nr.tasks.sharing(6, 3, hidden=(200, 200)), gain)
        yield f"contexts C = 3 (gated), gain {gain}", given(contexts(), gain)
        yield f"two pathways of 4 layers of 200, gain {gain}", given(nr.tasks.hierarchy(4, graph=two), gain)
        yield f"random graphs, skips and gates, gain {gain}", random_graph(gain)


def any_network(seed: int) -> tuple[nr.Task, Weights]:
    """A random case: chains and gated graphs of any width, depth and size of weights."""
    rng = np.random.default_rng([seed, 1])
    if rng.random() < 0.5:
        depth, width = int(rng.integers(2, 7)), int(np.exp(rng.uniform(np.log(20), np.log(500))))
        return chain(depth, width, rng.uniform(0.3, 1.3))(seed)
    return random_graph(rng.uniform(0.2, 1.2), int(np.exp(rng.uniform(np.log(20), np.log(600)))))(seed)


def horizon(task: nr.Task, w: Weights) -> float:
    """A time by which nearly all is learned that the network learns before it rests."""
    t = 1.0
    while t < 1e4:
        run = nr.reduce(task, weights=w, error=0.1).solve(t1=t, save=2)
        assert run.history is not None
        assert run.history.slope is not None
        fallen = run.loss[0] - run.loss[-1]
        if -run.history.slope[-1] * t < 0.02 * fallen and fallen > 0.1 * run.loss[0]:
            break
        t *= 2
    return t


def one(task: nr.Task, w: Weights) -> dict[str, float]:
    """Errors of one start, and how far its weights move."""
    t1 = horizon(task, w)
    full = nr.flow(task, w, t1, 200, method=nr.Adaptive(), save_weights=False)
    reduced = nr.reduce(task, weights=w).solve(t1=t1, save=200)
    level = (full.loss[0] + full.loss[-1]) / 2
    times = [nr.learning_time(r, level) for r in (full, reduced)]
    ends = nr.reduce(task, weights=w).solve(t1=t1, save=2).weights
    moved = [np.linalg.norm(v[-1] - v[0]) / np.linalg.norm(v[0]) for v in ends.values()]
    return {
        "half": float(abs(times[1] / times[0] - 1)),
        "true": float(np.abs(full.loss - reduced.loss).max() / full.loss[0]),
        "stated": float(reduced.stats["error"]),
        "moved": float(np.mean(moved)),
    }


def regime(moved: np.ndarray) -> str:
    size = float(np.median(moved))
    return "rich" if size > RICH else "lazy" if size < LAZY else "between"


def _case(job: tuple[str, int]) -> dict[str, float]:
    name, seed = job
    return one(*(dict(cases())[name] if name else any_network)(seed))


def mapped(jobs: int, work: list[tuple[str, int]]) -> Iterator[dict[str, float]]:
    if jobs == 1:
        yield from map(_case, work)
        return
    os.environ |= {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(_case, work)


def table(seeds: int, jobs: int, only: str, out: str | None) -> None:
    """Print a row for each case."""
    print(
        "| network | half time off by, median | worst | true error, median | stated / true, median | regime |"
    )
    print("|---|---|---|---|---|---|")
    names, found = [n for n, _ in cases() if only in n], {}
    results = mapped(jobs, [(n, seed) for n in names for seed in range(seeds)])
    for name in names:
        rows = found[name] = [next(results) for _ in range(seeds)]
        half, true, stated, moved = (np.array([r[k] for r in rows]) for k in rows[0])
        ratio = np.median(stated / np.maximum(true, 1e-12))
        print(
            f"| {name} | {np.median(half):.0e} | {half.max():.0e} | {np.median(true):.0e} | {ratio:.0f} "
            f"| {regime(moved)} |",
            flush=True,
        )
        write(out, found)


def write(out: str | None, found: object) -> None:
    """Write numbers to a file, if one is given."""
    if out:
        Path(out).write_text(json.dumps(found, indent=1))


def errors(seeds: int, jobs: int, out: str | None) -> None:
    """How often the stated error bounds the true one, and how closely."""
    ratios, rows = [], []
    for k, row in enumerate(mapped(jobs, [("", seed) for seed in range(seeds)])):
        rows.append(row)
        write(out, rows)
        ratios.append(row["stated"] / max(row["true"], 1e-12))
        print(f"{k}: true {row['true']:.1e}, stated {row['stated']:.1e}, ratio {ratios[-1]:.1f}", flush=True)
    ratio = np.array(ratios)
    near = np.sum((ratio >= 1) & (ratio <= 30))
    print(f"stated bounds true in {np.sum(ratio >= 1)} of {seeds}, within a factor 30 of it in {near}")
    print(f"stated / true: least {ratio.min():.1f}, median {np.median(ratio):.0f}")


def seconds_of(depth: int, width: int, scale: float, reduced: bool) -> dict[str, float]:
    """First and best later seconds of the reduction or of the full flow, to twice the time to learn."""
    task, w = chain(depth, width, scale)(0)
    t1 = 2 * fresh(horizon_of, depth, width, scale)
    times = []
    for _ in range(8 if reduced else 3):
        begin = perf_counter()
        if reduced:
            nr.reduce(task, weights=w).solve(t1=t1, save=200)
        else:
            nr.flow(task, w, t1, 200, method=nr.Adaptive(), save_weights=False)
        times.append(perf_counter() - begin)
    return {"cold": times[0], "warm": min(times)}


def horizon_of(depth: int, width: int, scale: float) -> float:
    return horizon(*chain(depth, width, scale)(0))


def run(quick: bool) -> list[Row]:
    """Seconds against depth and width."""
    rows = []
    sizes = [(3, 300, 0.8)] if quick else [(d, 500, s) for d in (3, 5, 7) for s in (0.5, 1.2)]
    sizes += [] if quick else [(4, n, 0.8) for n in (20, 50, 100, 200, 1000, 2000)]
    for size in sizes:
        ours, base = (fresh(seconds_of, *size, reduced) for reduced in (True, False))
        what = "chain of {} layers of {}, scale {}".format(*size)
        target = ("warm >= 50",) if size[1] == 500 else ("warm >= 1",)
        rows.append(Row("starts", what, "full flow", "baseline / ours", ours, base, {}, target))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("table", "errors"))
    parser.add_argument("--seeds", type=int, help="20 of each case for the table, 100 for errors")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--out", help="JSON file of all numbers")
    asked = parser.parse_args()
    if asked.what == "table":
        table(asked.seeds or 20, asked.jobs, asked.only, asked.out)
    else:
        errors(asked.seeds or 100, asked.jobs, asked.out)
