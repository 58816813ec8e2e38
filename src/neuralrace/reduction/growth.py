"""The hidden directions in which actual weights carry each mode, and their strengths along these."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from neuralrace.reduction.family import Family, Strengths


def growing_strengths(family: Family, w: Mapping[str, np.ndarray]) -> Strengths:
    """Strengths `r_t^T W_e r_s` of each mode along the hidden directions in which the network grows."""
    at = growing_frames(family, w)
    return {e: np.einsum("...ik,...ij,...jk->...k", at(e, 1), w[e], at(e, 0)) for e in family.graph.edges}


def growing_blocks(family: Family, modes: Family, w: Mapping[str, np.ndarray]) -> Strengths:
    """Blocks `Q_t^T W_e Q_s` of a block family, Q the span of the hidden directions in which `modes` grow.

    What of the weights lies outside these directions decays or stays as small as it was.
    """
    g, at = family.graph, growing_frames(modes, w)

    def span(edge: str, end: int) -> np.ndarray:
        if g.edges[edge][end] not in g.hidden:
            return (family.right, family.left)[end][edge]
        u, s, _ = np.linalg.svd(at(edge, end), full_matrices=False)
        u = np.where(s[..., None, :] > 1e-8 * s[..., None, :1], u, 0.0)
        wide = family.shape[edge][1 - end]
        return np.pad(u, [(0, 0)] * (u.ndim - 1) + [(0, max(0, wide - u.shape[-1]))])[..., :wide]

    return {e: np.swapaxes(span(e, 1), -1, -2) @ w[e] @ span(e, 0) for e in g.edges}


def off_manifold_fraction(family: Family, w: Mapping[str, np.ndarray]) -> np.ndarray:
    """Share of the squared norm of weights `(..., out, in)` outside the sums of modes `b_e r_t r_s^T`,
    with the hidden directions r in which the network grows."""
    at = growing_frames(family, w)
    total, inside = 0.0, 0.0
    for e in family.graph.edges:
        left, right = at(e, 1), at(e, 0)
        b = np.einsum("...ik,...ij,...jk->...k", left, w[e], right)
        # Directions of different modes need not be orthogonal: this is the projection on what they span.
        overlap = (np.swapaxes(left, -1, -2) @ left) * (np.swapaxes(right, -1, -2) @ right)
        inverse = np.linalg.pinv(overlap, rcond=1e-10, hermitian=True)
        inside = inside + np.einsum("...k,...kl,...l->...", b, inverse, b)
        total = total + (w[e] ** 2).sum(axis=(-1, -2))
    return np.maximum(1 - inside / np.maximum(total, 1e-300), 0.0)


Frame = Callable[[str, int], np.ndarray]


def growing_frames(family: Family, w: Mapping[str, np.ndarray], rounds: int = 200) -> Frame:
    """The frames `(..., size, modes)` at the source (0) and target (1) of each edge: `frame(edge, end)`.

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
    return at
