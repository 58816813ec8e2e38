"""While something long is computed: Ctrl-C is not lost, and does not come where it would crash; progress."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_LATER = 0.01  # seconds after which an interrupt that Python has ignored comes again
_LONG = 10.0  # seconds after which a call that was not asked to says how far it is, in a terminal


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


class Progress:
    """A progress bar that is moved to a share of all that is to be done; shown at once if `wanted`.

    Else it is shown in a terminal when a call takes long.
    """

    def __init__(self, label: str, wanted: bool = False) -> None:
        self.label = label
        self.since: float = -_LONG if wanted else time.monotonic()
        self.able: bool = wanted or sys.stderr.isatty()
        self.bar: Any = None
        self.listening = heard()

    def __enter__(self) -> Progress:
        self.listening.__enter__()
        return self

    def __exit__(self, fault: object, *_: object) -> None:
        try:
            if fault is None:
                self(1.0)
            if self.bar is not None:
                self.bar.close()
        finally:
            self.listening.__exit__(None, None, None)

    def __call__(self, share: float) -> None:
        if self.bar is None and self.able and time.monotonic() - self.since >= _LONG:
            from tqdm import tqdm

            self.bar = tqdm(total=100, desc=self.label)
        if self.bar is not None:
            self.bar.update(int(100 * share) - self.bar.n)
