"""Races: the same data with different gates, kept where random networks agree who wins.

Two or three candidates share a graph, inputs and targets. Ten networks of each start from the same random
weights. A race is kept where in every one of the ten the same candidate wins by at least 10% of its time. In
a part of the races some candidates can never reach the level. Run as `python -m benchmarks.ends.races FOLDER`
from the project's root; it goes on where an earlier run stopped, and writes FOLDER/races.jsonl.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import neuralrace as nr
from benchmarks.ends import tasks
from benchmarks.ends.attainable import attainable_loss, initial_loss

NETWORKS, MARGIN, END = 10, 1.1, 1e5
KINDS = ("pathways", "experts", "cancel", "heads", "modalities")
METHOD = nr.Adaptive(rtol=1e-6, atol=1e-8, max_steps=20_000)


class Race(NamedTuple):
    """Tasks by name, and the loss to reach."""

    candidates: dict[str, nr.Task]
    level: float


def draw(seed: int) -> Race | None:
    """A race; None where the candidates cannot be told apart or nothing can be learned."""
    rng = np.random.default_rng([41, seed])
    task = tasks.draw(2 * 10**6 + seed, KINDS[seed % len(KINDS)])
    s = task.samples
    gated = [g for g in s.gates if g not in task.graph.inputs and g not in task.graph.outputs]
    which = context_of_samples(task)
    if not gated:  # two modalities: candidates see one, the other, or both
        gated = list(task.graph.inputs)
    others: dict[str, np.ndarray] = {
        "ungated": np.ones((which.max() + 1, len(gated))),
        "other": (rng.random((which.max() + 1, len(gated))) < 0.6).astype(float),
        "another": (rng.random((which.max() + 1, len(gated))) < 0.6).astype(float),
    }
    candidates = {"given": task}
    for name in rng.permutation(list(others))[: rng.integers(1, 3)]:
        gates = {**s.gates, **dict(zip(gated, others[str(name)][which].T, strict=True))}
        candidates[str(name)] = nr.Task(task.graph, s.inputs, s.targets, gates)
    least = np.array([attainable_loss(t) for t in candidates.values()])
    start = initial_loss(task)
    bound = least.max() if rng.random() < 0.75 else np.sort(least)[-2]  # else one candidate cannot arrive
    if start - bound <= 0.05 * start:
        return None
    return Race(candidates, float(bound + rng.choice([0.1, 0.25, 0.5]) * (start - bound)))


def context_of_samples(task: nr.Task) -> np.ndarray:
    """The number of the context of each sample (n,)."""
    s = task.samples
    n = len(next(iter(s.inputs.values())))
    columns = [np.broadcast_to(np.ravel(np.asarray(g, float)), (n,)) for g in s.gates.values()]
    return np.unique(np.stack([*columns, np.zeros(n)], axis=1), axis=0, return_inverse=True)[1].ravel()


def networks(race: Race) -> dict[str, list[float]]:
    """Learning times of ten networks by candidate; inf where the level is below the attainable loss."""
    found = {}
    for name, task in race.candidates.items():
        if attainable_loss(task) >= race.level:
            found[name] = [np.inf] * NETWORKS
            continue
        weights = nr.init.gaussian(task.graph, tasks.std(task), seed=range(NETWORKS))
        run = nr.flow(task, weights, END, 2, stop_loss=race.level, method=METHOD, save_weights=False)
        found[name] = np.atleast_1d(nr.learning_time(run, race.level)).tolist()
    return found


def winner(times: dict[str, list[float]]) -> str | None:
    """Who wins in all networks by the margin."""
    table = np.array(list(times.values()))
    if np.isnan(table).any():
        return None
    first, second = np.sort(table, axis=0)[:2]
    names = set(np.argmin(table, axis=0).tolist())
    decided = len(names) == 1 and bool(np.isfinite(first).all() and (second >= MARGIN * first).all())
    return list(times)[names.pop()] if decided else None


def read(folder: Path) -> dict[int, dict[str, Any]]:
    """All races that were tried so far, by seed."""
    path = folder / "races.jsonl"
    return {r["seed"]: r for r in map(json.loads, path.read_text().splitlines())} if path.exists() else {}


def main() -> None:
    """Try seeds until enough races are decided."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--races", type=int, default=150)
    options = parser.parse_args()
    done = read(options.folder)
    kept, seed = sum(r["winner"] is not None for r in done.values()), 0
    while kept < options.races:
        if seed not in done:
            race = draw(seed)
            times = networks(race) if race else {}
            record = {"seed": seed, "winner": winner(times) if race else None, "times": times}
            with (options.folder / "races.jsonl").open("a") as file:
                file.write(json.dumps(record) + "\n")
            kept += record["winner"] is not None
            print(seed, kept, record["winner"], flush=True)
        seed += 1


if __name__ == "__main__":
    main()
