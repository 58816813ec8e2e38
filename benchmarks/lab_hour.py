"""An hour of use of the lab with everything going wrong: `python -m benchmarks.lab_hour [--minutes M]`.

Thirty tabs (`--tabs`), each with one scene after the other (a third of them random starts, some networks of
their own that are slow or too large), training, exports, changes of mind. Meanwhile workers are killed, and
500 requests at a time are begun and never finished. Every few seconds processes, memory and open files are
counted. At the end the server is killed, and then some fresh ones, each at a random moment of work. Prints
answers by kind, scenes without any answer (lost), seconds until a picture, the counts, and what was left.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import socket
import time
from collections import Counter
from typing import Any

import numpy as np
import psutil
from websockets.asyncio.client import connect

from neuralrace.laboratory.gallery import GALLERY
from tests.lab.conftest import Server, started

HALF_OPEN, LOST_AFTER = 500, 120.0
HEAD = "POST /{} HTTP/1.1\r\nHost: {}\r\nOrigin: {}\r\nContent-Length: 99\r\n\r\n"


def scene(rng: random.Random) -> dict[str, Any]:
    """A scene that a user might make."""
    start, seeds = rng.choice(("aligned", "aligned", "random")), rng.choice((0, 1, 3))
    common = {"start": start, "seeds": seeds, "drawn": None}
    if rng.random() < 0.1:  # of one's own: quick, slow, or refused for its size
        layers, size = rng.choice(((3, 8), (3, 16), (20, 64), (40, 128), (58, 256)))
        names = ["x", *(f"h{k}" for k in range(layers)), "y"]
        drawn = {
            "nodes": [{"name": n, "size": size} for n in names],
            "edges": [{"source": a, "target": b} for a, b in itertools.pairwise(names)],
            "data": {"kind": "world", "name": "hierarchy", "size": 3},
        }
        return {**common, "entry": "own", "values": {"strength": rng.uniform(0.1, 0.9)}, "drawn": drawn}
    entry = GALLERY[rng.choice(list(GALLERY))].entry
    values = {}
    for s in entry.sliders:
        value = rng.uniform(s.low, s.high)
        values[s.name] = float(round(value)) if s.step == 1 else value
    return {**common, "entry": entry.name, "values": values, "start": start if entry.random else "aligned"}


class Tally:
    """What all tabs saw."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self.waits: list[float] = []
        self.lost: int = 0


async def tab(server: Server, until: float, tally: Tally, rng: random.Random, pause: float = 1.0) -> None:
    """The life of a tab."""
    number = 0
    async with connect(server.talk, origin=server.origin, proxy=None, max_size=None) as one:  # type: ignore[arg-type]
        while time.monotonic() < until:
            number += 1
            shown = scene(rng)
            await one.send(json.dumps({"kind": "solve", "id": number, "scene": shown}))
            if rng.random() < 0.3:  # a slider is dragged on
                continue
            began = time.monotonic()
            answer = await heard(one, number, ("picture", "problem"), tally)
            if answer is None:
                tally.lost += 1
                continue
            tally.waits.append(time.monotonic() - began)
            if answer["kind"] == "problem":
                tally.problems[answer["text"][:60]] += 1
                continue
            number += 1
            form = rng.choice(("simulate", "simulate", "export"))
            more = {"format": "python"} if form == "export" else {}
            await one.send(json.dumps({"kind": form, "id": number, "scene": shown, **more}))
            if rng.random() < 0.5:
                await heard(one, number, ("finished", "exported", "problem"), tally)
            # A page reads on while nobody clicks.
            await heard(one, None, (), tally, rng.uniform(0, 2 * pause))


async def heard(
    one: Any, number: int | None, kinds: tuple[str, ...], tally: Tally, seconds: float = LOST_AFTER
) -> dict[str, Any] | None:
    """The answer to a request; None where it does not come in time."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                answer = json.loads(await one.recv())
                tally.kinds[answer["kind"]] += 1
                if answer.get("id") == number and answer["kind"] in kinds:
                    return answer
    except TimeoutError:
        return None


def workers(server: Server) -> list[psutil.Process]:
    """The computing processes."""
    found = []
    for p in psutil.Process(server.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found += [p] if "spawn_main" in " ".join(p.cmdline()) else []
    return found


async def kill_workers(server: Server, until: float, every: float, rng: random.Random) -> int:
    """Kill a worker now and then."""
    killed = 0
    while time.monotonic() < until:
        await asyncio.sleep(rng.uniform(0.5, 1.5) * every)
        if found := workers(server):
            rng.choice(found).kill()
            killed += 1
    return killed


async def half_open(server: Server, until: float, every: float) -> list[dict[str, float]]:
    """Begin many requests that are never finished, and see how long they are held."""
    head, found = HEAD.format(f"{server.token}/upload", server.host, server.origin).encode(), []
    while time.monotonic() < until:
        begun = time.monotonic()
        sockets = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(HALF_OPEN)]
        for k, one in enumerate(sockets):
            one.setblocking(False)
            one.send((b"", head[:40], head)[k % 3] or b"G")
        asked = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"GET /{server.token}/ HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode())
        await reader.readline()
        answered = time.monotonic() - asked
        writer.close()
        held = HALF_OPEN
        while time.monotonic() - begun < 30 and held:
            await asyncio.sleep(0.5)
            held = sum(map(is_open, sockets))
        found.append({"page_after": answered, "held_for": time.monotonic() - begun, "left": held})
        for one in sockets:
            one.close()
        await asyncio.sleep(every)
    return found


def is_open(one: socket.socket) -> bool:
    """Whether the other side still holds a connection."""
    try:
        return one.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


async def count(server: Server, until: float, every: float) -> list[dict[str, float]]:
    """Processes, memory and connections over time."""
    found, began = [], time.monotonic()
    main = psutil.Process(server.process.pid)
    while time.monotonic() < until:
        await asyncio.sleep(every)
        sizes = []
        for p in workers(server):
            with contextlib.suppress(psutil.Error):
                sizes.append(p.memory_info().rss)
        found.append({
            "s": round(time.monotonic() - began), "workers": len(sizes),
            "server_MB": round(main.memory_info().rss / 1e6), "workers_MB": round(sum(sizes) / 1e6),
            "largest_MB": round(max(sizes, default=0) / 1e6), "files": main.num_fds(),
        })  # fmt: skip
    return found


def left_after_kill(server: Server) -> tuple[int, float]:
    """Kill the server; how many of its processes are there after 5 s, and seconds until the last was gone."""
    every = psutil.Process(server.process.pid).children(recursive=True)
    began = time.monotonic()
    server.process.kill()
    server.process.wait()
    while time.monotonic() - began < 5 and any(map(runs, every)):
        time.sleep(0.05)
    return sum(map(runs, every)), time.monotonic() - began


def runs(p: psutil.Process) -> bool:
    """Whether a process still runs."""
    try:
        return p.is_running() and p.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


async def use(minutes: float, seed: int, pause: float, kill_every: float, n_tabs: int) -> dict[str, Any]:
    """The hour."""
    server, rng, tally = started(), random.Random(seed), Tally()
    until = time.monotonic() + 60 * minutes
    tabs = [tab(server, until, tally, random.Random(rng.random()), pause) for _ in range(n_tabs)]
    async with asyncio.TaskGroup() as group:
        killing = group.create_task(kill_workers(server, until, kill_every, rng))
        holding = group.create_task(half_open(server, until, 20))
        counting = group.create_task(count(server, until, 5))
        for one in tabs:
            group.create_task(one)
    counts = counting.result()
    left, seconds = left_after_kill(server)
    waits = np.array(tally.waits)
    return {
        "minutes": minutes, "answers": dict(tally.kinds), "problems": dict(tally.problems.most_common(12)),
        "scenes": len(waits), "lost": tally.lost, "workers_killed": killing.result(),
        "seconds_to_picture": {q: round(float(np.quantile(waits, q)), 2) for q in (0.5, 0.9, 0.99, 1.0)},
        "half_open": holding.result(), "left_after_kill": left, "gone_after_s": round(seconds, 2),
        "most": {k: max(c[k] for c in counts) for k in counts[0]},
        "over_time": counts[:: max(1, len(counts) // 20)],
    }  # fmt: skip


async def killed_at(rng: random.Random) -> tuple[int, float]:
    """Start a server, use it, and kill it at a random moment."""
    server, tally = started(), Tally()
    use_it = asyncio.create_task(tab(server, time.monotonic() + 60, tally, rng))
    await asyncio.sleep(rng.uniform(0, 12))
    use_it.cancel()
    return left_after_kill(server)


def main() -> None:
    """Run it and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--kills", type=int, default=10, help="servers that are killed at a random moment")
    parser.add_argument("--pause", type=float, default=1.0, help="mean seconds between the scenes of a tab")
    parser.add_argument("--kill-every", type=float, default=20.0, help="mean seconds between killed workers")
    parser.add_argument("--tabs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = asyncio.run(use(given.minutes, given.seed, given.pause, given.kill_every, given.tabs))
    kills = [asyncio.run(killed_at(random.Random(k))) for k in range(given.kills)]
    seconds = max((s for _, s in kills), default=0.0)
    found["servers_killed"] = {
        "servers": len(kills),
        "left": sum(n for n, _ in kills),
        "gone_after_s": round(seconds, 2),
    }
    for key, value in found.items():
        if isinstance(value, list):
            print(key, *map(json.dumps, value), sep="\n  ")
        else:
            print(key, json.dumps(value))


if __name__ == "__main__":
    main()
