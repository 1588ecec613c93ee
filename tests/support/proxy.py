"""A network that comes and goes: a TCP proxy that cuts, refuses and stalls."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["Proxy", "proxied"]


class Proxy:
    """Hands on what comes to its own port.

    Attributes:
        port: Its own port.
        target: The port of 127.0.0.1 that it hands on to.
        accepted: Connections that were made to it.
        sent: What clients sent, in the parts in which it arrived.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.accepted = 0
        self.sent: list[bytes] = []
        self._server: asyncio.Server | None = None
        self._sockets: dict[asyncio.StreamWriter, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._sockets) // 2

    def lose(self) -> None:
        """Reset all connections, and take no more."""
        self.refuse()
        self.cut()

    def url(self, path: str = "/mcp", scheme: str = "http") -> str:
        """Where it listens."""
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    async def listen(self) -> None:
        """Take connections, on the same port as before."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, reuse_address=True)
        self.port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Refuse new connections; those that are there go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def cut(self) -> None:
        """Reset all connections."""
        for writer, flowing in list(self._sockets.items()):
            flowing.set()
            found: socket.socket = writer.get_extra_info("socket")
            with suppress(OSError):
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def stall(self) -> None:
        """Hand nothing on any more on the connections that are there, as if the machine at the other end had slept."""
        for flowing in self._sockets.values():
            flowing.clear()

    async def close(self) -> None:
        """End everything."""
        self.refuse()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        flowing = asyncio.Event()
        flowing.set()
        self._sockets[writer] = flowing
        try:
            behind, ahead = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            self._sockets.pop(writer)
            return
        self._sockets[ahead] = flowing
        try:
            await asyncio.gather(_pump(reader, ahead, flowing, self.sent), _pump(behind, writer, flowing, []))
        finally:
            for one in (writer, ahead):
                self._sockets.pop(one, None)
                one.transport.abort()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event, parts: list[bytes]
) -> None:
    with suppress(OSError):
        while data := await reader.read(2**20):
            parts.append(data)
            await flowing.wait()
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def proxied(target: int | str) -> AsyncIterator[Proxy]:
    """Put a proxy before a port of 127.0.0.1, or before the server of a base URL."""
    proxy = Proxy(target if isinstance(target, int) else int(target.split(":")[2].split("/")[0]))
    await proxy.listen()
    try:
        yield proxy
    finally:
        await proxy.close()
