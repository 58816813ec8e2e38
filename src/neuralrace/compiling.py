"""Functions compiled with options that not every version of the compiler has."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax


@cache
def compiled(function: Callable[..., Any], static: tuple[int, ...], *options: tuple[str, Any]) -> Any:
    """`jax.jit(function)` with these options of the compiler; with none where it does not know one."""
    try:
        jax.jit(lambda v: v, compiler_options=dict(options))(0.0)
    except (RuntimeError, ValueError):
        options = ()
    return jax.jit(function, static_argnums=static, compiler_options=dict(options))
