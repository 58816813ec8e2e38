"""Linear families of weights on which the flow is restricted (theory.md section 4).

A family has fixed orthonormal frames and small coordinates b: `W_e = L_e diag(b_e) R_e^T` (shared and
pathwise basis) or `W_e = Q_t B_e Q_s^T` (blocks). The loss on the family is the loss of a small network, the
same graph with few neurons: one per mode with diagonal edges, or as many as the blocks are wide.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace.errors import InputError, NothingToReduceError
from neuralrace.graph import Edge, Graph
from neuralrace.network import gradient
from neuralrace.reduction.basis import (
    Frames,
    Links,
    closed_frames,
    components,
    hidden_frames,
    mode_frames,
    spanned,
    spans,
)
from neuralrace.reduction.directions import Split
from neuralrace.task import ArrayInterner, Block, Blocks, Context, Task

NOTHING = (
    "task has nothing to reduce: no open path correlates an input with a target; are gates 0 everywhere, or "
    "inputs and targets unrelated?"
)

Strengths = dict[str, np.ndarray]


@dataclass(frozen=True)
class Family:
    """Frames per edge, and the small network whose weights are the coordinates, made when it is needed."""

    basis: str
    graph: Graph
    left: Frames  # edge -> (target size, k)
    right: Frames  # edge -> (source size, k)
    make_small: Callable[[], Task]
    modes: int
    shape: dict[str, tuple[int, ...]]  # of b, per edge that learns
    overlap: dict[str, np.ndarray]  # pathwise: small output node -> (dimensions of the output, modes)
    offset: dict[str, np.ndarray] = field(default_factory=dict)  # edge -> weights that never move
    split: Split | None = None  # with several hidden directions per mode: `graph` has hidden nodes in parts

    @cached_property
    def small(self) -> Task:
        """The small network: its weights are the coordinates, its loss that of the lifted weights."""
        return self.make_small()

    @property
    def network(self) -> Graph:
        """The graph of the network itself."""
        return self.graph if self.split is None else self.split.whole

    @property
    def directions(self) -> int:
        """Hidden directions of each mode."""
        return 1 if self.split is None else self.split.directions

    def edge_of(self, name: str) -> str:
        """The edge of the network that a strength is of."""
        return name if self.split is None else self.split.edge_of[name][0]

    def strengths_of(self, edge: str) -> list[str]:
        """The names of the strengths of an edge of the network: several with several directions."""
        return [edge] if self.split is None else [name for row in self.split.copies[edge] for name in row]

    @cached_property
    def start(self) -> Strengths:
        """Strengths of size 1, in the directions in which the family starts."""
        if self.split is not None:
            return {e: self.split.start(e, self.modes) for e in self.shape}
        unit = {s: np.eye(*s) if len(s) == 2 else np.ones(s) for s in set(self.shape.values())}
        return {e: unit[s] for e, s in self.shape.items()}

    def lift(self, b: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Weights `(..., out, in)` from coordinates `(..., modes)` (neural_race Eq. 9)."""
        return {e: self.lift_edge(e, b) for e in self.network.shapes}

    def lift_edge(self, edge: str, b: Mapping[str, np.ndarray]) -> np.ndarray:
        """The weights of one edge."""
        if self.split is not None:
            return self.split.merge(edge, {n: self._lifted(n, b[n]) for n in self.strengths_of(edge)})
        moving = self._lifted(edge, b[edge])
        return moving + self.offset[edge] if edge in self.offset else moving

    def _lifted(self, edge: str, b: np.ndarray) -> np.ndarray:
        left = self.left[edge]
        return (left * b[..., None, :] if self.basis != "block" else left @ b) @ self.right[edge].T

    def project(self, w: Mapping[str, np.ndarray]) -> Strengths:
        """Coordinates of the nearest weights in the family."""
        w = w if self.split is None else self.split.divide(w)
        found = {}
        for e in self.shape:
            inner = self.left[e].T @ np.asarray(w[e]) @ self.right[e]
            found[e] = inner if self.basis == "block" else np.diagonal(inner, axis1=-2, axis2=-1).copy()
        return found


def with_directions(family: Family, directions: int) -> Family:
    """A family of modes with several hidden directions for each mode."""
    g, modes = family.graph, family.modes
    split = Split(g, directions)
    whole = split.graph(g, {n: split.sizes(n) for n in g.hidden})
    left, right = {}, {}
    for name, (e, i, j) in split.edge_of.items():
        source, target = g.edges[e]
        at = lambda n, k, frame: np.eye(split.sizes(n)[k], modes) if n in g.hidden else frame  # noqa: E731
        left[name] = split.sign(e, i, j) * at(target, i, family.left[e])
        right[name] = at(source, j, family.right[e])
    shape: dict[str, tuple[int, ...]] = dict.fromkeys(whole.edges, (modes,))
    small = lambda: split.small(family.small, modes)  # noqa: E731
    return replace(family, graph=whole, left=left, right=right, make_small=small, shape=shape, split=split)


def by_edge(g: Graph, frames: Frames) -> tuple[Frames, Frames]:
    """Frames at the target and at the source of each edge."""
    return {e: frames[t] for e, (_, t) in g.edges.items()}, {e: frames[s] for e, (s, _) in g.edges.items()}


def shared(task: Task, rng: np.random.Generator) -> Family:
    """One frame per node, for all paths (neural_race Eq. 7-9)."""
    g = task.graph
    ends = mode_frames(g, Links.of(task, frozenset(g.edges), rng), rng)
    if not ends:
        raise NothingToReduceError(NOTHING)
    modes = next(iter(ends.values())).shape[1]
    frames = {n: np.zeros((g.nodes[n], modes)) for n in g.nodes} | hidden_frames(g, g.hidden, modes) | ends
    fixed = {e: np.diag(np.diagonal(w)) for e, w in between(g, frames).items()}
    sizes = dict.fromkeys(g.nodes, int(modes))
    edges = {e: Edge(*ends, fixed.get(e), e not in fixed) for e, ends in g.edges.items()}
    small = Graph(sizes, edges)
    left, right = by_edge(g, frames)
    make = lambda: Task.from_contexts(small, _shared_contexts(task, frames))  # noqa: E731
    return Family("shared", g, left, right, make, modes, dict.fromkeys(g.shapes, (modes,)), {})


def _shared_contexts(task: Task, frames: Frames) -> list[Context]:
    """The contexts of a task mode by mode."""
    g = task.graph
    masks = {n: (f != 0).any(axis=0).astype(float) for n, f in frames.items()}
    narrow = {n: m for n, m in masks.items() if not m.all()}
    block_of = ArrayInterner(_rounded)
    done: dict[Hashable, Any] = {}
    contexts = []
    for c in task.moment_contexts:
        key = (*c.input_blocks.items(), *c.target_blocks.items())
        if key not in done:
            done[key] = _by_mode(c, frames, block_of)
        inputs, targets, lost = done[key]
        gates = {**c.gates, **{n: m * c.gate(n) for n, m in narrow.items() if n in g.hidden or n in targets}}
        contexts.append(Context(gates, inputs, targets, irreducible_loss=c.irreducible_loss + lost))
    return contexts


def _by_mode(
    c: Context, frames: Frames, block_of: ArrayInterner
) -> tuple[dict[str, Block], dict[str, Block], float]:
    """Each mode's own rows, as many as there are active inputs."""
    xs, ys = list(c.inputs), list(c.targets)
    y = {o: c.targets[o] @ frames[o] for o in ys}  # (rows, modes)
    total = sum(float(np.vdot(v, v)) for v in c.targets.values())
    if not xs:
        return {}, {o: block_of(v[:1] * 0) for o, v in y.items()}, 0.5 * total
    a = np.stack([c.inputs[x] @ frames[x] for x in xs], axis=-1).transpose(1, 0, 2)  # (modes, rows, inputs)
    if a.shape[1] < a.shape[2]:
        a = np.pad(a, ((0, 0), (0, a.shape[2] - a.shape[1]), (0, 0)))
        y = {o: np.pad(v, ((0, a.shape[1] - len(v)), (0, 0))) for o, v in y.items()}
    q, r = np.linalg.qr(a)
    sign = np.where(np.diagonal(r, axis1=1, axis2=2) < 0, -1.0, 1.0)
    r = r * sign[:, :, None]
    q = q * (sign * (r != 0).any(axis=2))[:, None, :]  # rows without inputs explain nothing
    inputs = {x: block_of(r[:, :, k].T) for k, x in enumerate(xs)}
    targets = {o: block_of(np.einsum("mrk,rm->km", q, v)) for o, v in y.items()}
    kept = sum(float(np.vdot(b.array, b.array)) for b in targets.values())
    return inputs, targets, 0.5 * (total - kept)


def _rounded(value: np.ndarray) -> bytes:
    """Equal for arrays that agree to rounding."""
    size = np.abs(value).max(initial=1e-300)
    return str(value.shape).encode() + (np.round(value / size, 10) + 0.0).tobytes() + f"{size:.10e}".encode()


def pathwise(task: Task, rng: np.random.Generator) -> Family:
    """Frames per pathway from its own effective data; pathways overlap at inputs and outputs."""
    g = task.graph
    if g.fixed:
        raise InputError('basis="pathwise" is of graphs without fixed edges; take basis="block"')
    parts = components(g)
    ends = [mode_frames(g, Links.of(task, edges, rng), rng) for edges in parts]
    modes = max((f.shape[1] for frames in ends for f in frames.values()), default=0)
    if not modes:
        raise NothingToReduceError(NOTHING)
    ends = [{n: np.pad(f, ((0, 0), (0, modes - f.shape[1]))) for n, f in frames.items()} for frames in ends]
    outputs = spans(g, task)
    nodes: dict[str, int] = dict.fromkeys(g.hidden, modes)
    edges: dict[str, tuple[str, str]] = {}
    joins: dict[str, tuple[str, str]] = {}
    left, right, overlap, origin = {}, {}, {}, {}
    mark = _unused_mark(g)
    for k, (part, frames) in enumerate(zip(parts, ends, strict=True)):
        here = lambda n, k=k: n if n in g.hidden else f"{n}{mark}{k}"  # noqa: E731
        for e in (e for e in g.edges if e in part):
            s, t = g.edges[e]
            edges[e] = (here(s), here(t))
            left[e] = _frame(g, frames, t, modes)
            right[e] = _frame(g, frames, s, modes)
            for n in (s, t):
                nodes[here(n)] = modes
                origin[here(n)] = (n, _frame(g, frames, n, modes))
            if t in g.outputs:
                joins[f"{here(t)}->{t}"] = (here(t), t)
                overlap[here(t)] = outputs[t].T @ left[e]
    for o in g.outputs:
        nodes[o] = max(outputs[o].shape[1], 1)
    fixed = {}
    for name, (source, o) in joins.items():
        padded = np.pad(overlap[source], ((0, nodes[o] - len(overlap[source])), (0, 0)))
        fixed[name] = Edge(source, o, fixed=padded)
    small = Graph(nodes, {**{e: Edge(*ends, diagonal=True) for e, ends in edges.items()}, **fixed})
    contexts = lambda: _pathwise_contexts(task, small, origin, outputs, modes)  # noqa: E731
    make = lambda: Task.from_contexts(small, contexts())  # noqa: E731
    shape = dict.fromkeys(g.edges, (modes,))
    return Family("pathwise", g, left, right, make, modes, shape, overlap)


def _unused_mark(g: Graph) -> str:
    """A text that stands in no name of the graph, so that names made with it are new."""
    mark = "@"
    while any(mark in name for name in g.names):
        mark += "@"
    return mark


def _pathwise_contexts(
    task: Task, small: Graph, origin: Mapping[str, tuple[str, np.ndarray]], outputs: Frames, modes: int
) -> list[Context]:
    """The contexts of a task with the inputs of each pathway in its own frame."""
    g = task.graph
    by_input: dict[str, list[str]] = {}
    for n, (x, _) in origin.items():
        if x in g.inputs:
            by_input.setdefault(x, []).append(n)
    narrow = {n: np.eye(g.nodes[n], modes).any(axis=0).astype(float) for n in g.hidden if g.nodes[n] < modes}
    contexts, blocks = [], Blocks()
    for c in task.moment_contexts:
        inputs = {n: blocks.add(v @ origin[n][1]) for x, v in c.inputs.items() for n in by_input.get(x, [])}
        gates = {n: v for n, v in c.gates.items() if n not in g.inputs}
        gates |= {n: c.gate(x) for x in c.input_blocks if x in c.gates for n in by_input.get(x, [])}
        gates |= {n: m * c.gate(n) for n, m in narrow.items()}
        targets = {
            o: blocks.add(np.pad(y @ outputs[o], ((0, 0), (0, small.nodes[o] - outputs[o].shape[1]))))
            for o, y in c.targets.items()
        }
        contexts.append(replace(c, gates=gates, input_blocks=inputs, target_blocks=targets))
    return contexts


def _frame(g: Graph, frames: Frames, node: str, modes: int) -> np.ndarray:
    return (
        frames.get(node, np.zeros((g.nodes[node], modes)))
        if node not in g.hidden
        else np.eye(g.nodes[node], modes)
    )


def block(task: Task, rng: np.random.Generator) -> Family:
    """Small full blocks: exact for any data (theory.md section 4)."""
    g = task.graph
    ends = spans(g, task)
    ordered = mode_frames(g, Links.of(task, frozenset(g.edges), rng), rng)
    for n, q in ends.items():
        if n in ordered:  # the order of modes, so that a diagonal start means the same as elsewhere
            inner = q.T @ ordered[n]  # fixed edges may carry directions to an input that it never shows
            first = q @ inner[:, np.linalg.norm(inner, axis=0) > 1 - 1e-6]
            u, s, vt = np.linalg.svd(first, full_matrices=False)
            head = (u @ vt)[:, : int((s > 1e-6).sum())] if first.shape[1] else first
            rest = q - head @ (head.T @ q)
            tail = np.linalg.svd(rest, full_matrices=False)[0][:, : q.shape[1] - head.shape[1]]
            ends[n] = np.concatenate([head, tail], axis=1)
    frames = closed_frames(g, ends | {n: np.zeros((g.nodes[n], 0)) for n in g.hidden})
    width = max(q.shape[1] for q in frames.values())
    for n in g.hidden:
        frames[n] = spanned(frames[n], np.eye(g.nodes[n]), width)
        frames = closed_frames(g, frames) if {*g.incoming[n], *g.outgoing[n]} & g.fixed.keys() else frames
    frames = {n: q if q.shape[1] else np.zeros((g.nodes[n], 1)) for n, q in frames.items()}
    small = g.resized({n: q.shape[1] for n, q in frames.items()}, between(g, frames))
    left, right = by_edge(g, frames)
    width = max(q.shape[1] for q in frames.values())
    make = lambda: Task.from_contexts(small, _block_contexts(task, frames))  # noqa: E731
    return Family("block", g, left, right, make, width, small.shapes, {})


def _block_contexts(task: Task, frames: Frames) -> list[Context]:
    """The contexts of a task in the bases of its inputs and outputs."""
    contexts, blocks = [], Blocks()
    for c in task.moment_contexts:
        inputs = {x: blocks.add(v @ frames[x]) for x, v in c.inputs.items()}
        whole = c.targets
        targets = {o: v @ frames[o] for o, v in whole.items()}
        lost = sum(float(np.vdot(whole[o], whole[o])) - float(np.vdot(v, v)) for o, v in targets.items())
        blocks_of_targets = {o: blocks.add(v) for o, v in targets.items()}
        contexts.append(
            Context(c.gates, inputs, blocks_of_targets, irreducible_loss=c.irreducible_loss + 0.5 * lost)
        )
    return contexts


def between(g: Graph, frames: Frames) -> dict[str, np.ndarray]:
    """Weights of fixed edges between the frames of their nodes."""
    return {e: frames[g.edges[e][1]].T @ w @ frames[g.edges[e][0]] for e, w in g.fixed.items()}


FAMILIES = {"shared": shared, "pathwise": pathwise, "block": block}


Classes = tuple[tuple[str, ...], ...]


def refine(family: Family, start: Mapping[str, Hashable], rng: np.random.Generator) -> Classes:
    """The coarsest partition of the edges that the flow keeps, from one class per value of `start`.

    Edges with different values (initial condition, learning rate, weight decay) are in different classes. The
    gradient is a polynomial, so one random tied point separates classes with probability one.
    """
    classes: dict[Hashable, list[str]] = {}
    for edge in family.shape:
        classes.setdefault((family.shape[edge], start[edge]), []).append(edge)
    current = [tuple(members) for members in classes.values()]
    while True:
        b = {}
        for members in current:
            value = rng.uniform(0.5, 1.0, family.shape[members[0]])
            b.update(dict.fromkeys(members, value))
        grad = gradient(family.small, b)
        scale = max(np.abs(grad[e]).max() for e in family.shape)
        new = [part for members in current for part in _split(members, grad, 1e-8 * scale)]
        if len(new) == len(current):
            rank = {e: k for k, e in enumerate(family.shape)}
            return tuple(sorted(new, key=lambda members: rank[members[0]]))
        current = new


def _split(
    members: tuple[str, ...], grad: Mapping[str, np.ndarray], tolerance: float
) -> list[tuple[str, ...]]:
    left, parts = list(members), []
    values = {e: grad[e].ravel() for e in members}
    while left:
        table = np.stack([values[e] for e in left])
        same = np.abs(table - table[0]).max(axis=1) <= tolerance
        parts.append(tuple(e for e, s in zip(left, same, strict=True) if s))
        left = [e for e, s in zip(left, same, strict=True) if not s]
    return parts
