"""How Interrupt reaches the magic that runs.

SIGINT cancels the magic's own task, by way of `call_soon_threadsafe`: the kernel's handler schedules a cancellation
without waking the event loop, which may then sleep for seconds, and in terminal IPython Ctrl-C would leave the task
pending and print the loop's insides.

A loop that is busy sees no cancellation: a server's schema can have a pattern that takes years to match. If the loop
has not come round after a moment, or by the next Interrupt, what it is busy with is ended where it stands. A timer of
the system says when: matching a pattern looks for signals, but lets no other thread run.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["Interrupts", "interrupt", "interrupts", "let_end", "until_interrupted"]

BUSY_SECONDS = 0.25
"""Seconds that the loop has to come round before it counts as busy."""

_BUSY_FOR_US = ("mcp_magic.core", "mcp_magic.results", "mcp_magic.schema", "mcp_magic.serving", "jsonschema", "mcp.")
"""Modules whose work may be ended in a task that is not the magic's own."""

_DRAWING = ("mcp_magic.agent.transcript", "mcp_magic.results", "mcp_magic.widgets.board_text")
"""Modules whose work may be ended in no task at all: timers draw."""


class Interrupts:
    """The SIGINT handler while magics run: cancels the latest of their tasks."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []
        self._interrupted: set[asyncio.Task[Any]] = set()
        self._unheard: set[asyncio.Task[Any]] = set()
        self._previous: Any = None

    @contextmanager
    def cancelling(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Let Interrupt cancel a task as long as this lasts."""
        if threading.current_thread() is not threading.main_thread():
            yield  # signals reach the main thread only
            return
        if not self._tasks:
            self._previous = signal.signal(signal.SIGINT, self._handle)
        self._tasks.append(task)
        try:
            yield
        finally:
            self._heard(task)
            self._tasks.remove(task)
            self._interrupted.discard(task)
            if not self._tasks and signal.getsignal(signal.SIGINT) == self._handle:
                signal.signal(signal.SIGINT, self._previous)

    def took(self, task: asyncio.Task[Any]) -> bool:
        """Whether the task was interrupted by the person (and not cancelled by code)."""
        return task in self._interrupted

    @property
    def ending(self) -> bool:
        """Whether the latest magic was interrupted, and has not ended yet."""
        return bool(self._tasks) and self._tasks[-1] in self._interrupted

    def forgive(self, task: asyncio.Task[Any]) -> bool:
        """Take back that a task was interrupted, if it was: that was the way to end something in it."""
        if task not in self._interrupted:
            return False
        self._interrupted.discard(task)
        return True

    def interrupt(self) -> bool:
        """Interrupt the latest magic; return whether one runs."""
        for task in self._tasks[-1:]:
            self._interrupt(task)
        return bool(self._tasks)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        task = self._tasks[-1]
        if task in self._unheard:
            self._end(task, frame)
        elif task not in self._interrupted:
            self._interrupt(task)
        else:
            self._end(task, frame)
            if callable(self._previous):
                self._previous(number, frame)  # it does not end: the second Ctrl-C is the shell's own

    def _interrupt(self, task: asyncio.Task[Any]) -> None:
        self._interrupted.add(task)
        self._unheard.add(task)
        task.get_loop().call_soon_threadsafe(self._cancel, task)
        if _timer_is_free():
            # It stays: back to the default, an alarm that is on its way would end the process.
            signal.signal(signal.SIGALRM, self._remind)
            signal.setitimer(signal.ITIMER_REAL, BUSY_SECONDS, BUSY_SECONDS)

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        self._heard(task)
        task.cancel()

    def _heard(self, task: asyncio.Task[Any]) -> None:
        self._unheard.discard(task)
        if not self._unheard and _has_timers and signal.getsignal(signal.SIGALRM) == self._remind:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _remind(self, number: int, frame: FrameType | None) -> None:
        for task in self._tasks[-1:]:
            if task in self._unheard:
                self._end(task, frame)

    def _end(self, task: asyncio.Task[Any], frame: FrameType | None) -> None:
        """End what keeps the loop from coming round, if it is for the task."""
        if _is_busy_for(task, frame):
            raise asyncio.CancelledError


_has_timers = hasattr(signal, "setitimer")  # Windows has none; there the second Interrupt does it


def _timer_is_free() -> bool:
    if not _has_timers or threading.current_thread() is not threading.main_thread():
        return False
    known = signal.getsignal(signal.SIGALRM)
    ours = isinstance(getattr(known, "__self__", None), Interrupts)
    return ours or (known == signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL)[0] == 0)


def _is_busy_for(task: asyncio.Task[Any], frame: FrameType | None) -> bool:
    """Whether this thread is within a step of the task, or of what works for it: it may be ended there."""
    current = asyncio.current_task(task.get_loop())
    if current is task:
        return True
    ours = _DRAWING if current is None else _BUSY_FOR_US
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(ours):
            return True
        frame = frame.f_back
    return False


interrupts = Interrupts()

INTERRUPT_SECONDS = 1.0
"""Seconds that a cancellation needs at most until it is where a question was asked."""


async def interrupt() -> None:
    """End the magic that runs, as Interrupt does; return where none runs: the question alone is answered with no.

    For a Ctrl-C that came while `input()` had stopped the loop, and SIGINT was Python's own.

    Raises:
        CancelledError: By way of the magic's task, which ends with a KeyboardInterrupt.
    """
    if interrupts.interrupt():
        await asyncio.sleep(INTERRUPT_SECONDS)


async def let_end() -> None:
    """Let the magic end that is being interrupted, if one is: what else it was to ask is not asked any more.

    Raises:
        CancelledError: What waits here ends with it.
    """
    if interrupts.ending:
        await asyncio.sleep(INTERRUPT_SECONDS)


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Let Interrupt end what is within, and not the magic: for what goes on until somebody stops it."""
    task = asyncio.current_task()
    try:
        yield
    except asyncio.CancelledError:
        if task is None or not interrupts.forgive(task):
            raise
        task.uncancel()
