"""How a magic's coroutine is run, and how Interrupt reaches it.

SIGINT cancels the coroutine's own task, by way of `call_soon_threadsafe`: the kernel's handler
schedules a cancellation without waking the event loop, which may then sleep for seconds, and in
terminal IPython Ctrl-C would leave the task pending and print the loop's insides.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_magic.browser import IN_BROWSER
from mcp_magic.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from types import FrameType

__all__ = ["home_loop", "interrupt", "interruptible", "run_nested", "until_interrupted"]

T = TypeVar("T")

_home: asyncio.AbstractEventLoop | None = None


def home_loop(loop: asyncio.AbstractEventLoop | None = None) -> asyncio.AbstractEventLoop | None:
    """Return the loop on which the cells run, as far as known; with an argument, remember it."""
    global _home
    if loop is not None and loop is not _home:
        _home = loop
        _wake_on_signals(loop)
    return _home


_wakeups: list[socket.socket] = []


def _wake_on_signals(loop: asyncio.AbstractEventLoop) -> None:
    """Let a signal wake a sleeping loop, so that Interrupt also ends `await connection.call(...)` at once.

    ipykernel's own handler schedules the cancellation by `IOLoop.add_callback`, which wakes nobody when
    it is called from a signal handler: the cell ends when the loop next has something to do.
    """
    if IN_BROWSER or threading.current_thread() is not threading.main_thread():
        return
    taken = signal.set_wakeup_fd(-1)
    if taken != -1 and taken not in [wakeup.fileno() for wakeup in _wakeups]:
        signal.set_wakeup_fd(taken)  # somebody else's, asyncio's own for example
        return
    woken, wakeup = socket.socketpair()
    _wakeups[:] = [woken, wakeup]
    for end in _wakeups:
        end.setblocking(False)
    with suppress(NotImplementedError):  # a loop without readers (Windows' proactor) wakes by itself
        loop.add_reader(woken, woken.recv, 4096)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)


class _Interrupts:
    """The SIGINT handler while magics run: cancels the latest of their tasks."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []
        self._interrupted: set[asyncio.Task[Any]] = set()
        self._previous: Any = None

    @contextmanager
    def cancelling(self, task: asyncio.Task[Any]) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # signals reach the main thread only
            return
        if not self._tasks:
            self._previous = signal.signal(signal.SIGINT, self._handle)
        self._tasks.append(task)
        try:
            yield
        finally:
            self._tasks.remove(task)
            self._interrupted.discard(task)
            if not self._tasks and signal.getsignal(signal.SIGINT) == self._handle:
                signal.signal(signal.SIGINT, self._previous)

    def took(self, task: asyncio.Task[Any]) -> bool:
        """Whether the task was interrupted by the person (and not cancelled by code)."""
        return task in self._interrupted

    def forgive(self, task: asyncio.Task[Any]) -> bool:
        """Take back that a task was interrupted, if it was: that was the way to end something in it."""
        if task not in self._interrupted:
            return False
        self._interrupted.discard(task)
        return True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        task = self._tasks[-1]
        if task in self._interrupted and callable(self._previous):
            self._previous(number, frame)  # it does not end: the second Ctrl-C is the shell's own
            return
        self._interrupt(task)

    def interrupt(self) -> bool:
        """Interrupt the latest magic; return whether one runs."""
        for task in self._tasks[-1:]:
            self._interrupt(task)
        return bool(self._tasks)

    def _interrupt(self, task: asyncio.Task[Any]) -> None:
        self._interrupted.add(task)
        task.get_loop().call_soon_threadsafe(task.cancel)


_interrupts = _Interrupts()

INTERRUPT_SECONDS = 1.0
"""Seconds that a cancellation needs at most until it is where a question was asked."""


async def interrupt() -> None:
    """End the magic that runs, as Interrupt does; return where none runs: the question alone is answered with no.

    For a Ctrl-C that came while `input()` had stopped the loop, and SIGINT was Python's own.

    Raises:
        CancelledError: By way of the magic's task, which ends with a KeyboardInterrupt.
    """
    if _interrupts.interrupt():
        await asyncio.sleep(INTERRUPT_SECONDS)


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Let Interrupt end what is within, and not the magic: for what goes on until somebody stops it."""
    task = asyncio.current_task()
    try:
        yield
    except asyncio.CancelledError:
        if task is None or not _interrupts.forgive(task):
            raise
        task.uncancel()


async def interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; Interrupt cancels it and raises KeyboardInterrupt here."""
    __tracebackhide__ = True
    task = asyncio.ensure_future(work)
    home_loop(task.get_loop())
    with _interrupts.cancelling(task):
        try:
            result = await task
        except asyncio.CancelledError:
            if not _interrupts.took(task):
                raise
        else:  # the signal may have come in its last step, too late to cancel it: a loop must end all the same
            if not _interrupts.took(task):
                return result
    raise KeyboardInterrupt from None  # a nested loop's tasks step in an except block, so there is a context


def run_nested(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end from synchronous code, on the loop that the cells run on.

    Raises:
        KeyboardInterrupt: The person interrupted; the work is cancelled.
        CommandError: In a browser that cannot wait within a function.
    """
    try:
        loop = _loop_of_this_thread()
    except CommandError:
        work.close()
        raise
    if loop is None:
        home = home_loop()
        assert home is not None
        return asyncio.run_coroutine_threadsafe(work, home).result()
    home_loop(loop)
    task = loop.create_task(work)
    with _interrupts.cancelling(task):
        try:
            result = loop.run_until_complete(task)
        except asyncio.CancelledError:
            if not _interrupts.took(task):
                raise
        else:
            if not _interrupts.took(task):
                return result
    raise KeyboardInterrupt from None  # a nested loop's tasks step in an except block, so there is a context


def _browsers(loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
    """Return a browser's loop if it can wait: if the browser can suspend WebAssembly (JSPI)."""
    from pyodide.ffi import can_run_sync

    if can_run_sync():
        return loop
    raise CommandError(
        "this browser cannot wait within a function or a comprehension. Write the line at the top of a cell, "
        "or `await host[...].call(...)` in an async function."
    )


def _loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    """Return a loop that this thread can run until something is complete; None if the loop is another thread's."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        home = home_loop()
        if threading.current_thread() is not threading.main_thread() and home is not None and home.is_running():
            return None
        # terminal IPython between awaits: its own persistent loop, on which the sessions live
        from IPython.core.async_helpers import get_asyncio_loop

        return get_asyncio_loop()  # type: ignore[no-any-return, no-untyped-call]
    if IN_BROWSER:
        return _browsers(loop)
    import nest_asyncio2

    nest_asyncio2.apply(loop)
    return loop
