"""Frames in which path statistics are diagonal (theory.md section 4).

A frame at a node is a matrix `(size, modes)` with orthonormal columns; a column of zeros means that the mode
does not live at that node. The same column of all frames belongs to the same mode.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from typing import Any

import numpy as np

from neuralrace.errors import InputError, affordable
from neuralrace.graph import Graph
from neuralrace.reduction import constants
from neuralrace.task import Block, Context, Task

Frames = dict[str, np.ndarray]


@dataclass(frozen=True)
class Links:
    """Random positive combinations of all path statistics, computed without listing paths.

    With random edge weights w > 0, path p counts with the product of its weights, so
    `syx[o, i] = sum_p w_p Sigma^yx(p)` over the paths from i to o, and
    `sxx[i, j] = sum_{p, q} w_p w_q Sigma^x(p, q)` over pairs of paths to the same output.
    """

    syx: dict[tuple[str, str], np.ndarray]
    sxx: dict[tuple[str, str], np.ndarray]

    @classmethod
    def of(cls, task: Task, edges: frozenset[str], rng: np.random.Generator) -> Links:
        g = task.graph
        w = dict(zip(g.edges, rng.uniform(0.5, 1.5, len(g.edges)), strict=True))
        rho = dict(zip(g.outputs, rng.uniform(0.5, 1.5, len(g.outputs)), strict=True))
        if task.data.samples is not None and task.data.gatings is not None:
            return cls._of_samples(task, edges, w, rho)
        syx: dict[tuple[str, str], np.ndarray] = {}
        sxx: dict[tuple[str, str], np.ndarray] = {}
        products: dict[tuple[Block, Block], np.ndarray] = {}
        hidden: dict[Any, dict[str, dict[str, float]]] = {}

        def product(a: Block, b: Block) -> np.ndarray:
            if (a, b) not in products:
                products[a, b] = a.array.T @ b.array
            return products[a, b]

        for c in task.moment_contexts:
            early = tuple((n, _scalar(c, n)) for n in c.gates if g.outgoing.get(n, True))
            key = (tuple(c.input_blocks), early)
            if key not in hidden:
                hidden[key] = _walk(g, c, w, edges)
            for o, y in c.target_blocks.items():
                gain: dict[str, float] = {}
                for e in g.incoming[o]:
                    if e in edges:
                        for x, value in hidden[key].get(g.edges[e][0], {}).items():
                            gain[x] = gain.get(x, 0.0) + value * w[e] * _scalar(c, e) * _scalar(c, o)
                for x, a in gain.items():
                    if a:
                        _add(syx, (o, x), a, product(y, c.input_blocks[x]))
                        for z, b in gain.items():
                            if b:
                                _add(
                                    sxx, (x, z), rho[o] * a * b, product(c.input_blocks[x], c.input_blocks[z])
                                )
        return cls(syx, sxx)

    @classmethod
    def _of_samples(
        cls, task: Task, edges: frozenset[str], w: Mapping[str, float], rho: Mapping[str, float]
    ) -> Links:
        """The same, of all samples at once: their gates may be as many as they are."""
        g, gatings = task.graph, task.data.gatings
        assert gatings is not None
        syx, sxx, gains = {}, {}, {x: {x: np.ones(len(gatings)) * gatings.gate(x)} for x in g.inputs}
        for node in g.order:
            for e in (e for e in g.incoming[node] if e in edges):
                gate = w[e] * gatings.gate(e) * gatings.gate(node)
                for x, gain in gains.get(g.edges[e][0], {}).items():
                    here = gains.setdefault(node, {})
                    here[x] = here.get(x, 0.0) + gate * gain
        for o in g.outputs:
            inputs, y, gating, root = task.data.rows(o)
            into = {x: gain for x, gain in gains.get(o, {}).items() if gain.any()}
            rows = {x: (gain[gating] * root)[:, None] * inputs[x] for x, gain in into.items()}
            for x, seen in rows.items():
                _add(syx, (o, x), 1.0, (root[:, None] * y).T @ seen)
                for z, other in rows.items():
                    _add(sxx, (x, z), rho[o], seen.T @ other)
        return cls(syx, sxx)


def _walk(g: Graph, c: Context, w: dict[str, float], edges: frozenset[str]) -> dict[str, dict[str, float]]:
    """Gated weight of all paths from each active input to each input and hidden node."""
    found: dict[str, dict[str, float]] = {x: {x: _scalar(c, x)} for x in c.input_blocks}
    ready = [(0, x) for x in sorted(c.input_blocks)]  # a heap: nodes of lower levels come first
    while ready:
        level, node = heappop(ready)
        if level:
            found[node] = {x: v * _scalar(c, node) for x, v in found[node].items()}
        for e in g.onward[node]:
            target = g.edges[e][1]
            if e in edges:
                if target not in found:
                    found[target] = {}
                    heappush(ready, (g.levels[target], target))
                here = found[target]
                for x, v in found[node].items():
                    here[x] = here.get(x, 0.0) + v * w[e] * _scalar(c, e)
    return found


def _scalar(c: Context, name: str) -> float:
    g = c.gate(name)
    if np.ndim(g):
        raise InputError(
            f"a reduction needs scalar gates, one number per sample; {name!r} has one per neuron: split it "
            "into several nodes"
        )
    return float(g)


def _add(table: dict[Any, np.ndarray], key: Any, factor: float, value: np.ndarray) -> None:
    table[key] = table[key] + factor * value if key in table else factor * value


def mode_frames(graph: Graph, links: Links, rng: np.random.Generator) -> Frames:
    """Frames of the inputs and outputs in `links`: directions of one node, carried to all others.

    At one input the modes are eigenvectors of a random combination of the statistics, so that a degenerate
    space is split wherever any statistic splits it; elsewhere they follow through `Sigma^yx` and
    `Sigma^x`, which makes order and sign agree. Modes that reach no output are left out. Frames are carried
    along fixed edges too, and so hidden nodes that these join have one.
    """
    neighbours: dict[str, list[tuple[str, np.ndarray]]] = {}
    for (o, x), m in links.syx.items():
        neighbours.setdefault(x, []).append((o, m))
        neighbours.setdefault(o, []).append((x, m.T))
    for (x, z), m in links.sxx.items():
        if x != z:
            neighbours.setdefault(z, []).append((x, m))
    scale = {n: max(np.abs(m).max() for _, m in neighbours[n]) for n in neighbours}
    for e, w in graph.fixed.items():
        for (near, far), m in ((graph.edges[e], w), (graph.edges[e][::-1], w.T)):
            neighbours.setdefault(near, []).append((far, _unit(m) * scale.setdefault(far, 1.0)))
    curvature = _curvature(graph, links, neighbours, rng)
    frames = {n: np.zeros((graph.nodes[n], 0)) for n in neighbours}
    for root in (x for x in graph.inputs if x in neighbours):
        free = _complement(frames[root])
        if not free.shape[1]:
            continue
        _, turn = np.linalg.eigh(free.T @ curvature(root, 3) @ free)
        new = _carry(graph, root, free @ turn[:, ::-1], neighbours, frames, scale)
        alive = np.zeros(free.shape[1], bool)
        for o in graph.outputs:
            if o in new:
                alive |= (new[o] != 0).any(axis=0)
        order = np.argsort(-_strength(links, new), kind="stable")
        _place({n: f[:, order[alive[order]]] for n, f in new.items()}, frames)
    if not any(f.shape[1] for f in frames.values()):
        return {}
    order = np.argsort(-_strength(links, frames), kind="stable")
    frames = {n: f[:, order] for n, f in frames.items()}
    for root in (n for n in graph.hidden if n in frames):  # directions that no end has an opinion about
        free, columns = _complement(frames[root]), np.flatnonzero(~frames[root].any(axis=0))
        _, turn = np.linalg.eigh(free.T @ curvature(root, 3) @ free)
        start = (free @ turn[:, ::-1])[:, : len(columns)]
        new = _carry(graph, root, start, neighbours, frames, scale)
        inner = ~np.any([new[n].any(axis=0) for n in frames if n not in graph.hidden], axis=0)
        put = columns[: start.shape[1]][inner]
        for n, frame in frames.items():
            if n in graph.hidden:
                frame[:, put] = np.where(frame[:, put].any(axis=0), frame[:, put], new[n][:, inner])
    frames = {n: _orthonormal(f) for n, f in frames.items()}
    alive = np.any([frames[o].any(axis=0) for o in graph.outputs if o in frames], axis=0)
    return {n: f[:, alive] for n, f in frames.items()}


def _strength(links: Links, frames: Frames) -> np.ndarray:
    strength = np.zeros(next(iter(frames.values()), np.zeros((0, 0))).shape[1])
    for (o, x), m in links.syx.items():
        strength = np.maximum(strength, np.abs(np.einsum("om,ox,xm->m", frames[o], m, frames[x])))
    return strength


def _place(new: Frames, frames: Frames) -> None:
    """Add modes to `frames`; modes that live at different nodes share a column, and so a hidden direction.

    Any choice is exact; the race favours sharing (neural_race section 4.2).
    """
    count = next(iter(new.values())).shape[1]
    columns = next(iter(frames.values())).shape[1]
    taken = np.zeros((len(frames), columns), bool)
    for row, f in zip(taken, frames.values(), strict=True):
        row[:] = (f != 0).any(axis=0)
    for k in range(count):
        here = np.array([new[n][:, k].any() for n in frames])
        room = np.flatnonzero(~(taken & here[:, None]).any(axis=0))
        if not len(room):
            for n in frames:
                frames[n] = np.concatenate([frames[n], np.zeros((len(frames[n]), 1))], axis=1)
            taken = np.concatenate([taken, np.zeros((len(frames), 1), bool)], axis=1)
            room = [taken.shape[1] - 1]
        taken[here, room[0]] = True
        for n, lives in zip(frames, here, strict=True):
            if lives:
                frames[n][:, room[0]] = new[n][:, k]


def _curvature(graph: Graph, links: Links, neighbours: Any, rng: np.random.Generator) -> Any:
    """At a node, a random combination of statistics that are diagonal in any shared basis."""

    @cache
    def at(node: str, depth: int) -> np.ndarray:
        total = np.zeros((graph.nodes[node],) * 2)
        if (node, node) in links.sxx:
            total += rng.uniform(0.5, 1.5) * _unit(links.sxx[node, node] + links.sxx[node, node].T)
        if depth:  # a degeneracy may be split by statistics of nodes further away
            for other, m in neighbours[node]:
                m = _unit(m)
                inner = rng.uniform(0.5, 1.5) * np.eye(len(m)) + at(other, depth - 1)
                total += rng.uniform(0.5, 1.5) * m.T @ inner @ m
        return _unit(total + total.T)

    return at


def _unit(m: np.ndarray) -> np.ndarray:
    size = np.abs(m).max()
    return m / size if size > 0 else m


def _carry(graph: Graph, root: str, start: np.ndarray, neighbours: Any, frames: Frames, scale: Any) -> Frames:
    """Columns of `start` at the root, followed through all links."""
    new = {n: np.zeros((graph.nodes[n], start.shape[1])) for n in frames}
    new[root] = start
    queue = deque([root])
    while queue:
        node = queue.popleft()
        for other, m in neighbours[node]:
            step = m @ new[node]
            size = np.linalg.norm(step, axis=0)
            there = (new[other] != 0).any(axis=0)
            fresh = np.flatnonzero((size > constants.NEGLIGIBLE * scale[other]) & ~there)
            if not len(fresh):
                continue
            fresh = fresh[np.argsort(-size[fresh], kind="stable")]
            # Rounding errors along strong modes would grow from node to node: take strong ones out of weak.
            q, r = np.linalg.qr(np.concatenate([new[other][:, there], step[:, fresh] / size[fresh]], axis=1))
            q, r = q[:, there.sum() :], np.diagonal(r)[there.sum() :]
            fresh = fresh[: len(r)]
            good = np.abs(r) > 1e-6
            if good.any():
                new[other][:, fresh[good]] = (q * np.sign(r))[:, good]
                queue.append(other)
    return new


def _complement(frame: np.ndarray) -> np.ndarray:
    """Orthonormal columns orthogonal to those of a frame."""
    kept = frame[:, (frame != 0).any(axis=0)]
    if not kept.shape[1]:
        return np.eye(len(frame))
    u, s, _ = np.linalg.svd(kept)
    return u[:, int((s > 1e-8).sum()) :]


def _orthonormal(frame: np.ndarray) -> np.ndarray:
    """The nearest frame with orthonormal columns; the frame itself where it has them already."""
    live = np.flatnonzero((frame != 0).any(axis=0))
    if np.abs(frame[:, live].T @ frame[:, live] - np.eye(len(live))).max(initial=0.0) < 1e-13:
        return frame
    out = frame.copy()
    keep: list[int] = []
    for k in live:  # in order of strength, as many as are independent
        trial = frame[:, [*keep, k]]
        if len(keep) < len(frame) and np.linalg.svd(trial, compute_uv=False)[-1] > 1e-6:
            keep.append(int(k))
        else:
            out[:, k] = 0.0
    if keep:
        u, s, vt = np.linalg.svd(frame[:, keep], full_matrices=False)
        if np.abs(s - 1).max() > 1e-12:
            out[:, keep] = u @ vt
    return out


def anchored_nodes(graph: Graph) -> set[str]:
    """Nodes whose directions are not free: inputs, outputs, and those that fixed edges join with them."""
    found = {*graph.inputs, *graph.outputs}
    while new := {n for e in graph.fixed for n in graph.edges[e] if found & {*graph.edges[e]}} - found:
        found |= new
    return found


def spanned(frame: np.ndarray, signals: np.ndarray, most: int | None = None) -> np.ndarray:
    """A frame with the directions of signals `(size, any)` that it lacks, in their order; at most so many."""
    size, most = np.linalg.norm(signals), len(frame) if most is None else most
    for v in signals.T / size if size > 0 else ():
        if frame.shape[1] >= most:
            break
        for _ in range(2):  # the second time takes out what rounding left
            v = v - frame @ (frame.T @ v)
        if np.linalg.norm(v) > constants.NEGLIGIBLE:
            frame = np.concatenate([frame, v[:, None] / np.linalg.norm(v)], axis=1)
    return frame


def closed_frames(graph: Graph, frames: Frames) -> Frames:
    """Frames with all that fixed edges carry on, forwards, and backwards to hidden nodes."""
    frames = dict(frames)
    while True:
        before = sum(q.shape[1] for q in frames.values())
        for e, w in graph.fixed.items():
            source, target = graph.edges[e]
            frames[target] = spanned(frames[target], w @ frames[source])
            if source in graph.hidden:
                frames[source] = spanned(frames[source], w.T @ frames[target])
        if before == sum(q.shape[1] for q in frames.values()):
            return frames


def hidden_frames(graph: Graph, nodes: Any, modes: int) -> Frames:
    """Any orthonormal columns do at hidden nodes; narrow ones carry the strongest modes."""
    affordable("task", graph, float(modes) * sum(graph.nodes[n] for n in nodes))
    return {n: np.eye(graph.nodes[n], modes) for n in nodes}


def components(graph: Graph) -> list[frozenset[str]]:
    """Edges of each pathway: those joined through hidden nodes; an edge from input to output is one alone."""
    edges, hidden = list(graph.edges), set(graph.hidden)
    return [frozenset(edges[k] for k in some) for some in joined([{*graph.edges[e]} & hidden for e in edges])]


def joined(parts: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """Places of the parts that share a member, or are joined by others that do, in order."""
    parent: dict[Hashable, Hashable] = {}

    def root(member: Hashable) -> Hashable:
        while parent.setdefault(member, member) != member:
            parent[member] = parent[parent[member]]
            member = parent[member]
        return member

    firsts = []
    for k, part in enumerate(parts):
        first, *others = [*part] or [(k,)]  # a part without members is alone
        parent.update(dict.fromkeys(map(root, others), root(first)))
        firsts.append(first)
    groups: dict[Hashable, list[int]] = {}
    for k, first in enumerate(firsts):
        groups.setdefault(root(first), []).append(k)
    return list(groups.values())


def spans(graph: Graph, task: Task) -> Frames:
    """Orthonormal bases of the span of the data at each input and output node."""
    blocks: dict[str, dict[Block, None]] = {}  # distinct ones, in order
    for c in task.moment_contexts:
        for n, rows in (*c.input_blocks.items(), *c.target_blocks.items()):
            blocks.setdefault(n, {})[rows] = None
    found = {}
    for n in (*graph.inputs, *graph.outputs):
        rows = [r.array for r in blocks.get(n, {})]
        values, vectors = np.linalg.eigh(sum((r.T @ r for r in rows), np.zeros((graph.nodes[n],) * 2)))
        sizes, vectors = np.sqrt(values[::-1].clip(0)), vectors[:, ::-1]
        if rows and sizes[-1] <= 1e-5 * sizes[0]:  # squares of small ones are rounding
            triangle = np.linalg.qr(np.concatenate(rows), mode="r")
            sizes, vectors = (v.T for v in np.linalg.svd(triangle)[1:])
            sizes = np.pad(sizes, (0, len(vectors) - len(sizes)))
        found[n] = vectors[:, sizes > 1e-13 * max(sizes.max(initial=0.0), 1e-300)]
    return found
