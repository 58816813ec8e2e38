"""Training beside theory: networks of full size, their flow computed in short stretches that stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace.laboratory.protocol import Finished, Simulated
from neuralrace.laboratory.theory import Solved, SolvedLane, numbers, refuse_large

EVERY = 4  # times of the theory between two points of a network
PER_STRETCH = 5  # points in a stretch
TRAINING_COPIES = 60  # of the weights of a network, that its training holds at most (measured)
LARGEST_STEP = 0.05  # of descent, in flow time
METHOD = nr.Adaptive(rtol=1e-9, atol=1e-11)

Stretch = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]  # places, loss (runs, n), weights


def places(n: int) -> Iterator[np.ndarray]:
    """Places of a time axis of n times, stretch by stretch; each begins where the one before ends."""
    for first in range(0, n - 1, EVERY * PER_STRETCH):
        yield np.arange(first, first + EVERY * PER_STRETCH + 1, EVERY)


def stretches(
    task: nr.Task, weights: dict[str, np.ndarray], t: np.ndarray, method: nr.Adaptive = METHOD, **options: Any
) -> Iterator[Stretch]:
    """The flow of networks (a leading axis of runs) at places of `t`, stretch by stretch.

    All stretches have the same number of times, so that they share one compiled program.
    """
    for at in places(len(t)):
        run = nr.flow(task, weights, save=t[at] - t[at[0]], method=method, **options)
        first = 0 if at[0] == 0 else 1
        kept = {e: np.asarray(w) for e, w in run.weights.items()}
        yield at[first:], run.loss[:, first:], {e: w[:, first:] for e, w in kept.items()}
        weights = {e: w[:, -1] for e, w in kept.items()}


def simulate(solved: Solved, number: int, seeds: int) -> Iterator[Simulated | Finished]:
    """Train the networks of every lane, and the network beside them."""
    differences: list[float | None] = [None] * len(solved.lanes)
    if seeds:
        refuse_large("training", solved.model, TRAINING_COPIES * solved.lanes[0].n_runs)
        streams = [_lane(lane, k, solved, number, differences) for k, lane in enumerate(solved.lanes)]
        if solved.model.beside is not None:
            streams = [_beside(solved, number, seeds, differences)]
        while streams:  # a stretch of each in turn
            for stream in list(streams):
                yield from next(stream, None) or streams.remove(stream) or ()
    yield Finished(id=number, difference=differences, words=_words(solved, differences))


def _words(solved: Solved, differences: list[float | None]) -> str:
    found = [d for d in differences if d is not None]
    if not found:
        return ""
    if solved.model.beside is not None:
        best = int(np.argmin(found))
        name = solved.lanes[best].name
        return f"The ReLU networks follow the {name} gating: its loss differs by {found[best]:.2g} at most."
    return agreement(max(found), max(float(lane.solution.loss[0]) for lane in solved.lanes))


def agreement(worst: float, first: float) -> str:
    """How far theory and training are apart, in words."""
    share = worst / first if first else 0.0
    said = f"at most {100 * share:.2g}%" if share >= 1e-5 else "less than 0.001%"
    return f"Theory and trained networks differ by {said} of the initial loss."


def _lane(
    lane: SolvedLane, k: int, solved: Solved, number: int, differences: list[float | None]
) -> Iterator[list[Simulated]]:
    r, racing, t = lane.known.reduction, lane.known.racing[0], solved.t
    for at, loss, weights in stretches(r.task, lane.weights, t):
        carries = np.array([p.carried(r, weights) for p in racing])  # (racers, runs, n)
        if not solved.random:  # the page has the theory of every random start
            differences[k] = max(differences[k] or 0.0, float(np.abs(loss - lane.solution.loss[at]).max()))
        yield [
            Simulated(
                id=number, lane=k, run=run, t=numbers(t[at]), loss=numbers(loss[run]),
                carries=[numbers(c) for c in carries[:, run]],
            )
            for run in range(len(loss))
        ]  # fmt: skip


def _beside(
    solved: Solved, number: int, seeds: int, differences: list[float | None]
) -> Iterator[list[Simulated]]:
    """By descent in small steps: an adaptive solver stumbles over the kinks of ReLUs."""
    task = solved.model.beside
    assert task is not None
    weights = nr.init.gaussian(task.graph, solved.model.beside_std, seed=range(seeds))
    t = solved.t
    spacing = float(t[EVERY] - t[0])
    steps = int(np.ceil(spacing / LARGEST_STEP))
    for at in places(len(t)):
        run = nr.descend(task, weights, lr=spacing / steps, steps=steps * PER_STRETCH, save=PER_STRETCH + 1)
        weights = {e: np.asarray(w)[:, -1] for e, w in run.weights.items()}
        for k, lane in enumerate(solved.lanes):
            off = float(np.abs(run.loss - lane.solution.loss[at]).max())
            differences[k] = max(differences[k] or 0.0, off)
        yield [
            Simulated(id=number, lane=-1, run=k, t=numbers(t[at]), loss=numbers(run.loss[k]), carries=[])
            for k in range(seeds)
        ]
