"""Ctrl-C while something long is computed: it is not lost, and does not come where it would crash."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_LATER = 0.01  # seconds after which an interrupt that Python has ignored comes again


@contextmanager
def heard() -> Iterator[None]:
    """Ctrl-C is not lost in the block.

    Python ignores what is raised in functions that it calls by itself, as when it collects garbage. JAX has
    such a function. It is often the first one to run after a long computation outside Python, and so the one
    that is interrupted.
    """
    before = sys.unraisablehook

    def hook(ignored: Any) -> None:
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            threading.Timer(_LATER, _thread.interrupt_main).start()
        else:
            before(ignored)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the end of the block: in the midst of compiling Python would crash."""
    held: list[Callable[[], Any]] = []
    before: Any = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # other threads are never interrupted
        return
    signal.signal(signal.SIGINT, lambda *given: held.append(lambda: before(*given)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            held[0]()
