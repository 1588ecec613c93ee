"""The loop of the kernel, for requests that another thread serves: they wait while a cell computes, with a bound.

`loops.run_on` is for code that may be what the loop waits for, so it gives up soon. A client of the kernel is a program
of its own: it is told that the kernel is busy, and waits longer.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from mcp_magic._text import duration
from mcp_magic.errors import SessionError
from mcp_magic.loops import running_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

PATIENCE_SECONDS = 60.0  # seconds that a request waits for a kernel that runs a cell

PULSE_SECONDS = 0.25  # seconds after which a request looks again whether the kernel comes round

_ENDED = "the kernel has ended or restarts. Nothing was called; connect again."
_CUT = "the kernel has ended or restarts. What was called may have run; connect again."


class BusyError(SessionError):
    """The kernel has not come round to a request in time; nothing was done, and nothing will be."""


class Kernel:
    """Runs work on the loop of the kernel.

    Args:
        loop: The loop; None for the one that first runs work.
        patience: Returns the seconds after which work that has not begun is given up.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop | None, patience: Callable[[], float] = lambda: PATIENCE_SECONDS
    ) -> None:
        self.loop = loop
        self._patience = patience

    async def run(
        self, work: Callable[[], Coroutine[None, None, T]], waits: Callable[[float], None] = lambda seconds: None
    ) -> T:
        """Await work on the kernel's loop. Where the awaiting task is cancelled, the work is, or it never begins.

        `waits` is called again and again with the seconds for which the kernel has not come round.

        Raises:
            BusyError: The work has not begun in time, and does not.
            SessionError: The kernel has ended.
        """
        here = running_loop()
        if self.loop is None:
            self.loop = here
        loop = self.loop
        if loop is None or loop is here:
            return await work()
        turn = _Turn(work, loop)
        try:
            loop.call_soon_threadsafe(turn.begin)
        except RuntimeError:
            raise SessionError(_ENDED) from None
        answer, started = asyncio.wrap_future(turn.answer), time.monotonic()
        try:
            while not (await asyncio.wait({answer}, timeout=PULSE_SECONDS))[0]:
                if loop.is_closed():
                    raise SessionError(_ENDED if turn.withdraw() else _CUT)
                if turn.has_begun:
                    continue
                seconds, patience = time.monotonic() - started, self._patience()
                waits(seconds)
                if seconds >= patience and turn.withdraw():
                    raise BusyError(
                        f"the kernel has been running a cell for {duration(round(seconds))}. Nothing was called, and "
                        "nothing will be: call again when it is free, or ask the person to interrupt the cell."
                    )
            return answer.result()
        finally:
            turn.cancel()


class _Turn(Generic[T]):
    """Work that the kernel's loop begins once it comes round, unless it was withdrawn before."""

    def __init__(self, work: Callable[[], Coroutine[None, None, T]], loop: asyncio.AbstractEventLoop) -> None:
        self.answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._work = work
        self._loop = loop
        self._claim: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._task: asyncio.Task[T] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the loop has come round."""
        return self._claim.running()

    def begin(self) -> None:
        """Begin the work: the loop calls it."""
        if self._claim.set_running_or_notify_cancel():
            self._task = self._loop.create_task(self._work(), name="mcp_magic outside")
            self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        if self.answer.done():
            return
        if task.cancelled():
            self.answer.set_exception(SessionError("it was cancelled in the kernel."))
        elif (error := task.exception()) is None:
            self.answer.set_result(task.result())
        elif isinstance(error, Exception):
            self.answer.set_exception(error)
        else:  # Interrupt, or the end of the kernel
            self.answer.set_exception(SessionError("it was interrupted in the kernel."))

    def withdraw(self) -> bool:
        """Let the work not begin any more; False if it has begun."""
        return self._claim.cancelled() or self._claim.cancel()

    def cancel(self) -> None:
        """Cancel the work unless it is done."""
        if self.withdraw() or self.answer.done() or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
