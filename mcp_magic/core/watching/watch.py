"""A resource that is watched: read again whenever its server says that it changed, or every so often."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from mcp_magic.core.updates import Ticks
from mcp_magic.core.watching.text import watch_parts
from mcp_magic.errors import MCPMagicError
from mcp_magic.results.diff import Line, json_diff, shown, text_diff
from mcp_magic.results.parts import bundle, only

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from mcp_magic.core.host import Host
    from mcp_magic.core.updates import Subscription, Update
    from mcp_magic.results import ResourceResult

__all__ = ["Watch"]

INTERVAL = 0.2
"""Seconds between two readings at least: many updates a second become one."""

SHARE = 4
"""A reading is followed by a pause of so many times as long as it took: large resources are read less often."""

MAX_COMPARED = 1_000_000
"""Characters of a text that is compared with the one before; of a longer one its size is told."""


MISSED = "the subscription was interrupted; what changed meanwhile was not announced"


class Watch:
    """A resource and its updates.

    Attributes:
        server: The server's name.
        uri: The resource.
        every: Seconds between two readings, or None where the server announces changes.
        updates: How many changes were announced, or seen.
        result: What was read last.
        difference: What changed last.
        differed_at: When that was, or None.
        problem: Why the last reading failed, or "".
        began: When it began (`time.time()`).
        changed_at: When the last update came, or None.
        ended: Why it is over, or "".
        seconds: How long it lasted, or None while it goes on.
        note: A line about it, or "".
    """

    def __init__(self, host: Host, server: str, uri: str, every: float | None = None) -> None:
        self.server, self.uri, self.every = server, uri, every
        self.updates = 0
        self.result: ResourceResult | None = None
        self.difference: list[Line] = []
        self.problem = self.ended = self.note = ""
        self.began = time.time()
        self.changed_at: float | None = None
        self.differed_at: float | None = None
        self.seconds: float | None = None
        self._started = time.monotonic()
        self._host = host
        self._source: Subscription | Ticks | None = None
        self._work: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Subscribe, and read for the first time.

        Raises:
            NotOfferedError: The server announces no changes.
            SessionError: The server refused, or the session failed.
        """
        connection = self._host[self.server]
        self._source = Ticks(self.every) if self.every is not None else await connection.subscribe(self.uri)
        try:
            self.result = await connection.read(self.uri)
        except BaseException:
            self._source.close()
            raise

    async def follow(
        self, changed: Callable[[], None], *, seconds: float | None = None, count: int | None = None
    ) -> None:
        """Read again at each update, until `stop`, or the server is disconnected.

        Args:
            changed: Called after each reading that has something new, and at the end.
            seconds: How long at most.
            count: After how many updates it is enough.
        """
        assert self._source is not None, "it is opened first"
        self._work = work = asyncio.create_task(self._follow(self._source, changed, count))
        try:
            await asyncio.wait({work}, timeout=seconds)
            if not work.done():
                self._end("the time is up")
        finally:
            self._source.close()
            work.cancel()
            await asyncio.wait({work})
            self._end("interrupted")
            changed()

    def stop(self, why: str = "stopped") -> None:
        """Watch no more. Stopping twice is fine."""
        self._end(why)
        if self._source is not None:
            self._source.close()
        if self._work is not None:
            self._work.cancel()

    def _end(self, why: str) -> None:
        if not self.ended:
            self.ended, self.seconds = why, time.monotonic() - self._started

    async def _follow(self, source: Subscription | Ticks, changed: Callable[[], None], count: int | None) -> None:
        async for update in source:
            started = time.monotonic()
            if await self._take(update):
                changed()
            if count is not None and self.updates >= count:
                self._end(f"{count:,} updates have come" if count > 1 else "an update has come")
                return
            await asyncio.sleep(max(INTERVAL, SHARE * (time.monotonic() - started)))
        self._end("the server was disconnected")

    async def _take(self, update: Update) -> bool:
        """Read again; return whether there is something new to be seen."""
        before, had = self.result, self.problem
        try:
            self.result = await self._host[self.server].read(self.uri)
            self.problem = ""
        except MCPMagicError as error:
            self.problem = str(error)
        differs = self.result is not before and _differs(before, self.result)
        self.note = MISSED if update.missed else ""
        self.updates += update.changes or differs
        if update.changes or differs:
            self.changed_at = update.time
        if differs:  # an update that brings nothing new leaves the last difference in sight
            self.difference, self.differed_at = difference(before, self.result), update.time
        return bool(update.changes) or differs or update.missed or self.problem != had

    @property
    def how(self) -> str:
        """How changes are noticed."""
        return "subscribed" if self.every is None else f"every {self.every:g} s"

    def __repr__(self) -> str:
        state = self.ended or "watching"
        return f"<Watch {self.uri} of {self.server}: {self.updates:,} updates, {state}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return only(self.bundle(), include, exclude)

    def bundle(self) -> dict[str, Any]:
        """Return what is displayed, by MIME type."""
        return bundle(watch_parts(self))


def _differs(before: ResourceResult | None, after: ResourceResult | None) -> bool:
    if before is None or after is None:
        return before is not after
    return before.contents != after.contents


def difference(before: ResourceResult | None, after: ResourceResult | None) -> list[Line]:
    """Return how what was read differs from what was read before, short enough to be shown."""
    old, new = (_comparable(result) for result in (before, after))
    if isinstance(old, str) and isinstance(new, str):
        if max(len(old), len(new)) > MAX_COMPARED:
            return [Line("@", f"{len(old):,} characters became {len(new):,}")]
        return shown(text_diff(old, new))
    if isinstance(old, dict | list) and type(old) is type(new):
        return shown(json_diff(old, new))
    return [Line("@", f"{_size(before)} became {_size(after)}")]


def _comparable(result: ResourceResult | None) -> Any:
    """Return an object or an array, if that is what there is, else a text, if there is just one."""
    if result is None or len(result.contents) != 1 or len(result.texts) != 1:
        return None
    if len(result.texts[0]) > MAX_COMPARED:
        return result.texts[0]
    return result.data if isinstance(result.data, dict | list) else result.texts[0]


def _size(result: ResourceResult | None) -> str:
    if result is None:
        return "nothing"
    sizes = [len(getattr(c, "text", None) or getattr(c, "blob", None) or "") for c in result.contents]
    many = f"{len(sizes):,} contents, " if len(sizes) != 1 else ""
    return f"{many}{sum(sizes):,} characters"
