"""The time-out of a call: it stands still while a person is asked, and begins anew when the server reports progress."""

from __future__ import annotations

import asyncio
import math
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from mcp_magic.errors import RequestTimeoutError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

__all__ = ["Clock"]

T = TypeVar("T")

RESTART_SECONDS = 0.05
"""Seconds between two restarts at least: a server may report a hundred thousand times."""


class Clock:
    """Ends a wait. It can be used again when the wait is over.

    Args:
        what: What is waited for, for messages.
        seconds: How long the answer, or the next sign of life, may take; None for as long as it takes.
        most: Seconds that it may take in all, or None; without the time in which the clock stands still, as the others.

    Attributes:
        limited: Whether there is a limit at all.
    """

    def __init__(self, what: str, seconds: float | None, most: float | None) -> None:
        self.limited = seconds is not None or most is not None
        self._what = what
        self._seconds = math.inf if seconds is None else seconds
        self._most = math.inf if most is None else most
        self._limit: asyncio.Timeout | None = None
        self._latest = 0.0
        self._restarted: float | None = None
        self._last = False
        self._pauses = 0
        self._left = self._left_in_all = 0.0

    async def wait(self, sending: Awaitable[T]) -> T:
        """Wait until the time is up.

        Raises:
            TimeoutError: It is, and there was no sign of life.
            RequestTimeoutError: It is, since the last sign of life or in all.
        """
        limit = asyncio.timeout_at(self._begin())
        try:
            async with limit as self._limit:
                return await sending
        except TimeoutError:
            if not limit.expired() or not (self._last or self._restarted is not None):
                raise
        finally:
            self._limit = None
        raise self._too_late()

    def _begin(self) -> float:
        """Return the time of the loop at which the time will be up."""
        now = asyncio.get_running_loop().time()
        self._restarted, self._last = None, self._most < self._seconds
        self._latest = now + self._most
        return min(now + self._seconds, self._latest)

    def _too_late(self) -> RequestTimeoutError:
        if self._last:
            problem = f"still no answer after {self._most:g} s (--max-total-timeout S waits longer)"
        else:
            problem = f"no answer within {self._seconds:g} s of its last report of progress"
        return RequestTimeoutError(f"{self._what}: {problem}; the server has been told that nobody waits.")

    def restart(self) -> None:
        """Give the server its time anew: it has said that it is at work."""
        if self._limit is None:
            return
        if self._pauses:
            self._left = min(self._seconds, self._left_in_all)
            return
        now = asyncio.get_running_loop().time()
        if self._restarted is None or now - self._restarted >= min(RESTART_SECONDS, self._seconds / 10):
            self._restarted, self._last = now, now + self._seconds >= self._latest
            self._set_limit(min(now + self._seconds, self._latest))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock. Several may ask at the same time: it goes on when the last of them is done."""
        loop = asyncio.get_running_loop()
        when = self._limit.when() if self._limit is not None else None
        if self._pauses == 0 and when is not None:
            self._left = max(when - loop.time(), 0.0)
            self._left_in_all = max(self._latest - loop.time(), 0.0)
            self._set_limit(None)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0 and self._limit is not None:
                self._latest = loop.time() + self._left_in_all
                self._set_limit(loop.time() + self._left)

    def _set_limit(self, when: float | None) -> None:
        if self._limit is not None:
            with suppress(RuntimeError):  # the time is up already
                self._limit.reschedule(when)
