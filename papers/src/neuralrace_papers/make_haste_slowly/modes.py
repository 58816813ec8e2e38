"""What experiments on items in contexts share: pathways as the authors train them, and their closed form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

import neuralrace as nr
from neuralrace_papers.framework import along
from neuralrace_papers.make_haste_slowly.stages import train_in_order

ITEMS = 8  # in each context
STRUCTURES = {"different": ("hierarchy", "ring", "cross"), "same": None}  # of three contexts
CONTEXT = np.repeat([0, 1, 2], ITEMS)  # of each sample


def as_published(net: nr.Trajectory, task: nr.Task, std: float, larger: float, seed: int) -> nr.Trajectory:
    """Pathways as the authors train them: the always open one, p0, as if alone, the others on what it leaves.

    Initial weights of the others are `larger` times those of p0, which have the deviation `std`.
    """
    start = nr.init.gaussian(task.graph, std, seed)
    scale = {e: 1.0 if "p0h1" in ends else larger for e, ends in task.graph.edges.items()}
    return train_in_order(net, task, {e: scale[e] * w for e, w in start.items()}, ["p0h1"])


def on_the_residual(x: np.ndarray, y: np.ndarray, contexts: int) -> nr.Task:
    """Pathways open in all contexts but one, alone on what an always open one leaves; they see the items."""
    patterns, columns = np.repeat(1 - np.eye(contexts), ITEMS, axis=1), range(ITEMS)
    residual = nr.relu.pathway_residual(x, y)
    return nr.tasks.gated(x, residual, patterns, 16, dict.fromkeys(range(contexts), columns))


def singular_values(graph: nr.Graph, weights: Any, k: int) -> np.ndarray:
    """The k leading ones of the map of each pathway, `(pathways, save, k)`."""
    maps = nr.pathway_maps(graph, weights).values()
    return np.stack([np.linalg.svd(m, compute_uv=False)[:, :k] for m in maps])


def open_in_contexts(net: nr.Trajectory, contexts: int) -> np.ndarray:
    """Share of the items of each context for which a unit is open in the end, `(contexts, units)`."""
    return net.gates(-1)[0].reshape(contexts, ITEMS, -1).mean(axis=1)


def by_contexts_open(net: nr.Trajectory, contexts: int) -> np.ndarray:
    """Share of the weight in units open for most items of 0, 1, ... contexts in the end."""
    number = (open_in_contexts(net, contexts) > 0.5).sum(axis=0)
    return np.bincount(number, nr.unit_sizes(*net.at(-1).values(), normalise=True), contexts + 1)


def mode_outputs(
    inputs: Any, targets: Any, gate: Any, course: Callable[[Any, Any], Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs `(t, n, out)` and strengths `(t, mode)` of a gated pathway whose modes follow `course(s, d)`.

    s is the strength of the mode in the correlation of inputs and targets where the gate is open, d the
    variance of the inputs along it.
    """
    u, s, vt = np.linalg.svd((gate[:, None] * targets).T @ inputs / len(inputs), full_matrices=False)
    keep = s > 1e-10 * s[0]
    seen = gate[:, None] * (inputs @ vt[keep].T)
    b = np.stack([course(a, d) for a, d in zip(s[keep], (seen**2).mean(axis=0), strict=True)])
    return np.einsum("nk,kt,ok->tno", seen, b, u[:, keep]), b.T


def by_case(results: Mapping[tuple[Any, Any], xr.Dataset], dim: str = "seed") -> dict[Any, xr.Dataset]:
    """Results for (case, seed), or another second item, as one dataset for each case, along `dim`."""
    cases = dict.fromkeys(case for case, _ in results)
    return {case: along({s: d for (c, s), d in results.items() if c == case}, dim) for case in cases}
