"""A desk hands the jobs of all tabs to a worker process: latest wins, nothing piles up, nothing hangs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

from neuralrace.laboratory import worker
from neuralrace.laboratory.line import Line
from neuralrace.laboratory.protocol import Notice, Problem

GRACE = 0.7  # seconds that a step may go on after its tab is closed
MOST_TRIES = 2  # of a job whose process ended
PATIENCE = 1 / 30  # share of its limit that a step may take before the tabs that wait go to the spare process
SPARE_IDLE = 60.0  # seconds without a job after which the spare process ends
MOST_DEATHS = 5  # of processes, one after the other, before any of them answered; then it is given up
FIRST_PAUSE = 0.2  # seconds before a process is started again; twice as many after each further death
LONG_LIFE = 60.0  # seconds; a process that lived so long did not die of its start
AGAIN_AFTER = 10.0  # seconds after which one more is tried, when there is something to do
NOT_STARTED = f"The computing process ended {MOST_DEATHS} times before it answered; the terminal may say why."
TWICE = "The computing process ended twice on this; it is not tried again."
LARGE = "This needed too much memory and was stopped. Try smaller layers, or fewer networks."


@dataclass
class Job:
    """The latest request of a tab, and whether it has been answered."""

    request: str
    number: int  # that the page gave it
    serial: int
    line: Line
    answered: bool = False
    tries: int = 0


class Desk:
    """A worker process, a spare one for when it is held up, and what they have to do.

    Parameters
    ----------
    deliver : callable
        `deliver(tab, text)` sends an answer to a tab.
    limit : float
        Seconds that a step may take.
    warm : bool
        Whether the worker solves the gallery while it is idle, so that the first slider does not wait.
    delay : float
        Seconds until the process is started, unless it is needed before.
    """

    def __init__(
        self, deliver: Callable[[int, str], None], limit: float, warm: bool, delay: float = 0.0
    ) -> None:
        self.deliver: Callable[[int, str], None] = deliver
        self.limit: float = limit
        self.jobs: dict[int, Job] = {}  # being worked on, by tab
        self.waiting: dict[int, Job] = {}  # the latest of each tab
        self.serials: Iterator[int] = count(1)
        self.closed: bool = False
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.first: Line = Line(self._heard, self._died, (warm, limit))
        self.spare: Line = Line(self._heard, self._died, (False, limit))
        self.loop.call_later(delay, self._start, self.first)
        self.watch: asyncio.Task[None] = self.loop.create_task(self._watch())

    # -- what tabs ask ----------------------------------------------------------------------------

    def ask(self, tab: int, request: str, number: int) -> None:
        """Take the latest request of a tab. It waits while an older one has no answer yet."""
        if self.first.deaths >= MOST_DEATHS and time.monotonic() < self.first.not_before:
            self._refuse(tab, number, NOT_STARTED)
            return
        self._start(self.first)
        self.waiting[tab] = Job(request, number, next(self.serials), self.first)
        self._hand_over(tab)

    def drop(self, tab: int) -> None:
        """Stop what is done for a tab; a step that does not end by itself is ended with its process."""
        self.waiting.pop(tab, None)
        job = self.jobs.pop(tab, None)
        if job is not None:
            job.line.send("d", tab, job.serial)
            if job.line.step is not None and job.line.step[0] == tab:
                self.loop.call_later(GRACE, self._end_if_still, job.line, job.line.step)

    def close(self) -> None:
        """End the processes."""
        self.closed = True
        self.watch.cancel()
        self.first.end()
        self.spare.end()

    # -- what the processes say -------------------------------------------------------------------

    def _heard(self, line: Line, message: bytes) -> None:
        letter, tab, serial, content = worker.unpack(message)
        if letter == "s":
            line.step = (tab, time.monotonic())
            return
        line.step = None
        job = self.jobs.get(tab)
        if job is None or job.serial != serial or job.line is not line:
            return
        if letter == "a":
            job.answered, line.deaths = True, 0
            self.deliver(tab, content)
        elif letter == "f":
            del self.jobs[tab]
        self._hand_over(tab)

    def _hand_over(self, tab: int) -> None:
        """Send the waiting job of a tab, unless an older one is still without an answer."""
        old = self.jobs.get(tab)
        if tab in self.waiting and (old is None or old.answered):
            job = self.waiting.pop(tab)
            job.line = job.line if old is None else old.line  # which drops the older one
            self.jobs[tab] = job
            job.line.send("j", tab, job.serial, job.request)

    def _start(self, line: Line) -> None:
        """Start a process that does not run, with all jobs that are its own."""
        if self.closed or line.process is not None or time.monotonic() < line.not_before:
            return
        line.start()
        self._give(line, [tab for tab, job in self.jobs.items() if job.line is line])

    def _give(self, line: Line, tabs: list[int]) -> None:
        """Give a process the jobs of some tabs, from their beginning."""
        for tab in tabs:
            job = self.jobs[tab]
            job.line, job.answered = line, False
            line.send("j", tab, job.serial, job.request)

    # -- what goes wrong --------------------------------------------------------------------------

    def _refuse(self, tab: int, number: int, text: str) -> None:
        self.jobs.pop(tab, None)
        self.deliver(tab, Problem(id=number, text=text).model_dump_json())

    def _died(self, line: Line, code: int | None) -> None:
        """A process ended: start it anew, after a pause, and take its jobs up again; or give it up."""
        guilty, now = line.step[0] if line.step else None, time.monotonic()
        line.deaths = 1 if now - line.began > LONG_LIFE else line.deaths + 1
        gave_up = line.deaths >= MOST_DEATHS
        told = Notice(text="The computing process ended and was started again.").model_dump_json()
        for tab, job in [pair for pair in self.jobs.items() if pair[1].line is line]:
            job.tries += tab == guilty
            if gave_up:
                self._refuse(tab, job.number, NOT_STARTED)
            elif tab == guilty and code == worker.TOO_LARGE:
                self._refuse(tab, job.number, LARGE)
            elif job.tries >= MOST_TRIES:
                self._refuse(tab, job.number, TWICE)
            else:
                self.deliver(tab, told)
        if gave_up:
            line.not_before = now + AGAIN_AFTER
            for tab in [t for t, job in self.waiting.items() if job.line is line]:
                self._refuse(tab, self.waiting.pop(tab).number, NOT_STARTED)
        else:
            pause = FIRST_PAUSE * 2 ** (line.deaths - 1)
            line.not_before = now + pause
            self.loop.call_later(pause + 0.01, self._start, line)
        line.step = None

    def _restart(self, line: Line) -> None:
        line.end()
        self._start(line)

    def _end_if_still(self, line: Line, step: tuple[int, float]) -> None:
        if line.step == step:
            self._restart(line)

    async def _watch(self) -> None:
        """End steps that take too long; let those who wait for a slow one go to the other process."""
        while True:
            await asyncio.sleep(0.5)
            for line, other in ((self.first, self.spare), (self.spare, self.first)):
                if line.step is not None and line.busy() > self.limit:
                    tab = line.step[0]
                    if tab in self.jobs:
                        text = (
                            f"This took longer than {self.limit:g} s and was stopped. Try a smaller network."
                        )
                        self._refuse(tab, self.jobs[tab].number, text)
                    self._restart(line)
                elif line.busy() > PATIENCE * self.limit > other.busy():
                    self._share(line, other)
            idle = all(job.line is not self.spare for job in self.jobs.values())
            if idle and time.monotonic() - self.spare.used > SPARE_IDLE:
                self.spare.end()

    def _share(self, slow: Line, other: Line) -> None:
        """Take from a slow process the jobs without an answer, but not the one that it is at."""
        waits = [t for t, job in self.jobs.items() if job.line is slow and not job.answered]
        tabs = [t for t in waits if slow.step and t != slow.step[0]]
        if tabs and other.deaths < MOST_DEATHS:
            for tab in tabs:
                slow.send("d", tab, self.jobs[tab].serial)
            self._give(other, tabs)
            self._start(other)
