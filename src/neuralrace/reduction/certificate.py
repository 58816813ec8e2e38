"""How exact a reduction is: the part of the full gradient outside the family (theory.md section 4).

And of the weights of a network: the part outside it, and the strengths of the modes along the hidden
directions in which the network grows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from neuralrace.dynamics.rates import Rates
from neuralrace.dynamics.trajectory import Trajectory
from neuralrace.errors import InputError, short
from neuralrace.network import gradient, loss
from neuralrace.reduction import constants
from neuralrace.reduction.basis import anchored_nodes
from neuralrace.reduction.family import (
    FAMILIES,
    Classes,
    Family,
    Strengths,
    pathwise,
    refine,
    shared,
    with_directions,
)
from neuralrace.task import Task


def gradient_residual(
    task: Task, family: Family, points: Iterable[Mapping[str, np.ndarray]]
) -> dict[str, float]:
    """Per edge, the largest entry of `grad - P grad` over the points, relative to the largest gradient.

    Of fixed edges, the largest difference of the loss from that of the small network, relative to the loss.
    """
    worst = dict.fromkeys(task.graph.shapes, 0.0)
    largest = missed = 0.0
    for b in points:
        weights = family.lift(b)
        grad = gradient(task, weights)
        if task.graph.fixed:
            true = loss(task, weights)
            missed = max(missed, abs(true - loss(family.small, b)) / max(true, 1e-300))
        inside = family.lift(family.project(grad))
        for e, g in grad.items():
            worst[e] = max(worst[e], float(np.abs(g - inside[e]).max()))
            largest = max(largest, float(np.abs(g).max()))
    found = {e: w / largest if largest else 0.0 for e, w in worst.items()}
    return found | dict.fromkeys(task.graph.fixed, missed)


def random_points(family: Family, rng: np.random.Generator) -> list[dict[str, np.ndarray]]:
    return [
        {e: rng.uniform(0.3, 1.2, s) * rng.choice([-1, 1], s) for e, s in family.shape.items()}
        for _ in range(2)
    ]


def share_outside(family: Family, w: Mapping[str, np.ndarray], together: bool = False) -> Any:
    """Share of the squared norm of weights outside the family, of each run or of all together."""
    near = family.project(w)
    axis = None if together else (-1, -2)
    off = sum(((w[e] - family.lift_edge(e, near)) ** 2).sum(axis=axis) for e in w)
    return off / np.maximum(sum((v**2).sum(axis=axis) for v in w.values()), 1e-300)


def omitted_modes(family: Family) -> int:
    """How many modes no path can carry to an output, as hidden layers are too narrow."""
    if family.basis == "block":
        return 0
    g = family.graph
    reached = {n: np.full(family.modes, n in g.inputs) for n in g.nodes}
    for n in g.order:
        for e in g.outgoing[n]:
            lives = (family.right[e] != 0).any(axis=0) & (family.left[e] != 0).any(axis=0)
            reached[g.edges[e][1]] = reached[g.edges[e][1]] | (reached[n] & lives)
    return int((~np.any([reached[o] for o in g.outputs], axis=0)).sum())


def inexact_paths(task: Task, family: Family, tolerance: float) -> list[str]:
    """The paths, three at most, whose statistics the frames diagonalise worst; none where paths are many."""
    worst = {}
    few = family.split is None and task.graph.n_paths <= constants.MOST_PATHS
    for p in task.graph.paths() if few else ():
        u, r = family.left[p[-1]], family.right[p[0]]
        s, x = task.syx(p), task.sxx(p, p)
        inside, inner = u.T @ s @ r, r.T @ x @ r
        if family.basis != "block":
            inside, inner = (np.diag(np.diagonal(m)) for m in (inside, inner))
        worst[" ".join(p)] = max(
            np.abs(s - u @ inside @ r.T).max() / max(np.abs(s).max(), 1e-300),
            np.abs(x @ r - r @ inner).max() / max(np.abs(x).max(), 1e-300),
        )
    return [p for p in sorted(worst, key=lambda p: -worst[p])[:3] if worst[p] > tolerance]


def choose(
    task: Task,
    bases: Iterable[str],
    start: Mapping[str, Hashable],
    rates: Rates,
    directions: int = 1,
    seed: int = 0,
) -> tuple[Family, Classes, dict[str, float], Rates]:
    """The first family that the gradient does not leave, or else the first; what a `Reduction` holds of it.

    Edges whose value in `start` differs are in different classes.
    """
    found = None
    for name in bases:
        if name == "block" and directions > 1:
            break
        rng = np.random.default_rng(seed)
        family = FAMILIES[name](task, rng)
        family = family if directions == 1 else with_directions(family, directions)
        left = gradient_residual(task, family, random_points(family, rng))
        if found is None or max(left.values()) < constants.EXACT:
            found = (family, left)
        if max(left.values()) < constants.EXACT:
            break
    assert found is not None
    family, left = found
    apart: dict[str, Hashable] = {e: (v, rates.of(e)) for e, v in start.items()}
    if (split := family.split) is not None:
        rates = split.rates(rates)
        apart = {n: (apart[e], family.start[n].tobytes()) for n, (e, _, _) in split.edge_of.items()}
    return family, refine(family, apart, np.random.default_rng(seed)), left, rates


# -- actual weights --------------------------------------------------------------------------------


def growing_strengths(family: Family, w: Mapping[str, np.ndarray]) -> Strengths:
    """Strengths of each mode along the hidden directions in which the network grows."""
    return strengths_along(family, growing_frames(family, w), w)


def growing_blocks(family: Family, modes: Family, w: Mapping[str, np.ndarray]) -> Strengths:
    """Blocks `Q_t^T W_e Q_s` of a block family, Q the span of the hidden directions in which `modes` grow.

    The part of the weights outside these directions decays or stays as small as it was.
    """
    g, frames = family.graph, growing_frames(modes, w)

    def span(edge: str, end: int) -> np.ndarray:
        if g.edges[edge][end] not in frames:
            return (family.right, family.left)[end][edge]
        u, s, _ = np.linalg.svd(frame_at(modes, frames, edge, end), full_matrices=False)
        u = np.where(s[..., None, :] > 1e-8 * s[..., None, :1], u, 0.0)
        wide = family.shape[edge][1 - end]
        return np.pad(u, [(0, 0)] * (u.ndim - 1) + [(0, max(0, wide - u.shape[-1]))])[..., :wide]

    return {e: np.swapaxes(span(e, 1), -1, -2) @ w[e] @ span(e, 0) for e in family.shape}


def off_manifold_fraction(family: Family, w: Mapping[str, np.ndarray]) -> np.ndarray:
    """Share of the squared norm of weights `(..., out, in)` outside the sums of modes `b_e r_t r_s^T`,
    with the hidden directions r in which the network grows."""
    frames = growing_frames(family, w)
    b, total, inside = strengths_along(family, frames, w), 0.0, 0.0
    for e in family.shape:
        right, left = (frame_at(family, frames, e, end) for end in (0, 1))
        # Directions of different modes need not be orthogonal: this is the projection on what they span.
        overlap = (np.swapaxes(left, -1, -2) @ left) * (np.swapaxes(right, -1, -2) @ right)
        inverse = np.linalg.pinv(overlap, rcond=1e-10, hermitian=True)
        inside = inside + np.einsum("...k,...kl,...l->...", b[e], inverse, b[e])
        total = total + (w[e] ** 2).sum(axis=(-1, -2))
    return np.maximum(1 - inside / np.maximum(total, 1e-300), 0.0)


Frames = dict[str, np.ndarray]  # hidden node -> (..., size, modes)


def growing_frames(
    family: Family,
    w: Mapping[str, np.ndarray],
    rounds: int = 200,
    tolerance: float = 1e-12,
    begin: Frames | None = None,
    orthogonal: bool = False,
) -> Frames:
    """At each hidden node and for each mode the unit vector r in which the network grows.

    It makes the sum of all strengths `b_e = r_t^T W_e r_s` largest. Each round sets the direction of one node
    after the other to `sum_in W r_s + sum_out W^T r_t`, normalised, from `begin` or from inputs and outputs
    alone. For two layers this is the direction of `W1 v + W2^T u`, the growing part (theory.md section 9;
    `measure.growing_part`). With `orthogonal` the directions of all modes at a node are orthonormal, as those
    of an aligned network are, and make the sum over all modes largest: else a mode that waits would find the
    direction of a learned one, where a middle layer is strong.
    """
    g = family.graph
    lead, w = next(iter(w.values())).shape[:-2], g.with_fixed(w)
    held = anchored_nodes(g)
    free = [n for n in g.hidden if n not in held]
    frames: Frames = dict(begin or {})

    def inflow(node: str) -> np.ndarray:
        total = np.zeros((*lead, g.nodes[node], family.modes))
        for e in g.incoming[node]:
            if g.edges[e][0] in frames or g.edges[e][0] not in free:
                total = total + w[e] @ frame_at(family, frames, e, 0)
        for e in g.outgoing[node]:
            if g.edges[e][1] in frames or g.edges[e][1] not in free:
                total = total + np.swapaxes(w[e], -1, -2) @ frame_at(family, frames, e, 1)
        if orthogonal and family.modes <= g.nodes[node]:
            u, s, vt = np.linalg.svd(total, full_matrices=False)
            return (u * (s > 1e-12 * s[..., :1])[..., None, :]) @ vt  # modes without a signal have none here
        return total / np.maximum(np.linalg.norm(total, axis=-2, keepdims=True), 1e-300)

    for _ in range(rounds):
        change = 0.0
        for node in free:
            new = inflow(node)
            change = max(change, float(np.abs(new - frames.get(node, 0.0)).max()))
            frames[node] = new
        if change < tolerance:
            break
    return frames


def frame_at(family: Family, frames: Frames, edge: str, end: int) -> np.ndarray:
    """Directions of the modes at the source (0) or target (1) of an edge, (..., size, modes)."""
    node = family.graph.edges[edge][end]
    return frames[node] if node in frames else (family.right, family.left)[end][edge]


def strengths_along(family: Family, frames: Frames, w: Mapping[str, np.ndarray]) -> Strengths:
    """Strengths `r_t^T W_e r_s` of each mode along these directions, edge -> (..., modes)."""
    strengths = {}
    for e in family.shape:
        source, target = (frame_at(family, frames, e, end) for end in (0, 1))
        strengths[e] = (target * (w[e] @ source)).sum(axis=-2)
    return strengths


def mode_strengths(trajectory: Trajectory, task: Task) -> dict[str, np.ndarray]:
    r"""Strength of each mode of a task in each edge of a network, over time.

    At every hidden node, mode and time the direction $r$ is chosen that makes the sum of the strengths
    $r_t^\top W_e r_s$ over all edges largest. At inputs and outputs the directions are the modes of the task.
    Where all paths have common modes, those of different modes at a node are orthogonal. In a network that is
    aligned with its task these are the strengths of the reduction; from random weights they are those of the
    growing part.

    Parameters
    ----------
    trajectory : Trajectory
        With saved weights; one run or several.
    task : Task
        On a linear graph without biases.

    Returns
    -------
    dict of str to ndarray, shape (save, modes) or (runs, save, modes)
        The strongest mode of the data first.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.hierarchy(3, graph=nr.Graph.chain([4, 20, 20, 7]))
    >>> run = nr.flow(task, nr.init.xavier(task.graph, 0.5), t1=30.0, save=10)
    >>> {e: b.shape for e, b in mode_strengths(run, task).items()}
    {'x->h1': (10, 4), 'h1->h2': (10, 4), 'h2->y': (10, 4)}
    """
    if not isinstance(task, Task) or not isinstance(trajectory, Trajectory):
        raise InputError(
            f"trajectory must be a Trajectory and task a Task, got {short(trajectory)} and {short(task)}"
        )
    g = task.graph
    if not g.is_linear or g.biases or g.diagonal:
        raise InputError("task must be on a linear graph, without biases and diagonal edges, to have modes")
    if not set(g.shapes) <= set(trajectory.weights):
        raise InputError("trajectory must have the weights of the task's graph: was it saved without them?")
    family, common = modes_of(task)
    strengths: dict[str, list[np.ndarray]] = {e: [] for e in g.shapes}
    frames = None
    for k in range(len(trajectory.t)):
        w = trajectory.at(k)
        frames = growing_frames(
            family, w, constants.ROUNDS if k else 10 * constants.ROUNDS, constants.TURN, frames, common
        )
        for e, b in strengths_along(family, frames, w).items():
            strengths[e].append(b)
    return {e: np.stack(b, axis=-2) for e, b in strengths.items()}


def modes_of(task: Task) -> tuple[Family, bool]:
    """The modes of all paths together if they have common ones, else of each pathway; and which it is."""
    rng = np.random.default_rng(0)
    family = shared(task, rng)
    exact = max(gradient_residual(task, family, random_points(family, rng)).values()) < constants.EXACT
    if exact or task.graph.fixed:
        return family, exact
    return pathwise(task, np.random.default_rng(0)), False
