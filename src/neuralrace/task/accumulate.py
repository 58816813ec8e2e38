"""Moments of samples that arrive in batches, in memory that does not grow with their number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from neuralrace.errors import InputError
from neuralrace.graph import Graph
from neuralrace.task.blocks import digest
from neuralrace.task.context import Context, Gate, gate_bytes, is_open
from neuralrace.task.factor import PseudoSamples
from neuralrace.task.samples import Samples

DIGEST_COLUMNS = 256  # up to so many, a product costs less than the digest of its factors


# Weight, and of each context: key, gates, sums of products of inputs, of inputs and targets, of targets.
Part = tuple[float, list[tuple[Any, dict[str, Gate], np.ndarray, np.ndarray, float]]]


class _Sum:
    """A running sum of outer products, known by the digest of all that went into it."""

    __slots__ = ("__weakref__", "key", "value")

    def __init__(self, value: np.ndarray, key: bytes):
        self.value, self.key = value, key


@dataclass
class _State:
    """What has been seen of one context: its rows while they are few, then their moments."""

    gates: dict[str, Gate]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rows: list[tuple[np.ndarray, np.ndarray]] | None = field(default_factory=list)
    xx: _Sum | None = None
    xy: _Sum | None = None
    yy: float = 0.0


class Accumulator:
    """Collects contexts from batches of samples."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.states: dict[Any, _State] = {}
        self.sums: WeakValueDictionary[bytes, _Sum] = WeakValueDictionary()
        self.weight: float = 0.0

    def add(self, s: Samples) -> None:
        """Count in a batch."""
        with np.errstate(over="ignore"):
            self.weight += float(s.sample_weight.sum())
        if not np.isfinite(self.weight):
            raise InputError(
                "sample_weight must have a finite sum over all batches; divide all of them by the same number"
            )
        root, even = np.sqrt(s.sample_weight)[:, None], bool((s.sample_weight == 1).all())
        for gates, index in s.patterns:
            xs = tuple(x for x in s.inputs if is_open(gates.get(x, 1.0)))
            ys = tuple(s.targets)
            key = (xs, ys, tuple((n, gate_bytes(g)) for n, g in sorted(gates.items())))
            state = self.states.setdefault(key, _State(gates, xs, ys))
            r = root[index]
            weigh = (lambda v: v) if even else (lambda v: v * r)
            columns = [weigh(s.inputs[x][index]) for x in xs]
            # Only biases see the constant input; without them it would add a needless row.
            x = hstack([*columns, r] if self.graph.biases or not columns else columns)
            y = hstack([weigh(s.targets[y][index]) for y in ys] or [r[:, :0]])
            self._extend(state, x, y)

    def _extend(self, state: _State, x: np.ndarray, y: np.ndarray) -> None:
        fold = [*(state.rows or []), (x, y)]
        if state.rows is not None and sum(len(a) for a, _ in fold) <= x.shape[1]:
            state.rows.append((x.copy(), y.copy()))  # a generator may use its arrays again
        else:
            self._fold(state, fold)

    def _fold(self, state: _State, rows: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Replace rows by their moments."""
        state.rows = None
        for a, b in rows:
            state.xx = self._plus(state.xx, a, a)
            state.xy = self._plus(state.xy, a, b)
            state.yy += float(np.vdot(b, b))

    def _plus(self, total: _Sum | None, a: np.ndarray, b: np.ndarray) -> _Sum:
        if a.shape[1] <= DIGEST_COLUMNS:
            return self._sum(total, a.T @ b)
        return self._sum(total, None, a, b)

    def _sum(self, total: _Sum | None, product: np.ndarray | None, *factors: np.ndarray) -> _Sum:
        """A sum and one more product, computed from its factors if not given; equal sums are shared."""
        key = digest(total.key if total else b"", *(factors if product is None else (product,)))
        new = self.sums.get(key)
        if new is None:
            product = factors[0].T @ factors[1] if product is None else product
            new = _Sum(product if total is None else total.value + product, key)
            self.sums[key] = new
        return new

    def sums_of_products(self) -> Part:
        """What was seen so far as plain arrays, which another accumulator can `absorb`."""
        found = []
        for key, s in self.states.items():
            if s.rows is not None:
                self._fold(s, s.rows)
            assert s.xx is not None
            assert s.xy is not None
            found.append((key, s.gates, s.xx.value, s.xy.value, s.yy))
        return self.weight, found

    def absorb(self, part: Part) -> None:
        """Count in what another accumulator has seen of the same network."""
        weight, contexts = part
        self.weight += weight
        for key, gates, xx, xy, yy in contexts:
            state = self.states.setdefault(key, _State(gates, key[0], key[1], rows=None))
            if state.rows is not None:
                self._fold(state, state.rows)
            state.xx, state.xy = self._sum(state.xx, xx), self._sum(state.xy, xy)
            state.yy += yy

    def finish(self) -> list[Context]:
        """Contexts of pseudo-samples with the moments of all batches."""
        made = PseudoSamples()
        scale = 1 / np.sqrt(self.weight) if self.states else 1.0
        contexts = [self._context(made, state, scale) for state in self.states.values()]
        made.consolidate()
        return contexts

    def _context(self, made: PseudoSamples, state: _State, scale: float) -> Context:
        in_sizes = [self.graph.nodes[n] for n in state.inputs]
        out_sizes = [self.graph.nodes[n] for n in state.outputs]
        if state.rows is not None:
            x, y = (np.concatenate(part) for part in zip(*state.rows, strict=True))
            rows, irreducible = made.joint_inputs(x * scale, in_sizes), 0.0
            targets = made.split_targets(y * scale, out_sizes)
        else:
            assert state.xx is not None
            assert state.xy is not None
            factor = made.factor(state.xx.key, state.xx.value, scale, in_sizes)
            targets, squares = made.solve(factor, state.xy.key, state.xy.value, scale, out_sizes)
            rows, irreducible = factor.rows, 0.5 * max(state.yy * scale**2 - squares, 0.0)
        return Context(
            state.gates,
            dict(zip(state.inputs, made.split_inputs(rows, in_sizes), strict=True)),
            dict(zip(state.outputs, targets, strict=True)),
            made.constant_input(rows) if self.graph.biases else None,
            irreducible_loss=irreducible,
        )


def hstack(columns: list[np.ndarray]) -> np.ndarray:
    """Arrays side by side; no copy where there is one."""
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
