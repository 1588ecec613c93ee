"""The sessions of the handshake era over HTTP, bounded: many clients open one and never end it.

The SDK keeps a session until its client ends it, or nothing comes for half an hour. Each takes memory, so above a
number of them the one that was unused the longest is ended, as if its client had done it: what this client sends next
is answered with 404, upon which it opens another session, as the protocol says.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_SESSIONS = 256

HEADER = b"mcp-session-id"


@dataclass
class _Session:
    """A session that is open.

    Attributes:
        in_flight: What is in flight, by HTTP method: requests are `POST`, the stream for announcements is `GET`. A
            request is in flight once it has come whole: one that never ends keeps no session.
        last: When it was used last; an open stream is no use.
    """

    in_flight: Counter[str]
    last: float

    @property
    def rank(self) -> tuple[bool, float]:
        """What orders those without a request: the first is ended first."""
        return self.in_flight["GET"] > 0, self.last


class BoundedSessions:
    """An ASGI application that ends sessions of another, the MCP endpoint of a server, above a number of them.

    One with a request in flight is never ended, and one with an open stream only if all have one.

    Args:
        app: The other application.
        most: The number.
        clock: Returns seconds.
    """

    def __init__(self, app: Any, most: int = MAX_SESSIONS, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._most = most
        self._clock = clock
        self._sessions: dict[bytes, _Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        key = dict(scope.get("headers") or ()).get(HEADER)
        session = None if key is None else self._sessions.get(key)
        if scope["type"] != "http" or (key is not None and session is None):
            await self._app(scope, receive, send)
        elif key is None or session is None:
            await self._open(scope, receive, send)
        else:
            await self._use(session, key, scope, receive, send)

    async def _open(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request without a session, which may open one."""

        async def watch(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                key = dict(message.get("headers") or ()).get(HEADER)
                if key is not None:
                    opened = self._sessions[key] = _Session(Counter(), self._clock())
                    await self._make_room(opened, scope)  # before the client learns that it has one
            await send(message)

        await self._app(scope, receive, watch)

    async def _use(self, session: _Session, key: bytes, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request of a session, which may end it."""
        method, has_begun = scope["method"], False

        async def take() -> Any:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                begin()
            return message

        async def watch(message: Any) -> None:
            begin()
            if message["type"] == "http.response.start" and (message["status"] == 404 or method == "DELETE"):
                self._sessions.pop(key, None)
            await send(message)

        def begin() -> None:
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                session.in_flight[method] += 1

        session.last = self._clock()
        try:
            await self._app(scope, take, watch)
        finally:
            if has_begun:
                session.in_flight[method] -= 1
            if method == "POST":
                session.last = self._clock()

    async def _make_room(self, opened: _Session, scope: Any) -> None:
        """End other sessions than the one that was opened until there are not too many, as far as they can be ended."""
        while len(self._sessions) > self._most:
            idle = [
                key
                for key, session in self._sessions.items()
                if session is not opened and not session.in_flight["POST"]
            ]
            if not idle:
                return
            key = min(idle, key=lambda key: self._sessions[key].rank)
            del self._sessions[key]
            await self._end(key, scope)

    async def _end(self, key: bytes, scope: Any) -> None:
        """End a session, as its client would: with the headers of a request that the server takes."""
        headers = [(name, value) for name, value in scope["headers"] if name == b"host"]
        delete = {**scope, "method": "DELETE", "headers": [*headers, (HEADER, key)]}

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            pass

        await self._app(delete, receive, send)
