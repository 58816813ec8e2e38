"""Symbols of the equations: one for each distinct value of a statistic, numbered by classes of paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from neuralrace.reduction.path_classes import SAME

Index = tuple[tuple[int, ...], ...]  # classes of paths, then modes; counted from 0


@dataclass(frozen=True)
class Written:
    """Equations, the class of edges that each is of, numbers behind the symbols, and their names in LaTeX."""

    equations: list[Any]
    owners: list[int]
    values: dict[Any, Any] = field(default_factory=dict)
    names: dict[Any, str] = field(default_factory=dict)


class EdgeClasses(NamedTuple):
    """For each class of edges, how many there are, and symbols of their learning rate and decay."""

    sizes: list[int]
    etas: list[Any]
    lambdas: list[Any]

    def of(self, k: int) -> tuple[int, Any, Any]:
        return self.sizes[k], self.etas[k], self.lambdas[k]


class Statistics:
    """A symbol for each distinct value, S or D with the number of the first class of paths that has it.

    The number is left out where there is one value only. Values that vanish are the number 0.
    """

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}
        self.names: dict[Any, str] = {}

    def name(self, letter: str, latex: str, given: Mapping[Index, np.ndarray]) -> dict[Index, Any]:
        """Symbols of the given values: scalars for (modes,) or numbers, matrices for two axes."""
        import sympy as sp

        first = _first_with_same_value(given)
        distinct = list(dict.fromkeys(first.values()))
        symbols = {}
        for index in distinct:
            text, subscript = ("", "") if len(distinct) == 1 else labels(index)
            v = given[index]
            name = letter + text
            symbol = sp.MatrixSymbol(name, *v.shape) if np.ndim(v) == 2 else sp.Symbol(name)
            symbols[index] = symbol
            self.values[symbol] = float(v) if np.ndim(v) == 0 else v
            self.names[symbol] = f"{latex}_{{{subscript}}}" if subscript else latex
        return {i: symbols[first[i]] if i in first else sp.Integer(0) for i in given}


def _first_with_same_value(given: Mapping[Index, np.ndarray]) -> dict[Index, Index]:
    """For each value that does not vanish, the first that is the same."""
    scale = max((np.abs(v).max(initial=0.0) for v in given.values()), default=0.0)
    first: dict[Index, Index] = {}
    seen: dict[tuple[int, ...], tuple[list[Index], np.ndarray]] = {}  # distinct values of each shape
    for index, v in given.items():
        if np.abs(v).max(initial=0.0) <= SAME * scale:
            continue
        known, table = seen.setdefault(np.shape(v), ([], np.zeros((len(given), np.size(v)))))
        same = np.abs(table[: len(known)] - np.ravel(v)).max(axis=1, initial=0.0) <= SAME * scale
        if same.any():
            first[index] = known[int(same.argmax())]
        else:
            table[len(known)] = np.ravel(v)
            known.append(index)
            first[index] = index
    return first


def labels(index: Index) -> tuple[str, str]:
    """An index, counted from 1, in the name of a symbol and in LaTeX: 12_3 and 12,3."""
    groups = [[str(k + 1) for k in group] for group in index]
    if all(len(k) == 1 for group in groups for k in group):
        words = ["".join(group) for group in groups]
    else:
        words = [k for group in groups for k in group]
    return "_".join(words), ",".join(words)


def rate_symbols(rates: np.ndarray, decays: np.ndarray) -> tuple[list[Any], list[Any]]:
    """Learning rate and weight decay of each class: symbols eta and lambda, numbered where they differ."""
    import sympy as sp

    def named(letter: str, values: Iterable[float], plain: int) -> list[Any]:
        distinct = [v for v in dict.fromkeys(values) if v not in (plain, 0)]
        number = {v: "" if len(distinct) == 1 else str(k + 1) for k, v in enumerate(distinct)}
        special = {v: sp.Symbol(f"{letter}{number[v]}") for v in distinct}
        special |= {0.0: sp.Integer(0), float(plain): sp.Integer(plain)}
        return [special[v] for v in values]

    return named("eta", rates.tolist(), 1), named("lambda", decays.tolist(), 0)


def rate_values(rates: np.ndarray, decays: np.ndarray) -> dict[Any, float]:
    """The numbers behind eta and lambda."""
    etas, lambdas = rate_symbols(rates, decays)
    pairs = zip([*etas, *lambdas], [*rates.tolist(), *decays.tolist()], strict=True)
    return {symbol: value for symbol, value in pairs if symbol.is_Symbol}
