"""When to compile, and functions compiled with options that not every version of the compiler has.

What one call computes in NumPy in less time than compiling takes is computed there. That depends on the
call alone, never on the calls before it, so the same call gives the same numbers.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
import jax.core

_COMPILED = "/jax/core/compile/backend_compile_duration"  # what JAX says when it has compiled a program
LEAST_ROOM = 4096
EVALUATIONS = 40_000  # of a small system in NumPy, 25 to 50 microseconds each: about as long as compiling it


def room(steps: int) -> int:
    """Places for `steps` + 1 values in a program: of few sizes, so that runs of many lengths share it.

    >>> room(10), room(4095), room(4096)
    (4096, 4096, 8192)
    """
    return max(LEAST_ROOM, 1 << steps.bit_length())


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
