"""Equations as LaTeX, as they would stand in a paper."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any

from neuralrace.reduction.family import Classes
from neuralrace.reduction.symbols import Written

MOST_NAMED = 2  # edges of a class beside its equation
DIGITS = 3
LARGEST_DENOMINATOR = 32  # of fractions that are written as such
LARGEST_WHOLE = 1e5  # numbers from here on are written with a power of ten
SPECIAL = str.maketrans({c: "\\" + c for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
})  # fmt: skip


def aligned(written: Written, classes: Classes) -> str:
    """One equation per line, with the edges of its class beside it."""
    import sympy as sp

    show = _printer(written.names)
    lines = []
    for eq, owner in zip(written.equations, written.owners, strict=True):
        strength = next(f.args[0] for f in eq.lhs.args if f.is_Derivative)
        rhs = show(eq.rhs.xreplace({f: rounded(f) for f in eq.rhs.atoms(sp.Float)}))
        lines.append(rf"\tau \frac{{d}}{{dt}} {show(strength)} &= {rhs} && {edges(classes[owner])}")
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def edges(members: Sequence[str]) -> str:
    """The edges of a class in LaTeX, the first of them where they are many."""
    shown = members if len(members) <= MOST_NAMED + 1 else members[:MOST_NAMED]
    names = [r" \to ".join(rf"\text{{{n.translate(SPECIAL)}}}" for n in e.split("->")) for e in shown]
    if len(shown) < len(members):
        names.append(rf"\ldots \text{{ ({len(members)} edges)}}")
    return r",\ ".join(names)


def rounded(x: Any) -> Any:
    """A number as a person would write it: simple fractions as such, others with three digits.

    Examples
    --------
    >>> import sympy as sp
    >>> [rounded(sp.Float(v)) for v in (2.0, 1 / 3, 0.35355339, 1234.56, 1.2345e-7)]
    [2, 1/3, 0.354, 1230, 1.23e-7]
    """
    import sympy as sp

    value = float(x)
    short, simple = float(f"{value:.{DIGITS}g}"), Fraction(value).limit_denominator(LARGEST_DENOMINATOR)

    def is_exact(other: float) -> bool:
        return abs(other - value) <= 1e-9 * abs(value)

    if is_exact(round(value)) and abs(value) < LARGEST_WHOLE:
        return sp.Integer(round(value))
    if not is_exact(short) and is_exact(float(simple)) and abs(simple.numerator) < 100:
        return sp.Rational(simple.numerator, simple.denominator)
    if 10**DIGITS <= abs(value) < LARGEST_WHOLE:
        return sp.Integer(round(short))
    return sp.Float(f"{short:.{DIGITS}g}", DIGITS)


def _printer(names: dict[Any, str]) -> Any:
    """A function from expressions to LaTeX, with data before strengths and fractions before products."""
    import sympy as sp
    from sympy.printing.latex import LatexPrinter

    class Printer(LatexPrinter):
        def _in_brackets(self, expr: Any, *kinds: type) -> str:
            text = self._print(expr)
            return rf"\left({text}\right)" if isinstance(expr, kinds) else text

        def _print_Add(self, expr: Any, order: Any = None) -> str:
            terms = expr.args if expr.is_Matrix else sorted(expr.args, key=_place)
            text = " + ".join(self._print(term) for term in terms)
            return re.sub(r"\+ -\s*", "- ", text)

        def _print_Mul(self, expr: Any) -> str:
            number, factors = expr.as_coeff_mul(rational=False)
            order = sorted(factors, key=lambda f: (_kind(f), _place(f)))
            return self._times(number, [self._in_brackets(f, sp.Add) for f in order])

        def _print_MatMul(self, expr: Any) -> str:
            number = expr.args[0] if expr.args[0].is_Number else sp.Integer(1)
            factors = [f for f in expr.args if not f.is_Number]
            mixed = [isinstance(f, sp.HadamardProduct) and len(set(f.args)) > 1 for f in factors]
            kinds = [(sp.Add, sp.HadamardProduct) if m else (sp.Add,) for m in mixed]
            return self._times(
                number, [self._in_brackets(f, *k) for f, k in zip(factors, kinds, strict=True)]
            )

        def _times(self, number: Any, factors: list[str]) -> str:
            sign, size = ("- ", -number) if number.is_negative else ("", number)
            return sign + " ".join([*([] if size == 1 else [self._print(size)]), *factors])

        def _print_HadamardProduct(self, expr: Any) -> str:
            powers = [(f, len(list(same))) for f, same in groupby(expr.args)]
            texts = [(self._in_brackets(f, sp.Add), n) for f, n in powers]
            return r" \circ ".join(text if n == 1 else rf"{text}^{{\circ {n}}}" for text, n in texts)

        def _print_Transpose(self, expr: Any) -> str:
            return f"{self._in_brackets(expr.arg, sp.Add)}^{{T}}"

    return Printer({"symbol_names": names}).doprint


def _place(term: Any) -> Any:
    """Sort key: terms without strengths, then by the numbers of their strengths; weight decay last."""
    names = sorted(x.name for x in term.free_symbols if _is_strength(x))
    decays = any(x.name.startswith("lambda") for x in term.free_symbols)
    return decays, bool(names), [[int(n) for n in re.findall(r"\d+", name)] for name in names], str(term)


def _kind(factor: Any) -> int:
    """Factors are learning rates and decays, then strengths, brackets, and last S or D."""
    if factor.is_Add:
        return 2
    (symbol,) = factor.free_symbols
    return 1 if _is_strength(symbol) else 0 if re.fullmatch(r"(eta|lambda)\d*", symbol.name) else 3


def _is_strength(symbol: Any) -> bool:
    return re.fullmatch(r"B[\d_]+", symbol.name) is not None
