"""Epochs that networks of some depth take to learn, from several kinds of initial weights; for `chains`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import neuralrace as nr
from neuralrace.measure import end_to_end, half_time, stopping_time
from neuralrace_papers.pretraining import pretrain

if TYPE_CHECKING:
    from neuralrace_papers.talk.chains import Chains

KINDS = ("small random", "pretrained", "orthogonal")


def aligned_epochs(p: Chains, depth: int, gain: float) -> float:
    """The theory: epochs to the level if all layers are aligned with the modes and have this gain."""
    return depth * nr.exact.chain_time(p.level, p.s, gain**depth, depth) / p.rate


def aligned_half_times(p: Chains) -> np.ndarray:
    """Time to half of each mode of an aligned network of depth `deep`, from small weights, (modes,)."""
    task = p.task(p.deep, len(p.strengths))
    start = {e: p.aligned * np.eye(len(p.strengths)) for e in task.graph.edges}
    latest = 2 / ((p.deep - 2) * min(p.strengths) * p.aligned ** (p.deep - 2))  # twice the last one's wait
    run = nr.flow(task, start, latest, save=4001)
    modes = np.diagonal(end_to_end(task.graph, run), axis1=-2, axis2=-1)
    return half_time(run.t, modes, first=0.0, last=p.s, axis=0)


def train(p: Chains, depth: int, gain: float, before: float) -> dict[str, Any]:
    """Epochs to the level from each kind of initial weights, and the theory of these.

    Small random weights have this gain, or `before` pretraining; aligned ones are diagonal, with this gain
    like the small random ones, or with gain 1 like orthogonal ones.
    """
    task = p.task(depth, p.width)
    edges, seeds, n = list(task.graph.edges), range(p.seeds), len(p.strengths)
    widths, std, loss = [p.width] * (depth - 1), before / np.sqrt(p.width), p.reconstructed
    codes = [
        pretrain(np.sqrt(n) * np.eye(n), widths, std, p.rate / 2, share=loss, max_steps=p.epochs, seed=seed)
        for seed in seeds
    ]
    readout = p.small_random(task.graph, before, seeds)
    kinds = (
        p.small_random(task.graph, gain, seeds),
        {**readout, **{e: np.stack([code.layers[k] for code in codes]) for k, e in enumerate(edges[:-1])}},
        nr.init.orthogonal(task.graph, seed=seeds),
        {e: np.array([gain, 1.0])[:, None, None] * np.eye(*readout[e].shape[1:]) for e in edges},
    )
    took = epochs_to_learn(p, task, {e: np.concatenate([w[e] for w in kinds]) for e in edges}, p.epochs)
    epochs = took[:-2].reshape(3, -1)
    epochs[1] += [code.steps for code in codes]
    encoding = 2 * (depth - 1) * nr.exact.chain_time(p.reconstructed, 1.0, before**2)
    tuned = {e: np.eye(*readout[e].shape[1:]) * (e != edges[-1]) for e in edges}
    tuning = depth * stopping_time(nr.flow(task, tuned, 1e3, save=2, stop_loss=p.learned_loss))
    pretrained = (encoding + tuning) / p.rate
    return {
        "start": ("start", list(KINDS)),
        "epochs": ("start run", epochs),
        "aligned": ("start", [took[-2], np.nan, took[-1]]),
        "theory": ("start", [aligned_epochs(p, depth, gain), pretrained, aligned_epochs(p, depth, 1.0)]),
    }


def epochs_to_learn(p: Chains, task: nr.Task, start: nr.init.Weights, most: int) -> np.ndarray:
    """Steps of descent until the task is learned, (runs,); nan where it is not within `most`."""
    lr = p.rate / len(task.graph.edges)
    run = nr.descend(task, start, lr, most, save=2, stop_loss=p.learned_loss, save_weights=False)
    return np.rint(stopping_time(run) / lr)
