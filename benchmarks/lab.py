"""The lab under load, in a headless Chromium: `python -m benchmarks.lab [--minute S] [--entries NAME ...]`.

Prints, as JSON: seconds until the server is ready and until the first picture; milliseconds from a slider's
event to the redrawn curve for every slider of every entry, warm; ten tabs that play and train for a minute
(largest gap between frames, memory of server and workers); how soon work stops when a tab is closed; ten
thousand slider events in a row.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import psutil

from neuralrace.laboratory.gallery import GALLERY
from tests.lab.chromium import Browser, Page, browser
from tests.lab.conftest import Server, started

READY = "window.lab && lab.shownNow.picture && lab.shownNow.details"
DRAG = """
(async () => {
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const redrawn = () => lab.shownNow.redrawn;
  const found = [];
  for (let k = 0; k < COUNT; k++) {
    const knob = document.querySelector('[data-slider="NAME"]');
    const share = (k * 0.618034) % 1;
    const before = redrawn().count;
    knob.value = +knob.min + share * (knob.max - knob.min);
    const start = performance.now();
    knob.dispatchEvent(new Event("input"));
    while (redrawn().count === before) {
      if (performance.now() - start > 20000)
        throw new Error(`NAME at ${knob.value}: no picture after 20 s. ` + lab.message.textContent);
      await wait(1);
    }
    found.push(redrawn().at - start);
    await wait(15);
  }
  return found;
})()
"""


def opened(chrome: Browser, address: str) -> Page:
    """A tab with the page ready."""
    page = chrome.page()
    page.size(1280, 800)
    page.open(address)
    page.wait(READY, 120)
    return page


def sliders(page: Page, count: int, only: list[str]) -> dict[str, dict[str, float]]:
    """Milliseconds from event to redrawn curve, over all sliders of an entry; the first drags warm up."""
    found = {}
    for name, scenery in GALLERY.items():
        if only and name not in only:
            continue
        page.run(f"lab.open('{name}', true)")
        page.wait(f"{READY} && lab.shownNow.state.scene.entry === '{name}'", 120)
        times = []
        for slider in scenery.entry.sliders:
            script = DRAG.replace("NAME", slider.name)
            page.run(script.replace("COUNT", str(count)))  # warm
            times += page.run(script.replace("COUNT", str(count)))
        found[name] = {
            "median": float(np.median(times)),
            "p95": float(np.percentile(times, 95)),
            "longest": float(np.max(times)),
            "events": len(times),
        }
        print(name, {k: round(v, 1) for k, v in found[name].items()}, flush=True)
    return found


def memory(server: Server) -> float:
    """MB of the server and its workers."""
    top = psutil.Process(server.process.pid)
    return sum(p.memory_info().rss for p in (top, *top.children(recursive=True))) / 1e6


def ten_tabs(chrome: Browser, server: Server, seconds: float) -> dict[str, float]:
    """Ten tabs that play and train: the longest time without a new frame, and memory at start and end."""
    pages = [opened(chrome, server.address) for _ in range(10)]
    for k, page in enumerate(pages):
        page.run(f"lab.open('{list(GALLERY)[k]}', true)")
        page.run(
            "window.gap = 0; window.last = performance.now(); "
            "(function watch() { const now = performance.now(); "
            "gap = Math.max(gap, now - last); last = now; setTimeout(watch, 16) })(); "
            "setInterval(() => { lab.player.playing || lab.player.toggle(); "
            "lab.shownNow.training < 0 || lab.change({}) }, 5000)"
        )
    time.sleep(10)
    for page in pages:
        page.run("gap = 0; last = performance.now()")
    before, end = memory(server), time.monotonic() + seconds
    trail = []
    while time.monotonic() < end:
        time.sleep(5)
        trail.append(memory(server))
    gaps = [page.run("gap") for page in pages]
    errors = [e for page in pages for e in page.errors]
    for page in pages:
        page.call("Page.close")
        page.socket.close()
    return {
        "longest_gap_ms": max(gaps),
        "MB_start": before,
        "MB_end": trail[-1],
        "console_errors": len(errors),
    }


def closing(chrome: Browser, server: Server) -> float:
    """Seconds until the workers are idle after a tab that trains is closed."""
    page = opened(chrome, server.address)
    page.run("lab.open('sharing', true)")
    page.wait(f"{READY} && lab.shownNow.training > 0", 60)
    page.run(
        "lab.change({seeds: 10, start: 'random', values: {group: 3, groups: 3, depth: 4, strength: 0.11}})"
    )
    page.wait("lab.shownNow.training > 0", 60)
    time.sleep(0.5)
    workers = psutil.Process(server.process.pid).children(recursive=True)
    page.call("Page.close")
    page.socket.close()
    closed, idle_since = time.monotonic(), None
    while time.monotonic() - closed < 30:
        used = {p.pid: sum(p.cpu_times()[:2]) for p in workers if p.is_running()}
        time.sleep(0.2)
        busy = [p for p in workers if p.is_running() and sum(p.cpu_times()[:2]) - used.get(p.pid, 0) > 0.1]
        if busy:
            idle_since = None
        elif idle_since is None:
            idle_since = time.monotonic() - closed
        elif time.monotonic() - closed - idle_since > 1:
            break
    return idle_since if idle_since is not None else float("nan")


def flood(chrome: Browser, server: Server) -> dict[str, float]:
    """Ten thousand events of a slider without a pause: how long until the last is shown."""
    page = opened(chrome, server.address)
    got = page.run(
        "(async () => { const knob = document.querySelector('[data-slider=delta]'); "
        "const start = performance.now(); for (let k = 0; k < 10000; k++) "
        "{ knob.value = 0.05 + 2 * (k / 10000); knob.dispatchEvent(new Event('input')) } "
        "const sent = performance.now(); const goal = lab.shownNow.state.scene.values.delta; "
        "while (lab.asker.solving >= 0) await new Promise(d => setTimeout(d, 1)); "
        "return [sent - start, performance.now() - sent, lab.shownNow.redrawn.count, goal] })()"
    )  # fmt: skip
    page.call("Page.close")
    return {"sending_ms": got[0], "backlog_ms": got[1], "pictures": got[2]}


def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minute", type=float, default=60.0, help="seconds that ten tabs run")
    parser.add_argument("--count", type=int, default=10, help="events of each slider")
    parser.add_argument("--entries", nargs="*", default=[], help="only the sliders of these entries")
    given = parser.parse_args()
    found: dict[str, object] = {}
    began = time.monotonic()
    server = started()
    found["server_ready_s"] = time.monotonic() - began
    try:
        with browser() as chrome:
            began = time.monotonic()
            page = opened(chrome, server.address)
            found["first_picture_with_cold_workers_s"] = time.monotonic() - began
            time.sleep(20)
            if given.entries:
                found["sliders_ms"] = sliders(page, given.count, given.entries)
                print(json.dumps(found, indent=1))
                return
            began = time.monotonic()
            opened(chrome, server.address)
            found["first_picture_s"] = time.monotonic() - began
            found["flood"] = flood(chrome, server)
            found["closing_s"] = closing(chrome, server)
            found["sliders_ms"] = sliders(page, given.count, [])
            page.call("Page.close")
            found["ten_tabs"] = ten_tabs(chrome, server, given.minute)
    finally:
        server.process.terminate()
        server.process.wait(20)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
