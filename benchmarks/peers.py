"""Workloads of the published codes, as they do them and by this library: same work, same numbers, one thread.

    python -m benchmarks.peers [NAME ...] [--quick] [--out FILE]

`python -m benchmarks` measures all of them too. Each side runs in a process of its own. Cold is its first
call after imports; nothing that was compiled before is read from the disk. Then comes the second call; warm
is the best of all later ones. Seconds are those of the processor, so that work beside it counts less. The
published side is in `published.py`; where it would take minutes some epochs are timed, and multiplied. What a
user would write instead is in `by_hand.py`. Both sides record the same number of values, or nothing is
measured. Kept is the first call where an earlier process has compiled the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks import by_hand, published
from benchmarks.__main__ import table
from benchmarks.measure import Row, fresh, seconds
from benchmarks.published import Timed, Work, Worked
from neuralrace.dynamics import State
from neuralrace_papers import zoo


@dataclass(frozen=True)
class Peer:
    """Both ways to do the same; each makes its data, off the clock, and gives what is to be timed."""

    published: Callable[[bool], Timed]
    ours: Callable[[bool], Work | Timed]
    within: float  # of each other are the numbers, relative to the largest; a flow is not its steps
    what: str
    peer: str


def routing_ours(values: bool, dtype: str = "float64") -> Callable[[bool], Work]:
    def prepare(quick: bool) -> Work:
        _, epochs = published.routing_size(quick)
        weights, task = (
            published.routing_starts(quick),
            nr.tasks.routing(published.DOMAINS, published.TRAINED),
        )
        at = published.STEP * np.arange(0, epochs, 2)

        def run() -> Worked:
            net = nr.descend(task, weights, published.STEP, epochs - 1, at, save_weights=values, dtype=dtype)
            if not values:
                return published.some(net.loss), {"losses": net.loss.size}
            found = [net.singular_values(e) for e in ("x0->h1", "h1->h2", "h2->y0")]
            numbers = [*published.some(net.loss), *published.some(found[1][..., 0])]
            return numbers, {"losses": net.loss.size, "singular values": sum(v.size for v in found)}

        return run

    return prepare


def reduced_ours(quick: bool) -> Work:
    epochs = 200 if quick else 5000
    task = nr.tasks.routing(published.DOMAINS, published.TRAINED)
    times = published.STEP / 10 * np.arange(0, epochs + 1, epochs // 20)

    def run() -> Worked:
        r = nr.reduce(task)
        solved = r.solve(strengths=published.STRENGTH, t1=times[-1], save=times)
        shared = next(k for k, edges in enumerate(r.classes) if "h1->h2" in edges)
        return published.some(solved.strengths[..., shared]), {"strengths": solved.strengths.size}

    return run


def pathways_ours(depth: int) -> Callable[[bool], Work]:
    """`nr.flow` as one calls it first: nothing is said about methods."""

    def prepare(quick: bool) -> Work:
        timed, epochs = (5, 50) if quick else (100, published.EPOCHS[depth])
        task, weights = published.pathway_task(depth, quick)
        unit = 16 * published.RATE

        def maps(state: State) -> dict[str, Any]:
            return {f"map{a}": state.activity("y", np.eye(8), {f"p{1 - a}h1": 0.0}) for a in range(2)}

        times = np.unique([*np.linspace(0, epochs * unit, 200), unit * (timed - 1)])

        def run() -> Worked:
            found = nr.flow(task, weights, epochs * unit, times, record=maps, save_weights=False)
            return [found.loss[0], found.loss[np.searchsorted(times, unit * (timed - 1))]], {}

        return run

    return prepare


def relu_ours(dtype: str) -> Callable[[bool], Work]:
    def prepare(quick: bool) -> Work:
        x, y, start, epochs = published.relu_data(quick)
        lr, std = published.LR, published.STD
        settings: dict[str, Any] = {
            "weights": start,
            "save_weights": False,
            "dtype": np.dtype(dtype),
            "record": lambda state: {"h": state.activity("h1")},
        }
        at = lr * len(x) * np.arange(1, epochs + 1, 10)  # flow time is that of the mean loss

        def run() -> Worked:
            net = nr.relu.train(x, y, [published.HIDDEN], std, lr, epochs, at, **settings)
            losses = net.step_loss[1:]
            return published.some(losses), {"losses": losses.size, "activity": net.recorded["h"].size}

        return run

    return prepare


def gated_ours(quick: bool) -> Work:
    epochs = 40 if quick else 8000
    task, start = published.gated_task()
    rate = published.LR * task.n_samples
    paths = task.graph.paths()

    def maps(state: State) -> dict[str, Any]:
        return {a: state.weights[b] @ state.weights[a] for a, b in paths}

    def run() -> Worked:
        at = rate * np.arange(epochs + 1)
        net = nr.descend(task, start, rate, epochs, at, record=maps, save_weights=False)
        values = [np.linalg.svd(net.recorded[a][1:], compute_uv=False)[:, 0] for a, _ in paths]
        numbers = [*published.some(task.n_samples * net.loss[1:]), *published.some(values)]
        return numbers, {"losses": net.loss[1:].size, "singular values": np.size(values)}

    return run


def race_ours(quick: bool) -> Work:
    epochs = 100 if quick else 8000
    task = published.residual()
    times = published.LR * task.n_samples * np.linspace(0, epochs, 21)

    def run() -> Worked:
        solved = nr.reduce(task, "pathwise").solve(
            strengths=published.RACE_START**0.5, t1=times[-1], save=times
        )
        return published.some(task.n_samples * solved.loss, 21), {"losses": solved.loss.size}

    return run


def two_points_ours(quick: bool) -> Work:
    network, lr = zoo.ZOO["default"]
    timed, steps = (20, 40) if quick else (300, 6000)
    x, y = nr.tasks.two_points().arrays

    def run() -> Worked:
        return [float(zoo.train(network, x, y, lr, steps).loss[0, timed // 2])], {}

    return run


def fit_ours(times: int) -> Callable[[bool], Work]:
    def prepare(quick: bool) -> Work:
        given = published.series(60 if quick else times)

        def run() -> Worked:
            found = nr.universality.fit_rates(*given, dx=1.0, dy=0.5**0.5)
            return [found.rate_h, found.rate_y], {}

        return run

    return prepare


def images_ours(partners: int) -> Callable[[bool], Timed]:
    def prepare(quick: bool) -> Timed:
        steps = 3 if quick else 300  # what comes before and after them counts
        task, weights, _, _ = published.image_data(partners, quick)
        settings: dict[str, Any] = {
            "batch_size": published.BATCH,
            "momentum": published.MOMENTUM,
            "dtype": np.float32,
        }

        def run() -> Worked:
            net = nr.descend(
                task,
                weights,
                published.IMAGE_RATE,
                steps,
                2,
                loss="cross_entropy",
                save_weights=False,
                **settings,
            )
            return (net.step_loss[:steps] if quick else net.step_loss[:1]).tolist(), {}

        return run, 1.0 if quick else published.EPOCH / steps

    return prepare


def gates_ours(quick: bool) -> Work:
    graph, x, y, gates, weights = by_hand.gates_data(quick)
    open_in = {f"p{k}h1": g for k, g in enumerate(gates.T)}

    def run() -> Worked:
        net = nr.flow(nr.Task(graph, x, y, open_in), weights, by_hand.GATES_END, 200)
        size = sum(w.size for w in net.weights.values())
        return published.some(net.loss), {"losses": net.loss.size, "weights": size}

    return run


def deep_ours(end: float, **keywords: Any) -> Callable[[bool], Work]:
    def prepare(quick: bool) -> Work:
        task, weights = by_hand.deep_data(quick)
        whole = 1.0 if quick else end

        def run() -> Worked:
            net = nr.flow(task, weights, whole, whole * np.arange(100) / 100, **keywords)
            size = sum(w.size for w in net.weights.values())
            return published.some(net.loss), {"losses": net.loss.size, "weights": size}

        return run

    return prepare


PEERS = {
    "routing": Peer(
        published.routing(False),
        routing_ours(False),
        1e-9,
        "500 epochs, 7 domains, 10 starts",
        "PyTorch, loop over routes",
    ),
    "routing-values": Peer(
        published.routing(True),
        routing_ours(True),
        1e-9,
        "the same with singular values",
        "the same, NumPy's SVD",
    ),
    "reduced": Peer(published.reduced, reduced_ours, 5e-3, "reduce and solve routing", "Euler steps, NumPy"),
    "pathways-4": Peer(
        published.pathways(4),
        pathways_ours(4),
        0.03,
        "flow of 2 pathways, 4 layers of 1000",
        "10,000 epochs, PyTorch",
    ),
    "pathways-7": Peer(
        published.pathways(7),
        pathways_ours(7),
        0.03,
        "flow of 2 pathways, 7 layers of 1000",
        "20,000 epochs, PyTorch",
    ),
    "relu-64": Peer(
        published.relu("float64"),
        relu_ours("float64"),
        1e-6,
        "ReLU, 700 units, 8000 epochs, float64",
        "jitted update, JAX",
    ),
    "relu-32": Peer(
        published.relu("float32"),
        relu_ours("float32"),
        1e-2,
        "the same, float32",
        "jitted update, JAX",
    ),
    "gated": Peer(
        published.gated,
        gated_ours,
        1e-6,
        "7 gated pathways, 8000 epochs, maps",
        "jitted update, JAX",
    ),
    "race": Peer(
        published.race,
        race_ours,
        5e-3,
        "race of 3 pathways, 8000 epochs",
        "Euler steps, NumPy and JAX",
    ),
    "two-points": Peer(
        published.two_points,
        two_points_ours,
        0.02,
        "20 layers of 500, 6000 steps, distances",
        "PyTorch loop",
    ),
    "gates": Peer(
        by_hand.pairs_of_paths,
        gates_ours,
        1e-6,
        "14 pathways of 32, 10,000 random gate patterns, t1 = 100",
        "moments of pairs of paths, DOP853",
    ),
    "deep": Peer(
        by_hand.deep(by_hand.DEEP_END["learned"]),
        deep_ours(by_hand.DEEP_END["learned"]),
        0.03,
        "16 layers of 100, until learned (t1 = 10)",
        "1,000 steps, PyTorch",
    ),
    "deep-loose": Peer(
        by_hand.deep(by_hand.DEEP_END["learned"]),
        deep_ours(by_hand.DEEP_END["learned"], method=nr.Adaptive(1e-3, 1e-5)),
        0.03,
        "the same, Adaptive(1e-3, 1e-5)",
        "1,000 steps, PyTorch",
    ),
    "deep-long": Peer(
        by_hand.deep(by_hand.DEEP_END["long"]),
        deep_ours(by_hand.DEEP_END["long"]),
        0.03,
        "16 layers of 100, t1 = 100",
        "10,000 steps, PyTorch",
    ),
    "routing-batched": Peer(
        by_hand.routing_batched,
        routing_ours(False, "float32"),
        1e-4,
        "500 epochs, 7 domains, 10 starts, float32",
        "batched PyTorch",
    ),
    "routing-scan": Peer(
        by_hand.routing_scan,
        routing_ours(False),
        1e-9,
        "the same, float64",
        "JAX scan",
    ),
    "reduced-scipy": Peer(
        by_hand.reduced_scipy,
        reduced_ours,
        1e-6,
        "reduce and solve routing",
        "the three equations, SciPy's DOP853",
    ),
    "relu-scan-64": Peer(
        by_hand.relu_scan("float64"),
        relu_ours("float64"),
        1e-6,
        "ReLU, 700 units, 8000 epochs, float64",
        "JAX scan",
    ),
    "relu-scan-32": Peer(
        by_hand.relu_scan("float32"),
        relu_ours("float32"),
        1e-2,
        "the same, float32",
        "JAX scan",
    ),
    "fit-300": Peer(
        published.fit(300), fit_ours(300), 1e-3, "effective rates, 300 times", "SciPy, 200 guesses"
    ),
    "fit-6000": Peer(
        published.fit(6000),
        fit_ours(6000),
        1e-3,
        "effective rates, 6000 times",
        "SciPy, 200 guesses",
    ),
    "images-10": Peer(
        published.images(10),
        images_ours(10),
        1e-4,
        "an epoch of images, 40 domains x 10",
        "PyTorch, all pairs",
    ),
    "images-30": Peer(
        published.images(30),
        images_ours(30),
        1e-4,
        "an epoch of images, 40 domains x 30",
        "PyTorch, all pairs",
    ),
}
IMPORTED = ("scipy.integrate", "neuralrace.dynamics", "neuralrace.reduction", "neuralrace.relu")
LONG = 20.0  # seconds after which nothing is repeated


def measured(name: str, side: str, quick: bool) -> dict[str, Any]:
    """Seconds of the first call, the second one, and the best of later ones; what came out."""
    made = getattr(PEERS[name], side)(quick)
    run, factor = made if isinstance(made, tuple) else (made, 1.0)
    worked: list[Worked] = []
    times = [seconds(lambda: worked.append(run()), process_time)]
    while len(times) < 5 and sum(times) < LONG:
        times.append(seconds(run, process_time))
    times += times[-1:]
    found = {"cold": times[0], "second": times[1], "warm": min(times[1:])}
    more = (factor - 1) * found["warm"]
    return {k: v + more for k, v in found.items()} | {"worked": worked[0]}


def kept_on_disk(name: str, quick: bool) -> float:
    """Seconds of the first call of ours, where an earlier process has kept on the disk what it compiled."""
    with TemporaryDirectory() as folder:
        kept = {"JAX_ENABLE_COMPILATION_CACHE": "true", "NEURALRACE_CACHE": folder}
        both = [fresh(first, name, quick, packages=IMPORTED, environment=kept) for _ in range(2)]
    return both[1]


def first(name: str, quick: bool) -> float:
    """Seconds of the first call of ours."""
    made = PEERS[name].ours(quick)
    return seconds(made[0] if isinstance(made, tuple) else made, process_time)


def run(quick: bool, names: list[str] | None = None) -> list[Row]:
    rows = []
    for name in names or PEERS:
        peer = PEERS[name]
        found = {
            side: fresh(measured, name, side, quick, packages=IMPORTED) for side in ("published", "ours")
        }
        (theirs, counts), (ours, own) = (found[side].pop("worked") for side in ("published", "ours"))
        if counts and counts != own:
            raise RuntimeError(f"{name}: the peer records {counts}, and we {own}")
        if found["ours"]["cold"] < LONG / 2:
            found["ours"]["kept"] = kept_on_disk(name, quick)
            found["published"]["kept"] = found["published"]["cold"]
        off = float(np.abs(np.subtract(ours, theirs)).max() / np.abs(theirs).max())
        targets = ("warm >= 1", "cold >= 1", f"difference < {peer.within:g}")
        extra = {"difference": off, **{f"recorded {k}": v for k, v in counts.items()}}
        sides = found["ours"], found["published"]
        rows.append(row := Row(name, peer.what, peer.peer, "baseline / ours", *sides, extra, targets))
        row.note = ", ".join(f"{k} {v:.3g}" for k, v in row.values.items() if k in ("second", "kept"))
        print(table(rows[-1:]), file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PEERS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, help="JSON file; rows of other names in it stay")
    asked = parser.parse_args()
    rows = run(asked.quick, asked.names or None)
    print(table(rows))
    if asked.out:
        kept = json.loads(asked.out.read_text()) if asked.out.exists() else {}
        kept |= {row.case: row.record() for row in rows}
        asked.out.write_text(json.dumps(kept, indent=1) + "\n")
