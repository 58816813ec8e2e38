"""Matrix equations: blocks, and modes that are coupled and many.

For blocks (neural_race Eq. 3, in small matrices), with one product of matrices W_p for each class p of paths:

    tau dB_k/dt = 1/n_k sum_p (matrices after B_k on p)^T [Syx_p - sum_j W_j Sxx_jp] (matrices before it)^T

Coupled modes are vectors, with the products mode by mode (a circle) and matrices D_pj that couple them:

    tau dB_k/dt = 1/n_k sum_p (other vectors on p) o [S_p - sum_j D_pj m_j]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from neuralrace.reduction.path_classes import Key, PathStatistics
from neuralrace.reduction.symbols import EdgeClasses, Statistics, Written


def blocks(
    statistics: PathStatistics, shapes: Sequence[tuple[int, ...]], constants: Sequence[Any], each: EdgeClasses
) -> Written:
    """One equation per class, of matrices; Syx and Sxx are numbered by the classes of paths.

    Numbers from that of the classes on in the keys of paths are those of `constants`, of fixed edges.
    """
    import sympy as sp

    words = statistics.keys
    s, d, found = _named(statistics, ("Syx", r"\Sigma^{yx}"), ("Sxx", r"\Sigma^{xx}"))
    b = [sp.MatrixSymbol(f"B{k + 1}", *shape) for k, shape in enumerate(shapes)]
    fixed = found.name("C", "C", {((k,),): w for k, w in enumerate(constants)})
    classes, b = len(b), [*b, *(fixed[(k,),] for k in range(len(constants)))]
    products = [[b[c] for c in reversed(word)] for word in words]
    errors = []
    for p in range(len(words)):
        same: dict[Any, list[Any]] = {}
        for j, product in enumerate(products):
            if d[j, p] != 0:
                same.setdefault(d[j, p], []).append(_product(product))
        terms = [_product([sp.Integer(-1), _sum(js), sxx]) for sxx, js in same.items()]
        errors.append(_sum([s[p], *terms] if s[p] != 0 else terms))
    equations = []
    for k, x in enumerate(b[:classes]):
        around = [
            (errors[p], word[q + 1 :], word[:q])
            for p, word in enumerate(words)
            for q, c in enumerate(word)
            if c == k and errors[p] is not None
        ]
        equations.append(_equation(x, _chained(around, b), *each.of(k)))
    return Written(equations, list(range(classes)), found.values, found.names)


def vectors(statistics: PathStatistics, modes: int, each: EdgeClasses) -> Written:
    """One equation per class, of vectors with an entry for each mode."""
    import sympy as sp

    columns = statistics._replace(
        s=[v[:, None] for v in statistics.s],
        d=dict(sorted(((k, j), v.T) for (j, k), v in statistics.d.items())),
    )
    s, d, found = _named(columns, ("S", "S"), ("D", "D"))
    b = [sp.MatrixSymbol(f"B{k + 1}", modes, 1) for k in range(len(each.sizes))]
    factors = [[x for x, p in zip(b, powers, strict=True) for _ in range(p)] for powers in statistics.keys]
    slopes: list[dict[Any, list[Any]]] = [{} for _ in b]  # error, power -> other factors on the paths
    for p, powers in enumerate(statistics.keys):
        same: dict[Any, list[Any]] = {}
        for j, product in enumerate(factors):
            if d[p, j] != 0:
                same.setdefault(d[p, j], []).append(_hadamard(product))
        terms = [_product([sp.Integer(-1), coupling, _sum(js)]) for coupling, js in same.items()]
        error = _sum([s[p], *terms] if s[p] != 0 else terms)
        for k, power in enumerate(powers):
            if power and error is not None:
                others = list(factors[p])
                others.remove(b[k])
                slopes[k].setdefault((error, power, bool(others)), []).append(others)
    equations = []
    for k, parts in enumerate(slopes):
        terms = [
            _product([sp.Integer(power), _hadamard([*_added(others), error])])
            for (error, power, _), others in parts.items()
        ]
        equations.append(_equation(b[k], terms, *each.of(k)))
    return Written(equations, list(range(len(b))), found.values, found.names)


def _named(
    statistics: PathStatistics, letter: tuple[str, str], other: tuple[str, str]
) -> tuple[list[Any], dict[tuple[int, int], Any], Statistics]:
    """Symbols of S by class of paths and of D by two of them, 0 where they vanish."""
    found, paths = Statistics(), range(len(statistics.keys))
    s = found.name(*letter, {((k,),): v for k, v in enumerate(statistics.s)})
    d = found.name(*other, {(pair,): v for pair, v in statistics.d.items()})
    pairs = {(j, k): d.get(((j, k),), 0) for j in paths for k in paths}
    return [s[((k,),)] for k in paths], pairs, found


def _chained(around: Iterable[tuple[Any, Key, Key]], b: Sequence[Any]) -> list[Any]:
    """The terms `after^T error before^T`, with those that differ in one factor only added up."""
    afters: dict[Any, list[Key]] = {}
    for error, after, before in around:
        afters.setdefault((error, before, bool(after)), []).append(after)
    befores: dict[Any, list[Key]] = {}
    for (error, before, _), after in afters.items():
        befores.setdefault((error, tuple(after), bool(before)), []).append(before)
    return [
        _product([*_transposed(after, b), error, *_transposed(before, b)])
        for (error, after, _), before in befores.items()
    ]


def _transposed(words: Sequence[Key], b: Sequence[Any]) -> list[Any]:
    """Factors of the transpose of a sum of products along paths."""
    import sympy as sp

    if len(words) == 1:
        return [sp.Transpose(b[c]) for c in words[0]]
    return [sp.Transpose(_sum([_product([b[c] for c in reversed(word)]) for word in words]))]


def _equation(x: Any, terms: Sequence[Any], size: int, eta: Any, decay: Any) -> Any:
    import sympy as sp

    tau, t = sp.symbols("tau t")
    slope = _sum(terms)
    parts = [] if slope is None else [slope if size == 1 else _product([sp.Rational(1, size), slope])]
    parts += [] if decay == 0 else [_product([sp.Integer(-1), decay, x])]
    rhs = _sum(parts)
    if rhs is None or eta == 0:
        rhs = sp.ZeroMatrix(*x.shape)
    elif eta != 1:
        rhs = _product([eta, rhs])
    return sp.Eq(tau * sp.Derivative(x, t), rhs, evaluate=False)


def _sum(terms: Sequence[Any]) -> Any:
    """Terms in this order; None without any."""
    import sympy as sp

    return None if not terms else terms[0] if len(terms) == 1 else sp.MatAdd(*terms)


def _product(factors: Sequence[Any]) -> Any:
    """Factors in this order, with numbers and products among them multiplied out."""
    import sympy as sp

    flat = [x for f in factors for x in (f.args if isinstance(f, sp.MatMul) else (f,))]
    number = sp.prod(x for x in flat if x.is_Number)
    rest = [x for x in flat if not x.is_Number]
    factors = rest if number == 1 else [number, *rest]
    return factors[0] if len(factors) == 1 else sp.MatMul(*factors)


def _added(products: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Factors of the sum of some products of vectors."""
    return products[0] if len(products) == 1 else [_sum([_hadamard(product) for product in products])]


def _hadamard(factors: Sequence[Any]) -> Any:
    """The product of vectors mode by mode."""
    import sympy as sp

    return factors[0] if len(factors) == 1 else sp.HadamardProduct(*factors)
