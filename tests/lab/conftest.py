"""A server and a browser for all tests of the lab."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from neuralrace.laboratory.page import FOLDER
from tests.lab import chromium

BUILT = (FOLDER / "index.html").exists()
needs_page = pytest.mark.skipif(not BUILT, reason="the page is not built: python frontend/build.py builds it")


@dataclass(frozen=True)
class Server:
    """A running lab."""

    address: str  # http://127.0.0.1:PORT/TOKEN/
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.address.split(":")[2].split("/")[0])

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return self.address.split("/")[3]

    @property
    def talk(self) -> str:
        return self.address.replace("http:", "ws:") + "talk"

    @property
    def origin(self) -> str:
        return f"http://{self.host}"


def started() -> Server:
    """Start `neuralrace lab` as a user does; its address is on the first line that it prints."""
    source = str(Path(__file__).parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": source}
    command = [sys.executable, "-m", "neuralrace", "lab", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("The lab is at http://127.0.0.1:"), line
    return Server(line.split()[-1], process)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    if not BUILT:
        pytest.skip("the page is not built: python frontend/build.py builds it")
    running = started()
    yield running
    running.process.terminate()
    running.process.wait(20)
    assert running.process.stdout is not None
    running.process.stdout.close()


@pytest.fixture(scope="session")
def chrome() -> Iterator[chromium.Browser]:
    if chromium.found() is None:
        pytest.skip("no Chromium was found (or named in CHROMIUM): the page is not tried in a browser")
    with chromium.browser() as running:
        yield running
