"""The least loss that any weights of a gated linear network reach (theory.md section 10).

In context c the output is a sum over paths, `sum_p g_p(c) M_p x_p`, so the loss is convex in the maps M_p of
the paths, and its least value bounds the loss of all weights. Only the span of the gate patterns `g_p` of the
paths between an input and an output counts. It is carried through the graph: paths are never listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from neuralrace.errors import InputError
from neuralrace.reduction import constants
from neuralrace.reduction.basis import joined, spans
from neuralrace.task import Block, Context, Task
from neuralrace.task.contexts import is_open


@dataclass(frozen=True)
class AttainableLoss:
    """The least loss that any weights reach, and whether networks of these widths reach it.

    Attributes
    ----------
    loss : float
        No weights have a smaller loss, whatever the widths: a level below it is never reached.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.Task(nr.Graph.chain([1, 4, 1]), [[1.0], [1.0]], [[1.0], [0.0]])
    >>> round(nr.attainable_loss(task).loss, 12)  # one input cannot have two targets
    0.125
    """

    loss: float
    _patterns: Patterns = field(repr=False)

    def __float__(self) -> float:
        return self.loss

    @cached_property
    def needed(self) -> dict[str, int]:
        """Units of each hidden node with which networks reach the loss."""
        return self._patterns.needed()

    @cached_property
    def tight(self) -> bool | None:
        """Whether networks of these widths reach the loss; None where that is not known.

        They do where every hidden node has at least the units `needed`. They do not where the outputs that
        have this loss, which are unique, are of a higher rank in some context than the hidden nodes let
        through, so that more than 1e-4 of what can be learned is left. For fixed and diagonal edges or gates
        of single neurons nothing is proven.
        """
        patterns, g = self._patterns, self._patterns.task.graph
        if g.diagonal or g.fixed or not patterns.complete or patterns.of_neurons:
            return None
        if all(g.nodes[n] >= size for n, size in self.needed.items()):
            return True
        return False if patterns.blocked > constants.UNLEARNED * patterns.learned else None


def attainable_loss(task: Task) -> AttainableLoss:
    """The least loss that any weights of a linear network reach: least squares over the maps of its paths.

    Where edges are fixed it is a bound, in which their weights count as free.

    Parameters
    ----------
    task : Task
        On a linear graph without biases.

    Returns
    -------
    AttainableLoss
        With `loss`, `tight` (whether networks of these widths reach it) and `needed` widths.

    Examples
    --------
    >>> import neuralrace as nr
    >>> least = nr.attainable_loss(nr.tasks.xor())
    >>> round(least.loss, 12), least.tight
    (0.0, True)
    """
    if not isinstance(task, Task):
        raise InputError(f"task must be a Task, got {type(task)}")
    if not task.graph.is_linear or task.graph.biases:
        raise InputError("task must be on a linear graph without biases to have an attainable loss")
    patterns = Patterns(task)
    return AttainableLoss(patterns.least_loss(), patterns)


class _Span(NamedTuple):
    """Independent gate patterns `(dimension, gatings)`.

    Where every gating has a pattern of its own, the span is `free`: one row that marks them.
    """

    rows: np.ndarray
    free: bool

    @property
    def dimension(self) -> int:
        return int(np.count_nonzero(self.rows)) if self.free else len(self.rows)

    def features(self, gating: int) -> list[tuple[int, float]]:
        """Number and value of each pattern that is not 0 under a gating."""
        column = self.rows[:, gating].tolist()
        return [(gating if self.free else k, v) for k, v in enumerate(column) if v]


class Patterns:
    """Spans of the gate patterns of paths, over the distinct gatings of hidden nodes and edges of a task."""

    def __init__(self, task: Task) -> None:
        self.task: Task = task
        self.complete: bool = True  # whether all spans are exact
        ends = {*task.graph.inputs, *task.graph.outputs}
        numbers: dict[Any, int] = {}
        gatings: list[dict[str, Any]] = []
        self.gating_of: list[int] = []  # number of the gating of each context
        for c in task.moment_contexts:
            inner = {n: v for n, v in c.gates.items() if n not in ends}
            key = tuple((n, np.asarray(v).tobytes()) for n, v in sorted(inner.items()))
            if key not in numbers:
                numbers[key] = len(gatings)
                gatings.append(inner)
            self.gating_of.append(numbers[key])
        self.count: int = len(gatings)
        # What is not 1: (patterns, gatings), one for each kind of neuron.
        self.gates: dict[str, np.ndarray] = {}
        for n in {n: None for inner in gatings for n in inner}:
            columns = np.array(np.broadcast_arrays(*(np.asarray(inner.get(n, 1.0)) for inner in gatings)))
            self.gates[n] = np.unique(columns.reshape(self.count, -1).T, axis=0)
        self.spans: list[_Span] = []
        self.known: dict[Any, int] = {}  # what a span was made of -> its number
        self.learned = self.blocked = 0.0  # by `least_loss`: what can be learned; a part that has no room

    @property
    def of_neurons(self) -> bool:
        """Whether single neurons have gates of their own."""
        return any(np.ndim(v) for c in self.task.moment_contexts for v in c.gates.values())

    # -- spans -------------------------------------------------------------------------------

    def _number(self, rows: np.ndarray, free: bool = False) -> int:
        key = (rows.shape, free, rows.tobytes())
        if key not in self.known:
            self.known[key] = len(self.spans)
            self.spans.append(_Span(rows, free))
        return self.known[key]

    def carried(self, start: str, active: Iterable[int], back: bool = False) -> dict[str, int]:
        """Number of the span of the paths from a node to each node after it (with `back`, before it).

        The gates of both ends are not in it; that of a hidden end is, unless `back`.
        """
        g = self.task.graph
        marks = np.zeros((1, self.count))
        marks[0, list(active)] = 1.0
        found = {start: self._number(marks)}
        for node in reversed(g.order) if back else g.order:
            edges = g.outgoing[node] if back else g.incoming[node]
            parts = []
            for e in edges:
                before = g.edges[e][1 if back else 0]
                if before in found:
                    number, gated = found[before], back and before in self.gates and before not in g.outputs
                    number = self._joined(before, [(number, "")]) if gated else number
                    parts.append((number, e if e in self.gates else ""))
            if parts:
                key = (node if node in self.gates and not back else "", *sorted(set(parts)))
                if key not in self.known:
                    self.known[key] = self._joined(key[0], key[1:])
                found[node] = self.known[key]
        return found

    def _joined(self, node: str, parts: Sequence[tuple[int, str]]) -> int:
        """The span of what arrives through gated edges, behind the gate of the node."""
        alone = np.zeros(self.count, bool)  # gatings that have a pattern of their own
        rows = [np.zeros((0, self.count))]
        for number, edge in parts:
            new = self.spans[number].rows
            for name in filter(None, (edge, node)):
                new = (self.gates[name][:, None] * new).reshape(-1, self.count)
            if self.spans[number].free:
                alone |= new.any(axis=0)
            else:
                rows.append(new)
        table = np.where(alone, 0.0, np.concatenate(rows))
        table = table[table.any(axis=1)]
        seen = alone | table.any(axis=0)
        if table.size > constants.MOST_PATTERNS:
            self.complete = False
        else:
            table = _independent(table) if len(table) else table
            apart = np.count_nonzero(table.any(axis=0)) == len(table) and np.count_nonzero(seen) > 1
            if not apart and not alone.any():
                return self._number(table)
            if not apart and np.count_nonzero(alone) * self.count <= constants.MOST_PATTERNS:
                return self._number(np.concatenate([np.eye(self.count)[alone], table]))
            self.complete = self.complete and bool(apart)
        return self._number(seen[None].astype(float), free=True)

    def needed(self) -> dict[str, int]:
        """Units that suffice at each hidden node: for what arrives, or for what leaves, if that is less."""
        g = self.task.graph
        active: dict[str, set[int]] = {n: set() for n in (*g.inputs, *g.outputs)}
        for c, gating in zip(self.task.moment_contexts, self.gating_of, strict=True):
            for n in (*c.input_blocks, *c.target_blocks):
                if np.any(c.gate(n)):
                    active[n].add(gating)
        ranks = {n: q.shape[1] for n, q in spans(g, self.task).items()}
        totals = []
        for nodes, back in ((g.inputs, False), (g.outputs, True)):
            total = dict.fromkeys(g.hidden, 0)
            for end in nodes:
                for n, number in self.carried(end, active[end], back).items():
                    if n in total:
                        total[n] += ranks[end] * self.spans[number].dimension
            totals.append(total)
        return {n: min(totals[0][n], totals[1][n]) for n in g.hidden}

    # -- least squares -----------------------------------------------------------------------

    def least_loss(self) -> float:
        """The least loss over all maps of paths."""
        contexts, most = self.task.moment_contexts, self._ranks()
        reached = {x: self.carried(x, range(self.count)) for x in self.task.graph.inputs}
        equal: dict[str, Counter[Any]] = {}
        for k, (c, gating) in enumerate(zip(contexts, self.gating_of, strict=True)):
            inputs = tuple([(x, b, _hashable(c, x)) for x, b in c.input_blocks.items() if is_open(c.gate(x))])
            for o, y in c.target_blocks.items():
                equal.setdefault(o, Counter())[gating, inputs, y, _hashable(c, o), int(most[o][k])] += 1
        solved: dict[Any, np.ndarray] = {}
        squares = np.zeros(3)
        for o, counts in equal.items():
            for part in _separate(self._equations(o, counts, reached)):
                if part not in solved:
                    solved[part] = _squares(part)
                squares += solved[part]
        left, self.learned, self.blocked = (0.5 * squares).tolist()
        least = float(left + sum(c.irreducible_loss for c in contexts))
        numbers = sum(b.array.size for c in contexts for b in c.target_blocks.values())
        rounding = np.finfo(float).eps * numbers * (least + self.learned + self.blocked)
        return least if least > rounding else 0.0

    def _ranks(self) -> dict[str, np.ndarray]:
        """The highest rank of the maps from all inputs to each node, in each context."""
        g, contexts = self.task.graph, self.task.moment_contexts
        found = {n: np.zeros(len(contexts), int) for n in g.nodes}
        for k, c in enumerate(contexts):
            for x in c.input_blocks:
                found[x][k] = g.nodes[x]
        is_open = {n: np.any(rows, axis=0)[self.gating_of] for n, rows in self.gates.items()}
        for n in g.order:
            if g.incoming[n]:
                arriving = sum(found[g.edges[e][0]] * is_open.get(e, 1) for e in g.incoming[n])
                found[n] = np.minimum(arriving, g.nodes[n]) * is_open.get(n, 1)
        return found

    def _equations(self, o: str, counts: Counter[Any], reached: dict[str, dict[str, int]]) -> list[_Equation]:
        """What the maps of the paths into an output must do, in each distinct context."""
        found, features = [], cache(lambda number, gating: self.spans[number].features(gating))
        for (gating, inputs, y, gate, rank), count in counts.items():
            terms = []
            for x, block, g in inputs:
                if o in reached[x] and gate != 0:
                    terms += [((x, k), block, g, value) for k, value in features(reached[x][o], gating)]
            found.append(_Equation(tuple(terms), y, gate, count, rank))
        return found


class _Equation(NamedTuple):
    """`sum_k value_k gate_k x_k M_k = y` for the rows of a context that the task has so many times."""

    terms: tuple[Any, ...]  # (name of the map, block, gate of the input, value of the pattern)
    target: Block
    gate: Any  # of the output
    times: int
    rank: int  # that the outputs of a network have at most


def _hashable(c: Context, name: str) -> Any:
    gate = c.gate(name)
    return tuple(gate.ravel().tolist()) if isinstance(gate, np.ndarray) else gate


def _separate(equations: list[_Equation]) -> Iterator[tuple[_Equation, ...]]:
    """Groups of equations that share no map; maps are numbered anew, so that equal groups are equal."""
    for group in joined([[name for name, *_ in eq.terms] for eq in equations]):
        number: dict[Any, int] = {}
        yield tuple(
            eq._replace(terms=tuple((number.setdefault(t[0], len(number)), *t[1:]) for t in eq.terms))
            for eq in (equations[k] for k in group)
        )


def _squares(equations: tuple[_Equation, ...]) -> np.ndarray:
    """Sums of squares: what the best maps leave, what they explain, and what of that is of too high a rank.

    Neurons with the same gates are fitted together.
    """
    gates = np.stack([np.broadcast_to(np.asarray(eq.gate, float), eq.target.shape[1]) for eq in equations])
    found = np.zeros(3)
    for gate in np.unique(gates, axis=1).T:
        alike = (gates == gate[:, None]).all(axis=0)
        found += _fit(equations, gate, alike)
    return found


def _fit(
    equations: tuple[_Equation, ...], gate: np.ndarray, neurons: np.ndarray
) -> tuple[float, float, float]:
    sizes = {name: block.shape[1] for eq in equations for name, block, _, _ in eq.terms}
    start = dict(zip(sizes, np.cumsum([0, *sizes.values()]), strict=False))
    features, targets = [], []
    for eq, g in zip(equations, gate, strict=True):
        weight = np.sqrt(eq.times)
        rows = np.zeros((eq.target.shape[0], sum(sizes.values())))
        for name, block, gate_in, value in eq.terms:
            rows[:, start[name] : start[name] + sizes[name]] += (
                g * weight * value * (np.asarray(gate_in) * block.array)
            )
        features.append(rows)
        targets.append(weight * eq.target.array[:, neurons])
    y = np.concatenate(targets)
    a = np.concatenate(features)
    size = np.linalg.norm(a, axis=0)
    a = a[:, size > 0] / size[size > 0]
    best, blocked, first = np.zeros_like(y), 0.0, 0
    if a.shape[1]:
        u, s, _ = np.linalg.svd(a, full_matrices=False)
        u = u[:, s > max(a.shape) * np.finfo(float).eps * s[0]]
        best = u @ (u.T @ y)
    for eq in equations:
        part, first = best[first : first + len(eq.target.array)], first + len(eq.target.array)
        if eq.rank < min(part.shape):  # no matrix of this rank is nearer
            blocked += float((np.linalg.svd(part, compute_uv=False)[eq.rank :] ** 2).sum())
    return float(((y - best) ** 2).sum()), float((best**2).sum()), blocked


def _independent(rows: np.ndarray) -> np.ndarray:
    """Those rows, in order, that are not in the span of the rows before."""
    rows = rows[np.sort(np.unique(rows, axis=0, return_index=True)[1])]
    if len(rows) < 2:
        return rows
    kept: list[int] = []
    basis = np.zeros((0, rows.shape[1]))
    for k, row in enumerate(rows):
        left = row / np.linalg.norm(row)
        for _ in range(2):
            left = left - (basis @ left) @ basis
        size = np.linalg.norm(left)
        if size > constants.NEGLIGIBLE:
            kept.append(k)
            basis = np.concatenate([basis, left[None] / size])
        if len(kept) == rows.shape[1]:
            break
    return rows[kept]
