"""A streamable-HTTP server written on bare sockets, whose tools go wrong on the way: HTTP, SSE, TCP."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import Counter
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from tests.support.speaking import LEGACY, answer_to, called, line

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

MEGABYTE = 2**20
LONG = 30
"""Megabytes of a long answer."""
REASONS = {200: "OK", 202: "Accepted", 307: "Temporary Redirect", 404: "Not Found", 500: "Internal Server Error"}


class Reply:
    """What a tool writes with, which answers the request with this id."""

    def __init__(self, server: RogueHTTP, writer: asyncio.StreamWriter, number: Any) -> None:
        self.server, self.number, self.writer = server, number, writer

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: int, length: int | None, *headers: str, kind: str = "application/json") -> None:
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Whatever')}", f"Content-Type: {kind}", *headers]
        lines.append(f"Content-Length: {length}" if length is not None else "Transfer-Encoding: chunked")
        await self.raw("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def status(self, status: int, *headers: str, body: bytes = b"no", kind: str = "text/plain") -> None:
        await self.head(status, len(body), *headers, kind=kind)
        await self.raw(body)

    async def json(self, message: Any, *headers: str) -> None:
        await self.status(200, *headers, body=line(message), kind="application/json")

    async def chunk(self, data: bytes) -> None:
        await self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def sse(self, *events: bytes, end: bool = True) -> None:
        await self.head(200, None, kind="text/event-stream")
        for event in events:
            await self.chunk(event)
        if end:
            await self.raw(b"0\r\n\r\n")

    def right(self, text: str = "right") -> dict[str, Any]:
        return called(self.number, self.server.version, text)

    def cut(self) -> None:
        """End the TCP connection at once, by a reset."""
        self.writer.transport.abort()


def packed(r: Reply) -> bytes:
    """Return an answer of some kilobytes that unpacked has megabytes."""
    return gzip.compress(line(r.right()).rstrip() + b" " * (LONG * MEGABYTE))


def event(message: Any) -> bytes:
    """Return a message as an event of SSE."""
    return b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"


def note(text: str) -> bytes:
    """Return a log message as an event."""
    params = {"level": "info", "data": text}
    return event({"jsonrpc": "2.0", "method": "notifications/message", "params": params})


async def cut_after(r: Reply, kind: str = "", *, at_once: bool = True) -> None:
    """Write a part of the answer, in a body of this type or in a stream, and end the connection."""
    if kind:
        await r.head(200, 1000, kind=kind)
        await r.raw(line(r.right())[:-9])
    else:
        await r.sse(note("working"), end=False)
    if at_once:
        r.cut()
    else:
        r.writer.close()


async def reset(r: Reply) -> None:
    r.cut()


async def hang(r: Reply, *, begun: bool = False) -> None:
    if begun:
        await r.sse(note("working"), end=False)
    await r.server.gone.wait()


async def long_event(r: Reply) -> None:
    head, tail = event(r.right("@")).split(b"@")
    await r.sse(head, *(b"x" * MEGABYTE for _ in range(LONG)), tail)


async def long_json(r: Reply) -> None:
    head, tail = line(r.right("@")).split(b"@")
    await r.head(200, len(head) + LONG * MEGABYTE + len(tail))
    for part in (head, *(b"x" * MEGABYTE for _ in range(LONG)), tail):
        await r.raw(part)


async def flood(r: Reply) -> None:
    await r.sse(*[note("x") * 100] * 20, event(r.right()))


FAULTS: dict[str, Callable[[Reply], Awaitable[None]]] = {
    "right": lambda r: r.json(r.right()),
    "right_sse": lambda r: r.sse(note("working"), event(r.right())),
    # statuses
    "http_400": lambda r: r.status(400),
    "http_401": lambda r: r.status(401, "WWW-Authenticate: Bearer"),
    "http_403": lambda r: r.status(403),
    "http_404": lambda r: r.status(404),
    "http_410": lambda r: r.status(410),
    "http_429": lambda r: r.status(429, "Retry-After: 3600"),
    "http_500": lambda r: r.status(500, body=b"<html><script>alert(1)</script></html>", kind="text/html"),
    "http_502": lambda r: r.status(502),
    "http_503": lambda r: r.status(503, "Retry-After: 3600"),
    "redirect_home": lambda r: r.status(307, f"Location: {r.server.url}?again=1", body=b""),
    "redirect_away": lambda r: r.status(307, f"Location: {r.server.elsewhere}", body=b""),
    "redirect_get": lambda r: r.status(302, f"Location: {r.server.url}?again=1", body=b""),
    "redirect_loop": lambda r: r.status(307, f"Location: {r.server.url}?loop=1", body=b""),
    # bodies
    "no_type": lambda r: r.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
    "bad_json": lambda r: r.status(200, body=b'{"jsonrpc": "2.0", ', kind="application/json"),
    "bad_utf8": lambda r: r.status(200, body=b"\xff\xfe\xfd", kind="application/json"),
    "number": lambda r: r.status(200, body=b"5", kind="application/json"),
    "wrong_id": lambda r: r.json(called(987654, r.server.version)),
    "no_http": lambda r: r.raw(b"SSH-2.0-OpenSSH_9.0\r\n\r\n"),
    "bad_chunk": lambda r: r.raw(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    ),
    "bad_gzip": lambda r: r.status(200, "Content-Encoding: gzip", body=b"no gzip", kind="application/json"),
    "packed": lambda r: r.status(200, "Content-Encoding: gzip", body=packed(r), kind="application/json"),
    "truncated": lambda r: cut_after(r, "application/json"),
    "ended_json": lambda r: cut_after(r, "application/json", at_once=False),
    "ended_event": lambda r: cut_after(r, "text/event-stream", at_once=False),
    "ended_text": lambda r: cut_after(r, "text/plain", at_once=False),
    "long_json": long_json,
    # streams
    "cut_stream": cut_after,
    "ended_stream": lambda r: r.sse(note("working")),
    "sse_bad_utf8": lambda r: r.sse(b"data: \xff\xfe\n\n", event(r.right())),
    "sse_other_event": lambda r: r.sse(b"event: weather\ndata: fine\n\n: a comment\n\n", event(r.right())),
    "sse_twice": lambda r: r.sse(event(r.right()), event(r.right("second"))),
    "sse_wrong_id": lambda r: r.sse(event(called(987654, r.server.version, "strange"))),
    "sse_flood": flood,
    "long_event": long_event,
    # the connection
    "reset": reset,
    "hang": hang,
    "hang_in_stream": lambda r: hang(r, begun=True),
}


class RogueHTTP:
    """The server.

    Attributes:
        version: The protocol version it speaks.
        url: Its endpoint.
        elsewhere: Where `redirect_away` leads.
        session: The id that it gives a session, if any.
        calls: How often each tool was called, and each other method.
        requests: Paths and headers of what came.
        gone: Set when it ends.
    """

    def __init__(self, version: str, elsewhere: str = "", session: bytes = b"") -> None:
        self.version, self.elsewhere, self.session = version, elsewhere, session.decode("latin-1")
        self.url = ""
        self.calls: Counter[str] = Counter()
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._one(reader, writer):
                pass
        writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *rest = head.split("\r\n")
        method, path, _ = first.split(" ")
        headers = {k.lower(): v.strip() for k, _, v in (one.partition(":") for one in rest if one)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((f"{method} {path}", headers))
        if method != "POST":
            await Reply(self, writer, None).status(405)
            return True
        message = json.loads(body)
        reply = Reply(self, writer, message.get("id"))
        if message.get("method") == "tools/call":
            return await self._call(reply, message["params"]["name"], path, writer)
        self.calls[str(message.get("method"))] += 1
        answer = answer_to(message, self.version, list(FAULTS))
        if answer is None:
            await reply.status(202, body=b"")
        elif message.get("method") == "server/discover" and "error" in answer:
            await reply.status(404, body=b"" if self.session else line(answer), kind="application/json")
        else:
            is_new = self.session and message.get("method") == "initialize"
            await reply.json(answer, *([f"Mcp-Session-Id: {self.session}"] if is_new else []))
        return True

    async def _call(self, reply: Reply, name: str, path: str, writer: asyncio.StreamWriter) -> bool:
        if "again=1" in path:
            self.calls["redirected"] += 1
            await reply.json(reply.right("redirected"))
            return True
        self.calls[name] += 1
        await FAULTS[name](reply)
        return not writer.transport.is_closing()


@asynccontextmanager
async def rogue_http(
    version: str = LEGACY, *, elsewhere: str = "", session: bytes = b"", tls: ssl.SSLContext | None = None
) -> AsyncIterator[RogueHTTP]:
    """Serve on a free port of 127.0.0.1."""
    rogue = RogueHTTP(version, elsewhere, session)
    server = await asyncio.start_server(rogue.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    rogue.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/mcp"
    try:
        yield rogue
    finally:
        rogue.gone.set()
        server.close()
        await server.wait_closed()
