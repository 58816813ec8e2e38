"""The server of the page: loopback only, one address with a random token, every request checked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

from fastapi import FastAPI, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from neuralrace import __version__
from neuralrace.errors import InputError
from neuralrace.laboratory.desk import Desk
from neuralrace.laboratory.guard import Guard
from neuralrace.laboratory.opening import browser, state_of
from neuralrace.laboratory.page import FILES, page_files
from neuralrace.laboratory.protocol import (
    MAX_MESSAGE,
    MAX_UPLOAD,
    REQUEST,
    Export,
    Notice,
    Problem,
    Simulate,
    Solve,
)
from neuralrace.laboratory.uploads import read_table

MAX_TABS = 40
MAX_UNSENT = 2000  # answers that a tab may be behind
THEORY_LIMIT, TRAINING_LIMIT = 45.0, 90.0  # seconds of one step; compiling is one


class Hub:
    """All tabs, and the desks that work for them."""

    def __init__(self) -> None:
        self.tabs: dict[int, asyncio.Queue[str | None]] = {}
        self.numbers: Any = count(1)
        self.theory: Desk = Desk(self.deliver, THEORY_LIMIT, warm=True)
        self.training: Desk = Desk(self.deliver, TRAINING_LIMIT, warm=False, delay=4.0)

    def deliver(self, tab: int, text: str) -> None:
        """Send an answer to a tab; one that does not listen any more is given up."""
        tab = abs(tab)
        outbox = self.tabs.get(tab)
        if outbox is not None:
            if outbox.qsize() < MAX_UNSENT:
                outbox.put_nowait(text)
            elif outbox.qsize() == MAX_UNSENT:
                outbox.put_nowait(None)
                self.leave(tab)

    def leave(self, tab: int) -> None:
        """A tab is closed: stop its work."""
        self.tabs.pop(tab, None)
        self.theory.drop(tab)
        self.theory.drop(-tab)
        self.training.drop(tab)

    def take(self, tab: int, text: str) -> None:
        """One message of a tab."""
        try:
            request = REQUEST.validate_json(text)
        except ValidationError as error:
            self.deliver(tab, Problem(id=-1, text=_first(error)).model_dump_json())
            return
        if isinstance(request, Solve):
            self.theory.ask(tab, text, request.id)
        elif isinstance(request, Export):  # not replaced by the next solve: it has a number of its own
            self.theory.ask(-tab, text, request.id)
        elif isinstance(request, Simulate):
            self.training.ask(tab, text, request.id)
        else:
            self.training.drop(tab)

    def close(self) -> None:
        """End all work."""
        self.theory.close()
        self.training.close()


def _first(error: ValidationError) -> str:
    """The first thing that is wrong with a message, in words."""
    one = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in one["loc"] if part not in ("solve", "simulate", "export", "stop"))
    return f"message refused: {where + ': ' if where else ''}{one['msg']}"[:400]


def make_app(token: str, hosts: frozenset[str]) -> FastAPI:
    """The application; `hosts` are the values of the header Host that it answers to."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.hub = Hub()
        try:
            yield
        finally:
            app.state.hub.close()

    app = FastAPI(
        title="neuralrace lab",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
    )
    files = page_files()

    @app.get(f"/{token}/")
    async def page() -> Response:
        return Response(files["index.html"], media_type="text/html")

    @app.get(f"/{token}/{{name:path}}")
    async def asset(name: str) -> Response:
        if name not in files:
            return JSONResponse({"kind": "problem", "id": -1, "text": "no such file"}, 404)
        return Response(files[name], media_type=FILES[name.rsplit(".", 1)[-1]])

    @app.post(f"/{token}/upload")
    async def upload(request: Request) -> Response:
        body = b""
        try:
            async for part in request.stream():
                body += part
                if len(body) > MAX_UPLOAD:
                    text = f"the file is larger than {MAX_UPLOAD:,} bytes"
                    return JSONResponse(Problem(id=-1, text=text).model_dump(), 413)
            table = await run_in_threadpool(read_table, body)
        except ClientDisconnect:  # nobody is there to be answered
            return Response(status_code=400)
        except InputError as error:
            return JSONResponse(Problem(id=-1, text=str(error)).model_dump(), 422)
        return Response(table.model_dump_json(), media_type="application/json")

    @app.websocket(f"/{token}/talk")
    async def talk(tab: WebSocket) -> None:
        await _talk(tab, app.state.hub)

    app.add_middleware(Guard, token=token, hosts=hosts)
    return app


async def _talk(tab: WebSocket, hub: Hub) -> None:
    """The life of one tab."""
    from neuralrace.laboratory.welcome import welcome_text

    await tab.accept()
    if len(hub.tabs) >= MAX_TABS:
        await tab.send_text(Notice(text=f"There are {MAX_TABS} tabs already; close one.").model_dump_json())
        await tab.close(1013)
        return
    number, outbox = next(hub.numbers), asyncio.Queue[str | None]()
    hub.tabs[number] = outbox
    outbox.put_nowait(welcome_text())

    async def send() -> None:
        while (text := await outbox.get()) is not None:
            await tab.send_text(text)
        await tab.close(1013)

    sender = asyncio.create_task(send())
    try:
        while True:
            message = await tab.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if text is None:
                refused = Problem(id=-1, text="message refused: it must be JSON text, not bytes")
                outbox.put_nowait(refused.model_dump_json())
            elif len(text) > MAX_MESSAGE:
                outbox.put_nowait(Problem(id=-1, text="message refused: too large").model_dump_json())
            else:
                hub.take(number, text)
    except (WebSocketDisconnect, RuntimeError):
        pass
    finally:
        hub.leave(number)
        sender.cancel()


def serve(port: int, show: bool, link: str | None = None) -> int:
    """Serve the page until interrupted, from the state of `link`; its address, with the token, is printed."""
    import uvicorn

    from neuralrace.laboratory.connections import TimedConnection

    state = "" if link is None else f"#s={state_of(link)}"
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        raise InputError(f"--port {port} cannot be used: {error.strerror}") from None
    listener.listen(128)
    own = listener.getsockname()[1]
    token = secrets.token_urlsafe(24)
    hosts = frozenset(f"{name}:{own}" for name in ("127.0.0.1", "localhost"))
    for library in ("OPENBLAS", "OMP", "MKL"):  # of the workers: matrices are small here
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    app = make_app(token, hosts)
    address = f"http://127.0.0.1:{own}/{token}/{state}"
    print(f"The lab is at {address}", flush=True)
    print("Stop it with Ctrl-C.", flush=True)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        ws_max_size=2 * MAX_MESSAGE,  # so that one that is too large is answered with words
        http=TimedConnection,
        ws="websockets-sansio",
        timeout_graceful_shutdown=2,
    )
    with browser(address) if show else contextlib.nullcontext(), contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
    return 0
