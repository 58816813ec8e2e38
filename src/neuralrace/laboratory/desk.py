"""A desk hands the jobs of all tabs to one worker process: latest wins, nothing piles up, nothing hangs."""

from __future__ import annotations

import asyncio
import multiprocessing
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from neuralrace.laboratory import worker
from neuralrace.laboratory.protocol import Notice, Problem

GRACE = 0.7  # seconds that a step may go on after its tab is closed
MOST_TRIES = 2  # of a job whose process ended


@dataclass
class Job:
    """The latest request of a tab, and whether it has been answered."""

    request: str
    number: int  # that the page gave it
    serial: int
    answered: bool = False
    tries: int = 0


class Desk:
    """One worker process and what it has to do.

    Parameters
    ----------
    deliver : callable
        `deliver(tab, text)` sends an answer to a tab.
    limit : float
        Seconds that a step may take.
    dragged : bool
        Whether the worker answers while sliders are dragged: it then never compiles small systems, and solves
        the gallery while it is idle.
    delay : float
        Seconds until the process is started, unless it is needed before.
    """

    def __init__(
        self, deliver: Callable[[int, str], None], limit: float, dragged: bool, delay: float = 0.0
    ) -> None:
        self.deliver: Callable[[int, str], None] = deliver
        self.limit: float = limit
        self.dragged: bool = dragged
        self.jobs: dict[int, Job] = {}  # being worked on, by tab
        self.waiting: dict[int, Job] = {}  # the latest of each tab
        self.step: tuple[int, float] | None = None  # tab and time of the step under way
        self.serials: Iterator[int] = count(1)
        self.generation: int = 0
        self.closed: bool = False
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.process: Any = None
        self.loop.call_later(delay, self._start_if_needed)
        self.watch: asyncio.Task[None] = self.loop.create_task(self._watch())

    # -- what tabs ask ----------------------------------------------------------------------------

    def ask(self, tab: int, request: str, number: int) -> None:
        """Take the latest request of a tab. It waits while an older one has no answer yet."""
        self._start_if_needed()
        self.waiting[tab] = Job(request, number, next(self.serials))
        self._hand_over(tab)

    def drop(self, tab: int) -> None:
        """Stop what is done for a tab; a step that does not end by itself is ended with its process."""
        self.waiting.pop(tab, None)
        job = self.jobs.pop(tab, None)
        if job is not None:
            self.outbox.put(worker.pack("d", tab, job.serial))
            if self.step is not None and self.step[0] == tab:
                self.loop.call_later(GRACE, self._end_if_still, self.step, self.generation)

    def close(self) -> None:
        """End the process."""
        self.closed = True
        self.watch.cancel()
        if self.process is not None:
            self._end()

    # -- the process ------------------------------------------------------------------------------

    def _start_if_needed(self) -> None:
        if self.process is None and not self.closed:
            self._start()

    def _start(self) -> None:
        self.generation += 1
        self.step = None
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self.process = context.Process(target=worker.run, args=(theirs, self.dragged), daemon=True)
        self.process.start()
        theirs.close()
        self.pipe: Any = ours
        self.outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=_write, args=(ours, self.outbox), daemon=True).start()
        given = (ours, self.process, self.generation)
        threading.Thread(target=self._read, args=given, daemon=True).start()

    def _read(self, pipe: Any, process: Any, generation: int) -> None:
        """Runs in a thread: hands what the worker says to the event loop, and its end."""
        try:
            while True:
                message = pipe.recv_bytes()
                self.loop.call_soon_threadsafe(self._heard, generation, message)
        except (EOFError, OSError):
            process.join(10)
        with suppress(RuntimeError):  # the event loop is closed: the server ends
            self.loop.call_soon_threadsafe(self._ended, generation)

    def _heard(self, generation: int, message: bytes) -> None:
        if generation != self.generation:
            return
        letter, tab, serial, content = worker.unpack(message)
        if letter == "s":
            self.step = (tab, time.monotonic())
            return
        self.step = None
        job = self.jobs.get(tab)
        if job is None or job.serial != serial:
            return
        if letter == "a":
            job.answered = True
            self.deliver(tab, content)
        elif letter == "f":
            del self.jobs[tab]
        self._hand_over(tab)

    def _hand_over(self, tab: int) -> None:
        """Send the waiting job of a tab, unless an older one is still without an answer."""
        old = self.jobs.get(tab)
        if tab in self.waiting and (old is None or old.answered):
            job = self.waiting.pop(tab)
            self.jobs[tab] = job
            self.outbox.put(worker.pack("j", tab, job.serial, job.request))

    # -- what goes wrong --------------------------------------------------------------------------

    def _ended(self, generation: int) -> None:
        """The process ended by itself, or was killed from outside: start anew and take its jobs up again."""
        if self.closed or generation != self.generation:
            return
        told = Notice(text="The computing process ended and was started again.").model_dump_json()
        for tab, job in self.jobs.items():
            self.deliver(tab, told)
            job.tries += 1
        self._restart()

    def _restart(self) -> None:
        self._end()
        self._start()
        for tab, job in list(self.jobs.items()):
            if job.tries >= MOST_TRIES:
                del self.jobs[tab]
                text = "The computing process ended twice on this; it is not tried again."
                self.deliver(tab, Problem(id=job.number, text=text).model_dump_json())
            else:
                job.answered = False
                self.outbox.put(worker.pack("j", tab, job.serial, job.request))

    def _end(self) -> None:
        self.outbox.put(None)
        self.process.kill()
        self.pipe.close()

    def _end_if_still(self, step: tuple[int, float], generation: int) -> None:
        if self.step == step and generation == self.generation and not self.closed:
            self._restart()

    async def _watch(self) -> None:
        """End steps that take too long."""
        while True:
            await asyncio.sleep(0.5)
            if self.step is not None and time.monotonic() - self.step[1] > self.limit:
                tab = self.step[0]
                job = self.jobs.pop(tab, None)
                if job is not None:
                    text = f"This took longer than {self.limit:g} s and was stopped. Try a smaller network."
                    self.deliver(tab, Problem(id=job.number, text=text).model_dump_json())
                self._restart()


def _write(pipe: Any, outbox: queue.SimpleQueue[bytes | None]) -> None:
    """Runs in a thread: a large message may have to wait until the worker reads."""
    try:
        while (message := outbox.get()) is not None:
            pipe.send_bytes(message)
    except (OSError, ValueError):
        pass
