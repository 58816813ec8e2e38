"""How the page is opened: the token stays hidden, links hold a state; connections end in time."""

import asyncio
import base64
import json
import re
import socket
import threading
import zlib
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import uvicorn

from neuralrace.errors import InputError
from neuralrace.laboratory import connections, opening
from neuralrace.laboratory.protocol import Scene


def packed(text: str) -> str:
    packer = zlib.compressobj(wbits=-15)
    return base64.urlsafe_b64encode(packer.compress(text.encode()) + packer.flush()).decode().rstrip("=")


def link(state: object) -> str:
    return packed(json.dumps(state))


STATE = {"scene": Scene(entry="xor", values={"strength": 0.1}).model_dump(), "view": {"at": 0.5}}


STORED = (
    "HcxBCsJADEbhu_zrIBZ3uU1w4nRwTCVJW6XM3aVuH7zvwKYebTHwRIi7moIPqKV_wfgsDsImfdU4e6Sr1ZzB1"
    "8s0CJHiCYb0Vk0LCKFa4o8Vl93AtvY-CFvT_RQkz_dGyFlfCkYRf4Lw7tIMnL4qoYtXBT-kh47xAw"
)


def test_a_link_of_version_1_opens_for_ever():
    """The same as in frontend/test/page.test.ts."""
    assert opening.state_of(STORED) == STORED


@pytest.mark.parametrize("form", ["lab:{}", "{}", "http://127.0.0.1:1/gone/#s={}", " lab:{}\n"])
def test_a_link_is_opened_in_every_form(form: str):
    assert opening.state_of(form.format(link(STATE))) == link(STATE)


BROKEN = {
    "nothing": "",
    "words": "hello, world",
    "no state": "lab:" + link({}),
    "no scene": "lab:" + link({"scene": 3}),
    "a wrong scene": "lab:" + link({"scene": {"entry": "xor", "seeds": 10**6}}),
    "deep nesting": "lab:" + packed("[" * 50_000),
    "a bomb": "lab:" + link({"scene": "x" * 10**8}),
    "markup": "lab:<script>",
    "half of one": "lab:" + link(STATE)[:20],
}  # fmt: skip


@pytest.mark.parametrize("attempt", BROKEN)
def test_links_are_refused(attempt: str):
    with pytest.raises(InputError, match="Copy link"):
        opening.state_of(BROKEN[attempt])


def test_the_browser_is_not_told_the_token(monkeypatch: pytest.MonkeyPatch):
    """Its command line is seen by all users; it opens a file that only this user reads."""
    opened: list[str] = []
    monkeypatch.setattr(opening.webbrowser, "open", opened.append)
    with opening.browser("http://127.0.0.1:5/secret/#s=abc"):
        assert "secret" not in opened[0]
        file = Path(unquote(urlsplit(opened[0]).path))
        assert "url=http://127.0.0.1:5/secret/#s=abc" in file.read_text()
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700
    assert not file.parent.exists()


def test_half_open_requests_are_closed(monkeypatch: pytest.MonkeyPatch):
    """They were held for ever. Whole requests are answered, slowly as well."""
    monkeypatch.setattr(connections, "TIME", 0.3)

    async def app(scope: dict, receive: object, send: object) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":  # type: ignore[operator]
            body += message["body"]
            if not message["more_body"]:
                break
        await asyncio.sleep(float(body or 0))
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"done"})  # type: ignore[operator]

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", lifespan="off", http=connections.TimedConnection)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n"
    sent = {"nothing": b"", "half a head": head[:20], "half a body": head + b"1", "all": head + b"1.0"}
    try:
        found = {}
        for what, text in sent.items():
            with socket.create_connection(listener.getsockname(), timeout=10) as one:
                one.sendall(text)
                try:
                    found[what] = re.findall(rb"done|^$", one.recv(1000) + one.recv(1000))
                except ConnectionResetError:
                    found[what] = [b""]
        assert found == {"nothing": [b""], "half a head": [b""], "half a body": [b""], "all": [b"done"]}
    finally:
        server.should_exit = True
        thread.join()
