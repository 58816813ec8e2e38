"""How good the stated error of the low-rank flow is, of outputs and of the loss curve.

Random networks (chains of 3 to 6 layers, gated graphs with skip connections, widths 60 to 250) are solved by
`nr.LowRank(error)`. True errors are against a solution with an error of 1e-7: of what flows to the outputs
through any edge, relative to the largest, or of the loss curve, relative to its start. Run as

    python -m benchmarks.lowrank_errors [--seeds 30] [--first 0]
"""

import argparse

import numpy as np

import neuralrace as nr
from benchmarks.starts import Weights, chain, random_graph

ASKED = [
    ("outputs", 1e-1),
    ("outputs", 1e-3),
    ("outputs", 1e-5),
    ("loss", 1e-2),
    ("loss", 1e-3),
    ("loss", 1e-4),
]


def network(seed: int) -> tuple[nr.Task, Weights, float]:
    """A random network, and a time."""
    rng = np.random.default_rng([seed, 7])
    t1, scale = float(rng.choice([3.0, 10.0, 30.0])), rng.uniform(0.3, 1.3)
    if rng.random() < 0.5:
        return *chain(int(rng.integers(3, 7)), int(rng.integers(60, 250)), scale)(seed), t1
    return *random_graph(scale, int(rng.integers(80, 250)))(seed), t1


def flowing(task: nr.Task, weights: Weights) -> np.ndarray:
    """What flows to the outputs through each edge, for every sample: (times, edges, numbers)."""

    def outputs(w: Weights) -> np.ndarray:
        return np.concatenate([h.reshape(len(h), -1) for h in nr.predict(task, w).values()], axis=1)

    whole = outputs(weights)
    return np.stack([whole - outputs({**weights, e: 0 * weights[e]}) for e in weights], axis=1)


def ratios(seed: int) -> list[float]:
    """Stated over true error, for each error in `ASKED`."""
    task, w, t1 = network(seed)
    fine, found = nr.flow(task, w, t1, 40, method=nr.LowRank(1e-7)), []
    exact = flowing(task, dict(fine.weights))
    for what, error in ASKED:
        run = nr.flow(task, w, t1, 40, method=nr.LowRank(error, of=what))
        if what == "loss":
            off = np.abs(run.loss - fine.loss).max() / fine.loss[0]
        else:
            difference = np.linalg.norm(flowing(task, dict(run.weights)) - exact, axis=2)
            off = difference.max() / np.linalg.norm(exact, axis=2).max()
        found.append(float(run.stats["error"]) / max(float(off), 1e-12))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    table = np.array([ratios(seed) for seed in range(asked.first, asked.first + asked.seeds)])
    print("| error of | asked for | stated / true: least | median | above 30 | below 1 |")
    print("|---|---|---|---|---|---|")
    for (what, error), column in zip(ASKED, table.T, strict=True):
        above, below = (column > 30).sum(), (column < 1).sum()
        print(f"| {what} | {error:g} | {column.min():.1f} | {np.median(column):.0f} | {above} | {below} |")
