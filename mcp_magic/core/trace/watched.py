"""A transport and its read stream, watched: when the server ends it, and what in it is no message."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mcp_magic.core.eras import assume_complete
from mcp_magic.core.malformed import SpreadOut, instead_of, log_line, refusal_of, stand_in_line, unread_text
from mcp_magic.core.outcome import current
from mcp_magic.core.strays import TOLD, Strays
from mcp_magic.core.trace.streams import TracedWrite, Wrapped, members
from mcp_magic.core.trace.trace import IN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from mcp_magic.core.negotiation import Probe
    from mcp_magic.core.wire import Wire

__all__ = ["Watched"]


REFUSALS = 100
"""Requests of a server that are refused at once because they cannot be read; it may send many and read no answer."""

LOOK_SECONDS = 0.05
"""Seconds between two looks at a process that has not answered the probe."""


class Watched:
    """A transport whose read stream says when the server ended it and what in it was no message.

    The SDK settles the pending requests then but tells nobody else, so a dead server would look
    alive until the next call.
    """

    def __init__(self, transport: Any, wire: Wire) -> None:
        self.transport = transport
        self._wire = wire

    async def __aenter__(self) -> tuple[Any, Any]:
        read, write = await self.transport.__aenter__()
        strays = Strays(self._wire.strayed, self._wire.recorder.hide)
        writes = WatchedWrite(write, self._wire, strays)
        return WatchedStream(read, self._wire, strays, writes.send), writes

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        leave: bool | None = await self.transport.__aexit__(exc_type, exc, traceback)
        return leave


class WatchedWrite(TracedWrite):
    def __init__(self, stream: Any, wire: Wire, strays: Strays) -> None:
        super().__init__(stream, wire.recorder)
        self._strays = strays
        self._probe: Probe | None = wire.probe

    async def send(self, item: Any) -> None:
        self._strays.sent(item.message)
        if self._probe is not None:
            self._probe.asked(item.message)
            self._probe = self._probe if self._probe.unanswered else None
        fields = item.message.__dict__
        if "method" in fields and "id" in fields:
            await super().send(item)
            return
        token = current.set(None)  # how a notification or an answer is taken says nothing of the request it is about
        try:
            await super().send(item)
        finally:
            current.reset(token)


class WatchedStream(Wrapped):
    """What the server says.

    Args:
        stream: What the transport reads.
        wire: Where it comes from.
        strays: Told of each message.
        answer: Sends a message to the server.
    """

    def __init__(self, stream: Any, wire: Wire, strays: Strays, answer: Callable[[Any], Awaitable[None]]) -> None:
        super().__init__(stream)
        self._wire = wire
        self._answer = answer
        self._answering: set[asyncio.Task[None]] = set()
        self._unreadable = 0
        self._spread = SpreadOut()
        self._strays = strays
        self._next = self._first
        self._reading: asyncio.Future[Any] | None = None
        self._stand_in: Any = None

    def __aiter__(self) -> WatchedStream:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._next()
        except StopAsyncIteration:
            if self._wire.keeper is not None:  # nobody is leaving it
                self._wire.recorder.ended()
            self._wire.ended()
            raise
        return item if item is self._stand_in else self._noted(item)

    async def _first(self) -> Any:
        """Return the next message until the probe is answered, or what stands in for the answer."""
        probe = self._wire.probe
        while self._reading is not None or probe.watched:
            self._reading = self._reading or asyncio.ensure_future(self._stream.__anext__())
            try:
                await asyncio.wait({self._reading}, timeout=LOOK_SECONDS if probe.watched else None)
            except asyncio.CancelledError:
                self._reading.cancel()
                raise
            if self._reading.done():
                reading, self._reading = self._reading, None
                item = reading.result()
                break
            if (item := probe.refusal()) is not None:
                self._stand_in = item
                self._wire.recorder.message(IN, members(item.message))
                return item
        else:
            item = await self._stream.__anext__()
        if not isinstance(item, Exception):
            probe.came(item.message)
        if not probe.unanswered and self._reading is None:
            self._next = self._stream.__anext__
        return item

    def _noted(self, item: Any) -> Any:
        """Note what came, and return what the session is to see of it."""
        if not isinstance(item, Exception):
            self._wire.recorder.message(IN, members(item.message))
            if self._wire.modern:
                assume_complete(item.message)
            self._log(stand_in_line(item.message))
            return self._strays.came(item.message, self._stream) or item
        text = unread_text(item)
        instead = instead_of(item) or self._spread.took(text)
        if instead is None:
            instead = self._strays.unreadable(item, self._stream)
        else:
            instead = self._strays.came(instead.message, self._stream) or instead
        self._wire.recorder.garbage(text, members(instead.message) if instead is not None else None)
        self._wire.wrote_garbage(text)
        self._log(log_line(item, self._wire.recorder.hide))
        if (refusal := refusal_of(item)) is not None and len(self._answering) < REFUSALS:
            # Not awaited: a server that reads nothing before it has written all would wait for us, and we for it.
            task = asyncio.ensure_future(self._refuse(refusal))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        return instead or item

    def _log(self, said: str) -> None:
        if said and self._unreadable < TOLD:
            self._unreadable += 1
            self._wire.warn(said)

    async def _refuse(self, refusal: Any) -> None:
        from anyio import BrokenResourceError, ClosedResourceError

        with suppress(BrokenResourceError, ClosedResourceError):
            await self._answer(refusal)

    async def receive(self) -> Any:
        return self._noted(await self._stream.receive())
