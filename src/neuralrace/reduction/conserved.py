"""Conserved quantities of a reduction at each hidden node (theory.md section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.dynamics.rates import Rates
from neuralrace.graph import Graph
from neuralrace.reduction.family import Classes
from neuralrace.reduction.path_classes import class_rates
from neuralrace.reduction.symbols import rate_symbols

if TYPE_CHECKING:
    import sympy


def laws(
    graph: Graph, classes: Classes, rates: Rates, shapes: list[tuple[int, ...]] | None = None
) -> list[sympy.Expr]:
    """Independent conserved quantities of the hidden nodes (see `Reduction.conserved`).

    `shapes` are those of the blocks, where classes have blocks.
    """
    import sympy as sp

    class_of = {e: k for k, members in enumerate(classes) for e in members}
    scale, decay = class_rates(classes, rates)
    etas, lambdas = rate_symbols(scale, decay)
    t, tau = sp.symbols("t tau")
    rows: dict[Any, list[np.ndarray]] = {}  # of laws whose squares have the same size and decay alike
    found = []
    for node in graph.hidden:
        if {*graph.outgoing[node], *graph.incoming[node]} & graph.fixed.keys():
            continue
        counts = np.zeros((2, len(classes)), int)
        for e in graph.outgoing[node]:
            counts[0, class_of[e]] += 1
        for e in graph.incoming[node]:
            counts[1, class_of[e]] -= 1
        if shapes is None:  # B^T B and B B^T are the same in each mode
            counts = counts.sum(axis=0, keepdims=True)
        here = [class_of[e] for e in (*graph.outgoing[node], *graph.incoming[node])]
        speeds = scale[here] * decay[here]
        if not counts.any() or not scale[here].all() or np.ptp(speeds) > 1e-12 * speeds.max():
            continue
        size = None if shapes is None else shapes[class_of[graph.incoming[node][0]]][0]
        row = (counts / np.where(scale > 0, scale, 1.0)).ravel()
        others = rows.setdefault((size, float(speeds[0])), [])
        if np.linalg.matrix_rank(np.array([*others, row])) <= len(others):
            continue
        others.append(row)
        growth = sp.exp(2 * etas[here[0]] * lambdas[here[0]] * t / tau)
        found.append(_law(counts, etas, growth, shapes))
    return found


def _law(counts: np.ndarray, etas: list[Any], growth: Any, shapes: list[tuple[int, ...]] | None) -> Any:
    """The sum of squares, outgoing less incoming."""
    import sympy as sp

    if shapes is None:
        squares = [int(n) * sp.Symbol(f"B{k + 1}") ** 2 / etas[k] for k, n in enumerate(counts[0]) if n]
        return sum(squares, sp.Integer(0)) * growth
    b = [sp.MatrixSymbol(f"B{k + 1}", *shape) for k, shape in enumerate(shapes)]
    squares = [int(n) / etas[k] * growth * b[k].T * b[k] for k, n in enumerate(counts[0]) if n]
    squares += [int(n) / etas[k] * growth * b[k] * b[k].T for k, n in enumerate(counts[1]) if n]
    return squares[0] if len(squares) == 1 else sp.MatAdd(*squares)
