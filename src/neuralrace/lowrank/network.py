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
from neuralrace.lowrank.layout import Arrays, Ends, Layout
from neuralrace.lowrank.linalg import conjugate_gradients, extended, norm, solve, through

Part = tuple[str, slice, tuple[int, ...]]  # an edge, its place among all coordinates, its shape
Neighbours = dict[str, list[tuple[str, str]]]  # node: edges there, and the nodes at their other ends


class Direction:
    """Signals of one direction: their bases, and these carried through the initial weights.

    Signals are rows. `basis[v]` is (k, size), and `image[e]` the basis at the start of an edge carried to its
    end. The other attributes are products of these.
    """

    def __init__(self, layout: Layout, weights: Arrays, end: int) -> None:
        self.end: int = end  # 0 forwards, 1 backwards
        self.other: Direction = self  # the other one
        self.ends: Ends = {e: (t, s) for e, (s, t) in layout.ends.items()} if end else layout.ends
        self.weights: Arrays = {e: w.T for e, w in weights.items()} if end else weights
        learning = {t for _, t in layout.ends.values()}  # errors go no further back than these
        self.order: list[str] = [v for v in layout.order[::-1] if v in learning] if end else layout.order
        self.start: Arrays = layout.units if end else layout.inputs
        self.node_gates: Arrays = layout.node_gates[end]
        self.edge_gates: Arrays = layout.edge_gates[end]
        edges = self.ends.items()
        self.into: Neighbours = {v: [(e, s) for e, (s, t) in edges if t == v] for v in self.order}
        self.out: Neighbours = {v: [(e, t) for e, (s, t) in edges if s == v] for v in self.order}
        self.basis: Arrays = {v: np.zeros((0, layout.sizes[v])) for v in layout.wide}
        self.image: Arrays = {
            e: np.zeros((0, layout.sizes[t])) if s in self.basis else self.weights[e].T for e, (s, t) in edges
        }
        self.forget()

    def forget(self) -> None:
        """Forget all products: bases have changed otherwise than by more rows."""
        self.own: Arrays = {}  # the image of an edge in the basis at its end
        self.sketch: Arrays = {}  # the image in a few random directions
        self.overlap: Arrays = {}  # the basis of the other direction in that of this one
        self.basis_sketch: Arrays = {}  # the basis in the random directions

    def update(self, random: Arrays) -> None:
        """Bring products up to date with the bases."""
        own = {e: self.image[e].T for v in self.order for e, _ in self.into[v]}
        for v, q in self.basis.items():
            self.overlap[v] = extended(self.overlap.get(v), q, self.other.basis[v])
            self.basis_sketch[v] = extended(self.basis_sketch.get(v), q, random[v])
            for e, _ in self.into[v]:
                own[e] = extended(self.own.get(e), q, self.image[e])
                self.sketch[e] = extended(self.sketch.get(e), self.image[e], random[v])
        self.own = own

    def reduced_weights(self, change: Arrays) -> Arrays:
        """Weights between the bases of this direction; `change` as this direction passes it."""
        weights = {}
        for e, w in self.own.items():
            v = self.ends[e][1]
            weights[e] = w + (self.overlap[v].dot(change[e]) if v in self.overlap else change[e])
        return weights

    def propagate(self, change: Arrays) -> Arrays:
        """Signals at all nodes, in the bases."""
        signals: Arrays = {}
        weights = self.reduced_weights(change)
        for v in self.order:
            total: Any = self.start.get(v, 0.0)
            for e, s in self.into[v]:
                part = through(signals[s], weights[e])
                total = total + (part * self.edge_gates[e] if e in self.edge_gates else part)
            signals[v] = total * self.node_gates[v] if v in self.node_gates else total
        return signals


class State(NamedTuple):
    """The network at some coordinates: changes N of the edges, signals, errors.

    `forward` has the signals of all samples, `backward` those of a unit error of every output. Errors of the
    outputs and `defect`, what outputs gain by the correction, are (contexts, samples, outputs).
    """

    change: Arrays
    forward: Arrays
    backward: Arrays
    error: np.ndarray
    defect: np.ndarray


class ReducedNetwork:
    """A network in its bases so far; rows of `coordinates` are its N at some times, flat."""

    def __init__(self, layout: Layout, weights: Mapping[str, np.ndarray]) -> None:
        self.layout: Layout = layout
        self.ends: Ends = layout.ends
        self.weights: Arrays = {e: w if layout.ends[e][0] else w[:, None] for e, w in weights.items()}
        unit = np.array([norm(w) / w.size**0.5 for w in self.weights.values()])
        self.unit: np.ndarray = np.where(unit > 0, unit, unit.max() or 1.0)
        self.rates: np.ndarray = np.array([layout.rates[e] for e in self.ends])
        rng, n = np.random.default_rng(0), constants.SKETCH
        self.random: Arrays = {v: rng.standard_normal((n, layout.sizes[v])) / n**0.5 for v in layout.wide}
        self.directions: list[Direction] = [Direction(layout, self.weights, end) for end in (0, 1)]
        self.directions[0].other, self.directions[1].other = self.directions[::-1]
        self.coordinates: np.ndarray = np.zeros((1, 0))
        self.dual: Arrays = {}  # forward images in the backward bases at their ends
        self.update({})
        self.output_size: float = 1.0

    def copied(self) -> ReducedNetwork:
        """A copy that later changes of the bases leave alone; arrays are shared."""
        new = copy(self)
        new.directions = [copy(d) for d in self.directions]
        for d in new.directions:
            d.basis, d.overlap = dict(d.basis), dict(d.overlap)
        return new

    # -- coordinates ---------------------------------------------------------------------------------

    def update(self, old: Arrays) -> None:
        """Bring all up to date with the bases; coordinates follow, with `old` in their first places."""
        f, b = self.directions
        f.update(self.random)
        b.update(self.random)
        wide = [(e, t) for e, (_, t) in self.ends.items() if t in b.basis]
        self.dual = {e: extended(self.dual.get(e), b.basis[t], f.image[e]) for e, t in wide}
        shapes = {}
        for e, (s, t) in self.ends.items():
            sizes = (len(b.basis.get(t, b.image[e])), len(f.basis.get(s, f.image[e])))
            shapes[e] = sizes[: self.weights[e].ndim]
        lengths = [prod(s) for s in shapes.values()]
        at = [slice(*ends) for ends in pairwise([0, *accumulate(lengths)])]
        self.parts: list[Part] = list(zip(shapes, at, shapes.values(), strict=True))
        self.rate: np.ndarray = np.repeat(self.rates, lengths)
        self.coordinates = np.zeros((len(self.coordinates), len(self.rate)))
        for e, m in self.split(self.coordinates).items():
            if e in old:
                m[tuple(map(slice, old[e].shape))] = old[e]

    def split(self, flat: np.ndarray) -> Arrays:
        """Flat coordinates, or rows of them, as a matrix of each edge."""
        return {e: flat[..., at].reshape(*flat.shape[:-1], *shape) for e, at, shape in self.parts}

    def norms(self, flat: np.ndarray) -> np.ndarray:
        """Norm of each edge's coordinates."""
        return np.sqrt([(x := flat[at]).dot(x) for _, at, _ in self.parts])

    # -- learning (by `dot`, which takes half as long as `@` for matrices this small) ----------------

    def by_context(self, x: np.ndarray) -> np.ndarray:
        """Rows of all contexts as (contexts, rows, numbers)."""
        contexts = self.layout.shape[0]
        return x.reshape(contexts, len(x) // contexts, x.shape[1])

    def sent(self, e: str, signals: np.ndarray) -> np.ndarray:
        """Signals of samples as they enter an edge."""
        gates = self.layout.edge_gates[0]
        return signals * gates[e] if e in gates else signals

    def paired(self, x: np.ndarray, backward: np.ndarray) -> np.ndarray:
        """What signals of samples do to the outputs, by backward signals at the same node."""
        if self.layout.shape[0] == 1:
            return x.dot(backward.T)[None]
        return self.by_context(x) @ self.by_context(backward).transpose(0, 2, 1)

    def state(self, y: np.ndarray) -> State:
        """The network at coordinates y.

        Outputs are those of the forward signals, corrected by what is outside their bases as far as backward
        signals say what it does (the adjoint correction): the error that is left is a product of what both
        miss.
        """
        f, change, targets = self.directions[0], self.split(y), self.layout.targets
        forward = f.propagate(change)
        backward = self.directions[1].propagate({e: n.T for e, n in change.items()})
        defect = np.zeros_like(targets)
        for v in f.basis:
            lost = -forward[v].dot(f.overlap[v])
            for e, source in f.into[v]:
                lost += self.sent(e, forward[source]).dot((self.dual[e] + change[e]).T)
            defect += self.paired(lost, backward[v])
        error = targets - defect
        for o, unit in self.layout.units.items():
            error -= self.paired(forward[o], unit)
        return State(change, forward, backward, error, defect)

    def loss(self, error: np.ndarray) -> float:
        """The loss of some errors."""
        return 0.5 * float(np.vdot(error, error)) + self.layout.irreducible_loss

    def error_signals(self, s: State, error: np.ndarray) -> Arrays:
        """Backward signals of the errors of all samples."""
        if self.layout.shape[0] == 1:
            return {v: error[0].dot(b) for v, b in s.backward.items()}
        return {v: np.concatenate(error @ self.by_context(b)) for v, b in s.backward.items()}

    def gradient(self, s: State, back: Arrays) -> np.ndarray:
        """Minus the gradient of the loss in the coordinates, for the error signals that are given."""
        out = np.empty(len(self.rate))
        for e, part in self.split(out).items():
            source, target = self.ends[e]
            f, b = self.sent(e, s.forward[source]), back[target]
            part[...] = b.T.dot(f) if part.ndim == 2 else (b * f).sum(0)
        return out

    def velocity(self, s: State, error: np.ndarray) -> np.ndarray:
        """The velocity of the coordinates, for errors that need not be those of the state."""
        return self.rate * self.gradient(s, self.error_signals(s, error))

    def jvp(self, s: State, change: np.ndarray) -> np.ndarray:
        """Jacobian-vector product: the change of all outputs with the coordinates, to first order."""
        out = np.zeros_like(s.error)
        for e, n in self.split(change).items():
            source, target = self.ends[e]
            out += self.paired(through(self.sent(e, s.forward[source]), n), s.backward[target])
        return out

    def tangent_kernel(self, s: State) -> np.ndarray:
        """Velocity of all outputs per unit of all errors; not for edges with one weight per neuron."""
        c, n, o = self.layout.shape
        ff, bb = np.empty((len(self.ends), c, n, c, n)), np.empty((len(self.ends), c, o, c, o))
        for k, (e, (source, target)) in enumerate(self.ends.items()):
            f, b = self.sent(e, s.forward[source]), s.backward[target]
            ff[k] = f.dot(f.T).reshape(c, n, c, n)
            bb[k] = self.rates[k] * b.dot(b.T).reshape(c, o, c, o)
        samples = ff.transpose(1, 3, 2, 4, 0).reshape(c, c, n * n, -1)
        outputs = bb.transpose(1, 3, 0, 2, 4).reshape(c, c, -1, o * o)
        blocks = (samples @ outputs).reshape(c, c, n, n, o, o)
        return blocks.transpose(0, 2, 4, 1, 3, 5).reshape(c * n * o, -1)

    def implicit_error(self, s: State, h: float, error: np.ndarray) -> np.ndarray:
        """Errors at the end of a step of length h that is implicit in the outputs: `(1 + h K)^-1 error`."""
        if error.size > constants.DIRECT or any(w.ndim == 1 for w in self.weights.values()):
            multiply = lambda e: e + h * self.jvp(s, self.velocity(s, e))  # noqa: E731
            return conjugate_gradients(multiply, error, s.error)
        kernel = self.tangent_kernel(s)
        return solve(np.eye(len(kernel)) + h * kernel, error.ravel()).reshape(error.shape)


class Saved(NamedTuple):
    """The network at a time, in its bases then; `projected`: whether these see its outputs well enough."""

    t: float
    loss: float
    net: ReducedNetwork
    y: np.ndarray
    projected: bool

    def change(self, e: str) -> np.ndarray:
        """The change of an edge's weights since the start, lifted from the bases."""
        n, (s, t) = self.net.split(self.y)[e], self.net.ends[e]
        forward, backward = (d.basis for d in self.net.directions)
        n = backward[t].T @ n if t in backward else n
        return n @ forward[s] if s in forward else n
