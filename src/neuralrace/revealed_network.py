"""Random networks drawn only in the directions that signals reach, and small networks that learn like them.

Each hidden layer is known in some orthonormal directions, each weight matrix as its block between those of
its two ends (see `revealed`). The blocks are the weights of a small network. It learns like the large one as
far as signals stay within the known directions: forwards from the inputs, backwards from the errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from neuralrace.graph import Graph
from neuralrace.revealed import SOURCE, TARGET, FixedMatrix, Revealed
from neuralrace.task import Context, Task

Signals = dict[str, np.ndarray]  # node -> (draws, states, rows, known directions)

_FIRST = 1e-6  # fraction of the initial signals that may be left out
_SLOWEST = 1e-3  # smaller speeds, relative to the largest, are set to this


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
        sweep, omitted = _Sweep(self, {}), [0.0]
        for node in self.graph.order:
            sweep.forwards(node)
            for e in self._with_unknown(self.graph.outgoing[node], TARGET):
                omitted.append(self._reveal(e, SOURCE, *sweep.images(e, SOURCE), _FIRST, most // 2))
        sweep.end_at(lambda y, out: np.concatenate([y, out], axis=2))
        for node in reversed(self.graph.order):
            sweep.backwards(node)
            for e in self._with_unknown(self.graph.incoming[node], SOURCE):
                omitted.append(self._reveal(e, TARGET, *sweep.images(e, TARGET), _FIRST, most))
        self.omitted = max(omitted)
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
        speeds, omitted = sweep.speeds(), [0.0]
        for node in self.graph.order:
            sweep.forwards(node)
            for e in self._with_unknown(self.graph.outgoing[node], TARGET):
                omitted.append(self._reveal(e, SOURCE, sweep.velocities(e, SOURCE, speeds), 1.0, share, most))
        sweep.end_at(_error)
        for node in reversed(self.graph.order):
            sweep.backwards(node)
            for e in self._with_unknown(self.graph.incoming[node], SOURCE):
                omitted.append(self._reveal(e, TARGET, sweep.velocities(e, TARGET, speeds), 1.0, share, most))
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
