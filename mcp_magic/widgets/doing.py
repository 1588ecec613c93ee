"""Runs what clicks ask for, on the loop of the sessions.

A click may come on another thread (kernels that answer widgets on a subshell), and what it asks for may take
long; the widgets and the sessions belong to one loop.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["Doing"]


class Doing:
    """The work of one widget; made on the loop that it then uses.

    Without a running loop (plain Python code) callbacks run at once, and `start` has nothing to run on.
    """

    def __init__(self) -> None:
        self._loop = _running()
        self._tasks: set[asyncio.Task[None]] = set()
        self._later: asyncio.TimerHandle | None = None
        self._ended = False

    def soon(self, do: Callable[[], None]) -> None:
        """Call `do` on the loop: now, if this is its thread."""
        if self._ended:
            return
        if self._loop is None or _running() is self._loop:
            do()
            return
        with suppress(RuntimeError):  # the loop is closed: nobody is there to see it
            self._loop.call_soon_threadsafe(do)

    def once(self, do: Callable[[], None], seconds: float) -> None:
        """Call `do` a little later, once for all calls until then; `do` is the same each time."""
        if self._loop is None:
            do()
        elif self._later is None and not self._ended:
            self._later = self._loop.call_later(seconds, self._run_later, do)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as a task of the loop; closing cancels it."""
        if self._loop is None or self._ended:
            work.close()
            return
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def end(self) -> None:
        """Cancel what is under way; nothing more runs."""
        self._ended = True
        if self._later is not None:
            self._later.cancel()
        for task in self._tasks:
            task.cancel()

    async def finished(self) -> None:
        """Wait until the work under way is done."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _run_later(self, do: Callable[[], None]) -> None:
        self._later = None
        if not self._ended:
            do()


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
