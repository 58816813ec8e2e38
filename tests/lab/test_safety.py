"""Attempts to misuse the server, each refused with a clear word; what is allowed still works afterwards."""

import asyncio
import io
import json
import pickle
import socket
import time
import zipfile

import httpx
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from neuralrace.laboratory.protocol import MAX_MESSAGE, MAX_UPLOAD
from neuralrace.laboratory.server import make_app
from tests.lab.conftest import Server, needs_page


def opened(server: Server, address: str | None = None, **headers: str) -> ClientConnection:
    given = {"Origin": server.origin} | headers
    return connect(address or server.talk, additional_headers=given, proxy=None, max_size=None)


def said(tab: ClientConnection, kind: str, seconds: float = 60.0) -> dict:
    """The next message of a kind."""
    while True:
        message = json.loads(tab.recv(timeout=seconds))
        if message["kind"] == kind:
            return message


# -- addresses, hosts, origins ------------------------------------------------------------------------

OWN = {"Origin": "http://127.0.0.1:{port}"}
REQUESTS = {
    "no token": ("GET", "/", {}),
    "a wrong token": ("GET", "/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/", {}),
    "part of the token": ("GET", "/{half}/", {}),
    "the token twice as long": ("GET", "/{token}{token}/", {}),
    "the token as a query": ("GET", "/?token={token}", {}),
    "another host": ("GET", "/{token}/", {"Host": "evil.example"}),
    "a rebound name with our port": ("GET", "/{token}/", {"Host": "evil.example:{port}"}),
    "another port": ("GET", "/{token}/", {"Host": "127.0.0.1:1"}),
    "a host that starts like ours": ("GET", "/{token}/", {"Host": "127.0.0.1:{port}.evil.example"}),
    "an origin elsewhere": ("GET", "/{token}/", {"Origin": "http://evil.example"}),
    "a null origin": ("GET", "/{token}/", {"Origin": "null"}),
    "a request of another site": ("GET", "/{token}/page.js", {"Sec-Fetch-Site": "cross-site"}),
    "a frame elsewhere": ("GET", "/{token}/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}),
    "an upload without origin": ("POST", "/{token}/upload", {}),
    "an upload from elsewhere": ("POST", "/{token}/upload", {"Origin": "http://evil.example"}),
    "a path out of the folder": ("GET", "/{token}/../protocol.py", {}),
    "an encoded path out of the folder": ("GET", "/{token}/%2e%2e/protocol.py", {}),
    "a file of the system": ("GET", "/{token}//etc/passwd", {}),
    "deletion": ("DELETE", "/{token}/", OWN),
    "the schema of the server": ("GET", "/openapi.json", {}),
    "a body that claims to be huge": ("POST", "/{token}/upload", {**OWN, "Content-Length": "99999999999"}),
    "a length that is no number": ("POST", "/{token}/upload", {**OWN, "Content-Length": "-5"}),
}  # fmt: skip


@pytest.mark.parametrize("attempt", REQUESTS)
def test_requests_are_refused(server: Server, attempt: str):
    method, path, headers = REQUESTS[attempt]
    parts = {"token": server.token, "half": server.token[:16], "port": server.port}
    sent = {"Host": server.host} | {k: v.format(**parts) for k, v in headers.items()}
    lines = [f"{method} {path.format(**parts)} HTTP/1.1", *(f"{k}: {v}" for k, v in sent.items())]
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(("\r\n".join([*lines, "Connection: close", "", ""])).encode())
        answer = raw.recv(65536)
    status = int(answer.split(b" ")[1])
    assert status in (400, 403, 404, 405, 413), answer[:200]
    assert b"<script" not in answer


def test_two_host_headers_are_refused(server: Server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        hosts = f"Host: {server.host}\r\nHost: evil.example"
        raw.sendall(f"GET /{server.token}/ HTTP/1.1\r\n{hosts}\r\nConnection: close\r\n\r\n".encode())
        assert int(raw.recv(65536).split(b" ")[1]) in (400, 403)


@pytest.mark.parametrize(
    ("origin", "token"),
    [
        ("http://evil.example", True),
        ("null", True),
        ("", True),
        ("http://127.0.0.1:1", True),
        ("own", False),
        ("https://own", True),
    ],
)
def test_sockets_from_elsewhere_are_refused(server: Server, origin: str, token: bool):
    given = {"own": server.origin, "https://own": server.origin.replace("http", "https")}.get(origin, origin)
    address = server.talk if token else f"ws://{server.host}/wrong/talk"
    with pytest.raises(InvalidStatus) as refused:
        connect(address, additional_headers={"Origin": given} if given else {}, proxy=None)
    assert refused.value.response.status_code == 403


def test_only_this_computer_can_connect(server: Server):
    """The listening socket is bound to 127.0.0.1: other addresses of this computer do not answer."""
    addresses = {a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1"}:
        with pytest.raises(OSError):  # noqa: PT011 (refused or unreachable, by system)
            socket.create_connection((address, server.port), timeout=2).close()
    assert server.address.startswith("http://127.0.0.1:")


def test_the_page_forbids_everything_from_outside(server: Server):
    answer = httpx.get(server.address, trust_env=False)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "http:" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_the_page_can_be_opened_from_a_file(server: Server):
    """The browser is given a file that leads to the page; for the page it is another site."""
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"}
    assert httpx.get(server.address, headers=headers, trust_env=False).status_code == 200


def test_tokens_are_long_and_random(server: Server):
    assert len(server.token) >= 32


# -- messages -------------------------------------------------------------------------------------

SCENE = {"entry": "xor", "values": {}, "start": "aligned", "seeds": 0, "drawn": None}
NODES = [{"name": "x", "size": 2}, {"name": "y", "size": 2}]


def drawn(**changes: object) -> dict:
    own = {
        "nodes": NODES,
        "edges": [{"source": "x", "target": "y"}],
        "contexts": 1,
        "gates": {},
        "data": {"kind": "world"},
    }
    return {**SCENE, "entry": "own", "drawn": {**own, **changes}}


def solve(scene: dict) -> str:
    return json.dumps({"kind": "solve", "id": 1, "scene": scene})


RAGGED = {"kind": "samples", "inputs": {"x": [[1, 2], [1]]}, "targets": {"y": [[1], [1]]}, "context": [0, 0]}
BACK = [{"source": "x", "target": "y"}, {"source": "y", "target": "x"}]
MESSAGES = {
    "no JSON": "hello",
    "nothing": "",
    "a list": "[]",
    "a number": "7",
    "deep nesting": "[" * 50_000,
    "no kind": json.dumps({"id": 1}),
    "an unknown kind": json.dumps({"kind": "execute", "id": 1}),
    "an unknown field": json.dumps({"kind": "solve", "id": 1, "scene": SCENE, "code": "import os"}),
    "no scene": json.dumps({"kind": "solve", "id": 1}),
    "an unknown entry": solve({**SCENE, "entry": "nothing"}),
    "an unknown slider": solve({**SCENE, "values": {"depth": 3}}),
    "a slider out of range": solve({**SCENE, "values": {"strength": 1e9}}),
    "not a number": '{"kind": "solve", "id": 1, "scene": {"entry": "xor", "values": {"strength": NaN}}}',
    "infinity": '{"kind": "solve", "id": 1, "scene": {"entry": "xor", "values": {"strength": 1e999}}}',
    "too many seeds": json.dumps({"kind": "simulate", "id": 1, "scene": {**SCENE, "seeds": 10**6}}),
    "a negative number": json.dumps({"kind": "solve", "id": -1, "scene": SCENE}),
    "a huge layer": solve(drawn(nodes=[{"name": "x", "size": 10**9}])),
    "too many layers": solve(drawn(nodes=[{"name": f"n{k}", "size": 1} for k in range(500)])),
    "a name with markup": solve(drawn(nodes=[{"name": "<img>", "size": 1}])),
    "a cycle": solve(drawn(edges=BACK)),
    "an edge to nowhere": solve(drawn(edges=[{"source": "x", "target": "z"}])),
    "gates of nothing": solve(drawn(gates={"z": [0]})),
    "gates of the wrong length": solve(drawn(gates={"x": [0, 1]})),
    "no own network": solve({**SCENE, "entry": "own"}),
    "rows of several lengths": solve(drawn(data=RAGGED)),
    "an unknown export": json.dumps({"kind": "export", "id": 1, "scene": SCENE, "format": "pickle"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def tab(server: Server):
    with opened(server) as one:
        assert said(one, "welcome")["entries"]
        yield one


@pytest.mark.parametrize("attempt", MESSAGES)
def test_messages_are_refused(tab: ClientConnection, attempt: str):
    tab.send(MESSAGES[attempt])
    problem = said(tab, "problem")
    assert len(problem["text"]) > 10
    assert "Traceback" not in problem["text"]


def test_bytes_are_refused(tab: ClientConnection):
    tab.send(b"\x80\x04K\x01.")
    assert "JSON" in said(tab, "problem")["text"]


def test_oversized_messages_are_refused(server: Server):
    def flood(one: ClientConnection) -> None:
        one.send(json.dumps({"kind": "solve", "padding": "x" * (2 * MAX_MESSAGE + 10)}))
        for _ in range(5):
            one.recv(timeout=20)

    with opened(server) as one, pytest.raises(ConnectionClosed):
        flood(one)
    with opened(server) as another:  # the server lives, and says why where it can
        another.send(json.dumps({"kind": "solve", "padding": "x" * (MAX_MESSAGE + 10)}))
        assert "too large" in said(another, "problem")["text"]


def test_what_is_allowed_still_works(tab: ClientConnection):
    tab.send(json.dumps({"kind": "solve", "id": 99, "scene": SCENE}))
    assert said(tab, "picture")["id"] == 99


# -- files ----------------------------------------------------------------------------------------


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(100_000_000))
    return file.getvalue()


UPLOADS = {
    "nothing": (b"", "empty"),
    "a pickle": (pickle.dumps(print), "UTF-8"),
    "an npz with a pickle in it": (npz(x=np.array([{"a": 1}], dtype=object)), "numbers"),
    "a zip bomb": (bomb(), "unpacks"),
    "a broken zip": (b"PK\x03\x04" + b"\x00" * 50, "cannot be read"),
    "text in a column": (b"x,y\n1,two\n", "line 2"),
    "rows of several lengths": (b"x,y\n1,2\n3\n", "line 3"),
    "columns of the same name": (b"x,x\n1,2\n", "differently"),
    "not a number": (b"x,y\n1,nan\n", "must be a number"),
    "a formula": (b"x,y\n=cmd|' /C calc'!A0,1\n", "line 2"),
    "too many rows": (b"x,y\n" + b"1,2\n" * 3000, "2000 rows"),
    "an array of three axes": (npz(x=np.zeros((2, 2, 2))), "shape"),
}  # fmt: skip


@pytest.mark.parametrize("attempt", UPLOADS)
def test_files_are_refused(server: Server, attempt: str):
    content, reason = UPLOADS[attempt]
    answer = httpx.post(
        f"{server.address}upload", content=content, headers={"Origin": server.origin}, trust_env=False
    )
    assert answer.status_code == 422
    assert reason in answer.json()["text"]


@needs_page
def test_an_upload_that_is_broken_off_is_no_error():
    """Each of them printed a traceback of the server."""
    sent = []
    scope = {
        "type": "http", "method": "POST", "path": "/token/upload", "raw_path": b"/token/upload",
        "root_path": "", "query_string": b"", "headers": [(b"host", b"here"), (b"origin", b"http://here")],
    }  # fmt: skip

    async def receive() -> dict:
        return {"type": "http.disconnect"}

    async def send(message: dict) -> None:
        sent.append(message)

    asyncio.run(make_app("token", frozenset({"here"}))(scope, receive, send))
    assert sent[0]["status"] == 400


def test_large_files_are_refused(server: Server):
    def chunks():
        for _ in range(MAX_UPLOAD // 100_000 + 2):
            yield b"1" * 100_000

    try:
        answer = httpx.post(
            f"{server.address}upload", content=chunks(), headers={"Origin": server.origin}, trust_env=False
        )
        assert answer.status_code == 413
    except httpx.TransportError:
        pass  # the server answered and closed before all was sent


def test_tables_are_read(server: Server):
    for content in (b"x1,x2,y\n1,0,2\n0,1,3\n", npz(x=np.eye(2), y=np.array([2.0, 3.0]))):
        answer = httpx.post(
            f"{server.address}upload", content=content, headers={"Origin": server.origin}, trust_env=False
        )
        assert answer.json()["columns"] == ["x1", "x2", "y"]
        assert answer.json()["rows"] == [[1, 0, 2], [0, 1, 3]]


# -- work -----------------------------------------------------------------------------------------


def test_ten_thousand_changes_leave_no_backlog(server: Server):
    """Latest wins: few are computed, and the last one comes soon after the last change."""
    with opened(server) as one:
        said(one, "welcome")
        for k in range(10_000):
            scene = {**SCENE, "values": {"strength": 0.01 + 1e-5 * k}}
            one.send(json.dumps({"kind": "solve", "id": k, "scene": scene}))
        sent, seen = time.monotonic(), 0
        while True:
            message = said(one, "picture", 30)
            seen += 1
            if message["id"] == 9999:
                break
        assert time.monotonic() - sent < 5
        assert seen < 5000


def test_a_killed_worker_is_survived_with_a_message(server: Server):
    import psutil

    with opened(server) as one:
        said(one, "welcome")
        one.send(json.dumps({"kind": "solve", "id": 1, "scene": SCENE}))
        said(one, "details")
        workers, end = [], time.monotonic() + 20
        while len(workers) < 2 and time.monotonic() < end:  # the second is started some seconds later
            every = psutil.Process(server.process.pid).children(recursive=True)
            workers = [p for p in every if "spawn_main" in " ".join(p.cmdline())]
        assert len(workers) == 2
        one.send(json.dumps({"kind": "solve", "id": 2, "scene": {**SCENE, "entry": "contexts"}}))
        for worker in workers:
            worker.kill()
        assert "started again" in said(one, "notice")["text"]
        assert said(one, "picture")["id"] == 2
