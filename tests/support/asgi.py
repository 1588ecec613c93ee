"""Streamable HTTP servers inside of the test's own loop, so that a test can reach into them."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import uvicorn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    App = Callable[[Any, Any, Any], Awaitable[None]]


@asynccontextmanager
async def serving(app: App, *, port: int = 0, **options: Any) -> AsyncIterator[str]:
    """Serve an ASGI app on a port of 127.0.0.1, by default a free one, and yield its base URL."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1, **options)
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[method-assign] # it puts those of a former loop back
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    scheme = "https" if config.is_ssl else "http"
    try:
        yield f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


class Forgetful:
    """A handshake-era streamable-HTTP server whose sessions can be forgotten.

    Args:
        app: The app of a real server.

    Attributes:
        requests: The JSON-RPC methods that arrived, and the session ids they came with.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._forgotten: set[str] = set()
        self.requests: list[tuple[str, str]] = []

    def forget(self) -> None:
        """From now on answer 404 to every session that is known now."""
        self._forgotten = {session for _, session in self.requests if session}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body, again = await read(receive)
        message = json.loads(body)
        session = dict(scope["headers"]).get(b"mcp-session-id", b"").decode()
        self.requests.append((message.get("method", "response"), session))
        if message.get("method") == "server/discover" or session in self._forgotten:
            await answer(send, 404, b'{"error": "not found"}')
            return
        await self._app(scope, again, send)


async def read(receive: Any) -> tuple[bytes, Callable[[], Awaitable[Any]]]:
    """Return a request's body, and what receives it once more."""
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    events = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return events.pop() if events else await receive()

    return body, again


async def answer(
    send: Any, status: int, body: bytes = b"", content_type: str = "application/json", **more: str
) -> None:
    """Answer a request; `more` are headers, with `_` for `-`."""
    headers = {"content-type": content_type, **{name.replace("_", "-"): value for name, value in more.items()}}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def answering(status: int, body: bytes = b"", content_type: str = "text/plain") -> App:
    """Return an app that answers everything alike."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await answer(send, status, body, content_type)
        elif scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})

    return app


async def never(scope: Any, receive: Any, send: Any) -> None:
    """An app that takes requests and answers none."""
    if scope["type"] == "http":
        while (await receive())["type"] != "http.disconnect":
            pass
