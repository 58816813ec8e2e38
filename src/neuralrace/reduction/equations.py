"""The equations of motion of the classes of edges, in SymPy.

A class of n edges moves with 1/n of the slope of the tied loss (neural_race Eq. 10), less its weight decay,
times its learning rate. Modes that decouple are written once, for all modes; coupled ones mode by mode where
they are few. Other reductions have matrix equations (`matrix_equations`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neuralrace.errors import InputError, integer
from neuralrace.graph import Graph
from neuralrace.reduction.matrix_equations import blocks, vectors
from neuralrace.reduction.path_classes import (
    MOST_CLASSES,
    SAME,
    Expansion,
    Key,
    PathStatistics,
    TooManyPathClasses,
    class_rates,
    terms_of_all_paths,
)
from neuralrace.reduction.symbols import (
    EdgeClasses,
    Statistics,
    Written,
    labels,
    rate_symbols,
    rate_values,
)

if TYPE_CHECKING:
    from neuralrace.reduction.reduced_equations import ReducedEquations

MOST_TERMS = 5000  # products of strengths that are written out
MOST_EQUATIONS = 12  # of coupled modes that are written one by one
INSTEAD = "solve() works all the same, and nr.gradient(r.family.small, b) is the slope at strengths b"


def write(r: ReducedEquations, mode: int | None = None) -> Written:
    """The equations of a reduction, with the numbers of a mode where one is given."""
    _check_mode(r, mode)
    family, tied = r.family, r.tied
    rates = class_rates(r.classes, r.rates)
    each = EdgeClasses([len(members) for members in r.classes], *rate_symbols(*rates))
    if tied is not None:
        pairs = np.argwhere(np.abs(tied.d).max(axis=-1, initial=0.0)).tolist()
        _check_length((_classes_on(p) for p in tied.powers), [j for j, _ in pairs])
        written = _by_mode(tied.statistics(), None, None, each)
    else:
        try:
            found = Expansion(family, r.classes)
        except TooManyPathClasses:
            raise _too_many_paths(family.graph) from None
        keys, ends = [found.classes_on(key) for key in found.index], [k for _, k in found.pairs()]
        if family.basis == "block":
            _check_length(keys, ends)
            shapes = [family.shape[members[0]] for members in r.classes]
            return blocks(found.statistics(), shapes, found.constants, each)
        if mode is None and family.modes * len(r.classes) > MOST_EQUATIONS:
            _check_length(keys, ends)
            return vectors(found.statistics(), family.modes, each)
        _check_length(keys, ends, family.modes, family.modes if mode is None else 1)
        written = _by_mode(found.statistics(), family.modes, mode, each)
    return written if mode is None else _with_numbers(written, mode, rate_values(*rates))


def _check_mode(r: ReducedEquations, mode: int | None) -> None:
    if mode is None:
        return
    if r.basis == "block":
        raise InputError(f"mode must be None for blocks, got {mode!r}; statistics() has their numbers")
    if integer("mode", mode, least=0) >= r.n_modes:
        raise InputError(f"mode must be between 0 and {r.n_modes - 1}, got {mode}")


class _Item(NamedTuple):
    """A class of paths, in one mode: its product of strengths, its S and its D with each item."""

    monomial: Any
    s: Any
    d: list[Any]


def _by_mode(statistics: PathStatistics, modes: int | None, mode: int | None, each: EdgeClasses) -> Written:
    """One equation per class and mode; those of one mode only where it is given.

    Without `modes` they decouple: equations are the same in all, and S and D have a number for each.
    """
    import sympy as sp

    paths, every = range(len(statistics.keys)), range(modes or 1)
    wanted = every if mode is None else (mode,)
    at = lambda index: index if modes else index[:1]  # noqa: E731
    value = lambda v, *of: v[of] if modes else v  # noqa: E731
    couplings = {
        at(index): value(v, m, n)
        for (j, k), v in sorted(statistics.d.items())
        for m in every
        for n in every
        if (index := _ordered(j, k, m, n)) == ((j, k), (m, n)) and (m in wanted or n in wanted)
    }
    found = Statistics()
    s = found.name("S", "S", {at(((k,), (m,))): value(statistics.s[k], m) for k in paths for m in every})
    d = found.name("D", "D", couplings)
    b = [[sp.Symbol(f"B{labels(at(((k,), (m,))))[0]}") for m in every] for k in range(len(each.sizes))]
    found.names |= {x: f"B_{{{x.name[1:].replace('_', ',')}}}" for row in b for x in row}
    items = [
        _Item(
            _monomial([x[m] for x in b], statistics.keys[k]),
            s[at(((k,), (m,)))],
            [d.get(at(_ordered(k, j, m, n)), sp.Integer(0)) for j in paths for n in every],
        )
        for k in paths
        for m in every
    ]
    strengths = [(k, row[m]) for k, row in enumerate(b) for m in wanted]
    right = _right_hand_sides(items, [x for _, x in strengths])
    equations = [_equation(x, right[x], *each.of(k)) for k, x in strengths]
    used = set().union(*(eq.rhs.free_symbols for eq in equations))
    values = {symbol: v for symbol, v in found.values.items() if symbol in used}
    return Written(equations, [k for k, _ in strengths], values, found.names)


def _ordered(j: int, k: int, m: int, n: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The index of a D, which is symmetric: of class j in mode m with class k in mode n."""
    return ((j, k), (m, n)) if (j, m) <= (k, n) else ((k, j), (n, m))


def _monomial(b: Sequence[Any], powers: Key) -> Any:
    import sympy as sp

    return sp.prod(x**p for x, p in zip(b, powers, strict=True))


def _right_hand_sides(items: Sequence[_Item], strengths: Sequence[Any]) -> dict[Any, Any]:
    """The slope of the tied loss downwards, by strength."""
    import sympy as sp

    wanted = set(strengths)
    slopes: dict[Any, dict[Any, Any]] = {x: {} for x in strengths}
    for item in items:
        here = item.monomial.free_symbols & wanted
        if not here:
            continue
        same: dict[Any, Any] = {}
        for other, d in zip(items, item.d, strict=True):
            if d != 0:
                same[d] = same.get(d, 0) + other.monomial
        error = item.s - sum(d * monomials for d, monomials in same.items())
        for x in here if error != 0 else ():
            slopes[x][error] = slopes[x].get(error, 0) + sp.diff(item.monomial, x)
    return {
        x: sp.factor_terms(sum(slope * e for e, slope in by_error.items())) for x, by_error in slopes.items()
    }


def _equation(x: Any, slope: Any, size: int, eta: Any, decay: Any) -> Any:
    """`tau dx/dt = eta (slope / size - decay x)`, with the fraction in front of the bracket."""
    import sympy as sp

    tau, t = sp.symbols("tau t")
    factor, rest = sp.sympify(slope).as_coeff_Mul()
    factor = factor / size
    rhs = sp.Mul(factor, rest, evaluate=not rest.is_Add or factor == 1) - decay * x
    return sp.Eq(tau * sp.Derivative(x, t), rhs if eta == 1 else eta * rhs, evaluate=False)


def _with_numbers(written: Written, mode: int, rates: dict[Any, float]) -> Written:
    """The numbers of a mode instead of symbols."""
    import sympy as sp

    known: dict[Any, Any] = {x: sp.Float(v) for x, v in rates.items()}
    for x, v in written.values.items():
        value = np.ravel(v)[mode if np.ndim(v) else 0]
        known[x] = sp.Float(value) if np.abs(value) > SAME * np.abs(v).max() else sp.Integer(0)
    equations = [sp.Eq(eq.lhs, eq.rhs.xreplace(known), evaluate=False) for eq in written.equations]
    return Written(equations, written.owners, {}, written.names)


def _classes_on(powers: Key) -> Key:
    return tuple(k for k, p in enumerate(powers) for _ in range(p))


def _check_length(keys: Iterable[Key], ends: Iterable[int], modes: int = 1, written: int = 1) -> None:
    """Refuse equations that nobody would read.

    A class of paths gives each of its classes of edges, in each mode written, one term for S and one for
    every class of paths that it meets at an output (`ends` names it once for each), in each mode.
    """
    met: dict[int, int] = {}
    for k in ends:
        met[k] = met.get(k, 0) + modes
    terms = written * sum(len(set(key)) * (1 + met.get(k, 0)) for k, key in enumerate(keys))
    if terms > MOST_TERMS:
        raise InputError(
            f"the equations would have {terms:,} terms; more than {MOST_TERMS:,} are not written. {INSTEAD}"
        )


def _too_many_paths(graph: Graph) -> InputError:
    return InputError(
        f"the equations would have up to {terms_of_all_paths(graph):,} terms: the {graph.n_paths:,} paths "
        f"are of more than {MOST_CLASSES} classes. {INSTEAD}"
    )
