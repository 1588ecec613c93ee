"""A kernel of the proxy, over HTTP that is written by hand: its streams are cut, or it does not answer."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from contextlib import asynccontextmanager, closing, suppress
from typing import TYPE_CHECKING, Any

from mcp_magic.loopback import proof_of
from mcp_magic.outside.runtime import NAME, announce, private_folder, withdraw

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

__all__ = ["ScriptedKernel", "scripted_kernel"]


class ScriptedKernel:
    """Answers each request on a connection of its own.

    Args:
        silent: Methods that are never answered.
        cuts: Whether streams are cut as soon as they are open.

    Attributes:
        most: How many connections there were at a time.
        methods: The methods of the messages that came, `GET` for a stream, and `DELETE` for the end of a session.
    """

    def __init__(self, *silent: str, cuts: bool = False) -> None:
        self.methods: list[str] = []
        self.silent = silent
        self.cuts = cuts
        self.port = self.open = self.most = 0
        self.token = secrets.token_urlsafe(32)

    @property
    def streams(self) -> int:
        """How many streams were opened."""
        return self.methods.count("GET") + self.methods.count("subscriptions/listen")

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most = max(self.most, self.open)
        with suppress(asyncio.IncompleteReadError, ConnectionError), closing(writer):
            await self.answer(reader, writer)
        self.open -= 1

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"(?i)^content-length: (\d+)", head, re.MULTILINE)
        body = await reader.readexactly(int(length[1])) if length else b""
        message: dict[str, Any] = json.loads(body or b"{}")
        method = message.get("method") or head.split()[0]
        if nonce := re.match(r"GET /proof\?nonce=(\w+)", head):
            self.write(writer, proof_of(self.token, self.port, nonce[1]), "text/plain")
        else:
            self.methods.append(method)
            if method in self.silent:
                await reader.read()
            elif method in ("GET", "subscriptions/listen"):
                await self.stream(reader, writer, message)
            else:
                self.write(writer, json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": RESULTS[method]}))

    def write(self, writer: asyncio.StreamWriter, text: str, kind: str = "application/json") -> None:
        """Write a whole answer."""
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(text)}\r\nMcp-Session-Id: s-1\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n{text}".encode())

    async def stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
        """Open a stream, and cut it, or leave it open until the client closes it."""
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        if request:
            meta = {"io.modelcontextprotocol/subscriptionId": request["id"]}
            params = {"notifications": request["params"]["notifications"], "_meta": meta}
            method = "notifications/subscriptions/acknowledged"
            event = f"data: {json.dumps({'jsonrpc': '2.0', 'method': method, 'params': params})}\n\n"
            writer.write(f"{len(event):x}\r\n{event}\r\n".encode())
        await writer.drain()
        if not self.cuts:
            await reader.read()


RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "scripted", "version": "1"},
    },
    "notifications/initialized": {},
    "logging/setLevel": {},
    "tools/list": {"tools": []},
    "ping": {},
    "DELETE": {},
}


@asynccontextmanager
async def scripted_kernel(folder: Path, *silent: str, cuts: bool = False) -> AsyncIterator[ScriptedKernel]:
    """Serve a scripted kernel of a folder, with its runtime file and its token."""
    kernel = ScriptedKernel(*silent, cuts=cuts)
    async with await asyncio.start_server(kernel, "127.0.0.1", 0) as listening:
        kernel.port = listening.sockets[0].getsockname()[1]
        file = private_folder() / f"{NAME}-{kernel.port}.token"
        file.touch(0o600)
        file.write_text(kernel.token)
        started = "2026-01-02T03:04:05.678"
        running = announce(kernel.port, folder=folder, notebook="a.ipynb", kernel="k-1", started=started)
        try:
            yield kernel
        finally:
            withdraw(running)
