"""Two hidden layers on items in contexts: the networks, what is recorded while they learn, and what is read
off their loss."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

import neuralrace as nr
from neuralrace.measure import crossing
from neuralrace.relu.training import relu_chain

CONTEXTS, PATHWAYS, ITEMS = 3, 4, 8
X, Y = nr.tasks.contexts(CONTEXTS).arrays
N = len(X)
GATES = np.repeat(np.concatenate([np.ones((1, CONTEXTS)), 1 - np.eye(CONTEXTS)]), ITEMS, axis=1)


def leading_modes(m: np.ndarray, k: int) -> np.ndarray:
    """The first k modes of matrices `(..., a, b)`, added up."""
    u, s, v = np.linalg.svd(m, full_matrices=False)
    return (u[..., :k] * s[..., None, :k]) @ v[..., :k, :]


# Outputs (4, n, out): the first mode of all samples, then the first 1, 2 and 4 modes of each context.
BY_CONTEXT = Y.reshape(CONTEXTS, ITEMS, -1)
PLATEAUS = np.stack(
    [leading_modes(Y, 1), *(leading_modes(BY_CONTEXT, k).reshape(Y.shape) for k in (1, 2, 4))]
)
START, *LEVELS = 0.5 * np.array([(Y**2).sum(), *((Y - PLATEAUS) ** 2).sum(axis=(1, 2))])
COMMON = [START, *LEVELS[1:]]  # losses that both kinds of network are said to share
DROPS = [f"drop {high:g} to {low:g}" for high, low in pairwise(COMMON)]
ORDER = ("first", "second", "third")


def relu_task(*hidden: int) -> nr.Task:
    return nr.Task(relu_chain([X.shape[1], *hidden, Y.shape[1]]), X, Y)


def gated_task(hidden: int) -> nr.Task:
    """A linear layer for all, then four pathways p0 (always open), p1, p2, p3 with a quarter of the units."""
    names = [f"p{k}" for k in range(PATHWAYS)]
    nodes = {"x": X.shape[1], "h1": hidden, **dict.fromkeys(names, hidden // PATHWAYS), "y": Y.shape[1]}
    edges = [("x", "h1"), *((a, b) for n in names for a, b in (("h1", n), (n, "y")))]
    return nr.Task(nr.Graph(nodes, edges), X, Y, dict(zip(names, GATES, strict=True)))


def relu_state(state: nr.State) -> dict[str, Any]:
    """Gates of both layers, each unit counted by its size (`nr.unit_sizes`).

    open, always: mean gate of the first layer, and share of its units that are open on all samples.
    nonlinear: change of the outputs, relative to the targets, if the first layer did not rectify.
    by_contexts: shares of the second layer open for most items in 0, 1, 2 and 3 contexts.
    pure: share of the second layer that is open for all or for no items of each context.
    """
    w1, w2, w3 = (state.weights[e] for e in ("x->h1", "h1->h2", "h2->y"))
    first, second = nr.unit_sizes(w1, w2, normalise=True), nr.unit_sizes(w2, w3, normalise=True)
    h1, g2 = state.activity("h1"), state.activity("h2") > 0
    rectified = X.astype(w1.dtype) @ w1.T - h1
    mean_gate = g2.reshape(CONTEXTS, ITEMS, -1).mean(axis=1)
    n_open = (mean_gate > 0.5).sum(axis=0)
    return {
        "distance": relative_size(state.activity("y") - PLATEAUS.astype(w1.dtype)),
        "open": (h1 > 0).mean(axis=0) @ first,
        "always": (h1 > 0).all(axis=0) @ first,
        "nonlinear": relative_size(((rectified @ w2.T) * g2) @ w3.T),  # with the gates of the second layer
        "by_contexts": second @ (n_open[:, None] == np.arange(CONTEXTS + 1)),
        "pure": second @ ((mean_gate == 0) | (mean_gate == 1)).all(axis=0),
    }


def gated_state(state: nr.State) -> dict[str, Any]:
    """Size of the outputs of each pathway, and cosine of its map and the first mode of its own data."""
    graph = gated_task(PATHWAYS).graph
    maps = jnp.stack(list(nr.pathway_maps(graph, state).values()))
    outputs = GATES[:, :, None].astype(maps.dtype) * (X.astype(maps.dtype) @ maps.swapaxes(1, 2))
    modes = leading_modes(Y.T @ (GATES[:, :, None] * X), 1).astype(maps.dtype)
    return {
        "distance": relative_size(outputs.sum(axis=0) - PLATEAUS.astype(maps.dtype)),
        "size": relative_size(outputs),
        "cosine": jnp.abs((maps * modes).sum(axis=(1, 2))) / (_norm(maps) * _norm(modes)),
    }


def _norm(m: Any) -> Any:
    return jnp.sqrt((m**2).sum(axis=(-2, -1)))


def relative_size(outputs: Any) -> Any:
    """Norm of outputs `(..., n, out)`, relative to the targets."""
    return _norm(outputs) / np.linalg.norm(Y)


def typical(networks: xr.Dataset) -> xr.Dataset:
    """The run whose loss is closest to the mean: sum of distances over times."""
    return networks.isel(
        run=int(np.abs(networks.loss - networks.loss.mean("run")).sum("epoch").argmin("run"))
    )


def drops(networks: xr.Dataset) -> np.ndarray:
    """Epochs at which a quarter of the way to the next common plateau is done, `(..., 3)`; nan if never."""
    marks = COMMON[:-1] + np.diff(COMMON) / 4
    return crossing(networks.epoch, networks.loss.values[..., None, :], marks)


def dwell(network: xr.Dataset) -> np.ndarray:
    """Epochs that a run spends within 1% of the initial loss of each plateau, `(4,)`."""
    near = np.abs(network.loss.values - np.array(LEVELS)[:, None]) < 0.01 * START
    return near.sum(axis=1) * float(network.epoch[1])


def at_plateau(networks: xr.Dataset, plateau: int) -> xr.Dataset:
    """Each run when its outputs are nearest to those of a plateau."""
    return networks.isel(epoch=networks.distance.isel(plateau=plateau).argmin("epoch"))
