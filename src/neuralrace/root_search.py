"""Roots of fields, and their slopes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import InputError, array, integer, number
from neuralrace.network import precision

Field = Callable[..., Any]  # (flat weights, data) -> their velocity, or the gradient


def roots(
    field: Field, starts: Any, data: Any = None, tol: float = 1e-11, max_steps: int = 2000
) -> tuple[np.ndarray, np.ndarray]:
    """Roots of a field by Levenberg-Marquardt steps (optimistix).

    Parameters
    ----------
    field : callable
        `field(w, data)` of w (size,) returns as many numbers, written with `jax.numpy`; hashable. The same
        function compiles once.
    starts : array_like, shape (n, size)
        Where to search from.
    data : pytree of arrays, optional
        Second argument of the field.
    tol : float, default 1e-11
        Norm of the field to reach.
    max_steps : int, default 2000
        Most steps from each start.

    Returns
    -------
    w : ndarray, shape (n, size)
        Where the searches ended.
    norm : ndarray, shape (n,)
        Norm of the field there: a root where it is below `tol`.

    Examples
    --------
    >>> w, norm = roots(lambda w, _: w**2 - 2, [[1.0], [-3.0]])
    >>> w.round(6).tolist(), bool(norm.max() < 1e-11)
    ([[1.414214], [-1.414214]], True)
    """
    tol, max_steps = number("tol", tol, above=0), integer("max_steps", max_steps, most=2**31 - 1)
    rows = array("starts", starts, (None, None))
    with precision(np.float64):
        _check_field(field, rows, data)
        solved = _roots(field, max_steps, jnp.asarray(rows), data, tol)
    return np.asarray(solved[0]), np.asarray(solved[1])


def jacobian(field: Field, w: Any, data: Any = None) -> np.ndarray:
    """Slopes of a field.

    Parameters
    ----------
    field : callable
        As in `roots`.
    w : array_like, shape (n, size)
        Where to look.
    data : pytree of arrays, optional
        Second argument of the field.

    Returns
    -------
    ndarray, shape (n, size, size)
        Derivatives of the field, second axis, by w, last axis.

    Examples
    --------
    >>> jacobian(lambda w, _: w**2, [[3.0]])
    array([[[6.]]])
    """
    rows = array("w", w, (None, None))
    with precision(np.float64):
        _check_field(field, rows, data)
        return np.asarray(_jacobian(field, jnp.asarray(rows), data))


def _check_field(field: Any, rows: np.ndarray, data: Any) -> None:
    """Refuse what is no field on rows of this size, by its shapes alone."""
    if not callable(field) or not isinstance(field, Hashable):
        raise InputError(f"field must be a hashable function of (w, data), got {field!r}")
    try:
        given: Any = jax.eval_shape(field, jax.ShapeDtypeStruct(rows.shape[1:], np.float64), data)
        shape = given.shape
    except Exception as fault:
        raise InputError(f"field failed with {type(fault).__name__}: {fault}") from fault
    if shape != rows.shape[1:]:
        raise InputError(f"field must return {rows.shape[1]} numbers as it takes, got shape {shape}")


@partial(jax.jit, static_argnums=(0, 1))
def _roots(field: Field, max_steps: int, starts: Any, data: Any, tol: float) -> Any:
    import optimistix  # takes part of a second

    # Near a root steps shrink at once, so that the field is below tol where they are a tenth of it.
    solver = optimistix.LevenbergMarquardt(rtol=tol / 10, atol=tol / 10, norm=optimistix.two_norm)

    def one(start: Any) -> Any:
        w = optimistix.least_squares(field, solver, start, data, max_steps=max_steps, throw=False).value
        return w, jnp.linalg.norm(field(w, data))

    return jax.lax.map(one, starts)


@partial(jax.jit, static_argnums=0)
def _jacobian(field: Field, w: Any, data: Any) -> Any:
    return jax.lax.map(lambda v: jax.jacfwd(field)(v, data), w)
