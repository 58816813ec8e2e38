"""Flows of several wide layers in low-rank bases, against what they stand for.

Seven layers, width 1000, two pathways (multipathway Eq. 32, Figure 5): trajectories of each pathway's map at
200 times, against an ordinary PyTorch loop of the published length, 20,000 epochs at rate .01 on the summed
squared error without the half, timed over some steps. Errors are relative to the largest map, stated and as
found against a flow with a hundredth of the smallest one. Then a gated graph with skips at width 3000,
against the gradients that its full flow would evaluate.
"""

import itertools
from time import perf_counter
from typing import Any

import jax.numpy as jnp
import numpy as np

import neuralrace as nr
from benchmarks.measure import Row, fresh, peak_gib, seconds
from neuralrace.dynamics import State

EPOCHS, RATE, ROUNDS = 20_000, 0.01, 5


def pathways(width: int, depth: int) -> tuple[nr.Task, dict[str, np.ndarray], list[list[str]]]:
    graph = nr.Graph.pathways(8, 15, [[width] * (depth - 1)] * 2)
    rows = [["x", *(f"p{a}h{k}" for k in range(1, depth)), "y"] for a in range(2)]
    paths = [[f"{s}->{t}" for s, t in itertools.pairwise(row)] for row in rows]
    return nr.tasks.hierarchy(4, graph=graph), nr.init.gaussian(graph, 0.01 * (1000 / width) ** 0.5), paths


def ours(width: int, depth: int, errors: list[float], steps: int) -> list[dict[str, float]]:
    """Warm seconds, those of the PyTorch loop, the error that is stated, and the true one.

    Flows and loops take turns: other work on the machine slows both.
    """
    task, weights, paths = pathways(width, depth)

    doors = [task.graph.edges[path[0]][1] for path in paths]

    def maps(state: State) -> dict[str, Any]:
        """The map of each pathway, the other one being closed."""
        said = [state.activity("y", np.eye(8), {other: 0.0}) for other in reversed(doors)]
        return {"K": jnp.stack(said)}

    def run(error: float) -> nr.Trajectory:
        t1 = 2 * 8 * RATE * EPOCHS  # no half, and a sum over 8 samples
        method = nr.LowRank(error)
        return nr.flow(task, weights, t1, 200, method=method, record=maps, save_weights=False)

    exact, found = run(min(errors) / 100).recorded["K"], []
    for error in errors:
        flows, times, loops = [], [], []
        for _ in range(ROUNDS):
            times.append(seconds(lambda e=error: flows.append(run(e))))
            loops.append(torch_loop(width, depth, steps))
        off = np.linalg.norm(flows[-1].recorded["K"] - exact, axis=(2, 3)).max()
        found.append(
            {
                "warm": float(np.median(times)),
                "loop": float(np.median(loops)),
                "stated": float(flows[-1].stats["error"]),
                "true": float(off / np.linalg.norm(exact, axis=(2, 3)).max()),
            }
        )
    return found


def torch_loop(width: int, depth: int, steps: int) -> float:
    """Seconds of all epochs, from the median of some."""
    import torch

    torch.set_num_threads(1)
    task, weights, paths = pathways(width, depth)
    x, y = torch.eye(8), torch.tensor(task.samples.targets["y"], dtype=torch.float32)
    w = {e: torch.tensor(v, dtype=torch.float32, requires_grad=True) for e, v in weights.items()}
    optimizer = torch.optim.SGD(list(w.values()), lr=RATE)
    times = []
    for _ in range(steps):
        start = perf_counter()
        outputs: Any = 0.0
        for path in paths:
            h = x
            for edge in path:
                h = h @ w[edge].T
            outputs = outputs + h
        optimizer.zero_grad()
        ((outputs - y) ** 2).sum().backward()
        optimizer.step()
        times.append(perf_counter() - start)
    return float(np.median(times)) * EPOCHS


def skips(width: int) -> tuple[nr.Task, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    graph = nr.Graph(
        {"x": 6, "a": width, "b": width * 2 // 3, "c": width, "y": 4},
        [("x", "a"), ("a", "b"), ("a", "c"), ("b", "c"), ("c", "y"), ("a", "y")],
    )
    pattern = rng.integers(0, 3, 60)
    gates = {"b": np.array([1.0, 0.0, 1.0])[pattern], "a->c": np.array([0.0, 1.0, 1.0])[pattern]}
    task = nr.Task(graph, rng.normal(size=(60, 6)), rng.normal(size=(60, 4)), gates)
    return task, nr.init.gaussian(graph, 0.3 / np.sqrt(width))


def grown(width: int) -> dict[str, float]:
    task, weights = skips(width)
    run = lambda: nr.flow(task, weights, 30.0, 50, save_weights=False, method=nr.LowRank(1e-4))  # noqa: E731
    times = [seconds(run) for _ in range(2)]
    return {"cold": times[0], "warm": times[1], "GiB": peak_gib()}


def full(width: int, narrow: int) -> dict[str, float]:
    """A full flow's gradients: as many as at a narrower width, each as long as it takes at this one."""
    steps = int(nr.flow(*skips(narrow), 30.0, 50, save_weights=False).stats["steps"])
    task, weights = skips(width)
    nr.gradient(task, weights)
    times = [seconds(lambda: nr.gradient(task, weights)) for _ in range(3)]
    gib = task.graph.n_weights * 8 * 16 / 2**30  # the state and the stages of the solver
    return {"warm": min(times) * 12 * steps, "GiB of the full flow": gib}


def run(quick: bool) -> list[Row]:
    width, depth, steps, rows = (60, 3, 20, []) if quick else (1000, 7, 60, [])
    asked = {1e-2: (), 1e-3: ()} if quick else {1e-1: ("warm >= 150",), 2e-3: (), 1.5e-4: ("warm >= 30",)}
    flows = fresh(ours, width, depth, list(asked), steps)
    for (error, target), found in zip(asked.items(), flows, strict=True):
        times, base = {"warm": found.pop("warm")}, {"warm": found.pop("loop")}
        what = f"{depth} layers of {width}, error {error:g} asked for"
        note = f"medians of {ROUNDS} rounds, the loop extrapolated from {steps} steps in each"
        loop = f"{EPOCHS} epochs in PyTorch"
        rows.append(Row("wide-deep", what, loop, "baseline / ours", times, base, found, target, note))
    width = 150 if quick else 3000
    found, whole = fresh(grown, width), fresh(full, width, width // 10)
    extra = {"GiB": found.pop("GiB"), "GiB of the full flow": whole.pop("GiB of the full flow")}
    note = "the full flow from its gradients, of one of which the time was taken"
    what = f"gates and skips, width {width}, error 1e-4"
    rows.append(Row("wide-deep", what, "full flow", "baseline / ours", found, whole, extra, (), note))
    return rows
