"""The reduced network: bases of signals, coordinates of the weights' change, and how these learn.

The change of an edge's weights is `Q_t^T N Q_s`: rows of Q span the signals that pass a node, forwards and
backwards, and only the small matrix N of coordinates moves. Nodes without bases (inputs, outputs, neurons
with gates of their own) have the identity instead. So the reduced network is a network with fewer neurons.
What leaves a basis forwards comes back only where it is outside backwards too: errors are of second order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs
from scipy.sparse.linalg import LinearOperator, cg

from neuralrace.lowrank import constants
from neuralrace.subspace import rotation_invariant_nodes
from neuralrace.task import Task

(_posv,) = get_lapack_funcs(("posv",))


Arrays = dict[str, np.ndarray]
Ends = dict[str, tuple[str, str]]  # edge: its source and target


class Wiring:
    """Edges, data and gates of all contexts; a bias is an edge from the node "", whose value is constant.

    All contexts go through the network at once, as rows below each other. They are padded by zeros to the
    same numbers of samples and of outputs: `shape` is (contexts, samples, outputs). Gates of wide nodes are
    part of those of the edges that leave them.
    """

    def __init__(self, task: Task, rates: Mapping[str, float]) -> None:
        g, contexts = task.graph, task.moment_contexts
        self.rates = rates
        self.ends: Ends = {e: g.edges.get(e, ("", e)) for e in (*g.edges, *g.biases)}
        self.sizes: dict[str, int] = {**g.nodes, "": 1}
        self.order: list[str] = ["", *g.order]
        self.wide: list[str] = rotation_invariant_nodes(task)
        self.irreducible_loss: float = sum(c.irreducible_loss for c in contexts)

        rows = max(c.rows for c in contexts)
        outputs = max(sum(g.nodes[o] for o in c.targets) for c in contexts)
        self.shape: tuple[int, int, int] = (len(contexts), rows, outputs)
        self.targets: np.ndarray = np.zeros(self.shape)
        inputs = {v: np.zeros((len(contexts), rows, self.sizes[v])) for v in ("", *g.inputs)}
        units = {o: np.zeros((len(contexts), outputs, g.nodes[o])) for o in g.outputs}
        for k, c in enumerate(contexts):
            for v, x in c.inputs.items():
                inputs[v][k, : c.rows] = x
            if c.ones is not None:
                inputs[""][k, : c.rows, 0] = c.ones
            used = 0
            for o, y in c.targets.items():
                columns = slice(used, used + g.nodes[o])
                self.targets[k, : c.rows, columns] = y
                units[o][k, columns] = np.eye(g.nodes[o])
                used = columns.stop
        self.inputs: Arrays = {v: x.reshape(-1, x.shape[2]) for v, x in inputs.items()}
        self.units: Arrays = {o: x.reshape(-1, x.shape[2]) for o, x in units.items()}  # errors of 1

        gates: dict[str, list[Any]] = {v: [c.gate(v) for c in contexts] for v in g.nodes}
        edges = {e: [c.gate(e) for c in contexts] for e in g.edges}
        for e, (s, _) in g.edges.items():
            if s in self.wide:
                edges[e] = [a * b for a, b in zip(edges[e], gates[s], strict=True)]
        self.node_gates: list[Arrays] = self._by_row({v: x for v, x in gates.items() if v not in self.wide})
        self.edge_gates: list[Arrays] = self._by_row(edges)

    def _by_row(self, gates: Mapping[str, list[Any]]) -> list[Arrays]:
        """Those that are not all open, for the rows of samples and for those of outputs."""
        joined = {n: np.stack(np.broadcast_arrays(*map(np.atleast_1d, x))) for n, x in gates.items()}
        joined = {n: x for n, x in joined.items() if np.any(x != 1)}
        return [{n: np.repeat(x, rows, axis=0) for n, x in joined.items()} for rows in self.shape[1:]]


Part = tuple[str, slice, tuple[int, ...]]  # an edge, its place among all coordinates, its shape
Neighbours = dict[str, list[tuple[str, str]]]  # node: edges there, and the nodes at their other ends


class Direction:
    """How signals of one direction pass the network, and what the initial weights carry out of the bases.

    Signals are rows. `outside[e]` is (k, size): the basis at the start of an edge carried to its end, less
    what is in the basis there; `sketch[e]` the same in a few random directions.
    """

    def __init__(self, wiring: Wiring, weights: Arrays, end: int) -> None:
        self.end: int = end  # 0 forwards, 1 backwards
        self.ends: Ends = {e: (t, s) for e, (s, t) in wiring.ends.items()} if end else wiring.ends
        self.weights: Arrays = {e: w.T for e, w in weights.items()} if end else weights
        learning = {t for _, t in wiring.ends.values()}  # errors go no further back than these
        self.order: list[str] = [v for v in wiring.order[::-1] if v in learning] if end else wiring.order
        self.start: Arrays = wiring.units if end else wiring.inputs
        self.node_gates: Arrays = wiring.node_gates[end]
        self.edge_gates: Arrays = wiring.edge_gates[end]
        edges = self.ends.items()
        self.into: Neighbours = {v: [(e, s) for e, (s, t) in edges if t == v] for v in self.order}
        self.out: Neighbours = {v: [(e, t) for e, (s, t) in edges if s == v] for v in self.order}
        self.outside: Arrays = {
            e: self.weights[e].T[: 0 if s in wiring.wide else None] for e, (s, t) in edges if t in wiring.wide
        }
        self.sketch: Arrays = {}

    def propagate(self, weights: Arrays) -> Arrays:
        """Signals at all nodes, in the bases."""
        signals: Arrays = {}
        for v in self.order:
            total: Any = self.start.get(v, 0.0)
            for e, s in self.into[v]:
                w = weights[e]
                part = signals[s] * w if w.ndim == 1 else signals[s].dot(w if self.end else w.T)
                total = total + (part * self.edge_gates[e] if e in self.edge_gates else part)
            signals[v] = total * self.node_gates[v] if v in self.node_gates else total
        return signals


class Pass(NamedTuple):
    """The network at some coordinates: signals, errors.

    `forward` has the signals of all samples, `backward` those of a unit error of every output. Errors of the
    outputs are (contexts, samples, outputs).
    """

    forward: Arrays
    backward: Arrays
    error: np.ndarray


class ReducedNetwork:
    """A network in its bases so far; rows of `coordinates` are its N at some times, flat.

    `basis[v]` is (k, size), and `initial[e]` has the initial weights between the bases. Later changes of the
    bases leave a copy alone.
    """

    def __init__(self, wiring: Wiring, weights: Mapping[str, np.ndarray]) -> None:
        self.wiring: Wiring = wiring
        self.ends: Ends = wiring.ends
        self.weights: Arrays = {e: w if wiring.ends[e][0] else w[:, None] for e, w in weights.items()}
        unit = np.array([norm(w) / w.size**0.5 for w in self.weights.values()])
        self.unit: np.ndarray = np.where(unit > 0, unit, unit.max() or 1.0)
        self.rates: np.ndarray = np.array([wiring.rates[e] for e in self.ends])
        rng, n = np.random.default_rng(0), constants.SKETCH
        self.random: Arrays = {v: rng.standard_normal((wiring.sizes[v], n)) / n**0.5 for v in wiring.wide}
        self.directions: list[Direction] = [Direction(wiring, self.weights, end) for end in (0, 1)]
        self.basis: Arrays = {v: np.zeros((0, wiring.sizes[v])) for v in wiring.wide}
        self.initial: Arrays = {
            e: w if w.ndim == 1 else w[: 0 if t in self.basis else None, : 0 if s in self.basis else None]
            for (e, w), (s, t) in zip(self.weights.items(), self.ends.values(), strict=True)
        }
        self.coordinates: np.ndarray = np.zeros((1, 0))
        self.update({})
        self.output_size: float = 1.0

    # -- bases and coordinates -----------------------------------------------------------------------

    def extend(self, v: str, rows: np.ndarray) -> np.ndarray:
        """Append to a basis what is outside it of some orthonormal rows; `update` is due afterwards.

        Returns what was appended. Rows with next to nothing outside the basis are rounding.
        """
        q = self.basis[v]
        u = rows[: q.shape[1] - len(q)]
        u = row_basis(u - (u @ q.T) @ q, constants.DEPENDENT)
        for d, other in zip(self.directions, self.directions[::-1], strict=True):
            for e, far in d.into[v]:
                part = d.outside[e] @ u.T
                d.outside[e] = d.outside[e] - part @ u
                grown = [self.initial[e], part if d.end else part.T]
                self.initial[e] = np.concatenate(grown, axis=d.end)
                if far in self.basis:
                    left = u @ other.weights[e].T - part.T @ self.basis[far]
                    other.outside[e] = np.concatenate([other.outside[e], left])
        self.basis = {**self.basis, v: np.concatenate([q, u])}
        return u

    def restrict(self, v: str, rows: np.ndarray, past: Arrays) -> None:
        """Keep some orthonormal combinations of a basis, in `past` coordinates too; `update` is due."""
        for d, other in zip(self.directions, self.directions[::-1], strict=True):
            turned = (lambda m: m @ rows.T) if d.end else (lambda m: rows @ m)
            for e, far in d.into[v]:
                here = self.initial[e] if d.end else self.initial[e].T
                d.outside[e] = d.outside[e] + (here - (here @ rows.T) @ rows) @ self.basis[v]
                self.initial[e], past[e] = turned(self.initial[e]), turned(past[e])
                if far in self.basis:
                    other.outside[e] = rows @ other.outside[e]
        self.basis = {**self.basis, v: rows @ self.basis[v]}

    def update(self, old: Arrays) -> None:
        """Bring all up to date with the bases; coordinates follow, with `old` in their first places."""
        for d in self.directions:
            d.sketch = {e: x @ self.random[d.ends[e][1]] for e, x in d.outside.items()}
        lengths = [w.size for w in self.initial.values()]
        at = [slice(*ends) for ends in pairwise([0, *accumulate(lengths)])]
        self.parts: list[Part] = [(e, k, w.shape) for k, (e, w) in zip(at, self.initial.items(), strict=True)]
        self.rate: np.ndarray = np.repeat(self.rates, lengths)
        self.flat: np.ndarray = np.concatenate([w.ravel() for w in self.initial.values()])
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
        contexts = self.wiring.shape[0]
        return x.reshape(contexts, len(x) // contexts, x.shape[1])

    def sent(self, e: str, signals: np.ndarray) -> np.ndarray:
        """Signals of samples as they enter an edge."""
        gates = self.wiring.edge_gates[0]
        return signals * gates[e] if e in gates else signals

    def paired(self, x: np.ndarray, backward: np.ndarray) -> np.ndarray:
        """What signals of samples do to the outputs, by backward signals at the same node."""
        if self.wiring.shape[0] == 1:
            return x.dot(backward.T)[None]
        return self.by_context(x) @ self.by_context(backward).transpose(0, 2, 1)

    def state(self, y: np.ndarray) -> Pass:
        """The network at coordinates y."""
        weights = self.split(self.flat + y)
        forward, backward = (d.propagate(weights) for d in self.directions)
        error = self.wiring.targets
        for o, unit in self.wiring.units.items():
            error = error - self.paired(forward[o], unit)
        return Pass(forward, backward, error)

    def loss(self, error: np.ndarray) -> float:
        """The loss of some errors."""
        return 0.5 * float(np.vdot(error, error)) + self.wiring.irreducible_loss

    def error_signals(self, s: Pass, error: np.ndarray) -> Arrays:
        """Backward signals of the errors of all samples."""
        if self.wiring.shape[0] == 1:
            return {v: error[0].dot(b) for v, b in s.backward.items()}
        return {v: np.concatenate(error @ self.by_context(b)) for v, b in s.backward.items()}

    def gradient(self, s: Pass, back: Arrays) -> np.ndarray:
        """Minus the gradient of the loss in the coordinates, for the error signals that are given."""
        out = np.empty(len(self.rate))
        for e, part in self.split(out).items():
            source, target = self.ends[e]
            f, b = self.sent(e, s.forward[source]), back[target]
            part[...] = b.T.dot(f) if part.ndim == 2 else (b * f).sum(0)
        return out

    def velocity(self, s: Pass, error: np.ndarray) -> np.ndarray:
        """The velocity of the coordinates, for errors that need not be those of the state."""
        return self.rate * self.gradient(s, self.error_signals(s, error))

    def jvp(self, s: Pass, change: np.ndarray) -> np.ndarray:
        """Jacobian-vector product: the change of all outputs with the coordinates, to first order."""
        out = np.zeros_like(s.error)
        for e, n in self.split(change).items():
            source, target = self.ends[e]
            f = self.sent(e, s.forward[source])
            out += self.paired(f.dot(n.T) if n.ndim == 2 else f * n, s.backward[target])
        return out

    def tangent_kernel(self, s: Pass) -> np.ndarray:
        """Velocity of all outputs per unit of all errors; not for edges with one weight per neuron."""
        c, n, o = self.wiring.shape
        ff, bb = np.empty((len(self.ends), c, n, c, n)), np.empty((len(self.ends), c, o, c, o))
        for k, (e, (source, target)) in enumerate(self.ends.items()):
            f, b = self.sent(e, s.forward[source]), s.backward[target]
            ff[k] = f.dot(f.T).reshape(c, n, c, n)
            bb[k] = self.rates[k] * b.dot(b.T).reshape(c, o, c, o)
        samples = ff.transpose(1, 3, 2, 4, 0).reshape(c, c, n * n, -1)
        outputs = bb.transpose(1, 3, 0, 2, 4).reshape(c, c, -1, o * o)
        blocks = (samples @ outputs).reshape(c, c, n, n, o, o)
        return blocks.transpose(0, 2, 4, 1, 3, 5).reshape(c * n * o, -1)

    def implicit_error(self, s: Pass, h: float, error: np.ndarray) -> np.ndarray:
        """Errors at the end of a step of length h that is implicit in the outputs: `(1 + h K)^-1 error`."""
        if error.size > constants.DIRECT or any(w.ndim == 1 for w in self.weights.values()):
            multiply = lambda e: e + h * self.jvp(s, self.velocity(s, e))  # noqa: E731
            return conjugate_gradients(multiply, error, s.error)
        kernel = self.tangent_kernel(s)
        return solve(np.eye(len(kernel)) + h * kernel, error.ravel()).reshape(error.shape)


class Snapshot(NamedTuple):
    """The network at a time, in its bases then."""

    t: float
    loss: float
    net: ReducedNetwork
    y: np.ndarray

    @property
    def weights(self) -> Arrays:
        """All weights between the bases."""
        return self.net.split(self.net.flat + self.y)

    def change(self, e: str) -> np.ndarray:
        """The change of an edge's weights since the start, lifted from the bases."""
        n, (s, t), basis = self.net.split(self.y)[e], self.net.ends[e], self.net.basis
        n = basis[t].T @ n if t in basis else n
        return n @ basis[s] if s in basis else n


# -- products of few long rows ------------------------------------------------------------------


def norm(x: np.ndarray) -> float:
    """Root of the sum of squares."""
    x = x.ravel()
    return float(x.dot(x)) ** 0.5


def row_basis(rows: np.ndarray, least: float) -> np.ndarray:
    """Orthonormal rows along the principal directions of some rows, those longer than `least`."""
    size, mix = np.linalg.eigh(rows @ rows.T)
    kept = size > max(least**2, 1e-14 * size.sum())
    return (mix[:, kept] / np.sqrt(size[kept])).T @ rows


def factor(squares: np.ndarray) -> np.ndarray:
    """R with `R^T R` equal to each of some symmetric matrices (n, m, m), which may be singular."""
    m = squares.shape[1]
    shift = np.finfo(float).eps * m * np.trace(squares, axis1=1, axis2=2) + 1e-300
    return np.linalg.cholesky(squares + shift[:, None, None] * np.eye(m)).transpose(0, 2, 1)


def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a^-1 b` for a positive definite matrix; nan where it is not one."""
    _, x, failed = _posv(a, b, lower=True)
    return np.full_like(b, np.nan) if failed else x


def conjugate_gradients(multiply: Callable[[Any], Any], b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Solve for what is near x already."""
    r = b - multiply(x)
    if not np.isfinite(r).all():
        return x
    given: Any = {"matvec": lambda v: multiply(v.reshape(r.shape)).ravel(), "dtype": r.dtype}
    operator = LinearOperator((r.size, r.size), **given)
    return x + cg(operator, r.ravel(), rtol=constants.CG_ERROR, maxiter=100)[0].reshape(r.shape)
