"""Moments that the user gives, context by context."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from neuralrace.errors import InputError, array, known, number
from neuralrace.graph import Graph
from neuralrace.task.contexts import Block, Context, Gate, digest, tidy_gates
from neuralrace.task.moments import PseudoSamples

KEYS = ("sxx", "syx", "syy", "gates", "default_gate", "probability")
ROUNDING = 1e-15  # of the largest moment at a node: so much may be rounding, whatever the units of a neuron
Pairs = dict[tuple[str, str], np.ndarray]


def given_contexts(graph: Graph, contexts: Iterable[Any]) -> list[Context]:
    """Contexts of pseudo-samples with the moments given."""
    reader = _ContextReader(graph)
    made = [reader.context(f"contexts[{k}]", c) for k, c in enumerate(contexts)]
    reader.made.consolidate()
    return made


class _Recognised:
    """Names arrays by their content; comparing with the last array costs less than a digest."""

    def __init__(self):
        self.last, self.key = np.zeros((0, 0)), b""

    def __call__(self, value: np.ndarray) -> bytes:
        if not self.key or not np.array_equal(value, self.last):
            self.last, self.key = value.copy(), digest(value)  # a generator may use its arrays again
        return self.key


class _ContextReader:
    """Reads contexts one at a time; moments that stand in several are factored and checked once."""

    def __init__(self, graph: Graph):
        self.graph, self.made = graph, PseudoSamples()
        self.name_xx, self.name_yx = _Recognised(), _Recognised()
        self.checked: set[Hashable] = set()

    def context(self, where: str, given: Any) -> Context:
        """One context, checked."""
        if not isinstance(given, Mapping):
            raise InputError(f"{where} must be a dict with sxx, syx, syy and gates, got {type(given)}")
        known(where, given, KEYS, "key of a context")
        p = number(f"{where}['probability']", given.get("probability", 1.0), least=0)
        g = self.graph
        xx = _pairs(f"{where}['sxx']", given.get("sxx", {}), g, g.inputs)
        yx = _pairs(f"{where}['syx']", given.get("syx", {}), g, g.outputs)
        yy = _powers(f"{where}['syy']", given.get("syy", {}), g)
        xs = _ordered(g, [*(n for pair in xx for n in pair), *(x for _, x in yx)])
        ys = _ordered(g, [*yy, *(o for o, _ in yx)])
        inputs, targets = self.rows(where, xx, yx, xs, ys, p)
        gates = _gates(where, given, g, {*xs, *ys})
        return Context(gates, inputs, targets, irreducible_loss=_irreducible(where, yy, targets, p))

    def rows(
        self, where: str, xx: Pairs, yx: Pairs, xs: tuple[str, ...], ys: tuple[str, ...], p: float
    ) -> tuple[dict[str, Block], dict[str, Block]]:
        """Rows of the inputs and of the outputs with these moments, times the probability."""
        nodes = self.graph.nodes
        in_sizes, out_sizes = [nodes[x] for x in xs], [nodes[o] for o in ys]
        x, y = self.empty(in_sizes, out_sizes) if not xs or p == 0 else ([], [])
        if xs:
            sxx, syx = _assemble(xx, xs, xs, nodes, symmetric=True), _assemble(yx, ys, xs, nodes)
            xx_key = (self.name_xx(sxx), *in_sizes)  # the same moments may stand at other nodes
            yx_key = (self.name_yx(syx), *out_sizes)
            made = self.made if p > 0 else PseudoSamples()  # moments of probability 0 are only checked
            p_checked = p if p > 0 else 1.0
            scale = np.sqrt(p_checked)
            factor = made.factor(xx_key, sxx, scale, in_sizes)
            solved, _ = made.solve(factor, yx_key, syx.T, scale, out_sizes)
            if xx_key not in self.checked:
                _check_sxx(where, sxx, factor.rows.array / scale, in_sizes)
            singular = factor.rows.shape[0] < len(sxx)
            if singular and solved and (xx_key, yx_key) not in self.checked:
                y_rows = np.concatenate([b.array for b in solved], axis=1)
                _check_syx(where, sxx, syx.T, factor.rows.array.T @ y_rows / p_checked)
            self.checked |= {xx_key, (xx_key, yx_key)}
            if p > 0:
                x, y = made.split_inputs(factor.rows, in_sizes), solved
        return dict(zip(xs, x, strict=True)), dict(zip(ys, y, strict=True))

    def empty(self, in_sizes: list[int], out_sizes: list[int]) -> tuple[list[Block], list[Block]]:
        """No rows: nothing comes in, or nothing counts."""
        inputs, targets = self.made.inputs, self.made.targets
        return [inputs(np.zeros((0, n))) for n in in_sizes], [targets(np.zeros((0, n))) for n in out_sizes]


def _ordered(graph: Graph, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names), key=graph.rank.__getitem__))


def _pairs(name: str, given: Any, graph: Graph, rows: tuple[str, ...]) -> Pairs:
    """Blocks of a moment matrix, keyed by (row node, input node)."""
    if not isinstance(given, Mapping):
        if len(graph.inputs) != 1 or len(rows) != 1:
            raise InputError(f"{name} must be a dict from pairs of nodes to arrays, got {type(given)}")
        given = {(rows[0], graph.inputs[0]): given}
    blocks = {}
    for key, value in given.items():
        pair = (key, key) if isinstance(key, str) else key
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(f"{name} must be keyed by pairs of nodes, got {key!r}")
        for node, end in zip(pair, (rows, graph.inputs), strict=True):
            side = graph.incoming if end is graph.inputs else graph.outgoing
            if side.get(node, True):
                known(name, [node], end, "input node" if end is graph.inputs else "output node")
        blocks[pair] = array(f"{name}[{key!r}]", value, (graph.nodes[pair[0]], graph.nodes[pair[1]]))
    return blocks


def _powers(name: str, given: Any, graph: Graph) -> dict[str, float]:
    """The mean square of each output."""
    if not isinstance(given, Mapping):
        if len(graph.outputs) != 1:
            raise InputError(f"{name} must be a dict from outputs to numbers, got {type(given)}")
        given = {graph.outputs[0]: given}
    for o in given:
        if graph.outgoing.get(o, True):
            known(name, [o], graph.outputs, "output node")
    return {o: number(f"{name}[{o!r}]", v, least=0) for o, v in given.items()}


def _irreducible(where: str, yy: Mapping[str, float], targets: Mapping[str, Block], p: float) -> float:
    """The part of the loss that stands in the mean squares but not in what inputs explain."""
    loss = 0.0
    for o, value in yy.items():
        least = float(np.vdot(targets[o].array, targets[o].array))
        if p * value < least * (1 - 1e-9):
            raise InputError(
                f"{where}['syy'][{o!r}] must be at least {least / p:.6g} with this sxx and syx, got {value:g}"
            )
        loss += 0.5 * max(p * value - least, 0.0)
    return loss


def _gates(where: str, given: Mapping[str, Any], graph: Graph, on: set[str]) -> dict[str, Gate]:
    named = given.get("gates", {})
    if not isinstance(named, Mapping):
        raise InputError(f"{where}['gates'] must be a dict from node or edge names, got {type(named)}")
    known(f"{where}['gates']", named, graph.names, "node or edge")
    default = number(f"{where}['default_gate']", given.get("default_gate", 1.0))
    gates: dict[str, Any] = {} if default == 1 else dict.fromkeys(graph.hidden, default)
    for name, value in named.items():
        g = array(f"{where}['gates'][{name!r}]", value)
        if g.shape not in ((), (graph.nodes.get(name),)):
            raise InputError(f"{where}['gates'][{name!r}] must be a number or one per neuron, got {g.shape}")
        ends = name in graph.nodes and not (graph.incoming[name] and graph.outgoing[name])
        if not ends or name in on:  # other inputs and outputs are off anyway
            gates[name] = g
    return tidy_gates(gates)


def _assemble(
    blocks: Pairs,
    rows: Sequence[str],
    columns: Sequence[str],
    sizes: Mapping[str, int],
    symmetric: bool = False,
) -> np.ndarray:
    """The whole moment matrix; what is not given is zero."""

    def block(a: str, b: str) -> np.ndarray:
        if (a, b) in blocks:
            return blocks[a, b]
        if symmetric and (b, a) in blocks:
            return blocks[b, a].T
        return np.zeros((sizes[a], sizes[b]))

    if len(rows) == len(columns) == 1:
        return block(rows[0], columns[0])
    if not rows or not columns:
        return np.zeros((sum(sizes[a] for a in rows), sum(sizes[b] for b in columns)))
    return np.block([[block(a, b) for b in columns] for a in rows])


def _check_sxx(where: str, sxx: np.ndarray, x: np.ndarray, sizes: Sequence[int]) -> None:
    """Refuse moments that no inputs have; what is tolerated is relative to the units of each input."""
    diagonal = np.diagonal(sxx)
    units = np.sqrt(diagonal.clip(0))
    ends = np.cumsum([0, *sizes])
    largest = [np.sqrt(np.abs(diagonal[a:b]).max(initial=0.0)) for a, b in pairwise(ends)]
    of_node = np.repeat(largest, sizes)
    tolerance = 1e-9 * np.outer(units, units) + ROUNDING * np.outer(of_node, of_node)
    if (np.abs(sxx - sxx.T) > tolerance).any() or (np.abs(sxx - x.T @ x) > tolerance).any():
        raise InputError(f"{where}['sxx'] must be symmetric and positive semi-definite")


def _check_syx(where: str, sxx: np.ndarray, sxy: np.ndarray, explained: np.ndarray) -> None:
    """Refuse correlations of targets with what does not vary."""
    units = np.sqrt(np.diagonal(sxx).clip(0))
    units = np.where(units > 0, units, units.max() or 1.0)[:, None]
    if np.abs((sxy - explained) / units).max() > 1e-6 * np.abs(sxy / units).max():
        raise InputError(f"{where}['syx'] has a part on inputs that sxx says do not vary")
