"""A computing process: it steps the jobs of all tabs in turn, and keeps only the latest job of each.

It talks over a pipe in bytes, never in pickles: `letter tab serial newline content`, with the serial number
of the job. To it: `j` a job (a request as JSON), `d` drop the job of a tab. From it: `r` ready, `s` a step
begins, `a` an answer, `f` the job is finished.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from neuralrace.laboratory.protocol import MOST_MEMORY

IDLE = 0.3  # seconds without work after which a step of warming up is made
TOO_LARGE = 77  # exit code of a process that took more
SPARE_TIME = 5.0  # seconds beyond its limit after which a step ends its process by itself
PAUSE = 0.06  # seconds after a picture in which a newer request goes before its details


def pack(letter: str, tab: int, serial: int, content: str = "") -> bytes:
    """A message of the pipe."""
    return f"{letter} {tab} {serial}\n{content}".encode()


def unpack(message: bytes) -> tuple[str, int, int, str]:
    """The parts of a message."""
    head, _, content = message.decode().partition("\n")
    letter, tab, serial = head.split(" ")
    return letter, int(tab), int(serial), content


def run(pipe: Connection, warm: bool, limit: float) -> None:
    """The life of a worker; ends when the pipe is closed, or with the server.

    `warm`: it solves the gallery while it is idle; `limit`: seconds that a step may take.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server is interrupted, and ends its workers
    threading.Thread(target=_guard, daemon=True).start()
    with suppress(EOFError, OSError):  # the server has ended
        pipe.send_bytes(pack("r", 0, 0))
        _work(pipe, _warm_up() if warm else iter(()), limit + SPARE_TIME)


def _guard() -> None:
    """Runs in a thread, whatever the worker is at: ends it for its memory."""
    while _memory() <= MOST_MEMORY:
        time.sleep(0.25)
    os._exit(TOO_LARGE)


def _memory() -> int:
    """Most bytes that this process has held; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _next(steps: Iterator[Any], seconds: float) -> Any:
    """The next of some steps; the process ends if it takes longer, even where Python gets no turn."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        return next(steps, None)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _work(pipe: Connection, idle: Iterator[bool], limit: float) -> None:
    """Step the jobs of all tabs in turn, those without any answer first; where there are none, warm up."""
    from neuralrace.laboratory.jobs import answers
    from neuralrace.laboratory.protocol import REQUEST, Problem, Stop

    jobs: OrderedDict[int, tuple[int, int, Iterator[Any]]] = OrderedDict()  # tab -> numbers, answers
    answered: set[int] = set()  # tabs
    more_idle = True
    while True:
        while pipe.poll(0 if jobs else IDLE if more_idle else None):
            letter, tab, serial, content = unpack(pipe.recv_bytes())
            jobs.pop(tab, None)
            answered.discard(tab)
            if letter == "j":
                request = REQUEST.validate_json(content)
                if not isinstance(request, Stop):
                    jobs[tab] = serial, request.id, answers(request)
        if not jobs:
            more_idle = _next(idle, limit) is not None
            continue
        tab = next((t for t in jobs if t not in answered), next(iter(jobs)))
        serial, number, job = jobs.pop(tab)
        pipe.send_bytes(pack("s", tab, serial))
        try:
            answer = _next(job, limit)
        except Exception as error:  # a bug or a solver that gives up: said to the user, the process lives
            print(f"neuralrace lab: {type(error).__name__}: {error}", file=sys.stderr)
            answer, job = Problem(id=number, text=f"This could not be computed: {error}"[:500]), iter(())
        if answer is None:
            pipe.send_bytes(pack("f", tab, serial))
        else:
            pipe.send_bytes(pack("a", tab, serial, answer.model_dump_json()))
            if answer.kind == "picture" and not jobs:
                pipe.poll(PAUSE)  # while a slider is dragged its next picture comes before these details
            jobs[tab] = serial, number, job
            answered.add(tab)


def _warm_up() -> Iterator[bool]:
    """Solve every entry once while nothing else is to be done, so that all modules are loaded."""
    from neuralrace.laboratory.gallery import GALLERY
    from neuralrace.laboratory.jobs import answers
    from neuralrace.laboratory.protocol import Scene, Solve

    for name in GALLERY:
        for _ in answers(Solve(id=0, scene=Scene(entry=name))):
            yield True
