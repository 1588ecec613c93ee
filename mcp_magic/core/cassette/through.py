"""From a session that is replayed through to its server, for what was not recorded; it is added to the cassette.

The server is started, or connected to, when the first such request comes. It is told then what the client has said of
itself (the handshake), and its answers to that are heard by nobody.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcp_magic.core.border_connect import connect_error
from mcp_magic.core.cassette.take import Take
from mcp_magic.core.trace.streams import members
from mcp_magic.core.trace.trace import IN, OUT
from mcp_magic.errors import CassetteError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.cassette import Cassette
    from mcp_magic.core.place import Place

__all__ = ["Through"]

_HANDSHAKE = ("server/discover", "initialize", "notifications/initialized", "logging/setLevel")


class Through:
    """The way to the server of one session.

    Args:
        make: Makes the transport.
        cassette: Gets what is said.
        spec: Where the server is.
        place: The connection, for errors.
    """

    def __init__(self, make: Callable[[], Any], cassette: Cassette, spec: Spec, place: Place) -> None:
        self._make = make
        self._cassette = cassette
        self._spec = spec
        self._place = place
        self._shaken: list[tuple[Any, dict[str, Any]]] = []
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._quiet: set[str] = set()
        self._owner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Any] | None = None
        self._take: Take | None = None
        self.deliver: Callable[[Any], None] = lambda item: None

    def remember(self, item: Any, message: dict[str, Any]) -> None:
        """Keep what belongs to the handshake, for the server."""
        if self._owner is None and message.get("method") in _HANDSHAKE:
            self._shaken.append((item, message))

    async def send(self, item: Any, message: dict[str, Any]) -> None:
        """Pass on a notification or an answer, if the server was reached already."""
        if self._take is not None and self._ready is not None and self._ready.done():
            await self._pass(item, message)

    async def ask(self, item: Any, message: dict[str, Any]) -> None:
        """Pass on a request; return when it was answered, and the client has the answer.

        Raises:
            CassetteError: The server cannot be reached.
        """
        if self._owner is None:
            await self._open()
        assert self._ready is not None
        await asyncio.shield(self._ready)
        await self._asked(item, message)

    async def close(self) -> None:
        """End the session with the server."""
        if self._owner is not None and not self._owner.done():
            self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=10.0)

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        connected: asyncio.Future[Any] = loop.create_future()
        self._ready = loop.create_future()
        self._owner = loop.create_task(self._own(connected), name=f"mcp_magic cassette {self._place.name}")
        problem: Exception | None = None
        try:
            self._write = await connected
            self._take = Take(self._cassette, self._place.name, self._spec, self._place.wire, added=True)
            for item, message in self._shaken:
                if "id" in message:
                    self._quiet.add(str(message["id"]))
                    await self._asked(item, message)
                else:
                    await self._pass(item, message)
            self._ready.set_result(None)
        except Exception as error:
            problem = connect_error(error, self._place)
        if problem is not None:
            failed = CassetteError(f"it is not in the cassette, and the server cannot be asked: {problem}")
            self._ready.set_exception(failed)

    async def _own(self, connected: asyncio.Future[Any]) -> None:
        """Hold the transport: it has to be left by the task that entered it."""
        failure: BaseException = EOFError("the server ended the session")
        try:
            async with self._make() as (read, write):
                connected.set_result(write)
                async for item in read:
                    self._came(item)
        except Exception as error:
            failure = error
        for waiting in (connected, *self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(failure)

    async def _asked(self, item: Any, message: dict[str, Any]) -> None:
        number = str(message["id"])
        self._waiting[number] = answered = asyncio.get_running_loop().create_future()
        try:
            await self._pass(item, message)
            await answered
        finally:
            self._waiting.pop(number, None)

    async def _pass(self, item: Any, message: dict[str, Any]) -> None:
        assert self._take is not None
        self._take.message(OUT, message)
        await self._write.send(item)

    def _came(self, item: Any) -> None:
        if isinstance(item, Exception) or self._take is None:
            return
        message = members(item.message)
        self._take.message(IN, message)
        number = str(message.get("id"))
        if "method" in message or number not in self._quiet:
            self.deliver(item)
        waiting = self._waiting.get(number) if "method" not in message else None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
