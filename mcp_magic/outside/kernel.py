"""The loop of the kernel, for requests that another thread serves: they wait while a cell computes, with a bound.

`loops.run_on` is for code that may be what the loop waits for, so it gives up soon. A client of the kernel is a program
of its own: it is told that the kernel is busy, and waits longer.
"""

from __future__ import annotations

import concurrent.futures
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mcp_magic._text import duration
from mcp_magic.errors import SessionError
from mcp_magic.loops import running_loop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    Work = Callable[[], Coroutine[Any, Any, Any]]

PATIENCE_SECONDS = 60.0  # seconds that a request waits for a kernel that runs a cell

_NOT_CALLED = "the kernel has ended or restarts. Nothing was called; connect again."
_MAY_HAVE_RUN = "the kernel has ended or restarts. What was called may have run; connect again."


class BusyError(SessionError):
    """The kernel has not come round to a request in time; nothing was done, and nothing will be."""


class Kernel:
    """Runs work on the loop of the kernel.

    Args:
        loop: Returns the loop, or None before there is one: then it is the one that made this object, or first begins
            work.
        patience: Seconds after which work that has not begun is given up.
    """

    def __init__(
        self,
        loop: Callable[[], asyncio.AbstractEventLoop | None] = lambda: None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._find_loop = loop
        self._first = running_loop()
        self._patience = patience

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop, or None before there is one."""
        return self._find_loop() or self._first

    def begin(self, work: Work, end: Callable[[Turn], None]) -> Turn:
        """Let the loop begin work as soon as it comes round; `end` is called there when it has ended.

        Raises:
            SessionError: The kernel has ended.
        """
        here = running_loop()
        if self._first is None:
            self._first = here
        loop = self.loop
        assert loop is not None
        turn = Turn(work, loop, end, self._patience)
        if loop is here:
            turn.begin()
            return turn
        try:
            loop.call_soon_threadsafe(turn.begin)
        except RuntimeError:
            raise SessionError(_NOT_CALLED) from None
        return turn


class Turn:
    """Work that the kernel's loop begins once it comes round, unless it was withdrawn before."""

    def __init__(
        self,
        work: Work,
        loop: asyncio.AbstractEventLoop,
        end: Callable[[Turn], None],
        patience: float,
    ) -> None:
        self._work = work
        self._loop = loop
        self._end = end
        self._patience = patience
        self._since = time.monotonic()
        self._claim: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._task: asyncio.Task[Any] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the loop has come round."""
        return self._claim.running()

    def begin(self) -> None:
        """Begin the work: the loop calls it."""
        if self._claim.set_running_or_notify_cancel():
            self._task = self._loop.create_task(self._work(), name="mcp_magic outside")
            self._task.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # retrieved: the request may be over
        self._end(self)

    def check(self) -> None:
        """Give up if the work cannot begin, or has not begun in time.

        Raises:
            BusyError: It has not begun, and does not.
            SessionError: The kernel has ended.
        """
        if self._loop.is_closed():
            raise SessionError(_NOT_CALLED if self._withdraw() else _MAY_HAVE_RUN)
        seconds = time.monotonic() - self._since
        if not self.has_begun and seconds >= self._patience and self._withdraw():
            raise BusyError(
                f"the kernel has been running a cell for {duration(round(seconds))}. Nothing was called, and "
                "nothing will be: call again when it is free, or ask the person to interrupt the cell."
            )

    def result(self) -> Any:
        """Return what the work has returned, once it has ended; raise what it has raised."""
        task = self._task
        assert task is not None
        if task.cancelled():
            raise SessionError("the call was cancelled in the kernel; it may have run.")
        error = task.exception()
        if error is None or isinstance(error, Exception):
            return task.result()
        raise SessionError("the call was interrupted in the kernel; it may have run.")  # Interrupt, or its end

    def cancel(self) -> None:
        """Cancel the work unless it is done; if it has not begun, it never does. From any thread."""
        if not self._withdraw():
            with suppress(RuntimeError):  # the kernel has ended
                self._loop.call_soon_threadsafe(self._cancel)

    def _withdraw(self) -> bool:
        return self._claim.cancelled() or self._claim.cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
