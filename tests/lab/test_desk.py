"""Desks and their processes: what happens when a process dies, does not start, is slow or takes too much."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from neuralrace.laboratory import desk, line, worker
from neuralrace.laboratory.desk import Desk
from neuralrace.laboratory.protocol import Scene, Solve
from tests.lab import workers

SOURCE = str(Path(__file__).parents[2] / "src")
Answers = list[tuple[int, dict]]


def with_desk(act: Callable[[Desk, Answers], Awaitable[None]], limit: float = 45.0) -> Answers:
    """Let a desk live while something is done with it; its answers by tab."""
    answers: Answers = []

    async def live() -> None:
        one = Desk(lambda tab, text: answers.append((tab, json.loads(text))), limit, warm=True)
        try:
            await act(one, answers)
        finally:
            one.close()

    asyncio.run(live())
    return answers


async def until(true: Callable[[], object], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def test_a_process_that_dies_at_its_start_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It was started a thousand times in ten seconds, and nothing was said."""
    monkeypatch.setattr(line, "work", workers.dies)
    monkeypatch.setattr(desk, "FIRST_PAUSE", 0.01)
    monkeypatch.setenv("DEATHS", str(tmp_path / "deaths"))

    async def act(one: Desk, answers: Answers) -> None:
        one.ask(1, "{}", 7)
        await until(lambda: any(a["kind"] == "problem" for _, a in answers))
        await asyncio.sleep(0.3)
        one.ask(1, "{}", 8)

    answers = with_desk(act)
    assert [(a["id"], "5 times" in a["text"]) for _, a in answers if a["kind"] == "problem"] == [
        (7, True),
        (8, True),
    ]
    assert len((tmp_path / "deaths").read_text()) == desk.MOST_DEATHS


def test_a_slow_step_does_not_hold_up_other_tabs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(line, "work", workers.repeats)

    async def act(one: Desk, answers: Answers) -> None:
        one.ask(1, "sleep", 1)
        one.ask(2, "quick", 2)
        await until(lambda: answers, 10)
        assert one.first.busy() > 0

    assert with_desk(act, limit=15.0) == [(2, {"kind": "quick"})]


def test_only_the_tab_at_whose_step_a_process_dies_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(line, "work", workers.repeats)
    monkeypatch.setattr(desk, "FIRST_PAUSE", 0.01)

    async def act(one: Desk, answers: Answers) -> None:
        for tab, request in enumerate(("large", "die", "quick")):
            one.ask(tab, request, tab)
        await until(lambda: (2, {"kind": "quick"}) in answers)

    answers = with_desk(act)
    refused = {tab: a["text"] for tab, a in answers if a["kind"] == "problem"}
    assert refused == {0: desk.LARGE, 1: desk.TWICE}


SERVER = """
import multiprocessing, os, signal, sys, time
from neuralrace.laboratory import worker
from neuralrace.apps.processes import work
{setting}
def main():
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=run, args=(theirs,), daemon=True)
    process.start()
    print(process.pid, flush=True)
    if {killed}:
        assert [ours.recv_bytes()[:1] for _ in range(2)] == [b"r", b"x"]  # it is ready, and within its step
        os.kill(os.getpid(), signal.SIGKILL)
    process.join()
    print(process.exitcode, flush=True)
def run(pipe):
    worker.MOST_MEMORY = 150 * 2**20 if {large} else 2**40
    def steps(request):
        pipe.send_bytes(b"x")
        block = bytearray(200 * 2**20) if {large} else b""
        time.sleep(60)
        yield
    worker._warm_up = lambda: steps(None)
    work(worker.__name__, pipe, True, {limit})
if __name__ == "__main__":
    main()
"""


def server(tmp_path: Path, **given: object) -> subprocess.Popen[str]:
    """A process with a worker whose first step takes a minute."""
    file = tmp_path / "server.py"
    file.write_text(SERVER.format(**{"setting": "", "killed": False, "large": False, "limit": 60.0} | given))
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    return subprocess.Popen([sys.executable, file], stdout=subprocess.PIPE, text=True, env=environment)


def assert_ends(pid: int) -> None:
    """Within five seconds."""
    end = time.monotonic() + 5
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_busy_worker_ends_with_its_server(tmp_path: Path):
    """A killed server left two workers that went on for minutes."""
    with server(tmp_path, killed=True) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        assert running.wait(30) < 0
        assert_ends(pid)


STARTING = """
import multiprocessing, os, signal, time
from neuralrace.apps.processes import work
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=("slow_module", theirs))
    process.start()
    print(process.pid, flush=True)
    time.sleep({delay})
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.5])
def test_a_worker_that_still_imports_ends_with_its_server(tmp_path: Path, delay: float):
    """On a busy machine that takes many seconds."""
    (tmp_path / "slow_module.py").write_text("import time; time.sleep(60)")
    file = tmp_path / "server.py"
    file.write_text(STARTING.format(delay=delay))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, str(tmp_path)])}
    command = [sys.executable, file]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        running.wait(30)
        assert_ends(pid)


@pytest.mark.parametrize(("given", "code"), [({"large": True}, worker.TOO_LARGE), ({"limit": -4.5}, 1)])
def test_a_worker_ends_a_step_that_takes_too_much(tmp_path: Path, given: dict, code: int):
    """Memory, or time beyond its limit."""
    with server(tmp_path, **given) as running:
        assert running.stdout is not None
        running.stdout.readline()
        assert int(running.stdout.readline()) == code


class Pipe:
    """A pipe to a worker: its first jobs, and those that come while it is at the first of them."""

    def __init__(self, messages: list[bytes], later: list[bytes]):
        self.messages, self.later, self.sent = messages, later, list[str]()

    def poll(self, wait: float | None) -> bool:
        if not self.messages and wait != 0:
            raise EOFError
        return bool(self.messages)

    def recv_bytes(self) -> bytes:
        return self.messages.pop(0)

    def send_bytes(self, message: bytes) -> None:
        letter, tab, _, content = worker.unpack(message)
        if letter == "a":
            self.sent.append(f"{tab} {json.loads(content)['kind']}")
            self.messages, self.later = self.messages + self.later, []


def test_every_tab_gets_its_first_answer_before_another_gets_its_details():
    asked = [Solve(id=k, scene=Scene(entry="xor", values={"strength": 0.1 * k}, seeds=0)) for k in (1, 2, 3)]
    jobs = [worker.pack("j", k.id, k.id, k.model_dump_json()) for k in asked]
    pipe = Pipe(jobs[:2], jobs[2:])
    with pytest.raises(EOFError):
        worker._work(pipe, iter(()), 60.0)  # type: ignore[arg-type]
    assert pipe.sent == [f"{k} {kind}" for kind in ("picture", "details", "systems") for k in (1, 2, 3)]
