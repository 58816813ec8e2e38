"""When to compile, and functions compiled with options that not every version of the compiler has.

A small system is computed in NumPy at first. Once that has taken as long as compiling would have, it is
compiled: so no first result waits, and many results together take at most twice the least time.
"""

from __future__ import annotations

import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

import jax
import jax.core

_COMPILED = "/jax/core/compile/backend_compile_duration"  # what JAX says when it has compiled a program
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

    def __init__(self, left: int | None = None):
        self.left: int = EVALUATIONS if left is None else left

    def covers(self, n: int) -> bool:
        """Whether n evaluations are left; where they are not, none are from now on."""
        self.left = self.left if n <= self.left else 0
        return self.left > 0

    def spend(self, n: int) -> bool:
        """Take n evaluations; False, and none are left, where there are not that many."""
        enough = n <= self.left
        self.left = self.left - n if enough else 0
        return enough


@lru_cache(maxsize=4096)
def _allowance(structure: Hashable) -> Allowance:
    return Allowance()


_here = threading.local()  # `spent`: allowances that `compile_here` ends; `own`: those of `counted_anew`


def allowance(structure: Hashable) -> Allowance:
    """The allowance of all that one compiled function would compute."""
    own = getattr(_here, "own", None)
    found = _allowance(structure) if own is None else own[structure]
    spent = getattr(_here, "spent", None)
    if spent is None:
        return found
    spent.append(found)
    return Allowance(0)


@contextmanager
def counted_anew(share: float = 1.0) -> Iterator[None]:
    """Give what this thread computes inside allowances of its own: no result depends on what came before it.

    They are that share of the usual ones, so that many such blocks together take no longer in NumPy.
    """
    before = getattr(_here, "own", None)
    _here.own = defaultdict(lambda: Allowance(int(share * EVALUATIONS)))
    try:
        yield
    finally:
        _here.own = before


@contextmanager
def compile_here() -> Iterator[None]:
    """Compile what this thread computes inside. Others go on in NumPy until it is compiled, then use that."""
    if getattr(_here, "spent", None) is not None:  # inside another one
        yield
        return
    _here.spent = []
    try:
        yield
        for one in _here.spent:
            one.left = 0
    finally:
        del _here.spent


def allow(evaluations: int) -> None:
    """Evaluations that NumPy may make of each structure, from now on and from the start."""
    global EVALUATIONS
    EVALUATIONS = evaluations
    _allowance.cache_clear()


@cache
def compiled(function: Callable[..., Any], static: tuple[int, ...], *options: tuple[str, Any]) -> Any:
    """`jax.jit(function)` with these options of the compiler; with none where it does not know one."""
    try:
        if options:
            jax.jit(lambda v: v, compiler_options=dict(options))(0.0)
    except (RuntimeError, ValueError):
        options = ()
    return jax.jit(function, static_argnums=static, compiler_options=dict(options))


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until what the block compiles is compiled: in the midst of that Python would crash."""
    held: list[Any] = []

    def hold(*given: Any) -> None:
        held.append(given)

    def let_go(event: str = _COMPILED, *_: Any, **__: Any) -> None:
        if event == _COMPILED and signal.getsignal(signal.SIGINT) is hold:
            signal.signal(signal.SIGINT, before)
            if held and callable(before):
                before(*held[0])

    try:
        before = signal.signal(signal.SIGINT, hold)
    except ValueError:  # in another thread, which is never interrupted
        yield
        return
    jax.monitoring.register_event_duration_secs_listener(let_go)
    try:
        yield
    finally:
        jax.monitoring.unregister_event_duration_listener(let_go)
        let_go()


def traced(value: Any) -> bool:
    """Whether JAX traces any part of a value, as inside `jax.jit` or `jax.grad`."""
    return any(isinstance(v, jax.core.Tracer) for v in jax.tree.leaves(value))
