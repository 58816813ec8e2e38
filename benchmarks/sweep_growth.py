"""How flows of many runs in one call, and sweeps, grow with the number of runs, in time and in memory.

    python -m benchmarks.sweep_growth

Exclusive or (384 weights), and chains of 4-8-8-3 units whose data differ from run to run. One thread, a
process of its own for each point, after a first call; seconds of the processor. `loop` calls `nr.flow` for
each run.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import numpy as np

import neuralrace as nr
from benchmarks.measure import fresh, peak_gib, seconds

SIZES = (1, 10, 100, 1000, 10_000)
MOST = {"loop": 100}
XOR, GRAPH = nr.tasks.xor(), nr.Graph.chain([4, 8, 8, 3])
X, Y = np.random.default_rng(0).standard_normal((2, 20, 4))


def one_seed(seed: int) -> nr.Run:
    return nr.Run(XOR, nr.init.gaussian(XOR.graph, 0.1, seed=seed), t1=20.0)


def own_data(scale: float) -> nr.Run:
    return nr.Run(nr.Task(GRAPH, X, scale * Y[:, :3]), nr.init.gaussian(GRAPH, 0.1), t1=20.0)


def scales(n: int) -> list[float]:
    return np.linspace(0.5, 2.0, n).tolist()


def one_call(n: int) -> None:
    weights = nr.init.gaussian(XOR.graph, 0.1, seed=range(n))
    nr.flow(XOR, weights, 20.0, save=2, save_weights=False)


def loop(n: int) -> None:
    for scale in scales(n):
        own = own_data(scale)
        nr.flow(own.task, own.weights, 20.0, save=2, save_weights=False)


WAYS: dict[str, Callable[[int], object]] = {
    "flow, runs in one call": one_call,
    "sweep over seeds": lambda n: nr.sweep(one_seed, {}, seeds=n, jobs=1),
    "sweep over data": lambda n: nr.sweep(own_data, {"scale": scales(n)}, jobs=1),
    "loop": loop,
}


def point(way: str, n: int) -> tuple[float, float]:
    """Seconds, and MiB that the call adds to the peak."""
    WAYS[way](2)
    before = peak_gib()
    return seconds(lambda: WAYS[way](n), process_time), 1024 * (peak_gib() - before)


def main() -> None:
    for way in WAYS:
        sizes = [n for n in SIZES if n <= MOST.get(way, n)]
        found = np.array([fresh(point, way, n) for n in sizes])
        points = [f"{n:,} {s:.3g} s {m:.0f} MiB" for n, (s, m) in zip(sizes, found, strict=True)]
        exponent, each = np.log10(found[-1, 0] / found[-2, 0]), 1e3 * found[-1, 0] / sizes[-1]
        print(f"{way}: {'; '.join(points)}; exponent {exponent:.2f}, {each:.2f} ms a run", flush=True)


if __name__ == "__main__":
    main()
