"""The equations of motion of the classes of edges, in SymPy, with what their symbols stand for.

A class of n edges moves with 1/n of the slope of the tied loss, less its weight decay, times its learning
rate (neural_race Eq. 10; Eq. 3 in small matrices). With a product W_p of strengths for each class p of paths,

    tau dB_k/dt = eta_k [1/n_k sum_p (after B_k on p)^T E_p (before B_k on p)^T - lambda_k B_k],
    E_p = S_p - sum_j W_j D_jp.

Strengths are numbers where modes decouple, vectors where they are coupled, and matrices in the block basis,
where S and D are called Syx and Sxx.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.errors import InputError, known, short
from neuralrace.reduction import constants
from neuralrace.reduction.family import Classes
from neuralrace.reduction.latex import in_latex, named
from neuralrace.reduction.path_classes import Expansion, class_rates, live_classes

if TYPE_CHECKING:
    from neuralrace.reduction.reduced_equations import ReducedEquations

_INSTEAD = "solve() works all the same, and nr.gradient(r.family.small, b) is the slope at strengths b"
_TAKEN = r"[BP][\d_]+|(S|D|C|L|R|l|r|Syx|Sxx|eta|lambda|t|tau)[\d_]*|Sigma\w*"  # that they have anyway
_STRENGTH = r"[a-zA-Z]+\d*(_[a-zA-Z\d]+)*", 'a letter with digits or _ and a subscript: "W", "alpha", "W_a"'
_STATISTIC = r"[a-zA-Z]+", 'letters, which numbers follow: "Q", "Gamma"'

Place = tuple[int, ...]  # of one or two classes of paths
Values = dict[Place, np.ndarray]
Word = Sequence[Any]  # strengths on a path, from input to output, or other factors


class Kind(Enum):
    """What a symbol stands for."""

    STRENGTH = "strength"
    CORRELATION = "correlation of targets with inputs"
    COVARIANCE = "correlation of inputs"
    FIXED = "fixed weights"
    RATE = "learning rate"
    DECAY = "weight decay"


@dataclass(frozen=True, eq=False)
class Quantity:
    """A symbol and the number behind it.

    It is `of` some edges; a statistic is of a class of paths or of two, and of others with the same number.
    It has a name for each.
    """

    symbol: Any
    kind: Kind
    of: Sequence[Any]
    value: Any
    names: Sequence[str]


@dataclass(frozen=True, eq=False)
class Equation:
    """`tau d(strength)/dt = rhs`, of a class of edges; with the numbers of a mode, or with symbols.

    `rhs` is in the order in which it is written, `sympy` in that of SymPy.
    """

    edge_class: int
    mode: int | None
    strength: Any
    rhs: Any

    @property
    def sympy(self) -> Any:
        import sympy as sp

        tau, t, rhs = *sp.symbols("tau t"), self.rhs
        if not rhs.is_Matrix:
            number, rest = rhs.as_coeff_Mul()
            rest = rest.doit()
            rhs = sp.Mul(number, rest, evaluate=not rest.is_Add or number == 1)  # in front of the bracket
        return sp.Eq(tau * sp.Derivative(self.strength, t), rhs, evaluate=False)

    @cached_property
    def latex(self) -> tuple[str, str]:
        """Left and right."""
        return rf"\tau \frac{{d}}{{dt}} {in_latex(self.strength)}", in_latex(self.rhs)


@dataclass(frozen=True, eq=False)
class Written:
    """Equations, and what the symbols in them stand for."""

    equations: list[Equation]
    quantities: list[Quantity]
    products: list[Any]  # of the strengths along each class of paths

    def numbers(self, *kinds: Kind) -> Numbers:
        """The numbers behind the symbols of some kinds."""
        return Numbers([q for q in self.quantities if q.kind in kinds])


class Numbers(dict[Any, Any]):
    """The numbers behind symbols, by symbol or by name."""

    def __init__(self, quantities: Sequence[Quantity]) -> None:
        super().__init__({q.symbol: q.value for q in quantities})
        self.names = {name: q.value for q in quantities for name in (str(q.symbol), *q.names)}

    def __missing__(self, name: Any) -> Any:
        if name in self.names:
            return self.names[name]
        raise KeyError(f"{name}: there are {', '.join(self.names)}")


# -- symbols ---------------------------------------------------------------------------------


def check_names(names: Any, classes: Classes, basis: str) -> dict[str, str]:
    """Symbols that a user gives to classes of edges, by an edge of each, and to the statistics."""
    if not isinstance(names, Mapping):
        raise InputError(f"names must be a dict from edges to symbols, got {short(names)}")
    class_of: dict[str, Any] = {edge: k for k, members in enumerate(classes) for edge in members}
    letters = _Matrices.letters if basis == "block" else _Numbers.letters
    known("names", names, [*class_of, *letters], f"edge that learns, nor {' or '.join(letters)}")
    seen: dict[Any, str] = {}
    taken = _TAKEN
    for key in sorted(names, key=class_of.__contains__):  # statistics first: edges must not have their names
        name, edge = names[key], key in class_of
        form, what = _STRENGTH if edge else _STATISTIC
        if not isinstance(name, str) or not re.fullmatch(form, name, re.ASCII):
            raise InputError(f"names[{key!r}] must be {what}; got {short(name)}")
        if re.fullmatch(taken, name if edge else f"{name}1"):
            raise InputError(f"names[{key!r}] must be no symbol that equations have anyway, got {name!r}")
        taken += "" if edge else rf"|{name}[\d_]*"
        for mark, what in ((class_of.get(key, key), "class of edges"), (named(name), "symbol")):
            if mark in seen:
                raise InputError(f"names: {seen[mark]!r} and {key!r} must not have the same {what}")
            seen[mark] = key
    return dict(names)


@dataclass
class Symbols:
    """Makes symbols; in place of all but strengths numbers, where those of a mode are asked for."""

    mode: int | None = None
    made: list[Quantity] = field(default_factory=list)

    def add(
        self, name: str, kind: Kind, of: Any, value: Any = None, shape: Any = (), names: Sequence[str] = ()
    ) -> Any:
        import sympy as sp

        if value is not None and self.mode is not None:
            number = np.ravel(value)[self.mode if np.ndim(value) else 0]
            return sp.Float(number) if np.abs(number) > constants.SAME * np.abs(value).max() else 0
        symbol = sp.MatrixSymbol(name, *shape) if shape else sp.Symbol(name)
        self.made.append(Quantity(symbol, kind, of, value, names))
        return symbol

    def statistics(self, kind: Kind, letter: str, values: Values, alike: Values) -> dict[Place, Any]:
        """Symbols of values: one for all that are alike, with the number of the first; 0 for nothing.

        The number is left out where there is one symbol only.
        """
        least = constants.SAME * max((np.abs(v).max(initial=0.0) for v in alike.values()), default=0.0)
        groups: dict[Any, list[Place]] = {}
        for place, v in alike.items():
            if np.abs(v).max(initial=0.0) > least:
                key = np.shape(v), np.floor(v / least + constants.OFF_GRID).tobytes()
                groups.setdefault(key, []).append(place)
        found: dict[Place, Any] = dict.fromkeys(values, 0)
        for places in groups.values():
            v = values[places[0]]
            names = [letter + _numbers(place) for place in places]
            name = names[0] if len(groups) > 1 else letter
            symbol = self.add(name, kind, places, v, v.shape if v.ndim == 2 else (), names)
            found |= dict.fromkeys(places, symbol)
        return found

    def rates(self, r: ReducedEquations) -> list[list[Any]]:
        """Learning rate and weight decay of each class: symbols, numbered where they differ, or 1 and 0."""
        found = []
        kinds = (Kind.RATE, "eta", 1.0), (Kind.DECAY, "lambda", 0.0)
        for (kind, letter, usual), values in zip(kinds, class_rates(r.classes, r.rates), strict=True):
            symbols: dict[float, Any] = {0.0: 0, usual: int(usual)}
            different = [v for v in dict.fromkeys(values.tolist()) if v not in symbols]
            for k, v in enumerate(different):
                of = [
                    e for members, other in zip(r.classes, values, strict=True) if other == v for e in members
                ]
                symbols[v] = self.add(letter + str(k + 1) * (len(different) > 1), kind, of, v)
            found.append([symbols[v] for v in values.tolist()])
        return found


def _numbers(place: Place) -> str:
    """12 of classes 1 and 2, 1_12 of classes 1 and 12."""
    numbers = [str(k + 1) for k in place]
    return ("" if all(len(n) == 1 for n in numbers) else "_").join(numbers)


# -- products of strengths -------------------------------------------------------------------


class _Matrices:
    """Strengths that are matrices."""

    letters = "Syx", "Sxx"

    def __init__(self, modes: int) -> None:
        self.modes = modes

    def shape(self, strength: Place) -> Place:
        """The shape of the symbol of a strength; none of a number."""
        return strength

    def statistic(self, v: np.ndarray) -> np.ndarray:
        """A sum over paths as it stands in the equations."""
        return v

    def product(self, factors: Word) -> Any:
        return _product(factors[::-1])

    def added(self, words: Sequence[Word]) -> list[Any]:
        """Factors of a sum of products."""
        return [_sum([self.product(word) for word in words])]

    def pair(self, p: int, j: int) -> Place:
        """How the D is called that is in the error of paths p with what paths j carry."""
        return j, p

    def coupled(self, d: Any, product: Any) -> Any:
        return _product([product, d])

    def places(self, word: Word, x: Any) -> list[tuple[Word, Word]]:
        """What stands after and before a strength on a path, for each time that it stands there."""
        return [(word[q + 1 :], word[:q]) for q, y in enumerate(word) if y == x]

    def slope(self, groups: Iterable[Any]) -> Any:
        t = self._transposed
        return _sum([_product([*t(after), error, *t(before)]) for _, after, error, before in groups])

    def _transposed(self, words: Sequence[Word]) -> list[Any]:
        import sympy as sp

        if len(words) == 1:
            return [sp.Transpose(x) for x in words[0]]
        products = [self.product(word) for word in words if word]
        unit = [sp.Identity(products[0].shape[0])] if len(products) < len(words) else []
        return [sp.Transpose(_sum([*unit, *products]))]


class _Numbers(_Matrices):
    """Strengths that are numbers, in each mode."""

    letters = "S", "D"

    def shape(self, strength: Place) -> Place:
        return ()

    def statistic(self, v: np.ndarray) -> np.ndarray:
        return v if v.ndim == 1 else np.diagonal(v)

    def product(self, factors: Word) -> Any:
        return _product([x**n for x, n in Counter(factors).items()])

    def added(self, words: Sequence[Word]) -> list[Any]:
        common = reduce(and_, map(Counter, words))  # in front of the others
        rest = sorted(([*(Counter(w) - common).elements()] for w in words), key=bool)
        total = [_sum([self.product(w) for w in rest])] if any(rest) else []
        return [*common.elements(), *total]

    def places(self, word: Word, x: Any) -> list[tuple[Word, Word]]:
        return [((*before, *after), ()) for after, before in super().places(word, x)]

    def slope(self, groups: Iterable[Any]) -> Any:
        return self.product(self.added([[n, *self.added(after), error] for n, after, error, _ in groups]))


class _Vectors(_Numbers):
    """Strengths that are vectors with an entry for each mode."""

    def shape(self, strength: Place) -> Place:
        return (*strength, 1)

    def statistic(self, v: np.ndarray) -> np.ndarray:
        return v[:, None] if v.ndim == 1 else v

    def product(self, factors: Word) -> Any:
        import sympy as sp

        vectors = [x for x in factors if x.is_Matrix] or [sp.OneMatrix(self.modes, 1)]
        product = sp.HadamardProduct(*vectors) if len(vectors) > 1 else vectors[0]
        return _product([*(x for x in factors if not x.is_Matrix), product])

    def pair(self, p: int, j: int) -> Place:
        return p, j

    def coupled(self, d: Any, product: Any) -> Any:
        return _product([d, product])


_FORMS = {"numbers": _Numbers, "vectors": _Vectors, "matrices": _Matrices}


def _grouped(parts: Iterable[tuple[Any, Word, Word]]) -> list[Any]:
    """Terms `number after error before`, with those added up that differ in what stands after, or before."""
    import sympy as sp

    afters: dict[Any, list[Word]] = {}
    for (error, after, before), n in Counter(parts).items():
        afters.setdefault((n, error, before), []).append(after)
    befores: dict[Any, list[Word]] = {}
    for (n, error, before), after in afters.items():
        befores.setdefault((sp.Integer(n), tuple(after), error), []).append(before)
    return [(*alike, before) for alike, before in befores.items()]


def _sum(terms: Sequence[Any]) -> Any:
    """Terms in this order."""
    import sympy as sp

    if len(terms) == 1:
        return terms[0]
    return sp.MatAdd(*terms) if terms[0].is_Matrix else sp.Add(*terms, evaluate=False)


def _product(factors: Iterable[Any]) -> Any:
    """Factors in this order, with numbers and products among them multiplied out."""
    import sympy as sp

    flat = [x for f in factors for x in (f.args if isinstance(f, sp.Mul) else (sp.sympify(f),))]
    number, rest = sp.prod(x for x in flat if x.is_Number), [x for x in flat if not x.is_Number]
    if number != 1 or not rest:
        rest = [sp.sympify(number), *rest]
    if len(rest) == 1:
        return rest[0]
    return sp.MatMul(*rest) if any(x.is_Matrix for x in rest) else sp.Mul(*rest, evaluate=False)


# -- equations -------------------------------------------------------------------------------


def write(r: ReducedEquations, mode: int | None = None, merge: bool = False) -> Written:
    """The equations of a reduction, with the numbers of a mode where one is given."""
    paths = r.paths
    if paths is None:
        raise InputError(
            f"the equations would have more than {constants.MOST_TERMS:,} terms: the "
            f"{r.family.graph.n_paths:,} paths are of more than {constants.MOST_CLASSES} classes. {_INSTEAD}"
        )
    form, symbols, sums = _FORMS[r.form](r.n_modes), Symbols(mode), paths.sums
    keys = [paths.classes_on(key) for key in paths.index]
    _check_length(keys, sums[1])
    live = live_classes(*sums)
    values = _statistics(form, live, *sums)
    alike = values if merge else _statistics(form, live, *paths.for_any_data().sums)
    b = [*strengths(r, form, symbols), *_constants(r, paths, symbols)]
    words = [tuple(b[c] for c in keys[k]) for k in live]
    letters = [x if x in r.family.shape else r.names.get(x, x) for x in form.letters]  # not that of an edge S
    kinds = zip((Kind.CORRELATION, Kind.COVARIANCE), letters, values, alike, strict=True)
    s, d = (symbols.statistics(*each) for each in kinds)
    errors = [_error(form, p, words, s, d) for p in range(len(words))]
    rates = zip(r.classes, b, *symbols.rates(r), strict=False)
    equations = [
        Equation(k, mode, x, _right_hand_side(form, x, words, errors, len(members), eta, decay))
        for k, (members, x, eta, decay) in enumerate(rates)
    ]
    used = set().union(*({eq.strength} | eq.rhs.free_symbols for eq in equations))
    return Written(equations, [q for q in symbols.made if q.symbol in used], list(map(form.product, words)))


def _check_length(keys: Sequence[Word], pairs: Iterable[Place]) -> None:
    """Refuse equations that nobody would read.

    A class of paths gives each of its classes of edges one term for S, and one for every class of paths that
    it meets at an output.
    """
    coupled = Counter(k for _, k in pairs)
    terms = sum(len({*key}) * (1 + coupled[k]) for k, key in enumerate(keys))
    if terms > constants.MOST_TERMS:
        raise InputError(
            f"the equations would have {terms:,} terms; more than {constants.MOST_TERMS:,} are not written. "
            f"{_INSTEAD}"
        )


def _statistics(form: _Matrices, live: Sequence[int], s: Any, d: Any) -> tuple[Values, Values]:
    """S of some classes of paths, and D of each two of them."""
    pairs = [(i, j) for i in range(len(live)) for j in range(len(live)) if (live[i], live[j]) in d]
    own = {(i,): form.statistic(s[k]) for i, k in enumerate(live)}
    return own, {(i, j): form.statistic(d[live[i], live[j]]) for i, j in pairs}


def strengths(r: ReducedEquations, form: _Matrices, symbols: Symbols) -> list[Any]:
    """Symbols of the strengths: B1, B2, ... by class, or the user's."""
    found = []
    for k, members in enumerate(r.classes):
        name = next((r.names[e] for e in members if e in r.names), f"B{k + 1}")
        shape = form.shape(r.family.shape[members[0]])
        found.append(symbols.add(name, Kind.STRENGTH, members, shape=shape))
    return found


def _constants(r: ReducedEquations, paths: Expansion, symbols: Symbols) -> Iterable[Any]:
    """Symbols of fixed weights, which stand in the equations of matrices only."""
    edges = [e for e, k in paths.class_of.items() if k >= r.n_classes and r.form == "matrices"]
    for k, (e, w) in enumerate(zip(edges, paths.constants, strict=False)):
        yield symbols.add(f"C{k + 1 if len(edges) > 1 else ''}", Kind.FIXED, [e], w, w.shape)


def _error(
    form: _Matrices, p: int, words: Sequence[Word], s: Mapping[Place, Any], d: Mapping[Place, Any]
) -> Any:
    """What a class of paths has yet to learn: its S less what all paths carry; 0 for nothing."""
    same: dict[Any, list[Word]] = {}
    for j, word in enumerate(words):
        same.setdefault(d.get(form.pair(p, j), 0), []).append(word)
    terms = [] if s[p,] == 0 else [s[p,]]
    for coupling, among in same.items():
        if coupling != 0:
            carried = form.coupled(coupling, form.product(form.added(among)))
            terms.append(_product([-1, carried]))
    return _sum(terms) if terms else 0


def _right_hand_side(
    form: _Matrices, x: Any, words: Sequence[Word], errors: Sequence[Any], size: int, eta: Any, decay: Any
) -> Any:
    import sympy as sp

    parts = [
        (error, *place)
        for error, word in zip(errors, words, strict=True)
        for place in (form.places(word, x) if error != 0 else ())
    ]
    terms = [_product([sp.Rational(1, size), form.slope(_grouped(parts))])] if parts else []
    terms += [_product([-1, decay, x])] if decay != 0 else []
    if not terms or eta == 0:
        return sp.ZeroMatrix(*x.shape) if x.is_Matrix else sp.Integer(0)
    return _product([eta, _sum(terms)])


def laws(r: ReducedEquations) -> list[Any]:
    """Independent conserved quantities of the hidden nodes (theory.md section 5)."""
    import sympy as sp

    graph, blocks = r.family.graph, r.form == "matrices"
    class_of = {e: k for k, members in enumerate(r.classes) for e in members}
    scale, decay = class_rates(r.classes, r.rates)
    etas, lambdas = Symbols().rates(r)
    t, tau = sp.symbols("t tau")
    b = strengths(r, _Matrices(0) if blocks else _Numbers(0), Symbols())
    squares = [[x.T * x if blocks else x**2 for x in b], [x * x.T if blocks else x**2 for x in b]]
    rows: dict[Any, list[np.ndarray]] = {}  # of laws whose squares have the same size and decay alike
    found = []
    for node in graph.hidden:
        edges, n_out = (*graph.outgoing[node], *graph.incoming[node]), len(graph.outgoing[node])
        if {*edges} & graph.fixed.keys():
            continue
        counts, here = np.zeros((2, len(b)), int), [class_of[e] for e in edges]
        np.add.at(counts, (0, here[:n_out]), 1)
        np.add.at(counts, (int(blocks), here[n_out:]), -1)  # B^T B and B B^T are the same in each mode
        speeds = scale[here] * decay[here]
        if not counts.any() or not scale[here].all() or np.ptp(speeds) > 1e-12 * speeds.max():
            continue
        row = (counts / np.where(scale > 0, scale, 1.0)).ravel()
        others = rows.setdefault((b[here[-1]].shape[0] if blocks else 1, float(speeds[0])), [])
        if np.linalg.matrix_rank(np.array([*others, row])) > len(others):
            others.append(row)
            growth = sp.exp(2 * etas[here[0]] * lambdas[here[0]] * t / tau)
            terms = [sp.Integer(n) / etas[k] * squares[i][k] for (i, k), n in np.ndenumerate(counts) if n]
            found.append(growth * (sp.MatAdd if blocks else sp.Add)(*terms))
    return found
