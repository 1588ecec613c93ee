"""The server of `benchmarks.map`: over stdio, or over HTTP with a limit of calls a second."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import uvicorn
from mcp.server import MCPServer

server = MCPServer("mapped")


@server.tool()
async def double(n: int) -> int:
    """Return twice the number, at once."""
    return n * 2


@server.tool()
async def slow(n: int) -> int:
    """Return twice the number after 50 ms."""
    await asyncio.sleep(0.05)
    return n * 2


@server.tool()
async def busy(n: int) -> int:
    """Return twice the number after computing for 5 ms of processor time."""
    end = time.thread_time() + 0.005
    while time.thread_time() < end:
        pass
    return n * 2


class Limit:
    """Refuses calls beyond `rate` a second with HTTP 429."""

    def __init__(self, app: Any, rate: float, *, says_when: bool) -> None:
        self._app = app
        self._rate = rate
        self._headers = [(b"retry-after", b"1")] if says_when else []
        self._second = 0.0
        self._calls = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a call beyond the rate, and pass everything else on."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        message = await receive()  # a call of these tools is one message
        if b'"tools/call"' in message["body"] and self._is_refused():
            await send({"type": "http.response.start", "status": 429, "headers": self._headers})
            await send({"type": "http.response.body", "body": b""})
            return
        unread = [message]

        async def replayed() -> Any:
            return unread.pop() if unread else await receive()

        await self._app(scope, replayed, send)

    def _is_refused(self) -> bool:
        now = time.monotonic()
        if now - self._second >= 1:
            self._second, self._calls = now, 0
        self._calls += 1
        return self._calls > self._rate


if __name__ == "__main__":
    if sys.argv[1:]:
        options = json.loads(sys.argv[1])
        app: Any = server.streamable_http_app()
        if options["rate"]:
            app = Limit(app, options["rate"], says_when=options["says_when"])
        uvicorn.run(app, port=options["port"], log_level="error")
    else:
        server.run()
