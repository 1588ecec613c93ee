"""The events of sessions, as values: states, listings, resources, jobs and apps."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakSet

from mcp_magic.loops import News

if TYPE_CHECKING:
    import asyncio

MAX_UNDER_WAY = 1_000  # most things under way that are remembered, so that a server cannot fill the memory

WAITING = 1_000  # most events that wait to be taken from an `EventStream`; beyond that the oldest are dropped


@dataclass(frozen=True)
class SessionEvent:
    """Something that has happened in a session.

    Attributes:
        server: The connection's name.
        kind: `"session"`, `"listing"`, `"resource"`, `"job"` or `"app"`.
        name: What it is about: `"tools"` or another listing, a URI, the name of a job or an app; "" for the session.
        text: What has happened: the session's new state, `"changed"`, the status of a job.
        ended: Whether nothing more will happen to it.
        time: When (`time.time()`).
    """

    server: str
    kind: str
    name: str
    text: str
    ended: bool
    time: float


class EventStream:
    """The events from now on, as an asynchronous iterator that ends when the server is disconnected."""

    def __init__(self, server: str, loop: asyncio.AbstractEventLoop | None) -> None:
        self.server = server
        self._new: deque[SessionEvent] = deque(maxlen=WAITING)
        self._news = News(loop)  # the one on which the events happen
        self._ended = False

    def take(self, event: SessionEvent) -> None:
        """Add an event."""
        self._new.append(event)
        self._news.tell()

    def end(self) -> None:
        """End the iterator after the events that wait."""
        self._ended = True
        self._news.tell()

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> SessionEvent:
        # Taken where it is awaited: a wait that is given up on the loop of the events loses none.
        while not self._new:
            if self._ended:
                raise StopAsyncIteration
            await self._news.wait(lambda: bool(self._new) or self._ended)
        return self._new.popleft()


class Events:
    """The events of all sessions of a host, and what is under way in them: jobs and apps."""

    def __init__(self) -> None:
        self._streams: WeakSet[EventStream] = WeakSet()
        self._adding = threading.Lock()  # streams are added on any thread
        self._under_way: dict[tuple[str, str, str], tuple[float, SessionEvent]] = {}

    def publish(self, server: str, kind: str, name: str, text: str, *, ended: bool) -> None:
        """Pass an event on to all streams that follow the server."""
        event = SessionEvent(server, kind, name, text, ended, time.time())
        if kind in ("job", "app"):
            key = (server, kind, name)
            began, _ = self._under_way.pop(key, (event.time, event))
            if not ended:
                self._under_way[key] = (began, event)
                if len(self._under_way) > MAX_UNDER_WAY:
                    del self._under_way[next(iter(self._under_way))]
        for stream in self._of(server):
            stream.take(event)

    def under_way(self) -> list[tuple[float, SessionEvent]]:
        """Return when each job and app that has not ended began, and its latest event."""
        return list(self._under_way.values())

    def follow(self, server: str, loop: asyncio.AbstractEventLoop | None = None) -> EventStream:
        """Return the events of a server, which happen on that loop, from now on."""
        stream = EventStream(server, loop)
        with self._adding:
            self._streams.add(stream)
        return stream

    def _of(self, server: str) -> list[EventStream]:
        with self._adding:
            return [stream for stream in self._streams if stream.server == server]

    def end(self, server: str) -> None:
        """End the streams of a server that was disconnected, and forget what was under way in its session."""
        for stream in self._of(server):
            stream.end()
        self._under_way = {key: value for key, value in self._under_way.items() if key[0] != server}
