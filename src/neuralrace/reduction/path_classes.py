"""Classes of paths and their statistics, computed without listing paths.

Paths whose edges have the same classes act alike, so their statistics are summed. Diagonal weights commute:
in the shared and the pathwise basis the key of a class of paths holds the exponents of the classes of edges
in the product along a path. Blocks do not commute: there the key lists the classes from input to output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace.dynamics.rates import Rates
from neuralrace.graph import Graph
from neuralrace.reduction import constants
from neuralrace.reduction.family import Classes, Family
from neuralrace.task import Blocks, Context

_IDENTITY = -1  # stands for a fixed edge that changes nothing
Key = tuple[int, ...]  # exponents of the classes of edges, or these classes from input to output
Polynomial = dict[Key, np.ndarray]  # rows (rows, modes or size of the input) that paths of a class carry


@dataclass(frozen=True)
class TiedLoss:
    """The loss of decoupled modes: S (paths, modes), D (paths, paths, modes), exponents (paths, classes).

    In each mode it is `const - sum_k S_k m_k + 1/2 sum_kl D_kl m_k m_l` with a monomial m_k for each class of
    paths; S_k sums `S(p)` and D_kl sums `D(j, p)` over their paths.
    """

    exponents: np.ndarray
    s: np.ndarray
    d: np.ndarray
    sizes: np.ndarray
    constant: float
    rates: np.ndarray  # learning rate of each class of edges
    decays: np.ndarray  # weight decay of each class of edges

    @cached_property
    def powers(self) -> tuple[Key, ...]:
        return tuple(map(tuple, self.exponents.tolist()))

    @cached_property
    def _lowered(self) -> np.ndarray:
        """(1 + classes, paths, classes, 1) exponents of the monomials, then of their derivatives by class."""
        below = self.exponents - np.eye(self.exponents.shape[1])[:, None]
        return np.concatenate([self.exponents[None], np.maximum(below, 0)])[..., None]

    @cached_property
    def _factors(self) -> np.ndarray:
        """(classes, paths, 1) factors of these derivatives."""
        return self.exponents.T[:, :, None].astype(float)

    @property
    def load(self) -> float:
        """What the powers in `loss_and_gradient` cost, in units of what the calls of NumPy do."""
        return (self._lowered.size * self.s.shape[1] + self.d.size) / constants.LOAD_OF_CALLS

    def loss(self, b: np.ndarray) -> np.ndarray:
        """The loss (...) of strengths (..., classes, modes); of many times, for which slopes are large."""
        m = (b[..., None, :, :] ** self.exponents[:, :, None]).prod(axis=-2)
        products = np.einsum("klm,...lm->...km", self.d, m)
        return self.constant + ((0.5 * products - self.s) * m).sum(axis=(-1, -2))

    def loss_and_gradient(self, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The loss (runs,) of strengths (runs, classes, modes), and its derivative by them."""
        monomials = np.multiply.reduce(b[:, None, None] ** self._lowered, axis=3)
        m, slopes = monomials[:, 0], monomials[:, 1:]  # (runs, paths, modes), (runs, classes, paths, modes)
        products = np.add.reduce(self.d * m[:, None], axis=2)
        loss = self.constant + np.add.reduce((0.5 * products - self.s) * m, axis=(1, 2))
        return loss, np.add.reduce(self._factors * (products - self.s)[:, None] * slopes, axis=2)


class TooManyPathClasses(Exception):
    """There are more than `MOST_CLASSES` classes of paths."""


def tied_loss(found: Expansion, rates: Rates) -> TiedLoss | None:
    """The polynomial of a diagonal family; None where modes are coupled."""
    family, classes = found.family, found.classes
    sums, couplings = found.sums
    n = len(sums)
    s, d = np.reshape(sums, (n, family.modes)), np.zeros((n, n, family.modes))
    crossing = 0.0
    for pair, value in couplings.items():
        if value.ndim == 2:
            diagonal = np.diagonal(value)
            crossing = max(crossing, np.abs(value - np.diag(diagonal)).max(initial=0.0))
            value = diagonal
        d[pair] = value
    if crossing > 1e-10 * max(np.abs(d).max(initial=0.0), 1e-300):
        return None
    exponents = np.array(list(found.index), int).reshape(n, len(classes))
    sizes = np.array([len(c) for c in classes])
    return TiedLoss(exponents, s, d, sizes, found.loss_of_zero, *class_rates(classes, rates))


class Expansion:
    """The activity of each node as a polynomial in the strengths of the classes.

    Equal polynomials are computed and stored once.
    """

    def __init__(
        self, family: Family, classes: Classes, contexts: Sequence[tuple[Context, float]] | None = None
    ):
        own = [(c, 1.0) for c in family.small.moment_contexts]
        self.contexts: Sequence[tuple[Context, float]] = own if contexts is None else contexts
        self.family: Family = family
        self.classes: Classes = classes
        self.graph: Graph = family.small.graph
        self.ordered: bool = family.basis == "block"
        self.class_of: dict[str, int] = {e: k for k, members in enumerate(classes) for e in members}
        self.constants: list[np.ndarray] = []  # of fixed edges, numbered after the classes
        if not family.overlap:
            self._number_constants(len(classes))
        self.polynomials: list[Polynomial] = []
        self.ids: dict[Any, int] = {}
        self.terms: dict[Any, float]
        self.constant: float
        self.terms, self.constant = self._collect()
        found = dict.fromkeys(
            key for ends, _, _ in self.terms for _, p in ends for key in self.polynomials[p]
        )
        if len(found) > constants.MOST_CLASSES:
            raise TooManyPathClasses
        self.index: dict[Key, int] = {key: k for k, key in enumerate(sorted(found, key=self._place))}

    def _number_constants(self, first: int) -> None:
        for e, w in self.graph.fixed.items():
            identity = len(w) == w.shape[1] and np.abs(w - np.eye(len(w))).max() < 1e-12
            if self.ordered and identity and self.graph.edges[e][1] not in self.graph.outputs:
                self.class_of[e] = _IDENTITY
            elif np.any(w):
                self.class_of[e] = first + len(self.constants)
                self.constants.append(w)

    @property
    def loss_of_zero(self) -> float:
        """The loss where all outputs are 0."""
        targets = (count * float(np.vdot(y.array, y.array)) for (_, y, _), count in self.terms.items())
        return self.constant + 0.5 * sum(targets)

    def classes_on(self, key: Key) -> Key:
        """The classes of edges on paths of a class, each as often as it occurs."""
        if self.ordered:
            return key
        return tuple(k for k, p in enumerate(key) for _ in range(p))

    def for_any_data(self) -> Expansion:
        """The same with data drawn at random: sums that vanish or are equal then do so whatever the data.

        They follow from graph and gates alone, and from the frames of pathways.
        """
        rng = np.random.default_rng(0)
        drawn = {n: Blocks().add(rng.normal(size=(1, size))) for n, size in self.graph.nodes.items()}
        contexts = []
        for c, _ in self.contexts:
            inputs, targets = ({n: drawn[n] for n in b} for b in (c.input_blocks, c.target_blocks))
            contexts.append((replace(c, input_blocks=inputs, target_blocks=targets), rng.uniform(0.5, 1.0)))
        return Expansion(self.family, self.classes, contexts)

    @cached_property
    def sums(self) -> tuple[list[Any], dict[tuple[int, int], Any]]:
        """S of each class of paths, and D of each two that end at the same output.

        For M modes these are (M,) and (M, M) with the modes of the first class first, or (M,) in a shared
        frame; for blocks `Sigma^yx` (out, in) and `Sigma^xx` (input of the first, input of the second).
        """
        s: list[Any] = [0.0] * len(self.index)
        d: dict[tuple[int, int], Any] = {}
        for (ends, target, gate), count in self.terms.items():
            paths = [(n, key, rows) for n, p in ends for key, rows in self.polynomials[p].items()]
            for n, key, rows in paths:
                k = self.index[key]
                s[k] = s[k] + count * self._correlation(target.array, n, rows, gate)
                for m, other, others in paths:
                    j = self.index[other]
                    d[j, k] = d.get((j, k), 0.0) + count * self._coupling(m, others, n, rows, gate)
        return s, d

    def _correlation(self, y: np.ndarray, node: str, rows: np.ndarray, gate: float) -> np.ndarray:
        """Correlation of the rows that reach an output through a node with its target."""
        if self.ordered:
            return y.T @ rows
        u = self.family.overlap.get(node)
        goal = y[:, : self.family.modes] if u is None else gate * y[:, : len(u)] @ u
        return (goal * rows).sum(axis=0)

    def _coupling(self, m: str, others: np.ndarray, n: str, rows: np.ndarray, gate: float) -> np.ndarray:
        """Correlation of the rows that reach an output through two nodes, in the frames of their pathways."""
        if self.ordered:
            return others.T @ rows
        frames = self.family.overlap
        if not frames:  # modes of a shared frame are orthogonal
            return (others * rows).sum(axis=0)
        return (others.T @ rows) * (gate**2 * frames[m].T @ frames[n])

    def _place(self, key: Key) -> Any:
        """Equations are written class by class: paths are numbered as they appear in them."""
        return sorted(self.classes_on(key)), key

    def _extended(self, key: Key, edge_class: int) -> Key:
        if self.ordered:
            return key if edge_class == _IDENTITY else (*key, edge_class)
        return tuple(p + (k == edge_class) for k, p in enumerate(key))

    def _factor(self, edge_class: int) -> Any:
        """What a fixed edge multiplies modes by; the matrices of blocks stand in the equations."""
        place = edge_class - len(self.classes)
        return 1.0 if self.ordered or place < 0 else np.diagonal(self.constants[place])

    def _interned(self, key: Any, make: Callable[[], Polynomial]) -> int:
        if key not in self.ids:
            self.ids[key] = len(self.polynomials)
            self.polynomials.append(make())
            if len(self.polynomials[-1]) > constants.MOST_CLASSES:
                raise TooManyPathClasses
        return self.ids[key]

    def _enter(self, c: Context, n: str, here: dict[str, int]) -> None:
        """Give node n its polynomial, if anything reaches it."""
        g, gate = self.graph, c.gate(n)
        products = [
            (self.class_of[e], here[g.edges[e][0]], float(c.gate(e)))
            for e in g.incoming[n]
            if e in self.class_of and g.edges[e][0] in here and np.any(c.gate(e))
        ]
        if not products or not np.any(gate):
            return

        def make() -> Polynomial:
            total: Polynomial = {}
            for edge_class, source, edge_gate in products:
                for key, rows in self.polynomials[source].items():
                    up = self._extended(key, edge_class)
                    total[up] = total.get(up, 0.0) + rows * (edge_gate * gate * self._factor(edge_class))
            return total

        here[n] = self._interned((tuple(sorted(products)), np.asarray(gate).tobytes()), make)

    def _hidden(self, c: Context) -> dict[str, int]:
        one: Key = () if self.ordered else (0,) * len(self.classes)
        here: dict[str, int] = {}
        for x, rows in c.input_blocks.items():
            key = (rows, np.asarray(c.gate(x)).tobytes())
            here[x] = self._interned(key, lambda rows=rows, x=x: {one: rows.array * c.gate(x)})
        reached, stack = set(), list(c.input_blocks)
        while stack:
            for e in self.graph.onward[stack.pop()]:
                t = self.graph.edges[e][1]
                if t not in reached:
                    reached.add(t)
                    stack.append(t)
        for n in sorted(reached, key=self.graph.rank.__getitem__):
            self._enter(c, n, here)
        return here

    def _collect(self) -> tuple[dict[Any, float], float]:
        """Weight of each (polynomials that reach an output, target, gate); the loss that nothing removes."""
        g, family = self.graph, self.family
        terms: dict[Any, float] = {}
        memo: dict[Any, dict[str, int]] = {}
        constant = 0.0
        for c, weight in self.contexts:
            early = tuple((n, np.asarray(v).tobytes()) for n, v in c.gates.items() if g.outgoing.get(n, True))
            key = (tuple(c.input_blocks.items()), early)
            if key not in memo:
                memo[key] = self._hidden(c)
            constant += c.irreducible_loss
            for o, y in c.target_blocks.items():
                here = memo[key]
                if family.overlap:  # an output sums the pathways' own outputs through fixed frames
                    ends = [
                        (g.edges[e][0], here[g.edges[e][0]]) for e in g.incoming[o] if g.edges[e][0] in here
                    ]
                else:
                    here = dict(here)
                    self._enter(c, o, here)
                    ends = [("", here[o])] if o in here else []
                end = (tuple(ends), y, float(c.gate(o)) if family.overlap else 1.0)
                terms[end] = terms.get(end, 0.0) + weight
        return terms, constant


def live_classes(s: Sequence[np.ndarray], d: Mapping[tuple[int, int], np.ndarray]) -> list[int]:
    """The classes of paths whose statistics do not all vanish, up to rounding: those that data reach."""
    found: set[int] = set()
    for values in ({(k,): v for k, v in enumerate(s)}, d):
        sizes = {place: np.abs(v).max(initial=0.0) for place, v in values.items()}
        least = constants.SAME * max(sizes.values(), default=0.0)
        found |= {place[-1] for place, size in sizes.items() if size > least}
    return sorted(found)


def class_rates(classes: Classes, rates: Rates) -> tuple[np.ndarray, np.ndarray]:
    """Learning rate and weight decay of each class of edges."""
    scale, decay = np.array([rates.of(c[0]) for c in classes]).T
    return scale, decay
