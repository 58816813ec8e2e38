"""Workloads of the published codes, as they do them and by this library: same work, same numbers, one thread.

    python -m benchmarks.peers [NAME ...] [--quick] [--out FILE]

`python -m benchmarks` measures all of them too. Each side runs in a process of its own. Cold is its first
call after import, that of `neuralrace` alone: packages that the library imports later count, those of
the peer do not. Warm is the best of later calls. The published side is in `published.py`; where it would
take minutes some epochs are timed, and multiplied.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks import published
from benchmarks.__main__ import table
from benchmarks.measure import Row, fresh, race, seconds
from benchmarks.published import Numbers, Timed, Work
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


def routing_ours(values: bool) -> Callable[[bool], Work]:
    def prepare(quick: bool) -> Work:
        _, epochs = published.routing_size(quick)
        weights, task = (
            published.routing_starts(quick),
            nr.tasks.routing(published.DOMAINS, published.TRAINED),
        )
        at = published.STEP * np.arange(0, epochs, 2)

        def run() -> Numbers:
            net = nr.descend(task, weights, published.STEP, epochs - 1, at, save_weights=values)
            if not values:
                return published.some(net.loss)
            found = [net.singular_values(e) for e in ("x0->h1", "h1->h2", "h2->y0")]
            return [*published.some(net.loss), *published.some(found[1][..., 0])]

        return run

    return prepare


def reduced_ours(quick: bool) -> Work:
    epochs = 200 if quick else 5000
    task = nr.tasks.routing(published.DOMAINS, published.TRAINED)
    times = published.STEP / 10 * np.arange(0, epochs + 1, epochs // 20)

    def run() -> Numbers:
        r = nr.reduce(task)
        solved = r.solve(strengths=published.STRENGTH, t1=times[-1], save=times)
        shared = next(k for k, edges in enumerate(r.classes) if "h1->h2" in edges)
        return published.some(solved.strengths[..., shared])

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

        def run() -> Numbers:
            found = nr.flow(task, weights, epochs * unit, times, record=maps, save_weights=False)
            return [found.loss[0], found.loss[np.searchsorted(times, unit * (timed - 1))]]

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
        at = lr * np.append(0, np.arange(1, epochs + 1, 10))

        def run() -> Numbers:
            net = nr.relu.train(x, y, [published.HIDDEN], std, lr, epochs, at, **settings)
            return published.some(net.step_loss[1:])

        return run

    return prepare


def gated_ours(quick: bool) -> Work:
    epochs = 40 if quick else 8000
    task, start = published.gated_task()
    rate = published.LR * task.n_samples
    paths = task.graph.paths()

    def maps(state: State) -> dict[str, Any]:
        return {a: state.weights[b] @ state.weights[a] for a, b in paths}

    def run() -> Numbers:
        at = rate * np.arange(epochs + 1)
        net = nr.descend(task, start, rate, epochs, at, record=maps, save_weights=False)
        values = [np.linalg.svd(net.recorded[a][1:], compute_uv=False)[:, 0] for a, _ in paths]
        return [*published.some(task.n_samples * net.loss[1:]), *published.some(values)]

    return run


def race_ours(quick: bool) -> Work:
    epochs = 100 if quick else 8000
    task = published.residual()
    times = published.LR * task.n_samples * np.linspace(0, epochs, 21)

    def run() -> Numbers:
        solved = nr.reduce(task, "pathwise").solve(
            strengths=published.RACE_START**0.5, t1=times[-1], save=times
        )
        return published.some(task.n_samples * solved.loss, 21)

    return run


def two_points_ours(quick: bool) -> Work:
    network, lr = zoo.ZOO["default"]
    timed, steps = (20, 40) if quick else (300, 6000)
    x, y = nr.tasks.two_points().arrays

    def run() -> Numbers:
        return [float(zoo.train(network, x, y, lr, steps).loss[0, timed // 2])]

    return run


def fit_ours(times: int) -> Callable[[bool], Work]:
    def prepare(quick: bool) -> Work:
        given = published.series(60 if quick else times)

        def run() -> Numbers:
            found = nr.universality.fit_rates(*given, dx=1.0, dy=0.5**0.5)
            return [found.rate_h, found.rate_y]

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

        def run() -> Numbers:
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
            return (net.step_loss[:steps] if quick else net.step_loss[:1]).tolist()

        return run, 1.0 if quick else published.EPOCH / steps

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
LONG = 20.0  # seconds of a call that is not repeated


def measured(name: str, side: str, quick: bool) -> dict[str, Any]:
    """Seconds of the first call and the best of later ones, and the numbers that came out."""
    made = getattr(PEERS[name], side)(quick)
    run, factor = made if isinstance(made, tuple) else (made, 1.0)
    numbers: list[Numbers] = []
    cold = seconds(lambda: numbers.append(run()))
    warm = cold if cold > LONG else race({"": run}, 1 if cold > LONG / 4 else 3)[""]
    return {"cold": cold + (factor - 1) * warm, "warm": factor * warm, "numbers": numbers[0]}


def run(quick: bool, names: list[str] | None = None) -> list[Row]:
    rows = []
    for name in names or PEERS:
        peer = PEERS[name]
        found = {side: fresh(measured, name, side, quick, packages=()) for side in ("published", "ours")}
        theirs, ours = (np.array(found[side].pop("numbers")) for side in ("published", "ours"))
        off = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
        targets = ("warm >= 1", "cold >= 1", f"difference < {peer.within:g}")
        extra = {"difference": off}
        sides = found["ours"], found["published"]
        rows.append(Row(name, peer.what, peer.peer, "baseline / ours", *sides, extra, targets))
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
