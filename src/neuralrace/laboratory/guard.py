"""What every request must pass: the right host, the right origin, the token; and the headers of answers."""

from __future__ import annotations

import secrets
from typing import Any

from neuralrace.laboratory.protocol import MAX_UPLOAD

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
        "img-src 'self' data: blob:; font-src 'self' data:; media-src blob:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """ASGI middleware that refuses what does not come from the page itself.

    A page of another site cannot read the token, but it can send requests to this computer (and, by
    rebinding a name, appear to be on it): hence the checks of Host and Origin.
    """

    def __init__(self, app: Any, token: str, hosts: frozenset[str]) -> None:
        self.app: Any = app
        self.token: str = token
        self.hosts: frozenset[str] = hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        reason = self.refusal(scope)
        if reason is None:
            await self.app(scope, receive, self._with_headers(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": reason[1]})
        else:
            body = reason[1].encode()
            headers = [
                *self._headers(),
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", str(len(body)).encode()),
            ]
            await send({"type": "http.response.start", "status": reason[0], "headers": headers})
            await send({"type": "http.response.body", "body": body})

    def refusal(self, scope: Any) -> tuple[int, str] | None:
        """Status and reason where a request is refused."""
        given: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        host = given.get("host", [])
        if len(host) != 1 or host[0] not in self.hosts:
            return 403, "refused: Host must be this computer's own address"
        origins = given.get("origin", [])
        must = scope["type"] == "websocket" or scope.get("method") not in ("GET", "HEAD")
        if (must and not origins) or any(o != f"http://{host[0]}" for o in origins):
            return 403, "refused: Origin must be the page itself"
        opened = scope.get("method") == "GET" and given.get("sec-fetch-dest") == ["document"]
        if given.get("sec-fetch-site", ["none"])[0] == "cross-site" and not opened:
            return 403, "refused: the request comes from another site"
        first = scope["path"].split("/")[1] if scope["path"].startswith("/") else ""
        if not secrets.compare_digest(first.encode(), self.token.encode()):
            return 403, "refused: the address lacks its token; open the one that neuralrace lab printed"
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "refused: method"
        length = given.get("content-length", ["0"])[0]
        if not length.isdigit() or int(length) > MAX_UPLOAD:
            return 413, f"refused: the body may have {MAX_UPLOAD:,} bytes"
        return None

    @staticmethod
    def _headers() -> list[tuple[bytes, bytes]]:
        return [(k.encode(), v.encode()) for k, v in HEADERS.items()]

    def _with_headers(self, send: Any) -> Any:
        async def wrapped(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *self._headers()]}
            await send(message)

        return wrapped
