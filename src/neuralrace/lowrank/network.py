"""The reduced network: bases of signals, coordinates of the weights' change, and how these learn.

The change of an edge's weights is `B_t^T N F_s`: rows of F span the signals that come forwards to its source,
rows of B those that come backwards to its target, and only the small matrix N of coordinates moves. Nodes
without bases (inputs, outputs, neurons with gates of their own) have the identity instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from itertools import accumulate, pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from neuralrace.lowrank import constants
from neuralrace.lowrank.layout import Arrays, Ends, Layout, Routes
from neuralrace.lowrank.linalg import conjugate_gradients, norm, product, scaled, solve_positive


class Direction:
    """Signals of one direction: their bases, and these carried through the initial weights.

    Signals are rows. `basis[v]` is (k, size). The other attributes are projections of `image[e]`, the basis
    at the start of an edge carried to its end, and of the bases themselves.
    """

    def __init__(self, layout: Layout, weights: Arrays, forward: bool, dtype: Any) -> None:
        self.ends: Ends = layout.ends if forward else {e: (t, s) for e, (s, t) in layout.ends.items()}
        self.order: list[str] = layout.order if forward else layout.order[::-1]
        self.weights: Arrays = weights if forward else {e: w.T for e, w in weights.items()}
        self.out: dict[str, list[str]] = {
            v: [e for e, (s, _) in self.ends.items() if s == v] for v in self.order
        }
        self.routes: list[Routes] = [layout.routes(k, self.ends, self.order) for k in range(len(layout.open))]
        self.basis: Arrays = {v: np.zeros((0, layout.sizes[v]), dtype) for v in layout.wide}
        self.image: Arrays = {}
        for e, (s, t) in self.ends.items():
            none = np.zeros((0, layout.sizes[t]), dtype)
            self.image[e] = none if s in self.basis else self.weights[e].T
        self.forget_products()

    def forget_products(self) -> None:
        """Products of the bases and images are to be computed anew."""
        self.own: Arrays = {}  # the image in the basis at the end of the edge,
        self.other: Arrays = {}  # in the basis of the other direction there,
        self.sketch: Arrays = {}  # and in a few random directions
        self.overlap: Arrays = {}  # the basis of the other direction at a node, in that of this one
        self.basis_sketch: Arrays = {}  # the basis in the random directions

    def reduced_weights(self, change: Arrays) -> Arrays:
        """Weights between the bases of this direction; `change` as this direction passes it."""
        overlap = self.overlap
        return {
            e: w + (overlap[t].dot(change[e]) if t in overlap else change[e])
            for (e, (_, t)), w in zip(self.ends.items(), self.own.values(), strict=True)
        }

    def propagate(self, k: int, start: Mapping[str, np.ndarray], weights: Arrays) -> Arrays:
        """Signals at all nodes in context k, in the bases."""
        signals: Arrays = {}
        for v, (gate, edges) in self.routes[k].items():
            total: Any = start.get(v)
            for e, s, edge_gate in edges:
                w = weights[e]
                part = signals[s].dot(w.T) if w.ndim == 2 else signals[s] * w
                part = part if edge_gate == 1.0 else edge_gate * part
                total = part if total is None else total + part
            signals[v] = scaled(gate, total)
        return signals

    def arriving(self, k: int, v: str, signals: Arrays, products: Arrays) -> Any:
        """What arrives at a node through some matrices of the edges into it."""
        gate, edges = self.routes[k][v]
        return scaled(gate, sum(scaled(g, signals[s].dot(products[e].T)) for e, s, g in edges))


class State(NamedTuple):
    """The network at some coordinates: changes N of the edges, signals of each context, outputs.

    `backward` has the signals of a unit error of every output. Outputs and their errors are (rows of all
    contexts, sizes of all outputs).
    """

    change: Arrays
    forward: list[Arrays]
    backward: list[Arrays]
    outputs: np.ndarray
    error: np.ndarray

    def seen(self, end: int) -> Arrays:
        """The changes as signals pass them forwards (0) or backwards (1)."""
        return {e: n.T for e, n in self.change.items()} if end else self.change


class ReducedNetwork:
    """A network in its bases so far; rows of `coordinates` are its N at some times, flat."""

    def __init__(self, layout: Layout, weights: Mapping[str, np.ndarray], dtype: Any) -> None:
        self.layout: Layout = layout
        self.ends: Ends = layout.ends
        self.dtype: np.dtype = np.dtype(dtype)
        edges = {e: w if layout.ends[e][0] else w[:, None] for e, w in weights.items()}
        self.weights: Arrays = {e: np.asarray(w, dtype) for e, w in edges.items()}
        unit = np.array([norm(w) / w.size**0.5 for w in self.weights.values()])
        self.unit: np.ndarray = np.where(unit > 0, unit, unit.max() or 1.0)
        self.rates: np.ndarray = np.array([layout.rates[e] for e in self.ends])
        rng, n = np.random.default_rng(0), constants.SKETCH
        self.random: Arrays = {
            v: (rng.standard_normal((n, layout.sizes[v])) / n**0.5).astype(dtype) for v in layout.wide
        }
        self.forward: Direction = Direction(layout, self.weights, True, dtype)
        self.backward: Direction = Direction(layout, self.weights, False, dtype)
        self.directions: tuple[Direction, Direction] = (self.forward, self.backward)
        self.receivers: list[set[str]] = [{self.ends[e][1] for e in edges} for edges in layout.open]
        self.coordinates: np.ndarray = np.zeros((1, 0))
        self.allocate({})
        self.output_size: float = 1.0

    def copied(self) -> ReducedNetwork:
        """A copy that later changes of the bases leave alone; arrays are shared."""
        new = copy(self)
        new.forward, new.backward = new.directions = copy(self.forward), copy(self.backward)
        for d in new.directions:
            d.__dict__ |= {n: dict(v) for n, v in vars(d).items() if isinstance(v, dict)}
        return new

    # -- coordinates ---------------------------------------------------------------------------------

    def allocate(self, old: Arrays) -> None:
        """Bring products up to date with the bases; coordinates follow, with `old` in their first places."""
        for end, (d, other) in enumerate((self.directions, self.directions[::-1])):
            for v, q in d.basis.items():
                d.overlap[v] = other.overlap[v].T if end else product(d.overlap.get(v), q, other.basis[v])
                d.basis_sketch[v] = product(d.basis_sketch.get(v), self.random[v], q)
            for e, (_, t) in d.ends.items():
                image = d.image[e]
                d.own[e] = product(d.own.get(e), d.basis.get(t), image)
                if t in d.basis:
                    d.sketch[e] = product(d.sketch.get(e), self.random[t], image)
                    new = other.other.get(e, other.own.get(e)) if end else None
                    d.other[e] = product(d.other.get(e), other.basis[t], image) if new is None else new.T
        shapes = {e: self._shape(e) for e in self.ends}
        at = [slice(*ends) for ends in pairwise([0, *accumulate(prod(s) for s in shapes.values())])]
        self.parts: list[tuple[str, slice, tuple[int, ...]]] = list(
            zip(shapes, at, shapes.values(), strict=True)
        )
        self.rate: np.ndarray = np.repeat(self.rates, [prod(s) for s in shapes.values()])
        self.coordinates = np.zeros((len(self.coordinates), len(self.rate)))
        for e, m in self.split(self.coordinates).items():
            if e in old:
                m[tuple(map(slice, old[e].shape))] = old[e]

    def _shape(self, e: str) -> tuple[int, ...]:
        if self.weights[e].ndim == 1:
            return self.weights[e].shape
        (s, t), f, b = self.ends[e], self.forward.basis, self.backward.basis
        return (
            len(b[t]) if t in b else self.layout.sizes[t],
            len(f[s]) if s in f else self.layout.sizes[s],
        )

    def split(self, flat: np.ndarray) -> Arrays:
        """Flat coordinates, or rows of them, as a matrix of each edge."""
        if flat.ndim == 1:
            return {e: flat[at].reshape(shape) for e, at, shape in self.parts}
        return {e: flat[:, at].reshape(len(flat), *shape) for e, at, shape in self.parts}

    def norms(self, flat: np.ndarray) -> np.ndarray:
        """Norm of each edge's coordinates."""
        return np.sqrt([(x := flat[at]).dot(x) for _, at, _ in self.parts])

    # -- learning (by `dot`, which takes half as long as `@` for matrices this small) ----------------

    def state(self, y: np.ndarray) -> State:
        """The network at coordinates y."""
        lay, outputs = self.layout, np.zeros_like(self.layout.targets)
        s = State(self.split(y), [], [], outputs, outputs)
        forward, backward = (d.reduced_weights(s.seen(end)) for end, d in enumerate(self.directions))
        for k, rows in enumerate(lay.rows):
            signals = self.forward.propagate(k, lay.inputs[k], forward)
            for o, columns in lay.columns[k].items():
                if o in signals:
                    outputs[rows, columns] = signals[o]
            s.forward.append(signals)
            s.backward.append(self.backward.propagate(k, lay.units[k], backward))
        return s._replace(error=lay.targets - outputs)

    def loss(self, error: np.ndarray) -> float:
        """The loss of some errors."""
        return 0.5 * float(np.vdot(error, error)) + self.layout.irreducible_loss

    def error_signals(self, s: State, error: np.ndarray) -> list[Arrays]:
        """Backward signals of errors, of each context, at the ends of its edges."""
        each = zip(self.layout.rows, s.backward, self.receivers, strict=True)
        return [{v: error[rows].dot(signals[v]) for v in nodes} for rows, signals, nodes in each]

    def gradient(self, s: State, back: list[Arrays]) -> np.ndarray:
        """Minus the gradient of the loss in the coordinates, for the error signals that are given."""
        out = np.zeros(len(self.rate))
        parts = self.split(out)
        for forward, backward, edges in zip(s.forward, back, self.layout.open, strict=True):
            for e, gate in edges.items():
                source, target = self.ends[e]
                f, b, part = forward[source], backward[target], parts[e]
                part += scaled(gate, b.T.dot(f) if part.ndim == 2 else (b * f).sum(0))
        return out

    def velocity(self, s: State, error: np.ndarray) -> np.ndarray:
        """The velocity of the coordinates, for errors that need not be those of the state."""
        return self.rate * self.gradient(s, self.error_signals(s, error))

    def slope(self, velocity: np.ndarray) -> float:
        """The loss's rate of change at some velocity of the coordinates."""
        return -float((velocity / np.where(self.rate > 0, self.rate, 1.0)).dot(velocity))

    def jvp(self, s: State, change: np.ndarray) -> np.ndarray:
        """Jacobian-vector product: the change of all outputs with the coordinates, to first order."""
        out, parts = np.zeros_like(s.error), self.split(change)
        for k, rows in enumerate(self.layout.rows):
            for e, gate in self.layout.open[k].items():
                source, target = self.ends[e]
                f, n = s.forward[k][source], parts[e]
                moved = f.dot(n.T) if n.ndim == 2 else f * n
                out[rows] += scaled(gate, moved).dot(s.backward[k][target].T)
        return out

    def tangent_kernel(self, s: State) -> np.ndarray:
        """Velocity of all outputs per unit of all errors."""
        (n, o), rows = s.error.shape, self.layout.rows
        kernel = np.empty((n, o, n, o))
        for k, here in enumerate(rows):
            for j, there in enumerate(rows[: k + 1]):
                block = self._kernel_block(s, k, j)
                kernel[here, :, there] = block.transpose(0, 2, 1, 3)
                if j < k:
                    kernel[there, :, here] = block.transpose(1, 3, 0, 2)
        return kernel.reshape(n * o, n * o)

    def _kernel_block(self, s: State, k: int, j: int) -> np.ndarray:
        """Between two contexts: (rows, rows, outputs, outputs)."""
        ff, bb, o = [], [], s.error.shape[1]
        block = np.zeros((len(s.error[self.layout.rows[k]]), len(s.error[self.layout.rows[j]]), o, o))
        for e, gate in self.layout.open[k].items():
            factor = gate * self.layout.open[j].get(e, 0.0) * self.layout.rates[e]
            if factor == 0:
                continue
            source, target = self.ends[e]
            f, f2 = s.forward[k][source], s.forward[j][source]
            b, b2 = s.backward[k][target], s.backward[j][target]
            if self.weights[e].ndim == 1:
                block += factor * np.einsum("ni,oi,mi,pi->nmop", f, b, f2, b2)
            else:
                ff.append(f.dot(f2.T).ravel())
                bb.append(scaled(factor, b.dot(b2.T)).ravel())
        return block + np.array(ff).T.dot(np.array(bb)).reshape(block.shape) if ff else block

    def implicit_error(self, s: State, h: float, error: np.ndarray) -> np.ndarray:
        """Errors at the end of a step of length h that is implicit in the outputs: `(1 + h K)^-1 error`."""
        if error.size > constants.DIRECT:
            multiply = lambda e: e + h * self.jvp(s, self.velocity(s, e))  # noqa: E731
            return conjugate_gradients(multiply, error, s.error)
        a = h * self.tangent_kernel(s)
        a.flat[:: len(a) + 1] += 1.0
        return solve_positive(a, error)


class Saved(NamedTuple):
    """The network at a time: in its bases then, and its coordinates.

    `projected` says whether the outputs that the bases see are good enough to stand for the network's.
    """

    t: float
    net: ReducedNetwork
    y: np.ndarray
    projected: bool

    def change(self, e: str) -> np.ndarray:
        """The change of an edge's weights since the start, lifted from the bases."""
        n, (s, t) = self.net.split(self.y)[e], self.net.ends[e]
        backward, forward = self.net.backward.basis, self.net.forward.basis
        n = backward[t].T @ n if t in backward else n
        return n @ forward[s] if s in forward else n

    def small_weights(self) -> Arrays:
        """Weights between the spaces that the inputs span at each node.

        Products along paths from the inputs are those of the network, or those that the bases see where these
        hold all signals of the inputs.
        """
        net, layout, spaces, small = self.net, self.net.layout, {}, {}
        if self.projected and layout.is_complete:
            weights = net.forward.reduced_weights(net.split(self.y))
        else:
            weights = {e: w + self.change(e) for e, w in net.weights.items()}
        for v in layout.order:
            into = {e: s for e, (s, t) in net.ends.items() if t == v}
            arriving = {e: weights[e] @ spaces[s] if s in spaces else weights[e] for e, s in into.items()}
            if v in layout.input_dims:
                rows, dims = np.concatenate(list(arriving.values()), axis=1), layout.input_dims[v]
                q = np.linalg.qr(rows)[0] if len(rows) > dims else np.eye(len(rows), dims)
                arriving, spaces[v] = {e: q.T @ a for e, a in arriving.items()}, q
            small |= {e: a if into[e] else a[:, 0] for e, a in arriving.items()}
        return small
