"""Equations as LaTeX, as they would stand in a paper, and definitions of their symbols."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from neuralrace.reduction.family import Classes

if TYPE_CHECKING:
    from neuralrace.reduction.equations import Equation, Quantity, Written
    from neuralrace.reduction.reduced_equations import ReducedEquations

MOST_NAMED = 2  # edges of a class beside its equation
DIGITS = 3
LARGEST_WHOLE = 10**5  # numbers from here on are written with a power of ten
_LETTERS = {"Syx": r"\Sigma^{yx}", "Sxx": r"\Sigma^{xx}"}
SPECIAL = str.maketrans({c: "\\" + c for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
})  # fmt: skip


def in_latex(expression: Any) -> str:
    """An expression in the order in which it is written."""
    return _printer()(expression)


def named(name: str) -> str:
    r"""The name of a symbol, with what follows its first letters as subscript: words upright.

    Examples
    --------
    >>> [named(name) for name in ("D12_34", "Syx2", "lambda", "W_a", "W_out", "trunk")]
    ['D_{12,34}', '\\Sigma^{yx}_{2}', '\\lambda', 'W_{a}', 'W_{\\text{out}}', '\\operatorname{trunk}']
    """
    from sympy.printing.conventions import split_super_sub
    from sympy.printing.latex import translate

    base, _, parts = split_super_sub(name)
    base = _LETTERS.get(str(base)) or str(translate(str(base)))
    base = rf"\operatorname{{{base}}}" if len(base) > 1 and base.isalpha() else base
    below = ",".join(part if part.isdigit() or len(part) == 1 else rf"\text{{{part}}}" for part in parts)
    return f"{base}_{{{below}}}" if below else base


def aligned(equations: Sequence[Equation], classes: Classes) -> str:
    """One equation per line, with the edges of its class beside it."""
    lines = [f"{eq.latex[0]} &= {eq.latex[1]} && {edges(classes[eq.edge_class])}" for eq in equations]
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def definitions(r: ReducedEquations, written: Written) -> list[str]:
    """Sentences on weights and statistics of paths, on each class of paths, and on each symbol."""
    paths = [
        f"${_set(k)}$ are the paths with the product ${in_latex(x)}$." for k, x in enumerate(written.products)
    ]
    return [*_statistics(r), *paths, *map(_defined, written.quantities)]


def _statistics(r: ReducedEquations) -> list[str]:
    """What weights are, and the sums s and d over paths."""
    m, n = "mn" if r.form == "vectors" else ("", "")
    if r.form == "matrices":
        u, v, where, factors = "U", "V", "The", "the gates"
        weights = "$L B R^T$, with orthonormal bases $L$ and $R$ at its ends"
    else:
        u, v, where, factors = "u", "v", f"In each mode ({r.n_modes} in all) the", _factors(r)
        weights = r"$B\, l r^T$, with directions $l$ and $r$ at its ends that are orthonormal over modes"
        weights += r"; vectors have an entry for each mode, and $\circ$ multiplies entries" * bool(m)
    overlap = rf"({u}_{{j{m}}}^T {u}_{{p{n}}})\, " if r.basis == "pathwise" else ""
    s, d = ("s_m", "d_{mn}") if m else ("s", "d")
    return [
        f"{where} weights of an edge of strength $B$ are {weights}.",
        f"At the output and at the input of a path $p$ these are ${u}_{{p{m}}}$ and ${v}_{{p{m}}}$: "
        f"{'columns of ' * (u == 'u')}r.family.left and r.family.right of its last and its first edge"
        f"{', without their signs' * (r.directions > 1)}.",
        f"$x_p$ is its input, $y_p$ the target at its output, and $g_p$ the product along it of {factors}.",
        rf"${s}(P) = \sum_{{p \in P}} {u}_{{p{m}}}^T \langle g_p\, y_p x_p^T \rangle {v}_{{p{m}}}$ and "
        rf"${d}(P, Q) = \sum_{{j \in P,\, p \in Q}} {overlap}{v}_{{j{m}}}^T "
        rf"\langle g_j g_p\, x_j x_p^T \rangle {v}_{{p{n}}}$, over pairs that end at one output; "
        r"$\langle \cdot \rangle$ is the mean over samples.",
        r"$\tau$ is the time constant of gradient flow on the mean loss.",
    ]


def _factors(r: ReducedEquations) -> str:
    """What a path multiplies a mode by."""
    factors = ["the gates"]
    if r.task.graph.fixed:
        factors.append("the fixed weights")
    if r.directions > 1:
        factors.append("the signs of parts of layers")
    frames = [*r.family.left.values(), *r.family.right.values()]
    lacking = any((f == 0).all(axis=0).any() for f in frames)
    return " and ".join(factors) + " (0 in modes that a layer on it lacks)" * lacking


def _defined(q: Quantity) -> str:
    name, size = in_latex(q.symbol), ""
    if q.symbol.is_Matrix:
        rows, columns = map(int, q.symbol.shape)
        size = rf" \in \mathbb{{R}}^{{{rows}" + rf" \times {columns}" * (columns > 1) + "}"
    if q.names:  # a statistic
        letter = "s" if len(q.of[0]) == 1 else "d"
        once = [at for at in q.of if at <= at[::-1] or at[::-1] not in q.of]
        equal = [f"{letter}({', '.join(map(_set, at))})" for at in once]
        return f"${' = '.join([name, *equal])}{size}$."
    value = f" = {q.value:g}" if isinstance(q.value, float) else ""
    of = ", ".join(f"${edges([e])}$" for e in q.of)  # lines of a paper break between them
    return f"${name}{size}{value}$ is the {q.kind.value} of {of}."


def _set(k: int) -> str:
    return f"P_{{{k + 1}}}"


def edges(members: Sequence[str]) -> str:
    """The edges of a class in LaTeX, the first of them where they are many."""
    shown = members if len(members) <= MOST_NAMED + 1 else members[:MOST_NAMED]
    names = [r" \to ".join(rf"\text{{{n.translate(SPECIAL)}}}" for n in e.split("->")) for e in shown]
    if len(shown) < len(members):
        names.append(rf"\ldots \text{{ ({len(members)} edges)}}")
    return r",\ ".join(names)


def rounded(value: float) -> str:
    r"""A number of the data: whole ones as such, others with three digits.

    Examples
    --------
    >>> [rounded(v) for v in (2.0, 1 / 3, 1234.56, -1.2345e-7)]
    ['2', '0.333', '1.23 \\cdot 10^{3}', '- 1.23 \\cdot 10^{-7}']
    """
    sign, value = "- " if value < 0 else "", abs(value)
    if abs(round(value) - value) <= 1e-9 * value and value < LARGEST_WHOLE:
        return f"{sign}{round(value)}"
    digits, _, power = f"{value:.{DIGITS}g}".partition("e")
    return sign + digits + (rf" \cdot 10^{{{int(power)}}}" if power else "")


@cache
def _printer() -> Any:
    """A printer that keeps the order of sums and products, with fractions before products."""
    import sympy as sp
    from sympy.printing.latex import LatexPrinter

    class Printer(LatexPrinter):
        def _print_Symbol(self, expr: Any, style: str = "") -> str:
            return named(expr.name)

        _print_MatrixSymbol = _print_Symbol

        def _print_Float(self, expr: Any) -> str:
            return rounded(float(expr))

        def _in_brackets(self, expr: Any) -> str:
            mixed = isinstance(expr, sp.HadamardProduct) and len({*expr.args}) > 1
            return rf"\left({self._print(expr)}\right)" if mixed or expr.is_Add else self._print(expr)

        def _print_Add(self, expr: Any, order: Any = None) -> str:
            return " + ".join(map(self._print, expr.args)).replace("+ - ", "- ")

        _print_MatAdd = _print_Add

        def _print_Mul(self, expr: Any) -> str:
            first, *factors = expr.args
            if not first.is_Number:
                return " ".join(map(self._in_brackets, expr.args))
            texts = [self._print(abs(first)), *map(self._in_brackets, factors)]
            return "- " * bool(first < 0) + " ".join(texts[texts[0] == "1" :])

        _print_MatMul = _print_Mul

        def _print_HadamardProduct(self, expr: Any) -> str:
            powers = [(self._in_brackets(f), len(list(same))) for f, same in groupby(expr.args)]
            return r" \circ ".join(text if n == 1 else rf"{text}^{{\circ {n}}}" for text, n in powers)

        def _print_Transpose(self, expr: Any) -> str:
            return f"{self._in_brackets(expr.arg)}^{{T}}"

    return Printer().doprint
