"""When to compile, and functions compiled with options that not every version of the compiler has.

A small system is computed in NumPy at first. Once that has taken as long as compiling would have, it is
compiled: so no first result waits, and many results together take at most twice the least time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache, lru_cache
from typing import Any

import jax

LEAST_ROOM = 4096
EVALUATIONS = 10_000  # of a small system in NumPy take about as long as compiling it


def room(steps: int) -> int:
    """Places for `steps` + 1 values in a program: of few sizes, so that runs of many lengths share it.

    >>> room(10), room(4095), room(4096)
    (4096, 4096, 8192)
    """
    return max(LEAST_ROOM, 1 << steps.bit_length())


class Allowance:
    """Evaluations that NumPy may still make of one structure. Counted, not timed, so that runs repeat."""

    def __init__(self):
        self.left: int = EVALUATIONS

    def spend(self, n: int) -> bool:
        """Take n evaluations; False, and none are left, where there are not that many."""
        enough = n <= self.left
        self.left = self.left - n if enough else 0
        return enough


@lru_cache(maxsize=4096)
def allowance(structure: Hashable) -> Allowance:
    """The allowance of all that one compiled function would compute."""
    return Allowance()


@cache
def compiled(function: Callable[..., Any], static: tuple[int, ...], *options: tuple[str, Any]) -> Any:
    """`jax.jit(function)` with these options of the compiler; with none where it does not know one."""
    try:
        jax.jit(lambda v: v, compiler_options=dict(options))(0.0)
    except (RuntimeError, ValueError):
        options = ()
    return jax.jit(function, static_argnums=static, compiler_options=dict(options))
