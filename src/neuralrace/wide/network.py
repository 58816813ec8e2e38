"""The network of one run: its frames, its signals, and what of these the frames do not hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from neuralrace.subspace import Frames, turnable
from neuralrace.task import Context, Task
from neuralrace.wide.carriers import Carrier, Rows, Side, times

_IMPLICIT = 256  # most outputs, over all samples, that are solved for together
_SKETCH = 24  # random directions that estimate the length of what a frame does not hold
SPARE = 3e-3  # share of the tolerated residual down to which directions are taken in


class Signals(NamedTuple):
    """Forward signals: what is injected at every node and what its frame sees, per context; the errors."""

    injected: list[Rows]
    seen: list[Rows]
    error: np.ndarray


class Wide:
    """The network of one run, in the frames that it has so far."""

    def __init__(
        self, task: Task, weights: Mapping[str, np.ndarray], frozen: Iterable[str] = (), dtype: Any = float
    ) -> None:
        g, frozen = task.graph, set(frozen)
        self.contexts = task.moment_contexts
        self.ends = {e: g.edges.get(e, ("", e)) for e in g.shapes}  # a bias is an edge from a constant
        self.weights = {e: np.asarray(w if e in g.edges else w[:, None], dtype) for e, w in weights.items()}
        self.sizes, order = {**g.nodes, "": 1}, ["", *g.order]
        cut = np.cumsum([0, *(g.nodes[o] for o in g.outputs)])
        self.output = {o: slice(*cut[k : k + 2]) for k, o in enumerate(g.outputs)}
        self.n_outputs = int(cut[-1])
        self.starts = np.cumsum([0, *(c.rows for c in self.contexts)])
        self.many_outputs = self.n_outputs * self.starts[-1] > _IMPLICIT
        self.eye = np.eye(self.n_outputs)
        turned = {e: (t, s) for e, (s, t) in self.ends.items()}
        self.ahead = Side(self.ends, order, self.weights, self.sizes)
        self.behind = Side(turned, order[::-1], {e: w.T for e, w in self.weights.items()}, self.sizes)
        self.sides = (self.ahead, self.behind)
        self.open: list[list[tuple[str, Any]]] = []  # edges that learn in each context, and their gates
        rng = np.random.default_rng(0)
        framed = turnable(task)
        omega = {
            v: (rng.standard_normal((_SKETCH, n)) / _SKETCH**0.5).astype(dtype) for v, n in self.sizes.items()
        }
        for c in self.contexts:
            edges = self._edges(c, order)
            nodes = {n for e in edges for n in self.ends[e]}
            self.open.append([(e, gate) for e, gate in edges.items() if e not in frozen])
            for side in self.sides:
                side.gates.append(c.gates)
                side.carriers.append({v: Carrier(omega[v]) for v in side.order if v in nodes})
                into = {
                    v: [(e, side.ends[e][0], x) for e, x in edges.items() if side.ends[e][1] == v]
                    for v in nodes
                }
                side.routes.append(into)
        for side in self.sides:
            side.frames = {v: np.zeros((self.sizes[v], 0), dtype) for v in framed}
            side.archive, side.places = dict(side.frames), {v: np.zeros((0, 0)) for v in framed}
            side.inject({v: np.eye(self.sizes[v], dtype=dtype) for v in order if v not in side.frames})
            side.settle()
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.at, self.moved = np.zeros(1, int), np.zeros(0)
        self.restate({})
        # The first frames hold the signals at the initial weights.
        s = self.signals(self.moved)
        back = self.returned(self.moved, s.error)
        signals = s.injected, [self.weighed(s.error, k, b) for k, (b, _) in enumerate(back)]
        first: Any = ({}, {})
        for side, signal, new in zip(self.sides, signals, first, strict=True):
            for v, q in side.frames.items():
                rows = [c[v].outside(a, q) for c, a in zip(side.carriers, signal, strict=True) if v in c]
                _, size, u = np.linalg.svd(
                    np.concatenate([np.zeros((1, len(q))), *rows]), full_matrices=False
                )
                new[v] = u[size > 1e-9 * max(size[0], 1e-300)].T
        self.extend(*first)

    def _edges(self, c: Context, order: list[str]) -> dict[str, Any]:
        """Gates of the edges through which anything flows from inputs to targets."""
        open_ = {e: c.gate(e) if ends[0] else 1.0 for e, ends in self.ends.items()}
        open_ = {e: x for e, x in open_.items() if np.any(x) and all(np.any(c.gate(n)) for n in self.ends[e])}
        alive, heard = {*c.inputs, *(() if c.ones is None else ("",))}, set(c.targets)
        ways = [self.ends[e] for e in open_]
        for v in order:
            alive |= {t for s, t in ways if s == v and v in alive}
        for v in reversed(order):
            heard |= {s for s, t in ways if t == v and v in heard}
        return {e: x for e, x in open_.items() if alive & heard >= set(self.ends[e])}

    # -- frames ------------------------------------------------------------------------------

    def hold(self, s: Signals, slow: float, most: float) -> tuple[Signals, bool]:
        """Extend the frames until nothing leaves them by more than `most`; the signals then, and whether."""
        size = len(self.moved)
        while any(found := self.leaving(s, slow, most)):
            before = len(self.moved)
            self.extend(*found)
            s = self.signals(self.moved)
            if len(self.moved) == before:  # whole nodes: what seems to leave is rounding
                break
        return s, len(self.moved) > size

    def extend(self, ahead: Rows, behind: Rows) -> None:
        """Take directions (size, k) into the frames of forward and of backward signals."""
        new: Any = ({}, {})
        for side, directions, added in zip(self.sides, (ahead, behind), new, strict=True):
            for v, u in directions.items():
                q = side.frames[v]
                for _ in range(2):
                    u = np.linalg.qr(u - q @ (q.T @ u))[0]
                u = added[v] = u[:, : len(q) - q.shape[1]]
                side.frames[v] = np.concatenate([q, u], axis=1)
                side.store(v, u)
                for c in side.carriers:
                    if v in c:
                        c[v].grow(u)
        self.behind.inject(new[0])
        self.ahead.inject(new[1])
        self.restate(self.views(self.moved))

    def forget(self, least: float) -> None:
        """Keep of the frames what the weights gained and what moves them, down to a share of either."""
        moved = self.views(self.moved)
        s = self.signals(self.moved)
        speed = self.views(self.velocity(s, self.returned(self.moved, s.error), s.error))
        for end, (side, other) in enumerate((self.sides, self.sides[::-1])):
            for v, q in side.frames.items():
                parts = [
                    x[e] / max(np.linalg.norm(x[e]), 1e-300)
                    for e in self.ends
                    if self.ends[e][end] == v
                    for x in (moved, speed)
                ]
                parts = [p if end == 0 else p.T for p in parts]
                _, size, turn = np.linalg.svd(np.concatenate(parts), full_matrices=False)
                turn = turn[size > least].T
                side.frames[v], side.places[v] = q @ turn.astype(q.dtype), side.places[v] @ turn
                for c in side.carriers:
                    if v in c:
                        c[v].turn(turn)
                for c in other.carriers:
                    for carrier in c.values():
                        if v in carrier.blocks:
                            carrier.blocks[v] = tuple(x @ turn.astype(x.dtype) for x in carrier.blocks[v])
                for e, ends in self.ends.items():
                    if ends[end] == v:
                        moved[e] = moved[e] @ turn if end == 0 else turn.T @ moved[e]
        self.restate(moved)

    def restate(self, moved: Rows) -> None:
        """Lay the small weights out anew, with those given in their first rows and columns."""
        for side in self.sides:
            side.settle()
        self.shapes = {
            e: (self.behind.width(t), self.ahead.width(s))
            if self.weights[e].ndim == 2
            else self.weights[e].shape
            for e, (s, t) in self.ends.items()
        }
        self.at = np.cumsum([0, *(int(np.prod(s)) for s in self.shapes.values())])
        self.moved = np.zeros(self.at[-1])
        for e, m in self.views(self.moved).items():
            if e in moved:
                m[tuple(map(slice, moved[e].shape))] = moved[e]

    def views(self, flat: np.ndarray) -> Rows:
        return {
            e: flat[self.at[k] : self.at[k + 1]].reshape(s) for k, (e, s) in enumerate(self.shapes.items())
        }

    def archived(self) -> Rows:
        """The small weights in all that the frames ever held."""
        out = self.views(self.moved.copy())
        for e, (s, t) in self.ends.items():
            if t in self.behind.frames:
                out[e] = self.behind.places[t] @ out[e]
            if s in self.ahead.frames:
                out[e] = out[e] @ self.ahead.places[s].T
        return out

    # -- learning ----------------------------------------------------------------------------

    def signals(self, moved: np.ndarray) -> Signals:
        w = {e: m.T for e, m in self.views(moved).items()}
        out = Signals([], [], np.zeros((self.starts[-1], self.n_outputs)))
        for k, c in enumerate(self.contexts):
            start = c.inputs if c.ones is None else {**c.inputs, "": np.asarray(c.ones, float)[:, None]}
            injected, seen = self.ahead.sweep(k, start, w)
            out.injected.append(injected)
            out.seen.append(seen)
            for o, target in c.targets.items():
                self._rows(out.error, k)[:, self.output[o]] = target - seen.get(o, 0.0)
        return out

    def loss(self, s: Signals) -> float:
        return 0.5 * float(np.vdot(s.error, s.error)) + sum(c.rest for c in self.contexts)

    def _rows(self, error: np.ndarray, k: int) -> np.ndarray:
        return error[self.starts[k] : self.starts[k + 1]]

    def returned(self, moved: np.ndarray, error: np.ndarray) -> list[tuple[Rows, Rows]]:
        """What comes back, per context: what is injected, and what the frames see.

        Of every output where they are few, to be multiplied by the errors; else of the errors themselves.
        """
        w, out = self.views(moved), []
        for k, c in enumerate(self.contexts):
            sent = self._rows(error, k) if self.many_outputs else self.eye
            start = {o: sent[:, at] for o, at in self.output.items() if o in c.targets}
            out.append(self.behind.sweep(k, start, w))
        return out

    def weighed(self, error: np.ndarray, k: int, rows: Rows) -> Rows:
        return rows if self.many_outputs else {v: self._rows(error, k) @ x for v, x in rows.items()}

    def velocity(self, s: Signals, back: list[tuple[Rows, Rows]], error: np.ndarray) -> np.ndarray:
        out = np.zeros(self.at[-1])
        views = self.views(out)
        for k, (_, seen) in enumerate(back):
            here = self.weighed(error, k, seen)
            for e, gate in self.open[k]:
                source, target = self.ends[e]
                f, b = s.seen[k][source], times(gate, here[target])
                if views[e].ndim == 1:
                    views[e] += (b * f).sum(0)
                elif len(back) == 1:
                    np.matmul(b.T, f, out=views[e])
                else:
                    views[e] += b.T @ f
        return out

    def kernel(self, s: Signals, returned: list[tuple[Rows, Rows]]) -> np.ndarray:
        """Velocity of all outputs per unit of all errors: the tangent kernel."""
        n, o = s.error.shape
        back = [seen for _, seen in returned]
        total = np.empty((n, o, n, o))
        for k, edges in enumerate(self.open):
            for other in range(k + 1):
                here, there = (slice(*self.starts[c : c + 2]) for c in (k, other))
                gates, ff, bb, block = dict(self.open[other]), [], [], 0.0
                for e, gate in edges:
                    if e in gates:
                        source, target = self.ends[e]
                        f, f2 = s.seen[k][source], s.seen[other][source]
                        b, b2 = times(gate, back[k][target]), times(gates[e], back[other][target])
                        if self.weights[e].ndim == 1:
                            block = block + np.einsum("ni,oi,mi,pi->nmop", f, b, f2, b2)
                        else:
                            ff.append((f @ f2.T).ravel())
                            bb.append((b @ b2.T).ravel())
                shape = here.stop - here.start, there.stop - there.start, o, o
                if ff:
                    block = block + (np.array(ff).T @ np.array(bb)).reshape(shape)
                block = np.broadcast_to(block, shape)
                total[here, :, there] = block.transpose(0, 2, 1, 3)
                if other < k:
                    total[there, :, here] = block.transpose(1, 3, 0, 2)
        return total.reshape(n * o, n * o)

    def lag(self, s: Signals, back: list[tuple[Rows, Rows]], h: float) -> np.ndarray:
        """The errors that a step of length h, implicit in the outputs, will see on its way."""
        if self.many_outputs:
            return s.error
        a = h * self.kernel(s, back)
        a.flat[:: len(a) + 1] += 1.0
        try:
            factor = cho_factor(a, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:  # weights too large for numbers: the step is to be refused
            return np.full_like(s.error, np.nan)
        return cho_solve(factor, s.error.ravel(), check_finite=False).reshape(s.error.shape)

    def leaving(self, s: Signals, slow: float, most: float) -> tuple[Rows, Rows]:
        """Directions that leave the frames of forward and of backward signals by more than `most`.

        They count by the velocity that they would add to an edge, in units of what it has, or of that which
        would take it as far as it has come in the time `1/slow` that is left, whichever is larger.
        """
        moved, back = self.views(self.moved), self.returned(self.moved, s.error)
        velocity = self.views(self.velocity(s, back, s.error))
        scale = {
            e: max(np.linalg.norm(v), slow * np.linalg.norm(moved[e]), 1e-300) for e, v in velocity.items()
        }
        back = [tuple(self.weighed(s.error, k, x) for x in both) for k, both in enumerate(back)]
        signals = s.injected, [b for b, _ in back]
        # An edge is moved by the signal at one end times what comes from the other: errors, or activities.
        far = [b for _, b in back], s.seen
        learning = [dict(edges) for edges in self.open]
        ways = list(zip(self.sides, signals, far, self.sides[::-1], strict=True))
        sizes: dict[Any, float] = {}
        for side, signal, other, onward in ways:
            for k, carriers in enumerate(side.carriers):
                for v in side.frames.keys() & carriers.keys():
                    lost = carriers[v].gather(signal[k]) @ carriers[v].sketch.T
                    for e, end, gate in onward.routes[k][v]:
                        if e in learning[k]:
                            size = abs(gate) * np.linalg.norm(other[k][end].T @ lost) / scale[e]
                            sizes[side, v, e] = sizes.get((side, v, e), 0.0) + size
        found: Any = ({}, {})
        if max(sizes.values(), default=0.0) < most:
            return found
        for (side, signal, other, onward), new in zip(ways, found, strict=True):
            for v, frame in side.frames.items():
                parts: dict[str, list[Any]] = {}
                for k, carriers in enumerate(side.carriers):
                    if v in carriers:
                        edges = [
                            r for r in onward.routes[k][v] if sizes.get((side, v, r[0]), 0.0) > SPARE * most
                        ]
                        outside = carriers[v].outside(signal[k], frame) if edges else None
                        for e, end, gate in edges:
                            parts.setdefault(e, []).append((gate * other[k][end], outside))
                rows = []
                for e, pairs in parts.items():
                    x, outside = (np.concatenate(p) for p in zip(*pairs, strict=True))
                    rows.append(np.linalg.qr(x.T, "r") @ outside / scale[e])
                if rows and len(u := _directions(np.concatenate(rows), SPARE * most)):
                    new[v] = u.T
        return found

    # -- the network at saved times ----------------------------------------------------------

    def gain(self, e: str, gained: list[Rows], x: np.ndarray | None = None) -> np.ndarray:
        """What an edge gained at each time, `(times, out, in)`, or its product with x `(times, in, k)`."""
        s, t = self.ends[e]
        f, b = (side.archive.get(v) for side, v in ((self.ahead, s), (self.behind, t)))
        found = []
        for k, m in enumerate(gained):
            n = m[e]
            right = (np.eye(self.sizes[s]) if x is None else x[k]).astype(n.dtype)
            if f is not None:
                right = f[:, : n.shape[1]].T @ right
            n = n @ right
            found.append(n if b is None else b[:, : n.shape[0]] @ n)
        return np.stack(found)

    def small(self, gained: list[Rows]) -> tuple[Rows, dict[str, int]]:
        """Weights at each time in the spaces that hold what comes from the inputs, along every path.

        All products along paths from inputs are those of the network. Also the sizes of these spaces.
        """
        same = {id(m): m for m in gained}
        place = [list(same).index(id(m)) for m in gained]
        gained, times = list(same.values()), len(same)
        spaces, sizes, out = {}, {}, {}
        for v in self.ahead.order:
            arriving = {}
            for e, (s, t) in self.ends.items():
                if t == v and self.weights[e].ndim == 2:
                    x, w = spaces[s], self.weights[e].astype(float, copy=False)
                    whole = x is None
                    x = np.broadcast_to(np.eye(self.sizes[s]), (times, *[self.sizes[s]] * 2)) if whole else x
                    through = w[None] if whole else (w @ np.concatenate(list(x), axis=1))
                    if not whole:
                        through = np.stack(np.split(through, times, axis=1))
                    arriving[e] = through + self.gain(e, gained, x)
            width = sum(a.shape[2] for a in arriving.values())
            spaces[v] = None
            if v in self.ahead.frames and 0 < width < self.sizes[v]:
                spaces[v] = np.linalg.qr(np.concatenate(list(arriving.values()), axis=2))[0]
                sizes[v] = width
            q = spaces[v]
            for e, a in arriving.items():
                out[e] = a if q is None else np.swapaxes(q, 1, 2) @ a
        for e, w in self.weights.items():
            if w.ndim == 1:
                out[e] = w + np.stack([m[e] for m in gained])
            elif not self.ends[e][0]:
                out[e] = out[e][..., 0]
        return {e: out[e][place] for e in self.ends}, sizes

    def through(self, w: Rows) -> np.ndarray:
        """What flows to the outputs through each edge at each time, `(edges, times, samples outputs)`."""
        parts: dict[str, list[np.ndarray]] = {e: [] for e in w}
        for k, c in enumerate(self.contexts):
            both = []
            start: Rows = {v: np.asarray(x) for v, x in c.inputs.items()}
            if c.ones is not None:
                start[""] = np.asarray(c.ones, float)[:, None]
            for side, begin in (
                (self.ahead, start),
                (self.behind, {o: self.eye[:, at] for o, at in self.output.items()}),
            ):
                h: Rows = {}
                for v in side.carriers[k]:
                    total: Any = begin.get(v, 0.0)
                    for e, s, gate in side.routes[k][v]:
                        total = total + gate * self._pass(e, w[e], h[s], side is self.behind)
                    h[v] = total * c.gate(v) if v else total
                both.append(h)
            for e in w:
                s, t = self.ends[e]
                routes = {r[0]: r[2] for r in self.ahead.routes[k].get(t, ())}
                if e in routes:
                    x = routes[e] * self._pass(e, w[e], both[0][s], False)
                    flow = x @ np.swapaxes(both[1][t], -1, -2)
                else:
                    flow = np.zeros((1, c.rows, self.n_outputs))
                parts[e].append(np.broadcast_to(flow, (len(w[e]), c.rows, self.n_outputs)))
        return np.stack([np.concatenate(p, axis=1).reshape(len(p[0]), -1) for p in parts.values()])

    def _pass(self, e: str, w: np.ndarray, h: np.ndarray, back: bool) -> np.ndarray:
        if self.weights[e].ndim == 1:
            return h * w[:, None]
        w = w if w.ndim == 3 else w[..., None]  # a bias
        return h @ (w if back else np.swapaxes(w, 1, 2))


def _directions(rows: np.ndarray, least: float) -> np.ndarray:
    """Right singular vectors of a few long rows whose singular values exceed `least`."""
    square, u = np.linalg.eigh((rows @ rows.T).astype(float))
    keep = square > max(least, 1e-7 * square[-1] ** 0.5) ** 2
    return ((u[:, keep] / np.sqrt(square[keep])).T.astype(rows.dtype) @ rows)[::-1]


def first_frames(task: Task, weights: Mapping[str, np.ndarray]) -> Frames:
    """Frames of the nodes wider than what passes them forwards and backwards at the initial weights."""
    net = Wide(task, weights)
    both = {v: np.concatenate([side.frames[v] for side in net.sides], axis=1) for v in net.ahead.frames}
    return {v: np.linalg.qr(q)[0] for v, q in both.items() if q.shape[1] < len(q)}
