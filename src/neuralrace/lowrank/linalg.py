"""Linear algebra of few long rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs
from scipy.sparse.linalg import LinearOperator, cg

from neuralrace.lowrank import constants

(_posv,) = get_lapack_funcs(("posv",))


def norm(x: np.ndarray) -> float:
    """Root of the sum of squares."""
    x = x.ravel()
    return float(x.dot(x)) ** 0.5


def row_basis(rows: np.ndarray, least: float) -> np.ndarray:
    """Orthonormal rows along the principal directions of some rows, those longer than `least`."""
    size, mix = np.linalg.eigh(rows @ rows.T)
    kept = size > max(least**2, 1e-14 * size.sum())
    return (mix[:, kept] / np.sqrt(size[kept])).T @ rows


def factor(squares: np.ndarray) -> np.ndarray:
    """R with `R^T R` equal to each of some symmetric matrices (n, m, m), which may be singular."""
    m = squares.shape[1]
    shift = np.finfo(float).eps * m * np.trace(squares, axis1=1, axis2=2) + 1e-300
    return np.linalg.cholesky(squares + shift[:, None, None] * np.eye(m)).transpose(0, 2, 1)


def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a^-1 b` for a positive definite matrix; nan where it is not one."""
    _, x, failed = _posv(a, b, lower=True)
    return np.full_like(b, np.nan) if failed else x


def conjugate_gradients(multiply: Callable[[Any], Any], b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Solve for what is near x already."""
    r = b - multiply(x)
    if not np.isfinite(r).all():
        return x
    given: Any = {"matvec": lambda v: multiply(v.reshape(r.shape)).ravel(), "dtype": r.dtype}
    operator = LinearOperator((r.size, r.size), **given)
    return x + cg(operator, r.ravel(), rtol=constants.CG_ERROR, maxiter=100)[0].reshape(r.shape)
