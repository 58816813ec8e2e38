"""A computing process: it steps the jobs of all tabs in turn, and keeps only the latest job of each.

It talks over a pipe in bytes, never in pickles: `letter tab serial newline content`, with the serial number
of the job. To it: `j` a job (a request as JSON), `d` drop the job of a tab. From it: `r` ready, `s` a step
begins, `a` an answer, `f` the job is finished.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

IDLE = 0.3  # seconds without work after which a step of warming up is made
NEVER = 10**12  # evaluations in NumPy before a small system is compiled
PAUSE = 0.06  # seconds after a picture in which a newer request goes before its details


def pack(letter: str, tab: int, serial: int, content: str = "") -> bytes:
    """A message of the pipe."""
    return f"{letter} {tab} {serial}\n{content}".encode()


def unpack(message: bytes) -> tuple[str, int, int, str]:
    """The parts of a message."""
    head, _, content = message.decode().partition("\n")
    letter, tab, serial = head.split(" ")
    return letter, int(tab), int(serial), content


def run(pipe: Connection, dragged: bool) -> None:
    """The life of a worker; ends when the pipe is closed. `dragged`: it answers while sliders are dragged."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server is interrupted, and ends its workers
    import jax

    from neuralrace import compiling
    from neuralrace_command import cache_folder

    if dragged:
        compiling.allow(NEVER)
    folder = cache_folder()
    with suppress(OSError):  # without a cache programs are compiled anew
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            jax.config.update("jax_compilation_cache_dir", str(folder))
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    with suppress(EOFError, OSError):  # the server has ended
        pipe.send_bytes(pack("r", 0, 0))
        _work(pipe, _warm_up() if dragged else iter(()))


def _work(pipe: Connection, idle: Iterator[bool]) -> None:
    """Step the jobs of all tabs in turn; where there are none, warm up."""
    from neuralrace.laboratory.jobs import answers
    from neuralrace.laboratory.protocol import REQUEST, Problem, Stop

    jobs: OrderedDict[int, tuple[int, Iterator[Any]]] = OrderedDict()  # tab -> serial number and answers
    more_idle = True
    while True:
        while pipe.poll(0 if jobs else IDLE if more_idle else None):
            letter, tab, serial, content = unpack(pipe.recv_bytes())
            jobs.pop(tab, None)
            if letter == "j":
                request = REQUEST.validate_json(content)
                if not isinstance(request, Stop):
                    jobs[tab] = serial, answers(request)
        if not jobs:
            more_idle = next(idle, None) is not None
            continue
        tab, (serial, job) = jobs.popitem(last=False)
        pipe.send_bytes(pack("s", tab, serial))
        try:
            answer = next(job, None)
        except Exception as error:  # a bug or a solver that gives up: said to the user, the process lives
            print(f"neuralrace lab: {type(error).__name__}: {error}", file=sys.stderr)
            answer, job = Problem(id=-1, text=f"This could not be computed: {error}"[:500]), iter(())
        if answer is None:
            pipe.send_bytes(pack("f", tab, serial))
        else:
            pipe.send_bytes(pack("a", tab, serial, answer.model_dump_json()))
            if answer.kind == "picture" and not jobs:
                pipe.poll(PAUSE)  # while a slider is dragged its next picture comes before these details
            jobs[tab] = serial, job


def _warm_up() -> Iterator[bool]:
    """Solve every entry once while nothing else is to be done, so that all modules are loaded."""
    from neuralrace.laboratory.gallery import GALLERY
    from neuralrace.laboratory.jobs import answers
    from neuralrace.laboratory.protocol import Scene, Solve

    for name in GALLERY:
        for _ in answers(Solve(id=0, scene=Scene(entry=name))):
            yield True
    threading.Thread(target=_compile_large, daemon=True).start()


def _compile_large() -> None:
    """Compile the large reductions of the gallery, beside the answers; they then take a third of the time."""
    from neuralrace.laboratory.gallery import GALLERY
    from neuralrace.laboratory.theory import compile_solution

    for scenery in GALLERY.values():
        for model in scenery.large_models():
            compile_solution(model)
