"""Where random networks end on the tasks of `tasks.py`, and when they learn.

Twenty networks per task from gaussian weights of the size `tasks.std`, followed by gradient flow until they are
within 1e-5 of all that can be learned of the attainable loss, which bounds them from below, or to t = 1e5. Run
as `python -m benchmarks.ends.networks FOLDER` from the project's root; it goes on where an earlier run stopped.
FOLDER/networks.jsonl has a line per task, FOLDER/curves the losses of its first three networks, and
FOLDER/networks.npz all numbers together.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks.ends import tasks
from benchmarks.ends.attainable import attainable_loss, initial_loss

SHARES = (0.75, 0.5, 0.25, 0.1)  # of what can be learned that are left
NEAR = 1e-5  # of what can be learned: so near to the attainable loss counts as there
END = 1e5
METHOD = nr.Adaptive(rtol=1e-7, atol=1e-9, max_steps=30_000)


def follow(task: nr.Task, std: float, seeds: Iterable[int], end: float = END) -> tuple[dict[str, Any], Any]:
    """A record of the ends and times of networks, and their trajectory (None where nothing can be learned)."""
    least, start = attainable_loss(task), initial_loss(task)
    learn = start - least
    record: dict[str, Any] = {
        "depth": tasks.depth(task), "std": std, "contexts": task.n_contexts, "initial": start, "attainable": least
    }  # fmt: skip
    if learn <= 1e-9 * start:
        return record | {"learnable": 0.0}, None
    began = time.perf_counter()
    weights = nr.init.gaussian(task.graph, std, seed=seeds)
    run = nr.flow(
        task, weights, end, 2, stop_loss=least + NEAR * learn, method=METHOD, save_weights=False
    )  # fmt: skip
    times = {f"{s:g}": nr.learning_time(run, least + s * learn).tolist() for s in SHARES}
    return record | {
        "learnable": learn,
        "left": ((run.loss[:, -1] - least) / learn).tolist(),  # of what can be learned
        "end": np.asarray(run.end).tolist(),
        "statuses": [s.value for s in run.statuses],
        "times": times,
        "seconds": round(time.perf_counter() - began, 3),
    }, run


def read(folder: Path) -> dict[int, dict[str, Any]]:
    """What was computed so far, by seed."""
    path = folder / "networks.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {r["seed"]: r for r in map(json.loads, lines)}


def together(folder: Path) -> None:
    """All numbers of all tasks in one file."""
    rows = [r for _, r in sorted(read(folder).items()) if r["learnable"]]
    flat = {
        k: np.array([r[k] for r in rows]) for k in ("seed", "kind", "depth", "std", "initial", "attainable")
    }
    shaped = {k: np.array([r[k] for r in rows]) for k in ("left", "end")}
    times = {f"time_{s:g}": np.array([r["times"][f"{s:g}"] for r in rows], float) for s in SHARES}
    np.savez(folder / "networks.npz", **flat, **shaped, **times)


def main() -> None:
    """Follow what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--networks", type=int, default=20)
    options = parser.parse_args()
    (options.folder / "curves").mkdir(parents=True, exist_ok=True)
    done = read(options.folder)
    for seed in range(options.tasks):
        if seed in done:
            continue
        task = tasks.draw(seed)
        record, run = follow(task, tasks.std(task), range(options.networks))
        record = {"seed": seed, "kind": tasks.kind(seed)} | record
        if run is not None:
            curves = {f"{name}{k}": getattr(run[k].history, name) for k in range(3) for name in ("t", "loss")}
            np.savez_compressed(options.folder / "curves" / f"{seed}.npz", **curves)
        with (options.folder / "networks.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(seed, record["kind"], record["depth"], record.get("seconds"), flush=True)
        if max(record.get("left", [0])) > 2 * NEAR:
            print("   not there:", np.round(record["left"], 6), record["statuses"], flush=True)
    together(options.folder)


if __name__ == "__main__":
    main()
