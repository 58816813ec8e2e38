"""A headless Chromium, driven over its DevTools protocol; a few verbs, enough for tests of a page."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
    "--disable-background-timer-throttling", "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--remote-debugging-port=0", "--remote-allow-origins=*", "--disable-dev-shm-usage", "about:blank",
)  # fmt: skip


def found() -> str | None:
    """Where a browser is; None where there is none."""
    given = os.environ.get("CHROMIUM")
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab. Requests to other hosts are blocked and kept in `outside`, console errors in `errors`."""

    def __init__(self, socket: ClientConnection, own: str = "127.0.0.1"):
        self.socket, self.own, self.number = socket, own, 0
        self.outside: list[str] = []
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Fetch.enable", patterns=[{"urlPattern": "*"}])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method and wait for its result; events on the way are taken."""
        self.number += 1
        number = self.number
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=120))
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._event(message)

    def _event(self, message: dict[str, Any]) -> None:
        method, given = message.get("method"), message.get("params", {})
        if method == "Fetch.requestPaused":
            url = given["request"]["url"]
            own = (f"http://{self.own}", f"ws://{self.own}", "file:", "data:", "blob:", "about:")
            inside = url.startswith(own)
            if not inside:
                self.outside.append(url)
            self.number += 1
            verb = {"method": "Fetch.continueRequest"} if inside else {"method": "Fetch.failRequest"}
            more = {} if inside else {"errorReason": "BlockedByClient"}
            verb |= {"id": self.number, "params": {"requestId": given["requestId"], **more}}
            self.socket.send(json.dumps(verb))
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(given["exceptionDetails"].get("exception", given["exceptionDetails"])))
        elif method == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.errors.append(given["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "assert"):
            self.errors.append(str(given["args"]))

    def open(self, address: str) -> None:
        """Go to an address; a page is left first, as a changed fragment alone does not load it anew."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)

    def run(self, script: str) -> Any:
        """The value of an expression, awaited where it is a promise."""
        got = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in got:
            raise RuntimeError(str(got["exceptionDetails"].get("exception", got)))
        return got["result"].get("value")

    def wait(self, script: str, seconds: float = 60.0) -> Any:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if value := self.run(script):
                    return value
            except RuntimeError:
                pass
            time.sleep(0.05)
        raise TimeoutError(f"{script} is not true after {seconds:g} s; errors: {self.errors}")

    def size(self, width: int, height: int) -> None:
        """The size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def picture(self, path: Path | None = None) -> bytes:
        """A screenshot as PNG."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if path is not None:
            path.write_bytes(data)
        return data

    def press(self, key: str, text: str = "") -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **more)

    def middle(self, selector: str) -> tuple[float, float]:
        """The middle of an element."""
        box = self.run(
            f"(() => {{const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'nearest'}); "
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]})()"
        )
        return box[0], box[1]

    def click(self, selector: str) -> None:
        """Click the middle of an element with the mouse."""
        self.drag(self.middle(selector), None)

    def drag(self, start: tuple[float, float], end: tuple[float, float] | None) -> None:
        """Press at one point and release at another."""
        steps = [("mousePressed", start)]
        if end is not None:
            half = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
            steps += [("mouseMoved", half), ("mouseMoved", end)]
        steps.append(("mouseReleased", end or start))
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=start[0], y=start[1])
        for kind, (x, y) in steps:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)


class Browser:
    """A running browser."""

    def __init__(self, port: int, tabs: ExitStack):
        self.port, self.tabs = port, tabs

    def page(self) -> Page:
        """A new tab."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request, timeout=30) as answer:
            address = json.load(answer)["webSocketDebuggerUrl"]
        return Page(self.tabs.enter_context(connect(address, max_size=None, ping_interval=None)))


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser with a fresh profile, and end it."""
    path = found()
    assert path is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [path, *FLAGS[:-1], f"--user-data-dir={profile}", FLAGS[-1]]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            place = Path(profile) / "DevToolsActivePort"
            end = time.monotonic() + 60
            while not (place.exists() and place.read_text().count("\n")):
                if time.monotonic() > end:
                    raise TimeoutError("the browser did not start")
                time.sleep(0.05)
            with ExitStack() as tabs:
                yield Browser(int(place.read_text().split("\n")[0]), tabs)
        finally:
            process.kill()
            process.wait()
