"""The log messages and the stderr of a server as they come, over sessions that are opened again."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from mcp_magic.core.loglevels import LogMessage, log_text
from mcp_magic.core.trace.stderr import Lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from mcp_magic.core.connection import Connection
    from mcp_magic.core.errlog import ErrorLog

__all__ = ["STDERR", "LogFollower"]

STDERR = "stderr"
"""What stands as the logger of a line of standard error."""

POLL_SECONDS = 0.2
"""Seconds between two looks at standard error, which is a file, and nobody says when it grows."""

WAITING = 1000
"""New lines that are kept until somebody takes them; of more the last ones."""


class LogFollower:
    """A context in which the new log messages and lines of one server are collected, secrets masked.

    Args:
        current: Returns the connection as it is now, or None when it is gone.
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
                pass  # what was there before
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave()

    async def take(self) -> list[LogMessage] | None:
        """Wait for something new, a moment at most, and return it; None when the connection is gone."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._woken.wait()
        self._woken.clear()
        self._read()
        self._attend()
        new = list(self._new)
        self._new.clear()
        return new if new or self._connection is not None else None

    def _attend(self) -> None:
        """Follow the connection that there is now, and the file that its server writes to."""
        connection = self._current()
        if connection is not self._connection:
            self._leave()
            self._connection = connection
            if connection is not None:
                connection.notices.logs.watchers.append(self._logged)
        errlog = connection.errlog if connection is not None else None
        if errlog is not self._errlog:
            self._errlog = errlog
            self._lines = Lines(errlog) if errlog is not None else None

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.notices.logs.watchers.remove(self._logged)
        self._connection = None

    def _logged(self, message: LogMessage) -> None:
        assert self._connection is not None
        self._new.append(message._replace(data=log_text(message.data, self._connection.trace.hide)))
        self._woken.set()

    def _read(self) -> None:
        if self._lines is not None and self._connection is not None:
            for written, line in self._lines.read():
                self._new.append(LogMessage(written, "", STDERR, self._connection.trace.hide(line)))
