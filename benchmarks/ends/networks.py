"""Where random networks end on the tasks of `tasks.py`, and when they learn.

Networks from gaussian weights follow gradient flow until they are so near to the attainable loss, which
bounds them from below, that they are there, or to t = 1e5. Run as
`python -m benchmarks.ends.networks FOLDER SET` from the project's root; it goes on where an earlier run
stopped. FOLDER/SET.jsonl has a line per task. Sets:

- networks: 500 tasks of `tasks.draw`, 20 networks each, weights of the size `tasks.std`. FOLDER/curves has
  the losses of the first three, FOLDER/networks.npz all numbers together.
- narrow, at, below: 100, 150 and 150 tasks of `tasks.narrow` and `tasks.at_width`, 10 networks each.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import neuralrace as nr
from benchmarks.ends import tasks
from benchmarks.ends.attainable import attainable_loss, initial_loss

SHARES = (0.75, 0.5, 0.25, 0.1)  # of what can be learned that are left
END = 1e5


class Set(NamedTuple):
    """What is computed by the name of a set."""

    draw: Callable[[int], nr.Task]
    tasks: int
    networks: int
    scale: float  # of the weights, in units of `tasks.std`
    near: float  # of what can be learned: so near to the attainable loss counts as there
    method: nr.Adaptive


FINE = nr.Adaptive(rtol=1e-7, atol=1e-9, max_steps=30_000)
COARSE = nr.Adaptive(rtol=1e-6, atol=1e-8, max_steps=20_000)
SETS = {
    "networks": Set(tasks.draw, 500, 20, 1.0, 1e-5, FINE),
    "narrow": Set(tasks.narrow, 100, 10, 2.0, 1e-4, COARSE),
    "at": Set(partial(tasks.at_width, below=False), 150, 10, 2.0, 1e-4, COARSE),
    "below": Set(partial(tasks.at_width, below=True), 150, 10, 2.0, 1e-4, COARSE),
}


def follow(task: nr.Task, which: Set) -> tuple[dict[str, Any], Any]:
    """A record of ends and times of networks, and their trajectory: None if there is nothing to learn."""
    least, start = attainable_loss(task), initial_loss(task)
    learn, std = start - least, which.scale * tasks.std(task)
    record: dict[str, Any] = {
        "depth": tasks.depth(task), "std": std, "contexts": task.n_contexts,
        "initial": start, "attainable": least,
    }  # fmt: skip
    if learn <= 1e-9 * start:
        return record | {"learnable": 0.0}, None
    began = time.perf_counter()
    weights = nr.init.gaussian(task.graph, std, seed=range(which.networks))
    run = nr.flow(
        task, weights, END, 2, stop_loss=least + which.near * learn, method=which.method, save_weights=False
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


def read(folder: Path, name: str = "networks") -> dict[int, dict[str, Any]]:
    """What was computed so far, by seed."""
    path = folder / f"{name}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {r["seed"]: r for r in map(json.loads, lines)}


def together(folder: Path) -> None:
    """All numbers of all tasks in one file."""
    rows = [r for _, r in sorted(read(folder).items()) if r["learnable"]]
    names = ("seed", "kind", "depth", "std", "initial", "attainable", "left", "end")
    table: dict[str, Any] = {name: np.array([r[name] for r in rows]) for name in names}
    times: dict[str, Any] = {
        f"time_{s:g}": np.array([r["times"][f"{s:g}"] for r in rows], float) for s in SHARES
    }
    np.savez(folder / "networks.npz", **table, **times)


def main() -> None:
    """Follow what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("set", choices=SETS)
    options = parser.parse_args()
    folder, which = options.folder, SETS[options.set]
    (folder / "curves").mkdir(parents=True, exist_ok=True)
    done = read(folder, options.set)
    for seed in range(which.tasks):
        if seed in done:
            continue
        record, run = follow(which.draw(seed), which)
        record = {"seed": seed, "kind": tasks.kind(seed)} | record
        if run is not None and options.set == "networks":
            curves = {f"{name}{k}": getattr(run[k].history, name) for k in range(3) for name in ("t", "loss")}
            np.savez_compressed(folder / "curves" / f"{seed}.npz", **curves)
        with (folder / f"{options.set}.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(seed, record["kind"], record["depth"], record.get("seconds"), flush=True)
        if max(record.get("left", [0])) > 2 * which.near:
            print("   not there:", np.round(record["left"], 6), record["statuses"], flush=True)
    if options.set == "networks":
        together(folder)


if __name__ == "__main__":
    main()
