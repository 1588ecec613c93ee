"""A call that waits for its answer: its clock, the cell that made it, and what its server asks meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Iterator

    from mcp_magic.core.elicitation import Elicitor

__all__ = ["CallUnderWay", "caused_by", "person_asked"]

T = TypeVar("T")

_current: ContextVar[CallUnderWay | None] = ContextVar("mcp_magic_call", default=None)


class CallUnderWay:
    """A request that may make the server ask something.

    Args:
        seconds: How long it may take, without the time in which a person is asked; None for as long as it takes.
        elicitor: Who answers what the server asks for during this call, instead of the host's.

    Attributes:
        ended: Whether it has its answer, or nobody waits for one any more.
    """

    def __init__(self, seconds: float | None = None, elicitor: Elicitor | None = None) -> None:
        self.elicitor = elicitor
        self.ended = False
        self._seconds = seconds
        self._context = copy_context()
        self._limit: asyncio.Timeout | None = None
        self._asking = 0
        self._left = 0.0
        self._questions: set[asyncio.Task[Any]] = set()

    async def wait(self, sending: Awaitable[T], calls: list[CallUnderWay]) -> T:
        """Wait for the answer, as one of `calls` meanwhile; then what is still asked is asked no more.

        Raises:
            TimeoutError: The time is up.
        """
        token = _current.set(self)
        calls.append(self)
        self.ended = False
        try:
            async with asyncio.timeout(self._seconds) as self._limit:
                return await sending
        finally:
            self.ended, self._limit = True, None
            calls.remove(self)
            _current.reset(token)
            for question in self._questions:
                question.cancel()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock. Several may ask at the same time: it goes on when the last of them is done."""
        loop = asyncio.get_running_loop()
        when = self._limit.when() if self._limit is not None else None
        if self._asking == 0 and when is not None:
            self._left = max(when - loop.time(), 0.0)
            self._set_limit(None)
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if self._asking == 0 and self._seconds is not None:
                self._set_limit(loop.time() + self._left)

    def _set_limit(self, when: float | None) -> None:
        if self._limit is not None:
            with suppress(RuntimeError):  # the time is up already
                self._limit.reschedule(when)

    def ask(self, question: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start what asks the person, in the context of whoever made the call: it appears below their cell."""
        task = asyncio.get_running_loop().create_task(question, context=self._context.copy())
        self._questions.add(task)
        task.add_done_callback(self._questions.discard)
        return task


@contextmanager
def person_asked() -> Iterator[None]:
    """Stop the clock of the call in whose context this runs, if there is one: for a log-in in the course of a call."""
    call = _current.get()
    if call is None or call.ended:
        yield
        return
    with call.paused():
        yield


def caused_by(calls: list[CallUnderWay]) -> CallUnderWay | None:
    """Return the call that made a server ask.

    An `input_required` round runs in the task of its call. A request of the handshake era does not say what it
    belongs to: it is taken to be the call that was sent last.
    """
    current = _current.get()
    if current is not None and current in calls:
        return current
    return calls[-1] if calls else None
