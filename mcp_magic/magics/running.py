"""How a magic's coroutine is run: awaited by the cell, nested in it, or for another thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_magic.browser import IN_BROWSER
from mcp_magic.errors import CommandError
from mcp_magic.magics.interrupts import interrupts

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["home_loop", "interruptible", "run_nested"]

T = TypeVar("T")

BLOCKED_SECONDS = 2.0
"""Seconds after which another thread looks whether the cell's loop still turns."""

BLOCKED = (
    "%mcp in a thread needs the kernel's loop, and the cell waits for threads without letting it turn. "
    "Let the cell await them: `await asyncio.gather(*(asyncio.to_thread(f, x) for x in xs))`."
)

_WAITING = ("threading", "concurrent.futures", "queue", "multiprocessing")

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


async def interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; Interrupt cancels it and raises KeyboardInterrupt here."""
    __tracebackhide__ = True
    task = asyncio.ensure_future(work)
    home_loop(task.get_loop())
    with interrupts.cancelling(task):
        try:
            result = await task
        except asyncio.CancelledError:
            if not interrupts.took(task):
                raise
        else:  # the signal may have come in its last step, too late to cancel it: a loop must end all the same
            if not interrupts.took(task):
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
        return _wait_for(work, home)
    home_loop(loop)
    task = loop.create_task(work)
    with interrupts.cancelling(task):
        try:
            result = loop.run_until_complete(task)
        except asyncio.CancelledError:
            if not interrupts.took(task):
                raise
        else:
            if not interrupts.took(task):
                return result
    raise KeyboardInterrupt from None  # a nested loop's tasks step in an except block, so there is a context


def _wait_for(work: Coroutine[Any, Any, T], home: asyncio.AbstractEventLoop) -> T:
    """Wait in another thread for what the cells' loop does.

    Raises:
        CommandError: The cell that has the loop waits itself, for this thread perhaps.
    """
    future = asyncio.run_coroutine_threadsafe(work, home)
    while True:
        came_round = threading.Event()
        home.call_soon_threadsafe(came_round.set)
        if concurrent.futures.wait([future], timeout=BLOCKED_SECONDS).done:
            return future.result()
        if not came_round.is_set() and _main_thread_waits():
            future.cancel()
            raise CommandError(BLOCKED)


def _main_thread_waits() -> bool:
    """Whether the main thread is in `join()`, `result()` or the like; one that computes comes round some time."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_WAITING)


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
