"""Servers over ASGI whose tests write status, content type and body: streamable HTTP, and HTTP+SSE."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import MCPMagicError
from tests.support.asgi import answer, never, serving
from tests.support.odd_server import USUAL, texts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

    Form = Callable[[Any], tuple[int, str, bytes]]

JSON, EVENTS = "application/json", "text/event-stream"
NOTICE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "working"}}
ENDPOINT = "event: endpoint\ndata: /messages\n\n"


def event(message: Any) -> bytes:
    return b"data: " + json.dumps(message).encode() + b"\n\n"


def body(message: Any) -> bytes:
    return json.dumps(message).encode()


async def outcome(connection: Connection, tool: str = "good") -> str:
    """Call a tool that the server does not answer in vain; return the text, or the class and words of the error."""
    try:
        return (await connection.call_tool(tool, {}, timeout=20)).text
    except MCPMagicError as problem:
        return f"{type(problem).__name__}: {problem}"


class Formed:
    """A streamable-HTTP server that answers calls, and with `everything` all requests, in a form.

    Attributes:
        form: The status, content type and body for a right answer.
        counts: How often each method came.
        sessions: Whether it gives session ids.
    """

    def __init__(self, form: Form, *, everything: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self.sessions, self.form, self._everything = True, form, everything

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] != "POST":
            await self.send(send, 405, "", b"")
            return
        message = json.loads((await receive())["body"])
        method = message["method"]
        self.counts[method] += 1
        if "id" not in message:
            await self.send(send, 202, "", b"")
            return
        result = USUAL.get("tools/call good" if method == "tools/call" else method)
        whole = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if result is None:
            missing = {"code": -32601, "message": "Method not found"}
            await self.send(send, 200, JSON, body({"jsonrpc": "2.0", "id": message["id"], "error": missing}))
        elif method == "tools/call" or self._everything:
            await self.send(send, *self.form(whole), method=method)
        else:
            await self.send(send, 200, JSON, body(whole), method=method)

    async def send(self, send: Any, status: int, kind: str, content: bytes, *, method: str = "") -> None:
        headers = [(b"content-type", kind.encode())] if kind else []
        if method == "initialize" and self.sessions:
            headers.append((b"mcp-session-id", f"session-{self.counts[method]}".encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


class Streamed:
    """A server over HTTP+SSE for one session; what `post` returns answers the POST of a call, which has no event then.

    The stream begins with `first`, and ends after it unless that is `ENDPOINT`.

    Attributes:
        events: What is still to be sent on the stream.
    """

    def __init__(
        self, answers: dict[str, Any] | None = None, post: Callable[[Any], Any] = lambda m: None, first: str = ENDPOINT
    ) -> None:
        self.events: asyncio.Queue[bytes] = asyncio.Queue()
        self._answers, self._post, self._first = answers or {}, post, first

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] == "GET":
            await (self._stream(receive, send) if scope["path"] == "/sse" else answer(send, 404, b""))
            return
        message = json.loads((await receive())["body"])
        refused = self._post(message) if message.get("method") == "tools/call" else None
        status, kind, content = refused or (202, JSON, b"")
        await answer(send, status, content, kind)
        for text in [] if refused else texts(self._answers, message):
            self.events.put_nowait(f"data: {text}\n\n".encode())

    async def _stream(self, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", EVENTS.encode())]})
        is_open = self._first == ENDPOINT
        await send({"type": "http.response.body", "body": self._first.encode(), "more_body": is_open})
        gone = asyncio.ensure_future(never({"type": "http"}, receive, send))
        while is_open:
            text = asyncio.ensure_future(self.events.get())
            await asyncio.wait({gone, text}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                text.cancel()
                return
            await send({"type": "http.response.body", "body": text.result(), "more_body": True})
        gone.cancel()


@asynccontextmanager
async def formed(host: Host, server: Any, path: str = "/mcp", **options: Any) -> AsyncIterator[Connection]:
    """Connect to a server over ASGI."""
    async with serving(server, lifespan="off") as url:
        try:
            yield await host.connect(f"{url}{path}", name="odd", **options)
        finally:
            await host.close()
