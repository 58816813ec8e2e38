"""What the closed forms share: how they are called, and the inversion of a time t(x)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, ParamSpec

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from neuralrace.compiling import traced
from neuralrace.errors import InputError, array, without_nan
from neuralrace.interrupts import uninterrupted
from neuralrace.network import precision

P = ParamSpec("P")
Arrays = tuple[jax.Array, ...]
Check = Callable[[str, Any], Any]


def closed_form(
    static: Collection[str] = (), apart: Collection[str] = (), **checks: Check
) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Make a formula in JAX a function of numbers, lists and arrays that returns NumPy float64.

    The formula gets its arguments checked, all arrays with one floating type.
    `checks` has one check per argument (`errors.array`, or `positive`, ... below); those in `static` are no
    arrays, those in `apart` do not broadcast. With a tracer among the arguments it follows the caller's
    precision, and values are not checked.
    """

    def wrap(formula: Callable[P, Any]) -> Callable[P, Any]:
        signature = inspect.signature(formula)
        of_names: Callable[..., Any] = formula  # for type checkers, which know it by its own arguments

        @functools.partial(jax.jit, static_argnames=tuple(static))
        def compiled(**given: Any) -> Any:
            arrays = {n: v for n, v in given.items() if n not in static}
            return of_names(**given | dict(zip(arrays, floats(*arrays.values()), strict=True)))

        @functools.wraps(formula)
        def function(*args: P.args, **keywords: P.kwargs) -> Any:
            bound = signature.bind(*args, **keywords)
            bound.apply_defaults()
            given = {n: v if traced(v) else checks[n](n, v) for n, v in bound.arguments.items()}
            if traced(given):
                return compiled(**given)
            fit({n: v for n, v in given.items() if n not in (*static, *apart)})
            with precision(np.float64), uninterrupted():
                out = compiled(**given)
            without_nan(", ".join(given), jax.tree.leaves(out))
            return jax.tree.map(lambda v: float(v) if v.ndim == 0 else np.array(v), out)

        return function

    return wrap


def fit(given: dict[str, Any]) -> None:
    """Refuse arrays that do not broadcast against each other."""
    shapes = {n: np.shape(v) for n, values in given.items() for v in jax.tree.leaves(values)}
    try:
        np.broadcast_shapes(*(np.shape(v) for v in jax.tree.leaves(given)))
    except ValueError as error:
        raise InputError(f"shapes must fit each other as NumPy broadcasts them, got {shapes}") from error


def positive(name: str, value: Any) -> np.ndarray:
    out = array(name, value)
    if not (out > 0).all():
        raise InputError(f"{name} must be greater than 0, got {out.min():g}")
    if not (out >= np.finfo(np.float64).tiny).all():
        raise InputError(
            f"{name} must be at least 2.3e-308: compiled code takes less for 0; got {out.min():g}"
        )
    return out


def nonnegative(name: str, value: Any) -> np.ndarray:
    out = array(name, value)
    if not (out >= 0).all():
        raise InputError(f"{name} must be at least 0, got {out.min():g}")
    return out


def floats(*values: ArrayLike) -> list[jax.Array]:
    """The values as JAX arrays of one floating type."""
    dtype = jnp.result_type(float, *values)
    return [jnp.asarray(v, dtype) for v in values]


def invert(
    time: Callable[..., jax.Array], target: jax.Array, top: jax.Array, *parameters: jax.Array
) -> jax.Array:
    """The x in [0, top] with `time(x, *parameters) = target`, for an increasing function with time(0) = 0.

    Newton's method inside a shrinking bracket; derivatives of any order by the implicit function theorem.
    """
    shape = jnp.broadcast_shapes(*(jnp.shape(v) for v in (target, top, *parameters)))
    target, top, *others = (jnp.broadcast_to(v, shape) for v in (target, top, *parameters))
    return _root(time, jax.lax.stop_gradient(top), target, *others)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _root(
    time: Callable[..., jax.Array], top: jax.Array, target: jax.Array, *parameters: jax.Array
) -> jax.Array:
    eps = jnp.finfo(target.dtype).eps

    def iterate(state: Any) -> Any:
        count, low, high, x, last = state
        value, slope = _slope(time, x, parameters)
        move = (target - value) / slope
        low, high = jnp.where(value < target, x, low), jnp.where(value < target, high, x)
        newton = (x + move >= low) & (x + move <= high) & (abs(move) <= last / 2)
        new = jnp.where(newton, x + move, (low + high) / 2)
        moved = jnp.where(newton, abs(move), (high - low) / 2)
        done = (abs(move) <= 2 * eps * x) | (last == 0)
        return count + 1, low, high, jnp.where(done, x, new), jnp.where(done, 0, moved)

    zero = jnp.zeros_like(target)
    start = (0, zero, top, zero, top)
    return jax.lax.while_loop(lambda s: (s[0] < 200) & (s[4] > 0).any(), iterate, start)[3]


@_root.defjvp
def _(time: Callable[..., jax.Array], primals: Arrays, tangents: Arrays) -> tuple[jax.Array, jax.Array]:
    x = _root(time, *primals)
    _, drift = jax.jvp(lambda *v: time(x, *v), primals[2:], tangents[2:])
    return x, (tangents[1] - drift) / _slope(time, x, primals[2:])[1]


def _slope(time: Callable[..., jax.Array], x: jax.Array, parameters: Arrays) -> Arrays:
    return jax.jvp(lambda x: time(x, *parameters), (x,), (jnp.ones_like(x),))
