"""The tied loss as a polynomial in the strengths of the classes, and its equations.

With the monomials m_k of the path classes (paths whose edges have the same classes), each mode has the loss
`const - sum_k S_k m_k + 1/2 sum_kl D_kl m_k m_l`; S_k sums `S(p)` and D_kl sums `D(j, p)` over their
paths. A class of n edges moves with 1/n of the slope of that loss (neural_race Eq. 10), less its weight
decay, times its learning rate.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.dynamics.setup import Rates
from neuralrace.errors import InputError
from neuralrace.graph import Graph
from neuralrace.reduction.family import Family
from neuralrace.reduction.ties import Classes
from neuralrace.task import Context

if TYPE_CHECKING:
    import sympy

MOST_TERMS = 400
Polynomial = dict[tuple[int, ...], np.ndarray]  # exponents of the classes -> rows (rows, modes)


@dataclass(frozen=True)
class TiedLoss:
    """S (paths, modes), D (paths, paths, modes), exponents (paths, classes), and numbers of the classes."""

    exponents: np.ndarray
    s: np.ndarray
    d: np.ndarray
    sizes: np.ndarray
    constant: float
    rates: np.ndarray  # learning rate of each class
    decays: np.ndarray  # weight decay of each class

    @cached_property
    def powers(self) -> tuple[tuple[int, ...], ...]:
        return tuple(map(tuple, self.exponents.tolist()))


class _TooMany(Exception):
    pass


def tied_loss(family: Family, classes: Classes, rates: Rates) -> TiedLoss | None:
    """The polynomial of a diagonal family; None where modes are coupled or terms are too many."""
    if family.basis == "block":
        return None
    try:
        return _Expansion(family, classes, rates).collect()
    except _TooMany:
        return None


class _Expansion:
    """Activities as polynomials; what comes about in the same way is computed once."""

    def __init__(self, family: Family, classes: Classes, rates: Rates):
        self.family, self.classes, self.rates = family, classes, rates
        self.graph = family.small.graph
        self.class_of = {e: k for k, members in enumerate(classes) for e in members}
        self.polynomials: list[Polynomial] = []
        self.ids: dict[Any, int] = {}

    def held(self, key: Any, make: Any) -> int:
        if key not in self.ids:
            self.ids[key] = len(self.polynomials)
            self.polynomials.append(make())
            if len(self.polynomials[-1]) > MOST_TERMS:
                raise _TooMany
        return self.ids[key]

    def enter(self, c: Context, n: str, here: dict[str, int]) -> None:
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
                for powers, rows in self.polynomials[source].items():
                    up = tuple(p + (k == edge_class) for k, p in enumerate(powers))
                    total[up] = total.get(up, 0.0) + rows * edge_gate * gate
            return total

        here[n] = self.held((tuple(sorted(products)), np.asarray(gate).tobytes()), make)

    def hidden(self, c: Context) -> dict[str, int]:
        one = (0,) * len(self.classes)
        here: dict[str, int] = {}
        for x, rows in c.input_blocks.items():
            key = (rows, np.asarray(c.gate(x)).tobytes())
            here[x] = self.held(key, lambda rows=rows, x=x: {one: rows.array * c.gate(x)})
        reached, stack = set(), list(c.input_blocks)
        while stack:
            for e in self.graph.onward[stack.pop()]:
                t = self.graph.edges[e][1]
                if t not in reached:
                    reached.add(t)
                    stack.append(t)
        for n in sorted(reached, key=self.graph.rank.__getitem__):
            self.enter(c, n, here)
        return here

    def collect(self) -> TiedLoss | None:
        g, family = self.graph, self.family
        terms: Counter[Any] = Counter()
        memo: dict[Any, dict[str, int]] = {}
        constant = 0.0
        for c in family.small.moment_contexts:
            early = tuple((n, np.asarray(v).tobytes()) for n, v in c.gates.items() if g.outgoing.get(n, True))
            key = (tuple(c.input_blocks.items()), early)
            if key not in memo:
                memo[key] = self.hidden(c)
            constant += c.irreducible_loss
            for o, y in c.target_blocks.items():
                here = memo[key]
                if family.overlap:  # an output sums the pathways' own outputs through fixed frames
                    ends = [
                        (g.edges[e][0], here[g.edges[e][0]]) for e in g.incoming[o] if g.edges[e][0] in here
                    ]
                else:
                    here = dict(here)
                    self.enter(c, o, here)
                    ends = [("", here[o])] if o in here else []
                terms[tuple(ends), y, float(c.gate(o)) if family.overlap else 1.0] += 1
        return _collect(family, self.classes, self.rates, self.polynomials, terms, constant)


def _collect(
    family: Family, classes: Classes, rates: Rates, polynomials: list[Polynomial], terms: Any, constant: float
) -> TiedLoss | None:
    index: dict[tuple[int, ...], int] = {}
    for (ends, _, _), _n in terms.items():
        for _, p in ends:
            for powers in polynomials[p]:
                index.setdefault(powers, len(index))
    if len(index) > MOST_TERMS:
        return None
    modes = family.modes
    s, d = np.zeros((len(index), modes)), np.zeros((len(index), len(index), modes))
    crossing = 0.0
    for (ends, target, gate), count in terms.items():
        y = target.array
        constant += 0.5 * count * float(np.vdot(y, y))
        flat = [(n, powers, rows) for n, p in ends for powers, rows in polynomials[p].items()]
        for n, powers, rows in flat:
            u = family.overlap.get(n)
            goal = y[:, :modes] if u is None else gate * y[:, : len(u)] @ u
            s[index[powers]] += count * (goal * rows).sum(axis=0)
            for m, other, others in flat:
                both = rows.T @ others
                if u is not None:
                    both = both * (u.T @ family.overlap[m]) * gate**2
                    crossing = max(crossing, np.abs(both - np.diag(np.diagonal(both))).max(initial=0.0))
                d[index[powers], index[other]] += count * np.diagonal(both)
    if crossing > 1e-10 * max(np.abs(d).max(initial=0.0), 1e-300):
        return None
    exponents = np.array(list(index), int).reshape(len(index), len(classes))
    scale, decay = (np.array([v[c[0]] for c in classes]) for v in (rates.scale, rates.decay))
    return TiedLoss(exponents, s, d, np.array([len(c) for c in classes]), constant, scale, decay)


def write(tied: TiedLoss, mode: int | None) -> list[sympy.Eq]:
    """One equation per class: `tau dB/dt = ...`, with symbols S, D or the numbers of a mode."""
    import sympy as sp

    tau, t = sp.symbols("tau t")
    b = [sp.Symbol(f"B{k + 1}") for k in range(len(tied.sizes))]
    monomials = [sp.prod(x ** int(p) for x, p in zip(b, powers, strict=True)) for powers in tied.exponents]
    n = len(monomials)
    s = _symbols("S", {(k,): tied.s[k] for k in range(n)}, mode, n)
    d = _symbols("D", {(j, k): tied.d[j, k] for j in range(n) for k in range(j, n)}, mode, n)
    errors = [s[(k,)] - sum(d[min(j, k), max(j, k)] * monomials[j] for j in range(n)) for k in range(n)]
    rates, decays = rate_symbols(tied.rates, tied.decays, mode is not None)
    equations = []
    for x, size, rate, decay in zip(b, tied.sizes, rates, decays, strict=True):
        rhs = sum(sp.diff(m, x) * e for m, e in zip(monomials, errors, strict=True)) / sp.Integer(int(size))
        rhs = rate * (sp.factor_terms(rhs) - decay * x)
        equations.append(sp.Eq(tau * sp.Derivative(x, t), rhs, evaluate=False))
    return equations


def rate_symbols(rates: np.ndarray, decays: np.ndarray, numbers: bool = False) -> tuple[list[Any], list[Any]]:
    """Learning rate and weight decay of each class: symbols eta and lambda, numbered where they differ."""
    import sympy as sp

    def named(letter: str, values: np.ndarray, plain: float) -> list[Any]:
        distinct = [v for v in dict.fromkeys(values.tolist()) if v != plain]
        number = {v: "" if len(distinct) == 1 else str(k + 1) for k, v in enumerate(distinct)}
        special = {v: sp.Float(v) if numbers else sp.Symbol(f"{letter}{number[v]}") for v in distinct}
        special |= {0.0: sp.Integer(0), plain: sp.Integer(int(plain))}
        return [special[v] for v in values.tolist()]

    return named("eta", rates, 1.0), named("lambda", decays, 0.0)


def _symbols(
    letter: str, values: dict[tuple[int, ...], np.ndarray], mode: int | None, n: int
) -> dict[Any, Any]:
    """A symbol for each distinct value (over all modes); 0 where it vanishes."""
    import sympy as sp

    if mode is not None:
        return {k: sp.Float(v[mode]) for k, v in values.items()}
    scale = max((np.abs(v).max(initial=0.0) for v in values.values()), default=0.0)
    distinct: list[tuple[np.ndarray, Any]] = []
    found: dict[Any, Any] = {}
    for key, v in values.items():
        if np.abs(v).max(initial=0.0) <= 1e-9 * scale:
            found[key] = sp.Integer(0)
            continue
        match = next((symbol for w, symbol in distinct if np.abs(v - w).max() <= 1e-9 * scale), None)
        if match is None:
            match = f"{letter}{len(distinct) + 1}"
            distinct.append((v, match))
        found[key] = match
    single = len(distinct) == 1
    return {k: sp.Symbol(letter if single else v) if isinstance(v, str) else v for k, v in found.items()}


def refuse(family: Family) -> InputError:
    return InputError(
        f"equations are scalar only where modes are decoupled and path classes few; the {family.basis} "
        "basis of this task couples modes, or has too many classes of paths. solve() works all the same"
    )


def laws(graph: Graph, classes: Classes, rates: Rates) -> list[sympy.Expr]:
    """What each hidden node conserves, as `Reduction.conserved` describes it; independent ones only."""
    import sympy as sp

    class_of = {e: k for k, members in enumerate(classes) for e in members}
    scale, decay = (np.array([v[c[0]] for c in classes]) for v in (rates.scale, rates.decay))
    etas, lambdas = rate_symbols(scale, decay)
    t, tau = sp.symbols("t tau")
    rows: dict[
        float, list[np.ndarray]
    ] = {}  # by the rate at which the expression without the exponential decays
    found = []
    for node in graph.hidden:
        counts = np.zeros(len(classes), int)
        for e in graph.outgoing[node]:
            counts[class_of[e]] += 1
        for e in graph.incoming[node]:
            counts[class_of[e]] -= 1
        here = [class_of[e] for e in (*graph.outgoing[node], *graph.incoming[node])]
        speeds = scale[here] * decay[here]
        if not counts.any() or not scale[here].all() or np.ptp(speeds) > 1e-12 * speeds.max():
            continue
        row, others = counts / np.where(scale > 0, scale, 1.0), rows.setdefault(float(speeds[0]), [])
        if np.linalg.matrix_rank(np.array([*others, row])) <= len(others):
            continue
        others.append(row)
        squares = (int(n) * sp.Symbol(f"B{k + 1}") ** 2 / etas[k] for k, n in enumerate(counts) if n)
        growth = sp.exp(2 * etas[here[0]] * lambdas[here[0]] * t / tau)
        found.append(sum(squares, sp.Integer(0)) * growth)
    return found
