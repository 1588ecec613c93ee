"""Watches of resources and logs, and the display of their changes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._text import duration, plural
from mcp_magic.display.diff import Line, diff_part, diff_text, first_lines, json_diff, text_diff
from mcp_magic.display.document import Bold, Part, error_label, joined, show_parts, tag
from mcp_magic.display.text import one_line, shorten
from mcp_magic.errors import MCPMagicError
from mcp_magic.flight.progress import Stopwatch
from mcp_magic.protocol import LogMessage, log_text
from mcp_magic.session.subscriptions import Update
from mcp_magic.stderr import Lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable
    from types import TracebackType

    from mcp_magic._host import Host
    from mcp_magic.results.results import ResourceResult
    from mcp_magic.session.connection import Connection
    from mcp_magic.session.subscriptions import Subscription
    from mcp_magic.stderr import ErrorLog

__all__ = ["STDERR", "LogFollower", "Watch", "status_text", "update_line"]


# The display of a watched resource: the last change, its time, and the contents.


def status_text(watch: Watch) -> str:
    """Return one line: the number of updates, the time of the last one, and whether the watch goes on."""
    count = plural(watch.updates, "updates")
    last = f", the last at {_clock(watch.changed_at)}" if watch.changed_at is not None else ""
    if watch.ended:
        return f"{count}{last}; watched for {duration(watch.seconds or 0.0)}: {watch.ended}"
    return f"{count}{last}; {watch.how} since {_clock(watch.began)}"


def update_line(watch: Watch) -> str:
    """Return an update as lines for a terminal: its number, and the difference or why the read failed."""
    head = f"{_clock(watch.changed_at or time.time())} {one_line(watch.uri, 200)}: update {watch.updates:,}"
    if watch.problem:
        return f"{head}, not read: {shorten(watch.problem, 500)}"
    news = watch.differed_at == watch.changed_at and watch.difference
    text = diff_text(watch.difference, "  ") if news else "  (no difference)"
    return "\n".join([head, *([f"  {watch.note}"] if watch.note else []), text])


def _clock(when: float | None) -> str:
    return time.strftime("%H:%M:%S", time.localtime(when))


# A watched resource: read again when its server announces a change, or at intervals.

INTERVAL = 0.2  # shortest interval between two reads in seconds: many updates within it become one
SHARE = 4  # factor of the pause after a read to the duration of the read, so that large resources are read less often

MAX_COMPARED = 1_000_000
"""Most characters of a text that is compared with the one before; for a longer text only the size is shown."""


MISSED = "the subscription was interrupted; changes in the meantime were not announced"


class Difference(NamedTuple):
    """What changed between two reads, and when (`time.time()`)."""

    lines: list[Line]
    time: float | None


class Watch:
    """A watched resource and its updates.

    Attributes:
        every: Interval between two reads in seconds, or None if the server announces changes.
        updates: How many changes were announced or found.
        result: The result of the last read that succeeded.
        problem: Why the last read failed, or "".
        ended: Why it ended, or "".
        note: A remark about the last update, or "".
    """

    def __init__(self, host: Host, server: str, uri: str, every: float | None = None) -> None:
        self.server, self.uri, self.every = server, uri, every
        self.updates = 0
        self.result: ResourceResult | None = None
        self.problem = self.ended = self.note = ""
        self.changed_at: float | None = None
        self._difference = Difference([], None)
        self._stopwatch = Stopwatch()
        self._host = host
        self._source: Subscription | None = None
        self._work: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Subscribe, and read for the first time; raise NotOfferedError if the server announces no changes."""
        connection = self._host[self.server]
        if self.every is None:
            self._source = await connection.subscribe(self.uri)
        try:
            self.result = await connection.read(self.uri, refresh=True)
        except BaseException:
            self._close()
            raise

    async def follow(
        self, on_change: Callable[[], None], *, seconds: float | None = None, count: int | None = None
    ) -> None:
        """Read again at each update, until `stop()`, `seconds`, `count` updates or the end of the connection.

        `on_change` is called after each read that shows something new, and at the end.
        """
        self._work = work = asyncio.create_task(self._follow(self._source or self._ticks(), on_change, count))
        try:
            await asyncio.wait({work}, timeout=seconds)
            if not work.done():
                self._end("the time is up")
            elif not work.cancelled() and (error := work.exception()) is not None:
                self._end(f"{type(error).__name__}: {error}")
        finally:
            self._close()
            work.cancel()
            await asyncio.wait({work})
            self._end("interrupted")
            on_change()

    def stop(self, why: str = "stopped") -> None:
        """End the watch. Idempotent."""
        self._end(why)
        self._close()
        if self._work is not None:
            self._work.cancel()

    def _close(self) -> None:
        if self._source is not None:
            self._source.close()

    async def _ticks(self) -> AsyncIterator[Update]:
        while self.every is not None:
            await asyncio.sleep(self.every)
            yield Update(0, False, time.time())

    def _end(self, why: str) -> None:
        if not self.ended:
            self.ended = why
            self._stopwatch.stop()

    async def _follow(self, source: AsyncIterable[Update], on_change: Callable[[], None], count: int | None) -> None:
        async for update in source:
            started = time.monotonic()
            if await self._take(update):
                on_change()
            if count is not None and self.updates >= count:
                self._end(f"{count:,} updates have come" if count > 1 else "an update has come")
                return
            await asyncio.sleep(max(INTERVAL, SHARE * (time.monotonic() - started)))
        self._end("the server was disconnected")

    async def _take(self, update: Update) -> bool:
        """Read again; return whether there is something new to show."""
        before, had = self.result, self.problem
        try:
            self.result = await self._host[self.server].read(self.uri, refresh=True)
            self.problem = ""
        except MCPMagicError as error:
            self.problem = str(error)
        now = self.result
        differs = now is not before and (before is None or now is None or before.contents != now.contents)
        self.note = MISSED if update.missed else ""
        self.updates += update.changes or differs
        if update.changes or differs:
            self.changed_at = update.time
        if differs:  # an update without a difference keeps the last difference on display
            self._difference = Difference(compare(before, self.result), update.time)
        return bool(update.changes) or differs or update.missed or self.problem != had

    @property
    def difference(self) -> list[Line]:
        """The last difference between two reads."""
        return self._difference.lines

    @property
    def differed_at(self) -> float | None:
        """When that difference was announced or found; None before the first."""
        return self._difference.time

    @property
    def began(self) -> float:
        """When it began (`time.time()`)."""
        return self._stopwatch.began

    @property
    def seconds(self) -> float | None:
        """How long it lasted, or None while it goes on."""
        return self._stopwatch.seconds if self.ended else None

    @property
    def how(self) -> str:
        """How changes are noticed."""
        return "subscribed" if self.every is None else f"every {self.every:g} s"

    def __repr__(self) -> str:
        state = self.ended or "watching"
        return f"<Watch {self.uri} of {self.server}: {self.updates:,} updates, {state}>"

    _repr_mimebundle_ = bundle = show_parts

    def parts(self) -> list[Part]:
        """Return the parts to display: heading, problem, difference and contents."""
        sign = "○" if self.ended else "●"
        uri = Bold(one_line(self.uri, 200))
        heading = Part.line(f"{sign} ", uri, f" of {self.server}: {status_text(self)}")
        parts = [Part.stack(heading, Part.note(self.note))]
        if self.problem:
            text = shorten(self.problem, 500)
            markup = tag("p", joined([error_label("not read"), " ", text]))
            parts.append(Part(f"the last read failed: {text}", markup))
        if self.difference:
            label = f"changes at {_clock(self.differed_at)}"
            parts.append(diff_part(self.difference).folded(label, opened=True))
        if self.result is not None:
            parts += self.result.parts()
        return parts


def compare(before: ResourceResult | None, after: ResourceResult | None) -> list[Line]:
    """Return the difference between two reads, short enough to show."""
    old, new = (_comparable(result) for result in (before, after))
    if isinstance(old, str) and isinstance(new, str):
        if max(len(old), len(new)) > MAX_COMPARED:
            return [Line("@", f"{len(old):,} characters became {len(new):,}")]
        return first_lines(text_diff(old, new))
    if isinstance(old, dict | list) and type(old) is type(new):
        return first_lines(json_diff(old, new))
    return [Line("@", f"{_size(before)} became {_size(after)}")]


def _comparable(result: ResourceResult | None) -> Any:
    """Return JSON data if it is an object or array, else the text; None unless there is exactly one text."""
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


# New log messages and stderr lines of a server, across reopened sessions.

STDERR = "stderr"  # the logger name of a stderr line
POLL_SECONDS = 0.2  # interval in seconds at which stderr is read: it is a file, which gives no notice when it grows
WAITING = 1000  # most new lines that wait to be taken; beyond that the oldest are dropped


class LogFollower:
    """A context that collects the new log messages and stderr lines of a server, secrets masked.

    `current` returns the present connection, or None if it is gone.
    """

    def __init__(self, current: Callable[[], Connection | None]) -> None:
        self._current = current
        self._connection: Connection | None = None
        self._errlog: ErrorLog | None = None
        self._lines: Lines | None = None
        self._new: deque[LogMessage] = deque(maxlen=WAITING)
        self._woken = asyncio.Event()

    def __enter__(self) -> LogFollower:
        self._attend()
        if self._lines is not None:
            for _ in self._lines.read():
                pass  # skips earlier lines
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave()

    async def take(self) -> list[LogMessage] | None:
        """Wait briefly for something new and return it; None if the connection is gone and all is taken."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._woken.wait()
        self._woken.clear()
        if self._lines is not None and self._connection is not None:
            for time, line in self._lines.read():
                self._new.append(LogMessage(time, "", STDERR, self._connection.trace.masked(line)))
        self._attend()
        new = list(self._new)
        self._new.clear()
        return new if new or self._connection is not None else None

    def _attend(self) -> None:
        connection = self._current()
        if connection is not self._connection:
            self._leave()
            self._connection = connection
            if connection is not None:
                connection.notices.logs.watchers.append(self._logged)
        errlog = connection.place.errlog if connection is not None else None
        if errlog is not self._errlog:
            self._errlog = errlog
            self._lines = Lines(errlog) if errlog is not None else None

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.notices.logs.watchers.remove(self._logged)
        self._connection = None

    def _logged(self, message: LogMessage) -> None:
        assert self._connection is not None
        text = log_text(message.data, self._connection.trace.masked)
        self._new.append(LogMessage(message.time, message.level, message.logger, text))
        self._woken.set()
