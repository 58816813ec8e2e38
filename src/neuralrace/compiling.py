"""Functions compiled by JAX: kept on disk, and not interrupted while they are compiled."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import jax
import jax.core
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from neuralrace.interrupts import uninterrupted

Array = np.ndarray | jax.Array
Tree = Any  # arrays in dicts, tuples and lists, as JAX takes them
FAST_COMPILER = {  # compiles two to three times faster; programs run as fast, or up to a quarter slower
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 1,
    "xla_cpu_parallel_codegen_split_count": 1,
}


class Compiled:
    """`jax.jit(function)` whose first arguments are static, with options for the compiler of a CPU.

    None of the options is used where the compiler does not know one of them. What is compiled is kept on
    disk (see `cache_folder`), unless the user has JAX keep it elsewhere.
    """

    def __init__(self, function: Callable[..., Any], static: int = 0, **options: Any) -> None:
        self.function, self.static, self.options = function, static, options
        self.known: set[Any] = set()  # forms of arguments that have been compiled
        self.jitted: Any = None

    def __call__(self, *given: Any) -> Any:
        numbers = jax.tree.leaves(given[self.static :])
        form = given[: self.static], *((np.shape(v), getattr(v, "dtype", type(v))) for v in numbers)
        if form in self.known:
            return self.jitted(*given)
        with _kept_on_disk(), uninterrupted():
            try:
                found = self._jit()(*given)
            except jax.errors.JaxRuntimeError as fault:
                if "compile option" not in str(fault):
                    raise
                self.options, self.jitted = {}, None
                found = self._jit()(*given)
        self.known.add(form)
        return found

    def _jit(self) -> Any:
        """The function for the compiler, made when it is first called: that asks for the device."""
        if self.jitted is None:
            options = self.options if jax.default_backend() == "cpu" else {}
            static = tuple(range(self.static))
            self.jitted = jax.jit(self.function, static_argnums=static, compiler_options=options)
        return self.jitted


def cache_folder() -> Path | None:
    """Where compiled programs are kept: ``NEURALRACE_CACHE``, or a folder in the user's cache.

    Returns
    -------
    Path or None
        None where ``NEURALRACE_CACHE`` is "off".

    Examples
    --------
    >>> os.environ["NEURALRACE_CACHE"] = "off"
    >>> cache_folder() is None
    True
    >>> del os.environ["NEURALRACE_CACHE"]
    """
    chosen = os.environ.get("NEURALRACE_CACHE")
    if chosen:
        return None if chosen == "off" else Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "neuralrace" / "compiled"


@cache
def _processor() -> str:
    """Programs for one kind of processor may not run on another that shares the folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        flags = platform.processor()
    return blake2b(f"{platform.machine()} {flags}".encode(), digest_size=6).hexdigest()


@contextmanager
def _kept_on_disk() -> Iterator[None]:
    """What the block compiles is kept in our folder; JAX is configured as before afterwards."""
    folder, own = cache_folder(), "jax_compilation_cache_dir"
    noisy = jax.__version_info__ < (0, 10, 2)  # prints long lines for every program that it reads
    if folder is None or getattr(jax.config, own) or noisy:
        yield
        return
    wanted = {own: str(folder / _processor()), "jax_persistent_cache_min_compile_time_secs": 0.0}
    before = {name: getattr(jax.config, name) for name in wanted}
    try:
        for name, value in wanted.items():
            jax.config.update(name, value)
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


def traced(value: Any) -> bool:
    """Whether JAX traces any part of a value, as inside `jax.jit` or `jax.grad`."""
    return any(isinstance(v, jax.core.Tracer) for v in jax.tree.leaves(value))
