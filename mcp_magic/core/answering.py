"""Waiting for whoever answers what a server asks in the course of a call: one question after the other."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from weakref import WeakKeyDictionary

from mcp_magic.core.eras import ping
from mcp_magic.core.outcome import current
from mcp_magic.core.underway import CallUnderWay, caused_by
from mcp_magic.wording import counted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator

    from mcp import Client

__all__ = ["NotAskedError", "QuestionQueue", "Unanswered", "answered", "in_time"]

T = TypeVar("T")

EARLY_SECONDS = 0.5
"""Seconds by which whoever asks the person may say before us that the time is up."""

SETTLE_SECONDS = 60.0
"""Seconds that a server has to show that it has no more questions of a call that is over."""

WAIT_SECONDS = 2.0
"""Seconds of them that the next call waits."""


@dataclass(frozen=True)
class Unanswered:
    """Why there is no answer.

    Attributes:
        why: `"late"` (nobody answered in time), `"ended"` (the call has) or `"failed"`.
        error: What failed.
    """

    why: Literal["late", "ended", "failed"]
    error: Exception | None = None


class NotAskedError(Exception):
    """A question is not put to the person; the text says why, for the server too.

    Attributes:
        is_first: Whether it is the first of its kind, which is worth a log message.
    """

    def __init__(self, why: str, *, is_first: bool) -> None:
        super().__init__(why)
        self.is_first = is_first


class QuestionQueue:
    """The questions of one server: they are asked one at a time, and a call may ask a limited number of them.

    Args:
        calls: The calls under way on the session, the latest last.
        limit: Returns how many questions a call may ask.
    """

    def __init__(self, calls: list[CallUnderWay], limit: Callable[[], int]) -> None:
        self._calls = calls
        self._limit = limit
        self._lock = asyncio.Lock()
        self._counts: WeakKeyDictionary[CallUnderWay, int] = WeakKeyDictionary()
        self._outside = 0
        self._settling: asyncio.Task[None] | None = None

    async def wait(self, call: CallUnderWay, client: Client, send: Callable[[], Awaitable[T]]) -> T:
        """Send a call and wait for its answer.

        A server of the handshake era does not say for which call it asks. So after a call that asked and was broken
        off, the server has to answer a ping first: what it asks until then is of the old call, and is not asked.
        """
        if self._settling is not None:
            await asyncio.wait({self._settling}, timeout=WAIT_SECONDS)
        try:
            return await call.wait(send(), self._calls)
        except BaseException:
            if call in self._counts and self._settling is None and client.session.discover_result is None:
                self._settling = asyncio.create_task(self._settle(client), name="mcp_magic questions")
            raise

    async def _settle(self, client: Client) -> None:
        current.set(None)  # it is no part of the request that was broken off
        with suppress(Exception):
            async with asyncio.timeout(SETTLE_SECONDS):
                await ping(client)
        self._settling = None

    @contextmanager
    def asking(self) -> Iterator[CallUnderWay]:
        """Stop the clocks of all calls that may have made the server ask; return the latest of them."""
        found = caused_by(self._calls) if self._settling is None else []
        found = found or [CallUnderWay()]
        with ExitStack() as clocks:
            for call in found:
                clocks.enter_context(call.paused())
            yield found[-1]

    @asynccontextmanager
    async def turn(self, call: CallUnderWay, *, is_new: bool = True) -> AsyncIterator[None]:
        """Wait until the questions before this one are over.

        Questions that belong to no call under way have one limit together, until a call asks.

        Args:
            call: Made the server ask.
            is_new: Whether it counts; False for the second part of a question.

        Raises:
            NotAskedError: The call has asked too much, or it is over.
        """
        if self._settling is not None:
            raise NotAskedError("the call is over", is_first=False)
        if is_new:
            self._count(call)
        async with self._lock:
            yield

    def _count(self, call: CallUnderWay) -> None:
        if call in self._calls:
            self._counts[call] = count = self._counts.get(call, 0) + 1
            self._outside = 0
        else:
            self._outside = count = self._outside + 1
        limit = self._limit()
        if count > limit:
            raise NotAskedError(
                f"the user is asked {counted(limit, 'questions')} in a call at most (max_questions)",
                is_first=count == limit + 1,
            )


async def answered(call: CallUnderWay, question: Coroutine[Any, Any, T]) -> T | Unanswered:
    """Wait for an answer, which is asked for in the context of whoever made the call.

    Args:
        call: Made the server ask; when it ends the question does.
        question: Asks.
    """
    try:
        return await call.ask(question)
    except Exception as error:
        return Unanswered("failed", error)
    except asyncio.CancelledError:
        if not call.ended:
            raise
        return Unanswered("ended")


async def in_time(waiting: Awaitable[T], seconds: float) -> T | Unanswered:
    """Wait for the person or the model, `seconds` at most.

    Raises:
        TimeoutError: It was something else that took too long.
    """
    started = time.perf_counter()
    try:
        async with asyncio.timeout(seconds):
            return await waiting
    except TimeoutError:
        if time.perf_counter() - started < seconds - EARLY_SECONDS:
            raise
    return Unanswered("late")
