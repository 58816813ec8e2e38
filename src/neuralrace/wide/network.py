"""The network of one run: its frames, its signals, and what of these the frames do not hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs
from scipy.sparse.linalg import LinearOperator, cg

from neuralrace.subspace import Frames, rotation_invariant_nodes
from neuralrace.task import Context, Task

Rows = dict[str, np.ndarray]

_posv, _pstrf, _trtri = get_lapack_funcs(("posv", "pstrf", "trtri"))

_DIRECT = 256  # most outputs, over all samples, whose kernel is written down
_SMALL = 1_000_000  # most multiplications of a product that OpenBLAS takes as small
_SKETCH = 24  # random directions that estimate the length of what a frame does not hold
_SPARE = 0.01  # share of the tolerated residual down to which directions are taken in
_EVEN = 0.1  # least of the inputs, relative to the largest, for which errors of outputs are those of products
_ROUNDED = 1e-3  # of a new direction, so much outside a frame may be rounding
_SEEN = 4.0  # what the outputs miss at once weighs so much more than what the weights miss for a while


class Side:
    """Signals of one direction: the frames that hold them, and how these pass the initial weights.

    A frame is `(k, size)` with orthonormal rows; where a node has none, its neurons are the frame.
    """

    def __init__(self, ends: Mapping[str, tuple[str, str]], order: list[str], weights: Rows) -> None:
        self.ends, self.order, self.weights = ends, order, weights
        self.out: dict[str, list[str]] = {v: [e for e, (s, _) in ends.items() if s == v] for v in order}
        self.routes: list[dict[str, list[tuple[str, str, Any]]]] = []  # per context: edges into a node, gates
        self.frames: dict[str, np.ndarray] = {}
        self.sent: Rows = {}  # the frame at the start of an edge, through its weights,
        self.kept: Rows = {}  # as the frame at its end sees it,
        self.met: Rows = {}  # as the frame of the other direction there sees it,
        self.heard: Rows = {}  # and as a few random directions see it
        self.low: Rows = {}  # a frame, as these see it
        self.cross: Rows = {}  # the frame of the other direction at a node, as the frame of this one sees it

    def width(self, v: str, size: int) -> int:
        return len(self.frames[v]) if v in self.frames else size


class Signals(NamedTuple):
    """Of one direction and context: what the frames see of them, and what the gained weights add, by node."""

    seen: Rows
    added: Rows


class State(NamedTuple):
    """Signals forwards, and backwards from every output, per context, and the errors."""

    ahead: list[Signals]
    behind: list[Signals]
    error: np.ndarray


class View(NamedTuple):
    """Signals forwards, and backwards of the errors, per context, at some small weights; sizes of these,
    units of what leaves the frames, and how fast the fastest edge that learns moves, relative to its size."""

    state: State
    signals: tuple[list[Signals], list[Signals]]
    size: np.ndarray
    scale: dict[str, float]
    pace: float


class Wide:
    """The network of one run, in the frames that it has so far; rows of `past` are its small weights at some
    times."""

    def __init__(
        self, task: Task, weights: Mapping[str, np.ndarray], frozen: Iterable[str] = (), dtype: Any = float
    ) -> None:
        g, frozen, self.dtype = task.graph, set(frozen), np.dtype(dtype)
        self.contexts = task.moment_contexts
        self.learning = np.array([e not in frozen for e in g.shapes])
        self.ends = {e: g.edges.get(e, ("", e)) for e in g.shapes}  # a bias is an edge from a constant
        self.weights = {e: np.asarray(w if e in g.edges else w[:, None], dtype) for e, w in weights.items()}
        unit = np.array([np.sqrt(np.mean(w**2)) for w in self.weights.values()])
        self.unit = np.where(unit > 0, unit, unit.max() or 1.0)
        self.sizes, order = {**g.nodes, "": 1}, ["", *g.order]
        cut = np.cumsum([0, *(g.nodes[o] for o in g.outputs)])
        self.output = {o: slice(*cut[k : k + 2]) for k, o in enumerate(g.outputs)}
        self.n_outputs = int(cut[-1])
        self.starts = np.cumsum([0, *(c.rows for c in self.contexts)])
        self.eye = np.eye(self.n_outputs)
        turned = {e: (t, s) for e, (s, t) in self.ends.items()}
        self.ahead = Side(self.ends, order, self.weights)
        self.behind = Side(turned, order[::-1], {e: w.T for e, w in self.weights.items()})
        self.sides = (self.ahead, self.behind)
        self.every: list[dict[str, Any]] = []  # edges through which anything flows in each context, and gates
        self.open: list[dict[str, Any]] = []  # those that learn
        self.inputs: list[Rows] = []
        for c in self.contexts:
            start = c.inputs if c.ones is None else {**c.inputs, "": c.ones[:, None]}
            self.inputs.append({v: np.asarray(x, float) for v, x in start.items()})
            edges = self._edges(c, order)
            nodes = {n for e in edges for n in self.ends[e]}
            self.every.append(edges)
            self.open.append({e: gate for e, gate in edges.items() if e not in frozen})
            for side in self.sides:
                into = {v: [] for v in side.order if v in nodes}
                for e, gate in edges.items():
                    into[side.ends[e][1]].append((e, side.ends[e][0], gate))
                side.routes.append(into)
        rng, framed = np.random.default_rng(0), rotation_invariant_nodes(task)
        self.omega = {
            v: (rng.standard_normal((_SKETCH, self.sizes[v])) / _SKETCH**0.5).astype(dtype) for v in framed
        }
        self.spaces = _spaces(task)
        self.held = self._held(order)
        for side in self.sides:
            side.frames = {v: np.zeros((0, self.sizes[v]), dtype) for v in framed}
            for e, (s, t) in side.ends.items():
                none = np.zeros((0, self.sizes[t]), dtype)
                side.sent[e] = none if s in side.frames else side.weights[e].T
        self.at, self.past = [0], np.zeros((1, 0))
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._products()
        self.restate({})
        # The first frames hold the signals at the initial weights; errors need outputs first.
        for end, side in enumerate(self.sides):
            y, new = self.past[0], [{} for _ in self.contexts]
            signals = self.view(y, self.state(y), 0.0).signals[end]
            for v in (v for v in side.order if v in side.frames):
                out = {
                    k: self._outside(side, k, v, signals[k], new[k])
                    for k, routes in enumerate(side.routes)
                    if v in routes
                }
                if out:
                    rows = np.concatenate(list(out.values()))
                    self._take(
                        side, v, _directions(rows, 1e-9 * _norm(rows)), [(new[k], x) for k, x in out.items()]
                    )
            self._products()
            self.restate({})
        # The size of outputs: of targets, or of the first errors where these are larger.
        targets = sum(float(np.vdot(y, y)) for c in self.contexts for y in c.targets.values())
        self.whole = max(targets**0.5, _norm(self.state(self.past[0]).error), 1e-300)

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

    def _held(self, order: list[str]) -> set[str]:
        """Nodes with frames that hold all that comes from inputs: one path leads there, and the samples that
        take it tell the inputs apart."""
        roots: dict[str, str] = {}
        for v in order:
            into = self.behind.out[v]
            if v in self.spaces and len(into) == 1:
                source = self.ends[into[0]][0]
                root = source if not self.behind.out[source] else roots.get(source)
                here = [k for k, routes in enumerate(self.ahead.routes) if v in routes]
                if root is not None and here:
                    x = [_times(self.contexts[k].gates.get(root, 1.0), self.inputs[k][root]) for k in here]
                    size = np.linalg.svd(np.concatenate(x), compute_uv=False)
                    if len(size) == self.sizes[root] and size[-1] > _EVEN * size[0]:
                        roots[v] = root
        return set(roots)

    # -- frames ------------------------------------------------------------------------------

    def forget(self, states: np.ndarray, views: list[View], least: float) -> np.ndarray:
        """Keep of the frames what the weights gained at the first of some states, rows, and of the signals
        what moves them or reaches the outputs at all of these, down to a share of each.

        The same states in the frames that are kept.
        """
        every, n = _signals(views), len(self.past)
        self.past = np.concatenate([self.past, states])
        past, turns = self.views(self.past), [{}, {}]
        for end, side in enumerate(self.sides):
            for v in side.frames:
                parts = [past[e][n] if end == 0 else past[e][n].T for e in side.out[v]]
                parts = [x / max(_norm(x), 1e-300) for x in parts]
                for k, routes in enumerate(side.routes):
                    if v in routes:
                        seen, more = every[end][k].seen[v], 0.0
                        if side is self.ahead:
                            size = np.array([_norm(x.state.behind[k].seen[v]) for x in views]) / self.whole
                            more = np.eye(len(seen) // len(views)) * size[:, None, None] ** 2
                        movers = self._movers(views, every[1 - end][k].seen, end, k, v, more)
                        parts.append((movers @ _each(seen, len(views))).reshape(seen.shape))
                _, size, turn = np.linalg.svd(np.concatenate(parts), full_matrices=False)
                turns[end][v] = turn[size > least]
        self._turn(past, *turns)
        self.past, states = self.past[:n], self.past[n:]
        return states

    def _turn(self, past: Rows, ahead: Rows, behind: Rows) -> None:
        """Go over to frames whose rows are given in those that are."""
        both = zip(self.sides, (ahead, behind), (behind, ahead), strict=True)
        for end, (side, turns, others) in enumerate(both):
            for v, turn in turns.items():
                few = turn.astype(side.frames[v].dtype)
                side.frames[v], side.low[v] = few @ side.frames[v], side.low[v] @ turn.T
                for e in side.out[v]:
                    past[e] = past[e] @ turn.T if end == 0 else turn @ past[e]
                    side.sent[e] = few @ side.sent[e]
            for e, (s, t) in side.ends.items():
                there = turns.get(t), others.get(t), None
                met = side.met if side is self.ahead else {}  # of the other, the same transposed
                for products, turn in zip((side.kept, met, side.heard), there, strict=True):
                    if e in products:
                        out = products[e] if turn is None else turn @ products[e]
                        products[e] = out @ turns[s].T if s in turns else out
        for v, turn in ahead.items():
            self.ahead.cross[v] = turn @ self.ahead.cross[v] @ behind[v].T
        self._products()
        self.restate(past)

    def grow(self, views: list[View], most: float) -> None:
        """Take into the frames what leaves them at some states, down to a share of `most`, and what of it
        reaches other nodes."""
        least, n, every = _SPARE * most, len(views), _signals(views)
        for end, side in enumerate(self.sides):
            news: list[Rows] = [{} for _ in self.contexts]
            for v in (v for v in side.order if v in side.frames):
                rows, outside = [], []
                for k, new in enumerate(news):
                    if v not in side.routes[k]:
                        continue
                    out = self._outside(side, k, v, every[end][k], new)
                    outside.append((new, out))
                    parts = _each(out, n)
                    more = self._telling(views, k, v, parts, least) if side is self.ahead else 0.0
                    movers = self._movers(views, every[1 - end][k].seen, end, k, v, more)
                    rows.append((movers.astype(out.dtype) @ parts).reshape(out.shape))
                u = _directions(np.concatenate(rows), least) if rows else np.zeros((0, 0))
                if len(u):
                    self._take(side, v, u, outside)
        self._products()
        self.restate(self.views(self.past))

    def _movers(
        self, views: list[View], others: Rows, end: int, k: int, v: str, more: np.ndarray | float
    ) -> np.ndarray:
        """What the signals at a node meet at the edges that move with them, in units of the velocity, in each
        of some views, and more: a root of the sum of squares. The signals of the other direction are given.
        """
        square: Any = more
        for e, far, gate in self.sides[1 - end].routes[k][v]:
            x = _each(others[far], len(views))
            unit = np.array([(gate / view.scale[e]) ** 2 for view in views])
            square = square + unit[:, None, None] * (x @ x.transpose(0, 2, 1))
        small = np.finfo(float).eps * len(square[0]) * np.trace(square, axis1=1, axis2=2) + 1e-300
        root = np.linalg.cholesky(square + small[:, None, None] * np.eye(len(square[0])))
        return root.transpose(0, 2, 1)

    def _telling(
        self, views: list[View], k: int, v: str, outside: np.ndarray, least: float
    ) -> np.ndarray | float:
        """How much what is outside a frame would change outputs, in each of some views: the square of that,
        by samples whose outputs it would change."""
        effects = np.stack([self._effect(k, v, view.state) for view in views])
        if _norm(effects) < least * self.whole:
            return 0.0
        square, samples = np.linalg.eigh(effects @ effects.transpose(0, 2, 1))
        size = np.sqrt(np.maximum(square, 0.0))
        far = np.linalg.norm(samples.transpose(0, 2, 1).astype(outside.dtype) @ outside, axis=2)
        root = samples * (size / self.whole / np.maximum(far, 1e-6 * far.max() + 1e-300))[:, None, :]
        return root @ root.transpose(0, 2, 1)

    def _take(self, side: Side, v: str, u: np.ndarray, outside: list[tuple[Rows, np.ndarray]]) -> None:
        """Take directions, rows of u, into a frame; note the signals outside it that they hold."""
        q = side.frames[v]
        u = u[: q.shape[1] - len(q)]
        for _ in range(4):
            u = u.astype(q.dtype, copy=False)
            along = u @ q.T
            u = _directions(u - along @ q, _ROUNDED)
            if np.abs(along).max(initial=0.0) < np.finfo(q.dtype).eps ** 0.5:
                break
        u = u.astype(q.dtype, copy=False)
        side.frames[v] = _append(q, u)
        for e in side.out[v]:
            side.sent[e] = _append(side.sent[e], _images(side.weights[e], u))
        for new, out in outside:
            new[v] = out @ u.T

    def _products(self) -> None:
        """Bring products of frames up to date with their rows."""
        for end, (side, other) in enumerate((self.sides, self.sides[::-1])):
            for v, q in side.frames.items():
                known = other.cross[v].T if end else _product(side.cross.get(v), q, other.frames[v])
                side.cross[v], side.low[v] = known, _product(side.low.get(v), self.omega[v], q)
            for e, (_, t) in side.ends.items():
                q, sent = side.frames.get(t), side.sent[e]
                side.kept[e] = _product(side.kept.get(e), q, sent)
                if q is not None:
                    side.heard[e] = _product(side.heard.get(e), self.omega[t], sent)
                    if end:
                        side.met[e] = other.met.get(e, other.kept[e]).T
                    else:
                        side.met[e] = _product(side.met.get(e), other.frames[t], sent)

    def restate(self, past: Rows) -> None:
        """Lay the small weights out anew, with those given in their first rows and columns."""
        self.shapes = {
            e: (self.behind.width(t, self.sizes[t]), self.ahead.width(s, self.sizes[s]))
            if self.weights[e].ndim == 2
            else self.weights[e].shape
            for e, (s, t) in self.ends.items()
        }
        self.at = [0, *accumulate(prod(s) for s in self.shapes.values())]
        at = [slice(*ends) for ends in pairwise(self.at)]
        self.parts = list(zip(self.shapes, at, self.shapes.values(), strict=True))
        self.past = np.zeros((len(self.past), self.at[-1]))
        for e, m in self.views(self.past).items():
            if e in past:
                m[tuple(map(slice, past[e].shape))] = past[e]

    def norms(self, flat: np.ndarray) -> np.ndarray:
        """Sizes of what is that of each edge."""
        return np.sqrt([(x := flat[at]).dot(x) for _, at, _ in self.parts])

    def views(self, flat: np.ndarray) -> Rows:
        if flat.ndim == 1:
            return {e: flat[at].reshape(shape) for e, at, shape in self.parts}
        return {e: flat[:, at].reshape(len(flat), *shape) for e, at, shape in self.parts}

    # -- learning (by `dot`, which takes half as long as `@` for products this small) ----------

    def state(self, moved: np.ndarray) -> State:
        w, error = self.views(moved), np.zeros((self.starts[-1], self.n_outputs))
        out, turned = State([], [], error), {e: m.T for e, m in w.items()}
        for k, c in enumerate(self.contexts):
            out.ahead.append(self._sweep(self.ahead, k, self.inputs[k], turned))
            for o, target in c.targets.items():
                self._rows(error, k)[:, self.output[o]] = target - out.ahead[k].seen.get(o, 0.0)
            start = {o: self.eye[:, at] for o, at in self.output.items() if o in c.targets}
            out.behind.append(self._sweep(self.behind, k, start, w))
        return out

    def _sweep(self, side: Side, k: int, start: Rows, w: Rows) -> Signals:
        """Signals in the frames, rows of them, in context k."""
        seen, added = {}, {}
        gates = self.contexts[k].gates
        for v, routes in side.routes[k].items():
            total, gained = start.get(v), None
            for e, s, gate in routes:
                if w[e].ndim == 1:
                    part, more = seen[s] * side.kept[e], seen[s] * w[e]
                else:
                    part, more = seen[s].dot(side.kept[e].T), seen[s].dot(w[e])
                total = _times(gate, part) if total is None else total + _times(gate, part)
                gained = _times(gate, more) if gained is None else gained + _times(gate, more)
            if gained is not None:
                total = total + (gained.dot(side.cross[v].T) if v in side.cross else gained)
                added[v] = _times(gates.get(v, 1.0), gained)
            seen[v] = _times(gates.get(v, 1.0), total)
        return Signals(seen, added)

    def outputs(self, s: State) -> np.ndarray:
        """All outputs that have targets."""
        each = zip(self.contexts, s.ahead, strict=True)
        return np.concatenate(
            [x.seen[o].ravel() for c, x in each for o in c.targets if o in x.seen] or [np.zeros(0)]
        )

    def loss(self, s: State) -> float:
        return 0.5 * float(np.vdot(s.error, s.error)) + sum(c.irreducible_loss for c in self.contexts)

    def _rows(self, error: np.ndarray, k: int) -> np.ndarray:
        return error[self.starts[k] : self.starts[k + 1]]

    def velocity(self, s: State, error: np.ndarray) -> np.ndarray:
        out = np.empty(self.at[-1])
        views, unset = self.views(out), set(self.ends)
        for k, (ahead, behind) in enumerate(zip(s.ahead, s.behind, strict=True)):
            rows = self._rows(error, k)
            for e, gate in self.open[k].items():
                source, target = self.ends[e]
                f, b = ahead.seen[source], _times(gate, rows.dot(behind.seen[target]))
                if views[e].ndim == 1:
                    part = (b * f).sum(0)
                    views[e][...] = part if e in unset else views[e] + part
                elif e in unset:
                    b.T.dot(f, out=views[e])
                else:
                    views[e][...] += b.T @ f
                unset.discard(e)
        for e in unset:
            views[e][...] = 0.0
        return out

    def _speeds(self, signals: tuple[list[Signals], list[Signals]]) -> np.ndarray:
        """Sizes of the velocities of edges; a frozen one counts as if it learned."""
        out = np.zeros(len(self.ends))
        for n, (e, (source, target)) in enumerate(self.ends.items()):
            on = [(*x, edges[e]) for *x, edges in zip(*signals, self.every, strict=True) if e in edges]
            if on:
                f, b = [x.seen[source] for x, _, _ in on], [_times(gate, x.seen[target]) for _, x, gate in on]
                f, b = (np.concatenate(x) if len(x) > 1 else x[0] for x in (f, b))
                diagonal = self.weights[e].ndim == 1
                square = _norm((b * f).sum(0)) ** 2 if diagonal else np.vdot(f.dot(f.T), b.dot(b.T))
                out[n] = max(float(square), 0.0) ** 0.5
        return out

    def pushed(self, s: State, moved: np.ndarray) -> np.ndarray:
        """How all outputs change with the small weights, to first order; adjoint to `velocity`."""
        out, views = np.zeros_like(s.error), self.views(moved)
        for k, (ahead, behind) in enumerate(zip(s.ahead, s.behind, strict=True)):
            rows = self._rows(out, k)
            for e, gate in self.open[k].items():
                source, target = self.ends[e]
                f, b = ahead.seen[source], _times(gate, behind.seen[target])
                rows += (f * views[e] if views[e].ndim == 1 else f.dot(views[e].T)).dot(b.T)
        return out

    def kernel(self, s: State) -> np.ndarray:
        """Velocity of all outputs per unit of all errors: the tangent kernel."""
        n, o = s.error.shape
        total = np.empty((n, o, n, o))
        for k, edges in enumerate(self.open):
            for other in range(k + 1):
                here, there = (slice(*self.starts[c : c + 2]) for c in (k, other))
                both, block = [e for e in edges if e in self.open[other]], 0.0
                shape = here.stop - here.start, there.stop - there.start, o, o
                ff, bb = (np.zeros((len(both), prod(part))) for part in (shape[:2], shape[2:]))
                for e, f_f, b_b in zip(both, ff, bb, strict=True):
                    source, target = self.ends[e]
                    f, f2 = s.ahead[k].seen[source], s.ahead[other].seen[source]
                    b = _times(edges[e], s.behind[k].seen[target])
                    b2 = _times(self.open[other][e], s.behind[other].seen[target])
                    if self.weights[e].ndim == 1:
                        block = block + np.einsum("ni,oi,mi,pi->nmop", f, b, f2, b2)
                    else:
                        f.dot(f2.T, out=f_f.reshape(shape[:2]))
                        b.dot(b2.T, out=b_b.reshape(o, o))
                block = block + (ff.T @ bb).reshape(shape)
                total[here, :, there] = block.transpose(0, 2, 1, 3)
                if other < k:
                    total[there, :, here] = block.transpose(1, 3, 0, 2)
        return total.reshape(n * o, n * o)

    def lag(self, s: State, h: float, error: np.ndarray) -> np.ndarray:
        """The errors at the end of a step of length h, implicit in the outputs, that starts with `error`."""
        if error.size > _DIRECT:
            spread = lambda e: e + h * self.pushed(s, self.velocity(s, e))  # noqa: E731
            return _conjugate_gradients(spread, error, s.error)
        a = h * self.kernel(s)
        a.flat[:: len(a) + 1] += 1.0
        _, x, failed = _posv(a.T, error.ravel(), lower=True, overwrite_a=True)
        # Where weights are too large for numbers, the step is to be refused.
        return np.full_like(error, np.nan) if failed else x.reshape(error.shape)

    # -- what leaves the frames ----------------------------------------------------------------

    def view(self, y: np.ndarray, s: State, slow: float) -> View:
        """Signals at some small weights, of which the state is given.

        What leaves the frames counts by the velocity that it would add to an edge, in units of what it has,
        or of that which would take it as far as it has come in the time `1/slow` that is left, whichever is
        larger. A frozen edge counts as if it learned, since what it carries moves others.
        """
        errors = [self._rows(s.error, k) for k in range(len(self.contexts))]
        weighed = [
            Signals(*({v: rows.dot(x) for v, x in part.items()} for part in behind))
            for rows, behind in zip(errors, s.behind, strict=True)
        ]
        signals = s.ahead, weighed
        size = np.maximum(self.norms(y), self.unit)
        speed = np.maximum(self._speeds(signals), slow * size)
        speed = np.maximum(speed, max(1e-12 * speed.max(), 1e-140))
        pace = float((speed / size)[self.learning].max(initial=0.0))
        return View(s, signals, size, dict(zip(self.ends, speed.tolist(), strict=True)), pace)

    def leaving(self, view: View) -> float:
        """How much leaves the frames: the sum of what does on the way to a node, over contexts, at most."""
        most = 0.0
        for end, (side, onward) in enumerate(zip(self.sides, self.sides[::-1], strict=True)):
            total: dict[str, float] = dict.fromkeys(side.frames, 0.0)
            for k, routes in enumerate(side.routes):
                signals, other = view.signals[end][k], view.signals[1 - end][k]
                sums: dict[str, float] = {}
                for v, into in routes.items():
                    sums[v] = max((sums[n] for _, n, _ in into), default=0.0)
                    if v in side.frames:
                        lost = self._arriving(side, k, v, signals, side.heard)
                        lost += signals.added[v].dot(onward.low[v].T) - signals.seen[v].dot(side.low[v].T)
                        # An edge is moved by the signal at one end times what comes from the other.
                        sizes = [
                            abs(gate) * _norm(other.seen[far].T.dot(lost)) / view.scale[e]
                            for e, far, gate in onward.routes[k][v]
                        ]
                        if side is self.ahead:
                            sizes.append(_SEEN * _norm(self._effect(k, v, view.state)) / self.whole)
                        sums[v] += max(sizes, default=0.0)
                        total[v] += sums[v]
            most = max(most, *total.values(), 0.0)
        return most

    def _arriving(self, side: Side, k: int, v: str, signals: Signals, products: Rows) -> Any:
        """What arrives at a node through its initial weights, by some products of these with frames."""
        total = sum(_times(x, signals.seen[s].dot(products[e].T)) for e, s, x in side.routes[k][v])
        return _times(self.contexts[k].gates.get(v, 1.0), total)

    def _outside(self, side: Side, k: int, v: str, signals: Signals, new: Rows) -> np.ndarray:
        """What arrives at a node and is not in its frame, rows of full size; also by directions just taken in
        at nodes before it, of which `new` has the signals."""
        other, q = self.sides[side is self.ahead], side.frames[v]
        total: Any = 0.0
        for e, n, gate in side.routes[k][v]:
            seen = np.concatenate([signals.seen[n], new[n]], axis=1) if n in new else signals.seen[n]
            total = total + _times(gate, seen.astype(q.dtype, copy=False) @ side.sent[e])
        added = signals.added[v].astype(q.dtype, copy=False)
        x = _times(self.contexts[k].gates.get(v, 1.0), total) + added @ other.frames[v][: added.shape[1]]
        return x - (x @ q.T) @ q

    def _effect(self, k: int, v: str, s: State) -> np.ndarray:
        """What the outputs miss of what leaves the forward frame of a node, `(samples, outputs)`."""
        side, signals = self.ahead, s.ahead[k]
        met = self._arriving(side, k, v, signals, side.met) + signals.added[v]
        return (met - signals.seen[v].dot(side.cross[v])).dot(s.behind[k].seen[v].T)

    def unseen(self, s: State) -> float:
        """What the outputs miss of what leaves the forward frames."""
        nodes = ((k, v) for k, routes in enumerate(self.ahead.routes) for v in routes if v in self.spaces)
        return sum(_norm(self._effect(k, v, s)) for k, v in nodes)

    # -- the network at saved times ----------------------------------------------------------

    def gain(self, e: str, moved: np.ndarray) -> np.ndarray:
        """What an edge gained."""
        (s, t), n = self.ends[e], self.views(moved)[e]
        n = n if t not in self.behind.frames else self.behind.frames[t].T @ n
        return n if s not in self.ahead.frames else n @ self.ahead.frames[s]

    def small(self, moved: np.ndarray, inside: bool = False) -> Rows:
        """Weights in the spaces that hold what comes from the inputs, along every path.

        All products along paths from inputs are those of the network, or `inside` those that frames see,
        where these hold all that comes.
        """
        held = self.held if inside else set()
        ahead, behind, out, spaces = self.ahead, self.behind, {}, {}
        small, full = self.views(moved), self.views(moved.astype(self.dtype))
        for v in ahead.order:
            arriving, framed = {}, v in self.spaces
            for e in behind.out[v]:
                s = self.ends[e][0]
                if s in self.spaces and s not in held:
                    gained = full[e] @ (ahead.frames[s] @ spaces[s].T)
                    gained = behind.frames[v].T @ gained if framed else gained
                    arriving[e] = _images(self.weights[e], spaces[s]).T + gained
                    continue
                if framed and v not in held:
                    w = ahead.sent[e].T + behind.frames[v].T @ full[e]
                else:
                    w = ahead.kept[e] + (ahead.cross[v] @ small[e] if framed else small[e])
                arriving[e] = w @ spaces[s].T if s in spaces else w
            if framed:
                rows = np.concatenate(list(arriving.values()), axis=1)
                k = len(rows), self.spaces[v]
                q = np.linalg.qr(rows)[0] if k[0] > k[1] else np.eye(*k)
                arriving = {e: q.T @ a for e, a in arriving.items()}
                spaces[v] = np.ascontiguousarray(q.T)
            out |= {e: a if self.ends[e][0] else a[:, 0] for e, a in arriving.items()}
        return out


def _times(gate: Any, v: Any) -> Any:
    return v if isinstance(gate, float) and gate == 1.0 else gate * v


def _signals(views: list[View]) -> list[list[Signals]]:
    """Signals forwards and backwards per context, those of the views one after another."""

    def join(parts: Iterable[Signals]) -> Signals:
        return Signals(
            *({v: np.concatenate([p[v] for p in x]) for v in x[0]} for x in zip(*parts, strict=True))
        )

    return [
        [join(parts) for parts in zip(*(view.signals[end] for view in views), strict=True)] for end in (0, 1)
    ]


def _each(x: np.ndarray, n: int) -> np.ndarray:
    """Rows of n parts, one after another, as parts."""
    return x.reshape(n, len(x) // n, x.shape[1])


def _norm(x: np.ndarray) -> float:
    x = x.ravel()
    return float(x.dot(x)) ** 0.5


def _append(rows: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Rows and those that come after, with room kept for more: what had been appended to is lost."""
    n, room = len(rows) + len(new), rows.base
    if room is None or len(room) < n:
        room = np.empty((2 * n, rows.shape[1]), rows.dtype)
        room[: len(rows)] = rows
    room[len(rows) : n] = new
    return room[:n]


def _images(w: np.ndarray, u: np.ndarray) -> np.ndarray:
    """`u w^T` for few rows: by parts of w, where they lie in one piece, that BLAS need not copy first."""
    n = _SMALL // max(u.size, 1)
    if n < 16 or not w.flags.c_contiguous:
        return u @ w.T
    return np.concatenate([u @ w[k : k + n].T for k in range(0, len(w), n)], axis=1)


def _product(old: np.ndarray | None, left: np.ndarray | None, right: np.ndarray) -> np.ndarray:
    """`left right^T`, of which the first rows and columns may be known."""
    if left is None:
        return right.T.astype(float)
    if old is None:
        return (left @ right.T).astype(float)
    (k, m), out = old.shape, np.empty((len(left), len(right)))
    if out.shape == old.shape:
        return old
    out[:k, :m] = old
    out[:, m:] = left @ right[m:].T
    out[k:, :m] = left[k:] @ right[:m].T
    return out


def _conjugate_gradients(product: Any, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Solve for what is near x already, a thousand times better."""
    r = b - product(x)
    if not np.isfinite(r).all():
        return x
    given: Any = {"matvec": lambda v: product(v.reshape(r.shape)).ravel(), "dtype": r.dtype}
    return x + cg(LinearOperator((r.size, r.size), **given), r.ravel(), rtol=1e-3, maxiter=100)[0].reshape(
        r.shape
    )


def _directions(rows: np.ndarray, least: float) -> np.ndarray:
    """Orthonormal directions, in double precision, that leave less than `least` of each of a few long rows:
    by Cholesky's method, the longest first."""
    rows = rows.astype(float)
    square = rows @ rows.T
    low, order, rank, _ = _pstrf(square, tol=max(least**2, 1e-14 * square.trace()), lower=1)
    if not rank:
        return rows[:0]
    inverse, _ = _trtri(np.tril(low[:rank, :rank]), lower=1)
    return inverse @ rows[order[:rank] - 1]


def _spaces(task: Task) -> dict[str, int]:
    """Dimensions of what comes to the nodes that may have frames from the inputs, along every path."""
    g, framed, found = task.graph, set(rotation_invariant_nodes(task)), {}
    for v in (v for v in g.order if v in framed):
        came = [found.get(s, g.nodes[s]) for s, t in g.edges.values() if t == v]
        found[v] = min(sum(came) + (v in g.shapes), g.nodes[v])  # a bias comes from a constant
    return found


def small_shapes(task: Task) -> dict[str, tuple[int, ...]]:
    """Shapes of the weights in these spaces."""
    sizes = {**task.graph.nodes, **_spaces(task)}
    ends = {e: task.graph.edges.get(e, (e,))[::-1] for e in task.graph.shapes}
    return {e: tuple(sizes[n] for n in ends[e][: len(shape)]) for e, shape in task.graph.shapes.items()}


def first_frames(task: Task, weights: Mapping[str, np.ndarray]) -> Frames:
    """Frames of the nodes wider than what passes them forwards and backwards at the initial weights."""
    net = Wide(task, weights)
    both = {v: np.concatenate([side.frames[v] for side in net.sides]).T for v in net.ahead.frames}
    return {v: np.linalg.qr(q)[0] for v, q in both.items() if q.shape[1] < len(q)}
