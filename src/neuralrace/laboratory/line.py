"""One worker process of a desk: it is started, talked to through a pipe, and ended."""

from __future__ import annotations

import asyncio
import multiprocessing
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from neuralrace.apps.processes import work
from neuralrace.laboratory import worker


class Line:
    """A worker process and the step that it is at.

    Parameters
    ----------
    heard : callable
        `heard(line, message)` takes what the process says, in the event loop.
    ended : callable
        `ended(line, exit_code)` is told when it ends without having been asked to.
    given : tuple
        What `worker.run` takes after the pipe.
    """

    def __init__(
        self,
        heard: Callable[[Line, bytes], None],
        ended: Callable[[Line, int | None], None],
        given: tuple[Any, ...],
    ) -> None:
        self.heard: Callable[[Line, bytes], None] = heard
        self.ended: Callable[[Line, int | None], None] = ended
        self.given: tuple[Any, ...] = given
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.process: Any = None  # none while it is not to run
        self.step: tuple[int, float] | None = None  # tab and time of the step under way
        self.began: float = 0.0  # time at which the process was started
        self.used: float = 0.0  # and at which it was last given something
        self.deaths: int = 0  # processes that ended, one after the other, before any of them answered
        self.not_before: float = 0.0  # time before which none is started again

    def start(self) -> None:
        """Start the process."""
        self.step = None
        self.began = self.used = time.monotonic()
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(worker.__name__, theirs, *self.given), daemon=True)
        self.process.start()
        theirs.close()
        self.outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=_write, args=(ours, self.outbox), daemon=True).start()
        threading.Thread(target=self._read, args=(ours, self.process), daemon=True).start()

    def send(self, letter: str, tab: int, serial: int, content: str = "") -> None:
        """Tell the process something; one that does not run is told nothing."""
        self.used = time.monotonic()
        if self.process is not None:
            self.outbox.put(worker.pack(letter, tab, serial, content))

    def end(self) -> None:
        """End the process."""
        if self.process is not None:
            self.outbox.put(None)
            self.process.kill()
            self.process = self.step = None

    def busy(self) -> float:
        """Seconds that the step under way has taken."""
        return 0.0 if self.step is None else time.monotonic() - self.step[1]

    def _read(self, pipe: Any, process: Any) -> None:
        """Runs in a thread: hands what the worker says to the event loop, and its end."""
        with suppress(RuntimeError):  # the event loop is closed: the server ends
            with suppress(EOFError, OSError):
                while True:
                    self.loop.call_soon_threadsafe(self._take, process, pipe.recv_bytes())
            process.join(10)
            self.loop.call_soon_threadsafe(self._gone, process)
        pipe.close()

    def _take(self, process: Any, message: bytes) -> None:
        if process is self.process:  # not one that was replaced meanwhile
            self.heard(self, message)

    def _gone(self, process: Any) -> None:
        if process is self.process:
            self.outbox.put(None)
            self.process = None
            self.ended(self, process.exitcode)


def _write(pipe: Any, outbox: queue.SimpleQueue[bytes | None]) -> None:
    """Runs in a thread: a large message may have to wait until the worker reads."""
    with suppress(OSError, ValueError):
        while (message := outbox.get()) is not None:
            pipe.send_bytes(message)
