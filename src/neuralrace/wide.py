"""Gradient flow of wide linear networks by what their weights gain, which has a low rank (theory section 3).

The weights are `W_e(0) + B_t N_e F_s^T`: a frame F of every wide node holds the signals that come forwards, a
frame B those that come backwards, and only the small N move. Between frames signals travel through the
initial weights as they are; how, is worked out once per column of a frame. What of the signals lies outside
the frames, in units of what moves the weights, is the residual of section 4: where it exceeds a tolerance the
frames take it in, and the step is done again; what is no longer of use they forget. Steps are extrapolated
linearly implicit Euler steps, implicit in the outputs alone: what has been learned holds still, however fast
it would relax.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from neuralrace.subspace import Frames, turnable
from neuralrace.task import Context, Task

_IMPLICIT = 256  # most outputs, over all samples, that are solved for together
_SKETCH = 24  # random directions that estimate the length of what a frame does not hold
_RESIDUAL = 150.0  # tolerated residual, in tolerances of the steps
_SPARE, _FORGET = 3e-3, 1e-4  # shares of that down to which directions are taken in, and kept
_OLD = 6.0  # growth of the small weights at which frames forget
_COLUMNS = 9  # most columns of the extrapolation
_FIRST = 0.02  # first tolerance of the steps, in tolerances of the result

Rows = dict[str, np.ndarray]


class _Carrier:
    """What reaches one node through the initial weights, in one context, and what its frame sees of it.

    Blocks by the node where columns start: as they arrive (size, k), in the frame, and in random directions.
    """

    def __init__(self, omega: np.ndarray) -> None:
        self.omega = omega
        self.blocks: dict[str, Any] = {}
        self.reach: list[str] = []
        self.seen = self.sketch = np.zeros((0, 0))

    def arrive(self, start: str, columns: np.ndarray, frame: np.ndarray | None) -> None:
        small = columns if frame is None else frame.T @ columns
        new = columns, small.astype(float), (self.omega @ columns).astype(float)
        old = self.blocks.get(start)
        self.blocks[start] = (
            new if old is None else tuple(np.concatenate(p, 1) for p in zip(old, new, strict=True))
        )

    def grow(self, u: np.ndarray) -> None:
        """The frame sees more."""
        self.blocks = {
            k: (c, np.concatenate([s, (u.T @ c).astype(float)]), o) for k, (c, s, o) in self.blocks.items()
        }

    def turn(self, q: np.ndarray) -> None:
        """The frame is another one within its span."""
        self.blocks = {k: (c, q.T @ s, o) for k, (c, s, o) in self.blocks.items()}

    def settle(self, frame: np.ndarray | None) -> None:
        self.reach = list(self.blocks)
        self.seen = np.concatenate([s for _, s, _ in self.blocks.values()], axis=1)
        if frame is not None:
            whole = np.concatenate([o for _, _, o in self.blocks.values()], axis=1)
            self.sketch = whole - (self.omega @ frame) @ self.seen

    def gather(self, injected: Rows) -> np.ndarray:
        return np.concatenate([injected[k] for k in self.reach], axis=1)

    def outside(self, injected: Rows, frame: np.ndarray) -> np.ndarray:
        v = sum(injected[k].astype(c.dtype) @ c.T for k, (c, _, _) in self.blocks.items())
        return v - (v @ frame) @ frame.T


class _Side:
    """Signals of one direction: its frames see them, and they start in the frames of the other direction."""

    def __init__(
        self, ends: Mapping[str, tuple[str, str]], order: list[str], weights: Any, sizes: Any
    ) -> None:
        self.ends, self.order, self.weights, self.sizes = ends, order, weights, sizes
        self.frames: dict[str, np.ndarray] = {}
        self.archive: dict[str, np.ndarray] = {}  # all that a frame ever held
        self.places: dict[str, np.ndarray] = {}  # the frame in the archive
        self.carriers: list[dict[str, _Carrier]] = []
        self.routes: list[
            dict[str, list[tuple[str, str, Any]]]
        ] = []  # edges into a node, their starts, gates
        self.gates: list[Mapping[str, Any]] = []

    def store(self, v: str, u: np.ndarray) -> None:
        """Put new columns of a frame into the archive, as far as it does not have them."""
        old = self.archive[v]
        inside = old.T @ u
        rest, r = np.linalg.qr(u - old @ inside)
        rest, r = rest[:, : len(old) - old.shape[1]], r[: len(old) - old.shape[1]]
        self.archive[v] = np.concatenate([old, rest], axis=1)
        n, k = self.places[v].shape
        places = np.zeros((n + len(r), k + u.shape[1]))
        places[:n, :k], places[:n, k:], places[n:, k:] = self.places[v], inside, r
        self.places[v] = places

    def width(self, v: str) -> int:
        return self.frames[v].shape[1] if v in self.frames else self.sizes[v]

    def inject(self, new: Rows) -> None:
        """Send columns (size, k) that start at some nodes through the initial weights."""
        for carriers, routes, gates in zip(self.carriers, self.routes, self.gates, strict=True):
            moving: dict[str, Rows] = {}
            for v in carriers:
                here = {v: new[v]} if v in new and new[v].shape[1] else {}
                for e, s, gate in routes[v]:
                    if s in moving:
                        w, parts = self.weights[e], moving[s]
                        block = np.concatenate(list(parts.values()), axis=1)
                        block = _times(gate, w[:, None] * block if w.ndim == 1 else w @ block)
                        cuts = np.cumsum([p.shape[1] for p in parts.values()])[:-1]
                        for k, part in zip(parts, np.split(block, cuts, axis=1), strict=True):
                            here[k] = here[k] + part if k in here else part
                gate = gates.get(v, 1.0)
                gate = gate[:, None] if np.ndim(gate) else gate
                if here:
                    moving[v] = {k: _times(gate, c) for k, c in here.items()}
                for k, columns in moving.get(v, {}).items():
                    carriers[v].arrive(k, columns, self.frames.get(v))

    def settle(self) -> None:
        for carriers in self.carriers:
            for v, carrier in carriers.items():
                carrier.settle(self.frames.get(v))

    def sweep(self, k: int, start: Rows, w: Rows) -> tuple[Rows, Rows]:
        """What is injected at every node, and what its frame then sees, in context k."""
        injected, seen = {}, {}
        for v, carrier in self.carriers[k].items():
            total = start.get(v)
            for e, s, gate in self.routes[k][v]:
                part = _times(gate, seen[s] * w[e] if w[e].ndim == 1 else seen[s] @ w[e])
                total = part if total is None else total + part
            injected[v] = total
            seen[v] = carrier.gather(injected) @ carrier.seen.T
        return injected, seen


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
        self.weights = {e: (w if e in g.edges else w[:, None]).astype(dtype) for e, w in weights.items()}
        self.sizes, order = {**g.nodes, "": 1}, ["", *g.order]
        cut = np.cumsum([0, *(g.nodes[o] for o in g.outputs)])
        self.output = {o: slice(*cut[k : k + 2]) for k, o in enumerate(g.outputs)}
        self.n_outputs = int(cut[-1])
        self.starts = np.cumsum([0, *(c.rows for c in self.contexts)])
        self.many_outputs = self.n_outputs * self.starts[-1] > _IMPLICIT
        self.eye = np.eye(self.n_outputs)
        turned = {e: (t, s) for e, (s, t) in self.ends.items()}
        self.ahead = _Side(self.ends, order, self.weights, self.sizes)
        self.behind = _Side(turned, order[::-1], {e: w.T for e, w in self.weights.items()}, self.sizes)
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
                side.carriers.append({v: _Carrier(omega[v]) for v in side.order if v in nodes})
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
        self.evaluations, self.at, self.moved = 0, np.zeros(1, int), np.zeros(0)
        self.restate({})
        # The first frames hold the signals at the initial weights.
        s = self.signals(self.moved)
        back = self.returned(self.moved, s.error)
        signals = s.injected, [self.times(s.error, k, b) for k, (b, _) in enumerate(back)]
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
        gate = lambda e: c.gate(e) if self.ends[e][0] else 1.0  # noqa: E731
        open_ = {e: gate(e) for e in self.ends if all(np.any(c.gate(n)) for n in (*self.ends[e], e))}
        alive, heard = {*c.inputs, *(() if c.ones is None else ("",))}, set(c.targets)
        for v in order:
            alive |= {t for s, t in map(self.ends.get, open_) if s == v and v in alive}  # pyright: ignore
        for v in reversed(order):
            heard |= {s for s, t in map(self.ends.get, open_) if t == v and v in heard}  # pyright: ignore
        return {e: x for e, x in open_.items() if alive & heard >= set(self.ends[e])}

    # -- frames ------------------------------------------------------------------------------

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
        self.evaluations += 1
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

    def times(self, error: np.ndarray, k: int, rows: Rows) -> Rows:
        return rows if self.many_outputs else {v: self._rows(error, k) @ x for v, x in rows.items()}

    def velocity(self, s: Signals, back: list[tuple[Rows, Rows]], error: np.ndarray) -> np.ndarray:
        out = np.zeros(self.at[-1])
        views = self.views(out)
        for k, (_, seen) in enumerate(back):
            here = self.times(error, k, seen)
            for e, gate in self.open[k]:
                source, target = self.ends[e]
                f, b = s.seen[k][source], _times(gate, here[target])
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
        total = np.empty((n, o, n, o)) if len(back) == 1 else np.zeros((n, o, n, o))
        for k, edges in enumerate(self.open):
            for other in range(k + 1):
                here, there = (slice(*self.starts[c : c + 2]) for c in (k, other))
                gates, ff, bb, block = dict(self.open[other]), [], [], 0.0
                for e, gate in edges:
                    if e in gates:
                        source, target = self.ends[e]
                        f, f2 = s.seen[k][source], s.seen[other][source]
                        b, b2 = _times(gate, back[k][target]), _times(gates[e], back[other][target])
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
        return cho_solve(cho_factor(a, overwrite_a=True, check_finite=False), s.error.ravel()).reshape(
            s.error.shape
        )

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
        back = [tuple(self.times(s.error, k, x) for x in both) for k, both in enumerate(back)]
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
                            r for r in onward.routes[k][v] if sizes.get((side, v, r[0]), 0.0) > _SPARE * most
                        ]
                        outside = carriers[v].outside(signal[k], frame) if edges else None
                        for e, end, gate in edges:
                            parts.setdefault(e, []).append((gate * other[k][end], outside))
                rows = []
                for e, pairs in parts.items():
                    x, outside = (np.concatenate(p) for p in zip(*pairs, strict=True))
                    rows.append(np.linalg.qr(x.T, "r") @ outside / scale[e])
                if rows:
                    _, size, u = np.linalg.svd(np.concatenate(rows), full_matrices=False)
                    if size[0] > _SPARE * most:
                        new[v] = u[size > _SPARE * most].T
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
                    x, w = spaces[s], self.weights[e].astype(float)
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


def first_frames(task: Task, weights: Mapping[str, np.ndarray]) -> Frames:
    """Frames of the nodes wider than what passes them forwards and backwards at the initial weights."""
    net = Wide(task, weights)
    both = {v: np.concatenate([side.frames[v] for side in net.sides], axis=1) for v in net.ahead.frames}
    return {v: np.linalg.qr(q)[0] for v, q in both.items() if q.shape[1] < len(q)}


class Solution(NamedTuple):
    """What the weights gained at the times asked for, in all that the frames ever held, and the losses."""

    gained: list[Rows]
    loss: np.ndarray
    end: float
    steps: int
    outcome: str  # finished, stopped, step limit or failed


def solve(
    net: Wide,
    ts: Iterable[float],
    t1: float,
    tolerance: float,
    stop: float = -np.inf,
    max_steps: int = 100_000,
) -> Solution:
    """The flow to time t1, or until the loss falls to `stop`; relative local errors of `tolerance`."""
    residual = min(_RESIDUAL * tolerance, 0.3)
    t, steps, step, kept, outcome = 0.0, 0, 0.0, [], "finished"
    s = net.signals(net.moved)
    while any(found := net.leaving(s, 0.0, residual)):
        net.extend(*found)
        s = net.signals(net.moved)
    size, unit = len(net.moved), np.array([np.sqrt(np.mean(w**2)) for w in net.weights.values()])
    speed = net.velocity(s, net.returned(net.moved, s.error), s.error)
    with np.errstate(divide="ignore"):
        step = min(t1, 0.01 * np.min(unit / np.sqrt(np.add.reduceat(speed**2, net.at[:-1]))))
    settled = 0.1 * tolerance * np.linalg.norm(s.error)
    ts = np.asarray(ts)
    for until in [*ts, *([t1] if t1 > ts[-1] else [])]:
        while t < until and outcome == "finished" and np.linalg.norm(s.error) > settled:
            last = t + 1.001 * step >= until
            h = until - t if last else step
            new, step = _extrapolate(net, s, h, tolerance, unit)
            steps += 1
            if steps == max_steps:
                outcome = "step limit"
            if step < 1e-14 * t1:
                outcome = "failed"
            if new is None:
                continue
            old, net.moved = net.moved, new
            ahead = net.signals(new)
            if net.loss(ahead) <= stop:
                if abs(net.loss(ahead) / stop - 1) > 1e-6 and h > 1e-12 * t:  # where exactly
                    part = np.log(net.loss(s) / stop) / np.log(net.loss(s) / net.loss(ahead))
                    net.moved, step = old, h * np.clip(part, 0.01, 0.99)
                    continue
                outcome = "stopped"
            slow, before, grew = 1 / max(t1 - t - h, 1e-3 * t1), net.views(old), False
            while any(found := net.leaving(ahead, slow, residual)):
                net.extend(*found)
                ahead, grew = net.signals(net.moved), True
            if grew:  # again, in the larger frames
                net.restate(before)
                s, step = net.signals(net.moved), h
                outcome = "finished" if outcome == "stopped" else outcome
                continue
            t, s = (until if last else t + h), ahead
            if len(new) > _OLD * size:
                net.forget(_FORGET * residual)
                s = net.signals(net.moved)
                while any(found := net.leaving(s, 0.0, 10 * _SPARE * residual)):
                    net.extend(*found)
                    s = net.signals(net.moved)
                size = len(net.moved)
        if not kept or kept[-1][2] < steps:
            kept.append((net.archived(), net.loss(s), steps))
        else:  # as it was
            kept.append(kept[-1])
    kept = kept[: len(ts)]
    end = t if outcome != "finished" else t1
    return Solution([m for m, *_ in kept], np.array([x for _, x, _ in kept]), end, steps, outcome)


def _extrapolate(net: Wide, s: Signals, h: float, tolerance: float, unit: np.ndarray) -> Any:
    """One step, None if it failed, and how long the next may be."""
    table: list[np.ndarray] = []
    work, sizes, error, before, j = [], [], np.inf, np.inf, 0
    first = net.returned(net.moved, s.error)
    for j in range(1, _COLUMNS + 1):
        y = net.moved
        for i in range(j):
            now = net.signals(y) if i else s
            back = net.returned(y, now.error) if i else first
            y = y + h / j * net.velocity(now, back, net.lag(now, back, h / j))
        row = [y]
        for k, above in enumerate(table, 1):
            row.append(row[-1] + (row[-1] - above) * (j - k) / k)
        table = row
        if j == 1:
            continue
        scale = np.maximum(np.sqrt(np.add.reduceat(row[-1] ** 2, net.at[:-1])), unit)
        before, error = error, (np.sqrt(np.add.reduceat((row[-1] - row[-2]) ** 2, net.at[:-1])) / scale).max()
        error = error / tolerance
        if not np.isfinite(error):
            return None, h / 10
        sizes.append(h * min(4.0, 0.9 * (0.7 / max(error, 1e-12)) ** (1 / j)))
        work.append((2 + j * (j - 1) / 2) / sizes[-1])
        if error < 1 or (j > 3 and error > before):
            break
    best = int(np.argmin(work))
    if error >= 1:
        return None, min(sizes[best], h / 2)
    more = (2 + j * (j + 1) / 2) / (2 + j * (j - 1) / 2)  # the next column may do better
    return table[-1], sizes[best] * (more if best == len(work) - 1 and j < _COLUMNS else 1.0)


def _times(gate: Any, v: Any) -> Any:
    return v if isinstance(gate, float) and gate == 1.0 else gate * v


class Followed(NamedTuple):
    """A run: its network in small spaces at saved times, its error as it is stated, and how it went."""

    net: Wide
    solution: Solution
    small: Rows
    sizes: dict[str, int]
    error: float


def follow(
    task: Task, weights: Mapping[str, np.ndarray], frozen: Iterable[str], ts: np.ndarray, t1: float,
    width_error: float, stop: float, max_steps: int,
) -> Followed:  # fmt: skip
    """Solve with smaller and smaller tolerances until what flows through the edges changes little."""
    tolerance, seen, error = _FIRST * width_error, None, np.inf
    while True:
        net = Wide(task, weights, frozen, np.float32 if width_error >= 1e-3 else np.float64)
        found = solve(net, ts, t1, tolerance, stop, max_steps)
        small, sizes = net.small(found.gained)
        now = net.through(small)
        if seen is not None:
            # The error of the coarser one, or more if the two came near to each other by chance.
            error = np.linalg.norm(now - seen, axis=2).max() / np.linalg.norm(now, axis=2).max()
            error = max(error, 0.1 * _RESIDUAL * tolerance)
        lowest = tolerance < 1e-12
        if error <= width_error or lowest or found.outcome in ("failed", "step limit"):
            return Followed(net, found, small, sizes, float(error))
        tolerance *= 0.25 if seen is None else np.clip(0.5 * width_error / error, 0.03, 0.25)
        seen = now
