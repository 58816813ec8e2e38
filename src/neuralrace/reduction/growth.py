"""Initial strengths of a reduction from actual initial weights, without a free constant."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from neuralrace.reduction.family import Family, Strengths


def growing_strengths(family: Family, w: Mapping[str, np.ndarray], rounds: int = 200) -> Strengths:
    """Strengths of each mode along the hidden directions in which the network grows.

    At each hidden node and for each mode a unit vector r is sought that makes the sum of all strengths
    `b_e = r_t^T W_e r_s` largest, by going round the nodes: `r ~ sum_in W r_s + sum_out W^T r_t`. For two
    layers this is `W1 v + W2^T u`, the growing component (theory section 9).
    """
    g = family.graph
    lead = next(iter(w.values())).shape[:-2]
    modes = family.modes
    frame: dict[str, np.ndarray] = {}

    def at(edge: str, end: int) -> np.ndarray:
        node = g.edges[edge][end]
        if node in frame:
            return frame[node]
        return (family.right, family.left)[end][edge]

    def inflow(node: str) -> np.ndarray:
        total = np.zeros((*lead, g.nodes[node], modes))
        for e in g.incoming[node]:
            if g.edges[e][0] in frame or g.edges[e][0] in g.inputs:
                total = total + w[e] @ at(e, 0)
        for e in g.outgoing[node]:
            if g.edges[e][1] in frame or g.edges[e][1] in g.outputs:
                total = total + np.swapaxes(w[e], -1, -2) @ at(e, 1)
        return total / np.maximum(np.linalg.norm(total, axis=-2, keepdims=True), 1e-300)

    for _ in range(rounds):
        change = 0.0
        for node in g.hidden:
            new = inflow(node)
            change = max(change, float(np.abs(new - frame.get(node, 0.0)).max()))
            frame[node] = new
        if change < 1e-12:
            break
    found = {}
    for e in g.edges:
        found[e] = np.einsum("...ik,...ij,...jk->...k", at(e, 1), w[e], at(e, 0))
    return found
