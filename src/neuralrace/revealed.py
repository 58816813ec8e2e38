"""Random networks of any width, drawn only in the directions that signals reach.

Signals reach few directions of a wide layer. A large random matrix W is therefore kept as its block
`Q_t^T W Q_s` between orthonormal directions known at its two ends, and nothing is ever stored in the size of
the layers. Directions are abstract: only their number is known. There are two ways to know more of W:

- `extend` adds directions that are independent of W, such as those added by another matrix of the same layer.
  They are uniform in the unknown directions, and so are their entries in the block.
- `reveal` draws the image of known directions. Its part outside the known directions of the other end becomes
  new directions there.

Both sample from the law of W given its known block. So the block always has the law of the same block of a
full matrix, and the choice of the next directions may depend on the block. All arrays have
a leading axis of independent draws.

The blocks are the weights of a small network. It learns like the large one as far as signals stay within the
known directions: forwards from the inputs, backwards from the errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from neuralrace.graph import Graph
from neuralrace.task import Context, Task

TARGET, SOURCE = 0, 1  # ends of a matrix: its rows, its columns

_ROUNDING = 1e-12  # squared lengths below this fraction of the whole count as zero
Signals = dict[str, np.ndarray]  # node -> (draws, states, rows, known directions)
_FIRST = 1e-6  # fraction of the initial signals that may be left out
_SLOWEST = 1e-3  # smaller speeds, relative to the largest, are set to this


class FixedMatrix:
    """A constant matrix between layers of which all directions are known.

    Parameters
    ----------
    weights : ndarray, shape (target, source)
    """

    def __init__(self, weights: np.ndarray):
        self.block: np.ndarray = weights[None]  # entries between known directions, (draws, target, source)

    def extend(self, end: int, count: int) -> None:
        """Make directions known at one end that are independent of the matrix."""

    def leaks(self, end: int) -> np.ndarray:
        """Map from signals at one end to directions unknown at the other: `(draws, known, open)`.

        `leaks^T f` has the expected length of the part of the image of f outside the known directions.
        """
        return np.zeros((1, self.block.shape[2 - end], 0))

    def reveal(self, end: int, turn: np.ndarray, count: int) -> int:
        """Draw the images of some directions of one end; return the number of new directions at the other.

        `turn` `(draws, open, open)` is orthogonal; its first columns are the directions, in coordinates of
        `leaks`.
        """
        return 0


class GaussianMatrix:
    """Independent normal entries.

    Images of revealed directions lie in the known directions of the other end. On the others, called open,
    the part of the matrix outside is independent of the known block.

    Parameters
    ----------
    rng : numpy.random.Generator
    draws : int
        Independent matrices.
    shape : (int, int)
        Rows and columns, of any size.
    std : float
        Standard deviation of the entries.
    """

    def __init__(self, rng: np.random.Generator, draws: int, shape: tuple[int, int], std: float):
        self.rng: np.random.Generator = rng
        self.shape: tuple[int, int] = shape
        self.std: float = std
        self.block: np.ndarray = np.zeros((draws, 0, 0))
        self._open = [np.zeros((draws, 0, 0)), np.zeros((draws, 0, 0))]  # (draws, known, open), orthonormal

    def extend(self, end: int, count: int) -> None:
        other = self._open[1 - end]
        new = self._normal(count, other.shape[2]) @ other.swapaxes(1, 2)
        self._append(end, new)

    def leaks(self, end: int) -> np.ndarray:
        unknown = self.shape[1 - end] - self.block.shape[2 - end]
        return self.std * np.sqrt(unknown) * self._open[end]

    def reveal(self, end: int, turn: np.ndarray, count: int) -> int:
        unknown = self.shape[1 - end] - self.block.shape[2 - end]
        turned = self._open[end] @ turn
        new = min(count, unknown)
        images = self.std * _triangle(self.rng, len(turn), unknown, count)
        images = np.concatenate([images, self._normal(new, turn.shape[2] - count)], axis=2)
        self._append(1 - end, images @ turned.swapaxes(1, 2))
        self._open[end] = turned[:, :, count:]
        return new

    def _normal(self, rows: int, columns: int) -> np.ndarray:
        return self.std * self.rng.standard_normal((len(self.block), rows, columns))

    def _append(self, end: int, new: np.ndarray) -> None:
        """Entries `(draws, new, known at the other end)` of new directions, which are open."""
        self.block = np.concatenate([self.block, new if end == TARGET else new.swapaxes(1, 2)], axis=1 + end)
        known, free = self._open[end].shape[1:]
        grown = np.zeros((len(new), known + new.shape[1], free + new.shape[1]))
        grown[:, :known, :free] = self._open[end]
        grown[:, known:, free:] = np.eye(new.shape[1])
        self._open[end] = grown


class OrthogonalMatrix:
    """All singular values equal, directions uniform.

    The matrix, or its transpose, is the first columns of a uniform orthogonal matrix O. The other columns of
    O are a space of their own, whose directions become known too. If F is the known block of O, the unknown
    part of its columns has the Gram matrix `1 - F^T F`, and is uniform apart from that.

    Parameters are those of `GaussianMatrix`, with `scale`, the singular value, in place of `std`.
    """

    def __init__(self, rng: np.random.Generator, draws: int, shape: tuple[int, int], scale: float):
        self.rng: np.random.Generator = rng
        self.shape: tuple[int, int] = shape
        self.scale: float = scale
        self._large = TARGET if shape[TARGET] >= shape[SOURCE] else SOURCE
        self._n = max(shape)
        self._block = np.zeros((draws, 0, 0))  # rows: the larger end; columns: the smaller
        self._beyond = np.zeros((draws, 0, 0))  # columns: directions of the space that the matrix lacks

    @property
    def block(self) -> np.ndarray:
        return self.scale * (self._block if self._large == TARGET else self._block.swapaxes(1, 2))

    def extend(self, end: int, count: int) -> None:
        root, unknown = self._outside(end=1 - end)
        new = root @ _corner(self.rng, len(root), unknown, root.shape[2], count)
        if end == self._large:
            self._append_rows(new.swapaxes(1, 2))
        else:
            self._block = np.concatenate([self._block, new], axis=2)

    def leaks(self, end: int) -> np.ndarray:
        root, unknown = self._outside(end)
        if end != self._large:
            return self.scale * root[:, : self._block.shape[2]]
        left = min(self.shape) - self._block.shape[2]
        return self.scale * np.sqrt(left / max(unknown, 1)) * root

    def reveal(self, end: int, turn: np.ndarray, count: int) -> int:
        root, unknown = self._outside(end)
        root = root @ turn
        if end != self._large:
            self._append_rows(root[:, :, :count].swapaxes(1, 2))
            return count
        # The images lie partly in the space of the matrix, partly beyond it.
        left = min(self.shape) - self._block.shape[2]
        inside = _triangle(self.rng, len(turn), left, count)
        beyond = _triangle(self.rng, len(turn), unknown - left, count)
        new = inside.shape[1]
        both = np.linalg.qr(np.concatenate([inside, beyond], axis=1), mode="complete")[0]
        among = both[:, :, count:]
        rest = _corner(self.rng, len(turn), unknown - count, root.shape[2] - count, among.shape[2])
        shares = np.concatenate([both[:, :, :count], among @ rest.swapaxes(1, 2)], axis=2)
        columns = root @ shares.swapaxes(1, 2)
        self._block = np.concatenate([self._block, columns[:, :, :new]], axis=2)
        self._beyond = np.concatenate([self._beyond, columns[:, :, new:]], axis=2)
        return new

    def _outside(self, end: int) -> tuple[np.ndarray, int]:
        """R with `R R^T = 1 - F^T F`, F with columns by one end; how much is unknown at the other."""
        known = np.concatenate([self._block, self._beyond], axis=2)
        known = known.swapaxes(1, 2) if end == self._large else known
        unknown = self._n - known.shape[1]
        values, vectors = np.linalg.eigh(np.eye(known.shape[2]) - known.swapaxes(1, 2) @ known)
        values = np.where(values > _ROUNDING, values, 0.0)
        rank = min(unknown, known.shape[2])
        first = known.shape[2] - rank
        return (np.sqrt(values)[:, None] * vectors)[:, :, first:], unknown

    def _append_rows(self, rows: np.ndarray) -> None:
        columns = self._block.shape[2]
        self._block = np.concatenate([self._block, rows[:, :, :columns]], axis=1)
        self._beyond = np.concatenate([self._beyond, rows[:, :, columns:]], axis=1)


Revealed = FixedMatrix | GaussianMatrix | OrthogonalMatrix  # matrices known in some directions
Law = Callable[[np.random.Generator, int, tuple[int, int], float], Revealed]  # rng, draws, shape, size

# Those of `init` that can be drawn direction by direction: this needs the law of a matrix given its known
# block, which a function that draws whole matrices does not say. Add yours under its name there.
LAWS: dict[str, Law] = {
    "gaussian": GaussianMatrix,
    "xavier": lambda rng, draws, shape, gain: GaussianMatrix(
        rng, draws, shape, gain * math.sqrt(2 / sum(shape))
    ),
    "orthogonal": OrthogonalMatrix,
}


def _triangle(rng: np.random.Generator, draws: int, n: int, columns: int) -> np.ndarray:
    """`Q^T G` `(draws, min(n, columns), columns)` of normal G `(n, columns)`, Q a basis of its columns."""
    rows = min(n, columns)
    r = rng.standard_normal((draws, rows, columns))
    if n >= columns:
        r = np.triu(r, 1)
        k = np.arange(columns)
        r[:, k, k] = np.sqrt(rng.chisquare(n - k, (draws, columns)))
    return r


def _corner(rng: np.random.Generator, draws: int, n: int, rows: int, columns: int) -> np.ndarray:
    """The first rows and columns of a uniform orthogonal matrix of size n."""
    if not rows or not columns:
        return np.zeros((draws, rows, columns))
    top = rng.standard_normal((draws, rows, columns))
    rest = _triangle(rng, draws, n - rows, columns)
    whole = np.linalg.cholesky(top.swapaxes(1, 2) @ top + rest.swapaxes(1, 2) @ rest)
    return np.linalg.solve(whole, top.swapaxes(1, 2)).swapaxes(1, 2)


class RevealedNetwork:
    """Independent random networks of the same sizes, drawn in the directions that their signals reach.

    Parameters
    ----------
    task : Task
        Graph, data and gates; sizes of hidden nodes in its graph do not matter.
    sizes : dict of str to int
        Neurons of every node.
    draw : callable
        From the shape of an edge its random matrix, with no known directions.

    Attributes
    ----------
    known : dict of str to int
        Known directions of every node; all of inputs, outputs and nodes that fixed edges join.
    omitted : float
        Largest fraction of signals (`follow_start`) or velocities (`follow`) outside the known directions.
    """

    def __init__(
        self, task: Task, sizes: Mapping[str, int], draw: Callable[[tuple[int, int]], Revealed]
    ) -> None:
        self.task: Task = task
        self.graph: Graph = task.graph
        self.sizes: Mapping[str, int] = sizes
        self.ends: dict[str, tuple[str, str]] = {e: (t, s) for e, (s, t) in task.graph.edges.items()}
        self.matrices: dict[str, Revealed] = {}
        for e, (t, s) in self.ends.items():
            fixed = self.graph.fixed.get(e)
            self.matrices[e] = draw((sizes[t], sizes[s])) if fixed is None else FixedMatrix(fixed)
        self.known: dict[str, int] = dict.fromkeys(sizes, 0)
        self.omitted: float = np.inf
        whole = {n for e in self.graph.fixed for n in self.ends[e]}
        for node in dict.fromkeys((*self.graph.inputs, *self.graph.outputs, *sorted(whole))):
            self.extend(node, sizes[node])

    def extend(self, node: str, count: int, found_by: str | None = None) -> None:
        """Make directions of a node known to all its matrices but the one that found them."""
        for ends, end in ((self.graph.incoming, TARGET), (self.graph.outgoing, SOURCE)):
            for edge in ends[node]:
                if edge != found_by:
                    self.matrices[edge].extend(end, count)
        self.known[node] += count

    def weights(self, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
        """Weights of the small networks `(draws, target, source)`, with zeros up to the sizes given."""
        found = {}
        for e in self.graph.shapes:
            t, s = self.ends[e]
            block = self.matrices[e].block
            found[e] = np.zeros((len(block), sizes[t], sizes[s]))
            found[e][:, : block.shape[1], : block.shape[2]] = block
        return found

    @property
    def closed(self) -> bool:
        """Whether signals can never leave the known directions."""
        inner = [e for e, ends in self.ends.items() if all(n in self.graph.hidden for n in ends)]
        return self.known == self.sizes or (not inner and self.omitted <= _FIRST)

    def follow_start(self, most: int) -> None:
        """Reveal the directions that the signals of the initial weights pass, up to so many in a node.

        Of more directions those with the largest signals are kept; half of the room is for signals that come
        backwards.
        """
        sweep = _Sweep(self, {})
        both = lambda y, out: np.concatenate([y, out], axis=2)  # noqa: E731
        self._follow(sweep, sweep.images, both, _FIRST, (most // 2, most))
        for node in self.graph.hidden:
            if not self.known[node]:  # no signal ever passes
                self.extend(node, 1)

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """Initial loss and the speed at which it falls, `(draws,)`."""
        sweep = _Sweep(self, {})
        sweep.all()
        loss = sum(c.irreducible_loss for c in sweep.contexts) + np.zeros(1)
        for c, ahead in zip(sweep.contexts, sweep.ahead, strict=True):
            for o, y in c.targets.items():
                loss = loss + 0.5 * ((y - ahead.get(o, 0.0)) ** 2).sum(axis=(-1, -2)).ravel()
        return loss, sum((speed[:, 0] ** 2 for speed in sweep.speeds().values()), np.zeros(1))

    def follow(self, moved: Mapping[str, np.ndarray], share: float, most: int) -> None:
        """Reveal directions outside the known ones in which signals would move weights.

        Parameters
        ----------
        moved : dict of str to ndarray, shape (draws, states, target, source)
            Weights of the small networks at some states, less the initial ones.
        share : float
            Velocity that the directions left out may add to the weights, relative to their velocity.
        most : int
            Known directions of a node.
        """
        sweep = _Sweep(self, moved)
        sweep.all()
        speeds = sweep.speeds()
        moving = lambda e, end: (sweep.velocities(e, end, speeds), 1.0)  # noqa: E731
        self._follow(sweep, moving, _error, share, (most, most))

    def _follow(
        self,
        sweep: _Sweep,
        signals: Callable[[str, int], tuple[np.ndarray, Any]],
        end: Callable[[np.ndarray, np.ndarray], np.ndarray],
        share: float,
        most: tuple[int, int],
    ) -> None:
        """Reveal images of signals, given as products and the size of the whole: forwards, then backwards."""
        omitted = [0.0]
        for node in self.graph.order:
            sweep.forwards(node)
            for e in self._with_unknown(self.graph.outgoing[node], TARGET):
                omitted.append(self._reveal(e, SOURCE, *signals(e, SOURCE), share, most[0]))
        sweep.end_at(end)
        for node in reversed(self.graph.order):
            sweep.backwards(node)
            for e in self._with_unknown(self.graph.incoming[node], SOURCE):
                omitted.append(self._reveal(e, TARGET, *signals(e, TARGET), share, most[1]))
        self.omitted = max(omitted)

    def _with_unknown(self, edges: tuple[str, ...], end: int) -> list[str]:
        """Edges of which this end is not known completely."""
        other = {e: self.ends[e][end] for e in edges}
        return [e for e, node in other.items() if self.known[node] < self.sizes[node]]

    def _reveal(self, edge: str, end: int, gram: np.ndarray, whole: Any, share: float, most: int) -> float:
        """Reveal the principal images of signals with these products; return the fraction left out."""
        leaks, node = self.matrices[edge].leaks(end), self.ends[edge][1 - end]
        values, turn = np.linalg.eigh(leaks.swapaxes(1, 2) @ gram @ leaks)
        values, turn = np.maximum(values[:, ::-1], 0.0), turn[:, :, ::-1]
        sizes = (values / np.reshape(np.maximum(whole, 1e-300), (-1, 1))).mean(axis=0)
        omitted = np.sqrt(np.append(np.cumsum(sizes[::-1])[::-1], 0.0))  # if so many are revealed
        wanted = int(np.flatnonzero(omitted <= share)[0])
        room = min(most, self.sizes[node]) - self.known[node]
        count = max(0, min(wanted, room))
        if count:
            new = self.matrices[edge].reveal(end, turn, count)
            self.extend(node, new, found_by=edge)
        return float(omitted[count])


class _Sweep:
    """Signals at some states of the small networks, updated node by node as directions are added."""

    def __init__(self, network: RevealedNetwork, moved: Mapping[str, np.ndarray]) -> None:
        self.network, self.graph, self.moved = network, network.graph, moved
        self.contexts: list[Context] = network.task.moment_contexts
        self.ahead: list[Signals] = [{} for _ in self.contexts]
        self.behind: list[Signals] = [{} for _ in self.contexts]

    def weights(self, edge: str) -> np.ndarray:
        """`(draws, states, target, source)`; in directions found since, nothing has been learned."""
        block = self.network.matrices[edge].block[:, None]
        if edge not in self.moved:
            return block
        moved = self.moved[edge]
        found = np.repeat(block, moved.shape[1], axis=1)
        found[:, :, : moved.shape[2], : moved.shape[3]] += moved
        return found

    def all(self) -> None:
        """Signals at all nodes, forwards and backwards."""
        for node in self.graph.order:
            self.forwards(node)
        self.end_at(_error)
        for node in reversed(self.graph.order):
            self.backwards(node)

    def forwards(self, node: str) -> None:
        """Signals from the inputs at a node."""
        weights = {e: self.weights(e).swapaxes(2, 3) for e in self.graph.incoming[node]}
        for c, ahead in zip(self.contexts, self.ahead, strict=True):
            if node in c.inputs:
                ahead[node] = (c.gate(node) * c.inputs[node])[None, None]
            self._add(c, ahead, node, {e: self.graph.edges[e][0] for e in weights}, weights)

    def backwards(self, node: str) -> None:
        """Signals from the outputs at a node; those of the outputs themselves are set by `end_at`."""
        weights = {e: self.weights(e) for e in self.graph.outgoing[node]}
        for c, behind in zip(self.contexts, self.behind, strict=True):
            self._add(c, behind, node, {e: self.graph.edges[e][1] for e in weights}, weights)

    def _add(
        self, context: Context, signals: Signals, node: str, near: Mapping[str, str], weights: Signals
    ) -> None:
        parts = [context.gate(e) * (signals[n] @ weights[e]) for e, n in near.items() if n in signals]
        if parts:
            signals[node] = context.gate(node) * sum(parts[1:], parts[0])

    def end_at(self, signal: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
        """Set the signals that start backwards, from targets and outputs."""
        for c, ahead, behind in zip(self.contexts, self.ahead, self.behind, strict=True):
            for o, y in c.targets.items():
                out = ahead.get(o, np.zeros((1, 1, *y.shape)))
                behind[o] = c.gate(o) * signal(np.broadcast_to(y, out.shape), out)

    def images(self, edge: str, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Gram matrix `(draws, known, known)` of the signals at one end of an edge.

        Also the squared norm of their images under the edge, in known and unknown directions.
        """
        here, there = self.network.ends[edge][end], self.network.ends[edge][1 - end]
        gram = np.zeros((1, 1, self.network.known[here], self.network.known[here]))
        for c, signals in zip(self.contexts, self.ahead if end == SOURCE else self.behind, strict=True):
            if here in signals and c.gate(edge) != 0 and c.gate(there) != 0:
                gram = gram + signals[here].swapaxes(2, 3) @ signals[here]
        gram = gram[:, 0]
        matrix = self.network.matrices[edge]
        block = matrix.block if end == SOURCE else matrix.block.swapaxes(1, 2)
        both = np.concatenate([block, matrix.leaks(end).swapaxes(1, 2)], axis=1)
        return gram, np.trace(both @ gram @ both.swapaxes(1, 2), axis1=1, axis2=2)

    def speeds(self) -> dict[str, np.ndarray]:
        """Speed `(draws, states)` at which each edge learns."""
        found = {}
        for e in self.graph.shapes:
            t, s = self.network.ends[e]
            speed = np.linalg.norm(self._pull((t, s), (e,)), axis=(2, 3))
            found[e] = np.maximum(speed, np.maximum(_SLOWEST * speed.max(axis=1, keepdims=True), 1e-300))
        return found

    def velocities(self, edge: str, end: int, speeds: Mapping[str, np.ndarray]) -> np.ndarray:
        """Products `(draws, known, known)` of signals at one end of an edge, by what their images would move.

        The image of a signal that comes forwards moves the edges that leave the node where it arrives; one
        that comes backwards those that enter it.
        """
        here, there = self.network.ends[edge][end], self.network.ends[edge][1 - end]
        gram = np.zeros((self.network.known[here],) * 2)
        for e in (self.graph.outgoing if end == SOURCE else self.graph.incoming)[there]:
            beyond = self.network.ends[e][1 - end]
            if end == SOURCE:
                pull = self._pull((beyond, here), (edge, there, e))
            else:
                pull = self._pull((here, beyond), (edge, there, e)).swapaxes(2, 3)
            pull = pull / speeds[e][:, :, None, None]
            gram = gram + (pull.swapaxes(2, 3) @ pull).mean(axis=1)
        return gram

    def _pull(self, ends: tuple[str, str], gates: tuple[str, ...]) -> np.ndarray:
        """Sum over rows of backward signals at one node times forward signals at another."""
        after, before = ends
        total = np.zeros((1, 1, self.network.known[after], self.network.known[before]))
        for c, ahead, behind in zip(self.contexts, self.ahead, self.behind, strict=True):
            gate = math.prod(float(c.gate(name)) for name in gates)
            if gate != 0 and before in ahead and after in behind:
                total = total + gate * (behind[after].swapaxes(2, 3) @ ahead[before])
        return total


def _error(target: np.ndarray, output: np.ndarray) -> np.ndarray:
    return target - output
