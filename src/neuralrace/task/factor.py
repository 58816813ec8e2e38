"""Pseudo-samples: few rows with given second moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg.blas import dtrsm  # pyright: ignore[reportAttributeAccessIssue]
from scipy.linalg.lapack import dpstrf  # pyright: ignore[reportAttributeAccessIssue]

from neuralrace.task.blocks import ArrayInterner, Block


@dataclass(frozen=True, eq=False)
class Factor:
    """A covariance of any rank as `rows^T rows`."""

    rows: Block  # (rank, n)
    pivots: np.ndarray  # columns that form a triangular matrix

    def triangle(self) -> np.ndarray:
        """The pivot columns of the rows, upper triangular."""
        return np.asfortranarray(self.rows.array[:, self.pivots])


def cholesky(s: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows `(rank, n)` with `rows^T rows = s scale^2`, and the pivots.

    Columns are scaled first so that units do not matter.
    """
    n, units = len(s), np.sqrt(np.diagonal(s).clip(0))
    units = np.where(units > 0, units, 1.0)
    lower, pivots, rank, _ = dpstrf(s / np.outer(units, units), tol=n * np.finfo(float).eps, lower=1)
    rows = np.zeros((rank, n))
    rows[:, pivots - 1] = np.tril(lower)[:, :rank].T
    rows *= units * scale
    return rows, pivots[:rank] - 1


class PseudoSamples:
    """Makes pseudo-samples from moments; each distinct array is computed and stored once.

    Moments are known by keys that the caller gives: equal keys mean equal moments.
    """

    def __init__(self) -> None:
        self.inputs: ArrayInterner = ArrayInterner()
        self.targets: ArrayInterner = ArrayInterner()
        self._joint = ArrayInterner()  # rows of several inputs side by side, needed only for a while
        self._factors: dict[Any, Factor] = {}
        self._solved: dict[Any, tuple[list[Block], float]] = {}
        self._parts: dict[Any, Block] = {}
        self._last: tuple[Factor | None, np.ndarray] = (None, np.zeros((0, 0)))

    def consolidate(self) -> None:
        """Let go of everything but the blocks, and move these side by side."""
        self._joint, self._factors, self._solved, self._parts = ArrayInterner(), {}, {}, {}
        self.inputs.blocks.consolidate()
        self.targets.blocks.consolidate()

    def factor(self, key: Any, sxx: np.ndarray, scale: float, sizes: Sequence[int]) -> Factor:
        """X with `X^T X = sxx scale^2`, as many rows as sxx has rank."""
        if (key, scale) not in self._factors:
            rows, pivots = cholesky(sxx, scale)
            self._factors[key, scale] = Factor(self.joint_inputs(rows, sizes), pivots)
        return self._factors[key, scale]

    def solve(
        self, factor: Factor, key: Any, sxy: np.ndarray, scale: float, sizes: Sequence[int]
    ) -> tuple[list[Block], float]:
        """Y with `X^T Y = sxy scale^2`, split by nodes, and the sum of its squares."""
        name = (factor, key, scale, tuple(sizes))
        if name not in self._solved:
            if factor is not self._last[0]:  # contexts with the same inputs come in a row
                self._last = (factor, factor.triangle())
            y = dtrsm(1.0, self._last[1], (sxy * scale**2)[factor.pivots], trans_a=1)
            self._solved[name] = self.split_targets(y, sizes), float(np.vdot(y, y))
        return self._solved[name]

    def joint_inputs(self, rows: np.ndarray, sizes: Sequence[int]) -> Block:
        """Rows of all inputs side by side; where there is one input, its block."""
        return (self.inputs if list(sizes) == [rows.shape[1]] else self._joint)(rows)

    def split_inputs(self, rows: Block, sizes: Sequence[int]) -> list[Block]:
        """The columns that belong to each node; equal columns are one block."""
        if list(sizes) == [rows.shape[1]]:
            return [rows]
        return [self._columns(rows, slice(a, b)) for a, b in pairwise(np.cumsum([0, *sizes]))]

    def constant_input(self, rows: Block) -> Block:
        """The last column of the rows, `(rank,)`: the input of biases."""
        return self._columns(rows, -1)

    def _columns(self, rows: Block, which: slice | int) -> Block:
        key = (rows, str(which))
        if key not in self._parts:
            self._parts[key] = self.inputs(rows.array[:, which])
        return self._parts[key]

    def split_targets(self, rows: np.ndarray, sizes: Sequence[int]) -> list[Block]:
        """The columns that belong to each output."""
        return [self.targets(rows[:, a:b]) for a, b in pairwise(np.cumsum([0, *sizes]))]
