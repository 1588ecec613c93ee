"""Coroutines run to their end from synchronous code, on the loop of the sessions.

A session lives on the loop that opened it. Whoever calls without `await` may be inside of that loop (a cell), on
another thread beside it (a graph's executor), or there is no loop running (a script, a terminal between two commands).
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_magic.errors import SessionError

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["run_blocking", "run_on"]

T = TypeVar("T")

BUSY_SECONDS = 10.0
"""Seconds that a loop on another thread may take to answer. One that waits for this very call never will."""

_ENDED = "the event loop that opened the session does not run any more; connect in the loop that calls the tool."
_BUSY = (
    "the event loop of the sessions is busy, most likely with the code that waits for this tool: "
    "`await agent.ainvoke(...)` instead of `agent.invoke(...)` keeps it free."
)

_driving = threading.RLock()
"""Held while a thread decides who runs an idle loop, and while it runs it: two cannot."""


async def run_on(loop: asyncio.AbstractEventLoop | None, work: Coroutine[Any, Any, T]) -> T:
    """Await `work` on the loop it belongs to, which may be another thread's.

    Args:
        loop: That loop; None for the running one.
        work: What is to be done.

    Raises:
        SessionError: That loop does not run.
    """
    if loop is None or loop is asyncio.get_running_loop():
        return await work
    if not loop.is_running():
        work.close()
        raise SessionError(_ENDED)
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def run_blocking(loop: asyncio.AbstractEventLoop | None, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end and return what it returns.

    Args:
        loop: The loop it belongs to; None for any.
        work: What is to be done.

    Raises:
        SessionError: That loop has ended, or it waits for this very call.
    """
    try:
        here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    loop = loop or here
    if loop is None:
        return asyncio.run(work)
    if loop.is_closed():
        work.close()
        raise SessionError(_ENDED)
    if here is not None and (here is loop or not loop.is_running()):
        return _nested(work, loop, here)
    with _driving:
        if not loop.is_running():
            return loop.run_until_complete(work)
    return _hand_over(work, loop)


def _nested(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, here: asyncio.AbstractEventLoop) -> T:
    """Run `work` on a loop from inside of one that runs."""
    import nest_asyncio2

    for each in {loop, here}:
        nest_asyncio2.apply(each)
    task = loop.create_task(work)
    try:
        return loop.run_until_complete(task)
    except BaseException:
        task.cancel()  # interrupted: nobody waits for it any more
        raise


def _hand_over(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Give `work` to a loop that runs on another thread, if that listens, and wait for it."""
    listens = threading.Event()
    loop.call_soon_threadsafe(listens.set)
    if not listens.wait(BUSY_SECONDS):
        work.close()
        raise SessionError(_BUSY)
    waiting = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return waiting.result()
    except BaseException:
        waiting.cancel()
        raise
