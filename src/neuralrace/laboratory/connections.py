"""Connections that cannot be held open without sending anything."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

TIME = 5.0  # seconds; a request must be here completely within one or two of these


class TimedConnection(H11Protocol):
    """An HTTP connection that is closed unless its request arrives in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection is open; from now on it is looked at now and then."""
        super().connection_made(transport)
        self.loop.call_later(TIME, self._look, None)

    def _look(self, before: object) -> None:
        """Close a connection whose request was incomplete the last time, too; sockets are not looked at."""
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        incomplete = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        now = (self.cycle, "incomplete") if incomplete else None
        if now is not None and now == before:
            self.transport.abort()
        else:
            self.loop.call_later(TIME, self._look, now)
