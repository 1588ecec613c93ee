"""Deadlines: of a call, which stops while the user is asked, and of a question.

The time-out of a call is a clock of our own, around all its rounds: the SDK's runs on while a server waits for the
user's answer.
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, MCPMagicError, RequestTimeoutError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

T = TypeVar("T")


def check_seconds(where: str, **seconds: Any) -> None:
    """Raise ArgumentsError for a time-out that is not a number above 0; None is no limit.

    >>> check_seconds("math:add", timeout=2.5, max_total_timeout=None)
    >>> check_seconds("math:add", timeout="x")
    Traceback (most recent call last):
    mcp_magic.errors.ArgumentsError: math:add: timeout='x': expected seconds above 0 (timeout=2.5), or None for no limit
    """
    for name, value in seconds.items():
        if value is not None and (isinstance(value, bool) or not (isinstance(value, Real) and float(value) > 0)):
            text = f"{name}={one_line(repr(value), 60)}"
            raise ArgumentsError(f"{where}: {text}: expected seconds above 0 ({name}=2.5), or None for no limit")


RESTART_SECONDS = 0.05  # minimum seconds between two restarts: a server may report a hundred thousand times


class Deadline:
    """The clock of a wait, which it ends. Can be reused after the wait.

    `seconds` limit the answer or the next progress report, `longest` all of it; without pauses. None is no limit.
    """

    def __init__(self, title: str, seconds: float | None, longest: float | None) -> None:
        self._title = title
        self._seconds = math.inf if seconds is None else seconds
        self._longest = math.inf if longest is None else longest
        self.is_limited = seconds is not None or longest is not None
        self._timeout: asyncio.Timeout | None = None
        self._error: MCPMagicError | None = None
        self._latest = 0.0
        self._restarted = -math.inf
        self._is_last = False  # whether the present limit is that of all of it
        self._pauses = 0
        self._rest = self._rest_in_all = 0.0

    async def wait(self, sending: Awaitable[T]) -> T:
        """Await `sending` until the deadline.

        Raises TimeoutError without a progress report, RequestTimeoutError after one, or if the maximum has passed.
        """
        now = asyncio.get_running_loop().time()
        self._restarted, self._error, self._is_last = -math.inf, None, self._longest < self._seconds
        self._latest = now + self._longest
        timeout = asyncio.timeout_at(min(now + self._seconds, self._latest) if self.is_limited else None)
        try:
            async with timeout as self._timeout:
                return await sending
        except TimeoutError:
            if not timeout.expired():
                raise
            if self._error is not None:
                raise self._error from None
            if not self._is_last and self._restarted < 0:
                raise
            if self._is_last:
                problem = f"no answer within {self._longest:g} s in total (--max-total-timeout S waits longer)"
            else:
                problem = f"no progress for {self._seconds:g} s"
            raise RequestTimeoutError(f"{self._title}: timed out: {problem}. The call was cancelled.") from None
        finally:
            self._timeout = None

    def expire(self, error: MCPMagicError) -> None:
        """End the wait with an error."""
        if self._timeout is not None and self._error is None:
            self._set_limit(0)
            self._error = error

    def restart(self) -> None:
        """Restart the deadline: the server has reported progress."""
        if self._timeout is None or not self.is_limited:
            return
        if self._pauses:
            self._rest = min(self._seconds, self._rest_in_all)
            return
        now = asyncio.get_running_loop().time()
        if now - self._restarted >= min(RESTART_SECONDS, self._seconds / 10):
            self._restarted, self._is_last = now, now + self._seconds >= self._latest
            self._set_limit(min(now + self._seconds, self._latest))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock. Can be nested: it goes on when the last context exits."""
        loop = asyncio.get_running_loop()
        when = self._timeout.when() if self._timeout is not None else None
        if self._pauses == 0 and when is not None:
            self._rest = max(when - loop.time(), 0.0)
            self._rest_in_all = max(self._latest - loop.time(), 0.0)
            self._set_limit(None)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0 and self._timeout is not None and self.is_limited:
                self._latest = loop.time() + self._rest_in_all
                self._set_limit(loop.time() + self._rest)

    def _set_limit(self, when: float | None) -> None:
        if self._timeout is not None and self._error is None:
            with suppress(RuntimeError):  # the deadline has passed already
                self._timeout.reschedule(when)


EARLY_SECONDS = 0.5  # seconds by which the time-out of an elicitor may come before that of `in_time`


@dataclass(frozen=True)
class Unanswered:
    """Why a question has no answer: it came too late, its call has ended, or asking failed with `error`."""

    why: Literal["late", "ended", "failed"]
    error: Exception | None = None


_limit: ContextVar[asyncio.Timeout | None] = ContextVar("limit", default=None)


async def in_time(waiting: Awaitable[T], seconds: float) -> T | Unanswered:
    """Wait for the user or the model, at most `seconds`. Raises TimeoutError if something else timed out, earlier."""
    started = time.perf_counter()
    try:
        async with asyncio.timeout(seconds) as limit:
            before = _limit.set(limit)
            try:
                return await waiting
            finally:
                _limit.reset(before)
    except TimeoutError:
        if time.perf_counter() - started < seconds - EARLY_SECONDS:
            raise
    return Unanswered("late")


def is_out_of_time() -> bool:
    """Whether the time of the `in_time` around this wait is up, and not an Interrupt ended the wait."""
    limit = _limit.get()
    return limit is not None and limit.expired()
