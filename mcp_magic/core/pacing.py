"""How often something may happen within a minute, and how many of it at once."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp_magic.browser import IN_BROWSER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

__all__ = ["Pace", "Turns", "most_at_once"]

SECONDS = 60.0

MOST_AT_ONCE = 400
"""Calls of one session that are made at once over HTTP, where each holds a connection, and so a file descriptor, until
it is answered. On Windows a kernel's loop watches 512 sockets at most, and most systems let a process open 1,024 files.
"""

TELL_SECONDS = 1.0
"""Seconds that a call waits for its turn before the person is told."""


class Pace:
    """Counts what happens.

    >>> pace = Pace()
    >>> [pace.allows(2) for _ in range(3)]
    [True, True, False]
    """

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    def allows(self, most: int) -> bool:
        """Whether it may happen once more, when it may happen `most` times within a minute; if so it counts."""
        now = time.monotonic()
        while self._times and now - self._times[0] > SECONDS:
            self._times.popleft()
        if len(self._times) >= most:
            return False
        self._times.append(now)
        return True


class Turns:
    """Lets so many go on at once; the others wait, and go on in the order in which they came.

    Args:
        most: How many.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._free = asyncio.Semaphore(most)
        self._waiting = 0
        self._told = False

    @asynccontextmanager
    async def taken(self, tell: Callable[[int, int], None]) -> AsyncIterator[None]:
        """Wait for a turn and have it.

        Args:
            tell: Called with how many have a turn and how many wait, if this waits for a second; only once as long as
                there are some that wait.
        """
        if self._free.locked():
            await self._wait(tell)
        else:
            await self._free.acquire()
        try:
            yield
        finally:
            self._free.release()

    async def _wait(self, tell: Callable[[int, int], None]) -> None:
        self._waiting += 1
        telling = asyncio.get_running_loop().call_later(TELL_SECONDS, self._tell, tell)
        try:
            await self._free.acquire()
        finally:
            telling.cancel()
            self._waiting -= 1
            self._told = self._told and self._waiting > 0

    def _tell(self, tell: Callable[[int, int], None]) -> None:
        if not self._told:
            self._told = True
            tell(self._most, self._waiting)


def most_at_once() -> int:
    """Return how many calls a session makes at once; the other half of the files that may be open are for all else."""
    if IN_BROWSER:  # there are no files to run out of
        return MOST_AT_ONCE
    try:
        import resource
    except ImportError:  # Windows
        return MOST_AT_ONCE
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_AT_ONCE if files == resource.RLIM_INFINITY else max(1, min(MOST_AT_ONCE, files // 2))
