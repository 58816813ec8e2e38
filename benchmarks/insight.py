"""Networks whose truth is known: does `nr.watch` say what they are?

    python -m benchmarks.insight [--networks 100]

Deep linear networks of random depth, width, data and initial scale, watched along their exact flow: half
times of the modes against the exact ones, and the regime against the change of the whole tangent kernel.
"""

import argparse

import numpy as np

import neuralrace as nr
from neuralrace.apps.insight.regime import verdict_of

EDGE = 0.15  # networks this near to the edge of a regime, as a share, are counted apart


def network(seed: int) -> tuple[float, str, str, bool]:
    """Largest error of a half time, the verdict, the true one, and whether it is clear."""
    rng = np.random.default_rng(seed)
    depth, width = int(rng.integers(2, 5)), int(rng.integers(8, 40))
    n, k = int(rng.integers(8, 14)), int(rng.integers(3, 6))
    x = np.sqrt(n) * np.linalg.qr(rng.normal(size=(n, k)))[0]  # white inputs
    s = np.sort(rng.uniform(0.5, 3.0, k))[::-1]
    y = x @ np.diag(s)
    task = nr.Task(nr.Graph.chain([k, *(depth - 1) * [width], k]), x, y)
    gain = float(np.exp(rng.uniform(np.log(0.05), np.log(4.0))))
    start = nr.init.xavier(task.graph, gain=gain, seed=seed)
    run = nr.flow(task, start, t1=200.0 / s[-1], stop_loss=1e-4 * nr.loss(task, start))
    weights = list(task.graph.edges)

    def model(params, x):
        h = x
        for w in params[:-1]:
            h = h @ w.T
        return h @ params[-1].T, {"last hidden": h}

    seen = nr.watch(model, x, y)
    for i, t in enumerate(run.t):
        seen.look(t, [run.weights[e][i] for e in weights])
    ds = seen.modes().data
    maps = np.diagonal(nr.end_to_end(task.graph, run), axis1=-2, axis2=-1) / s
    truth = nr.half_time(run.t, maps.T, axis=-1)
    known = np.isfinite(ds.half_time.values)
    off = float(np.abs(ds.half_time.values[known] / truth[known] - 1).max(initial=0.0))
    kernels = np.stack([nr.tangent_kernel(task, {e: w[i] for e, w in run.weights.items()}) for i in (0, -1)])
    change = float(nr.measure.kernel_change(kernels)[-1])
    clear = min(abs(np.log(change / 0.2)), abs(np.log(change))) > EDGE
    return off, seen.regime().verdict, verdict_of(change), clear


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", type=int, default=100)
    rows = [network(seed) for seed in range(parser.parse_args().networks)]
    times = np.array([r[0] for r in rows])
    right = [r[1] == r[2] for r in rows]
    clear = [r[3] for r in rows]
    counts = {v: sum(r[2] == v for r in rows) for v in ("rich", "between", "lazy")}
    n = len(rows)
    print(f"half times within 2% in {(times < 0.02).sum()} of {n} networks, largest error {times.max():.2g}")
    told = sum(a for a, b in zip(right, clear, strict=True) if b)
    print(f"verdict right in {sum(right)} of {n}; in {told} of {sum(clear)} not near an edge; {counts}")


if __name__ == "__main__":
    main()
