"""The event loop of a session, for coroutines that other loops await and for synchronous code.

A session lives on the loop that opened it. Other loops may await its methods (a thread with `asyncio.run`, a web
framework, a node of a graph); synchronous callers may be inside the loop (a cell), on another thread (a graph's
executor), or there is no running loop (a script, a terminal between two commands).

In a kernel that is the kernel's own loop; there is no thread and no loop of ours. So a server that a cell defines
shares the notebook's objects, and `await connection.call(...)` is a plain await. A coroutine that is handed to another
loop keeps the context of its awaiter. The loop claims it before it begins, so a wait that times out first sends
nothing.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
import time
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from mcp_magic.errors import SessionError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
    from types import FrameType

T = TypeVar("T")
Method = TypeVar("Method", bound="Callable[..., Coroutine[Any, Any, Any]]")

BUSY_SECONDS = 10.0  # seconds for a loop on another thread to respond. A loop that waits for this very call never does.

BLOCKED_SECONDS = 2.0  # seconds for it to respond while its thread waits for threads

PULSE_SECONDS = 0.25  # seconds after which a thread that waits for a loop asks again whether it responds

_WAITING = ("threading", "concurrent.futures", "queue", "multiprocessing")
"""Modules of Python in which a thread waits for others."""

_LOOP_STOPPED = "the event loop that opened the session has stopped; connect in the loop that calls the tool."
_CUT = "the event loop of the sessions has stopped before the answer came; what was sent may have run."
_FREE = (
    "`await` keeps it free: `await asyncio.to_thread(function)` instead of `thread.join()`, "
    "`await asyncio.gather(*(asyncio.to_thread(f, x) for x in xs))` instead of a pool of threads or joblib, "
    "`await agent.ainvoke(...)` instead of `agent.invoke(...)`."
)
_BUSY = (
    "the event loop of the sessions is busy, most likely with the code that waits for this call; nothing was sent. "
) + _FREE
_BLOCKED = (
    "the event loop of the sessions is blocked by code that waits for threads; this call is cancelled, and may have "
    "run. "
) + _FREE
_IDLE = (
    "the event loop of the sessions does not run now; it runs while a cell awaits: `await host.call(...)` or "
    "`await asyncio.to_thread(function)` in a cell, `loop.run_until_complete(...)` in a program."
)
_NOT_ASYNCIO = "the sessions run on asyncio, and this code does not; in a cell, `%autoawait asyncio` goes back."

_UNPATCHED = (
    "synchronous code cannot wait inside this event loop, which is not asyncio's own (uvloop?); nothing was sent. "
    "`await tool.ainvoke(...)`, `await agent.ainvoke(...)` or `await asyncio.to_thread(function)` can."
)


class OnLoop(Protocol):
    """What lives on an event loop."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop, or None while there is none."""


def on_own_loop(method: Method) -> Method:
    """Run a coroutine method on the loop of its object, whichever loop awaits it.

    The method then raises SessionError too: that loop has stopped, or does not respond within `BUSY_SECONDS`.
    """

    @wraps(method)
    async def awaited(self: OnLoop, /, *args: Any, **kwargs: Any) -> Any:
        return await run_on(self.loop, method(self, *args, **kwargs))

    return cast("Method", awaited)


def on_own_loop_unless_closed(method: Method) -> Method:
    """As `on_own_loop`, for a method that may begin anew: for a closed loop, the one that awaits takes over."""

    @wraps(method)
    async def awaited(self: OnLoop, /, *args: Any, **kwargs: Any) -> Any:
        loop = self.loop
        return await run_on(None if loop is None or loop.is_closed() else loop, method(self, *args, **kwargs))

    return cast("Method", awaited)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop that runs this code, or None: no loop, or trio's, which a kernel runs within its own."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return None if "trio" in sys.modules and _is_on_trio() else loop


def _is_on_trio() -> bool:
    try:
        sys.modules["trio"].lowlevel.current_task()
    except RuntimeError:
        return False
    return True


def soon_on(loop: asyncio.AbstractEventLoop | None, function: Callable[[], Any]) -> None:
    """Call a function: soon on that loop if it runs on another thread, else at once."""
    if loop is not None and loop.is_running() and loop is not running_loop():
        loop.call_soon_threadsafe(function)
        return
    try:
        function()
    except RuntimeError:
        if loop is None or not loop.is_closed():
            raise  # else it wakes what waited on that loop, and nothing does any more


async def run_on(loop: asyncio.AbstractEventLoop | None, work: Coroutine[Any, Any, T]) -> T:
    """Await `work` on its loop, which may run on another thread; None is the loop that awaits.

    Where the awaiting task is cancelled, the work is. It runs in the context of that task.

    Raises:
        SessionError: The loop stands still, or it has stopped meanwhile.
    """
    here = running_loop()
    if here is not None and loop in (None, here):
        return await work
    if here is None or loop is None or not loop.is_running():
        work.close()
        raise SessionError(
            _NOT_ASYNCIO if here is None else _LOOP_STOPPED if loop is None or loop.is_closed() else _IDLE
        )
    handed = _HandedOver(work, loop)
    answer = asyncio.wrap_future(handed.answer)
    answer.add_done_callback(_read_error)
    try:
        while not (await asyncio.wait({answer}, timeout=PULSE_SECONDS))[0]:
            handed.check()
        return handed.result()
    finally:
        handed.close()


async def together(works: Iterable[Awaitable[T]]) -> list[T]:
    """Run works concurrently and return what they return; if one fails or is cancelled, cancel and await the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


class News:
    """Wakes those who wait for news on the loop where it happens, whichever loop awaits it.

    Once that loop is closed, the one that awaits takes over.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self.loop = loop
        self._bound: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()

    def tell(self) -> None:
        """Wake all that wait."""
        soon_on(self.loop, self._woken.set)

    @on_own_loop_unless_closed
    async def wait(self, has_come: Callable[[], bool]) -> None:
        """Wait until something has come that nobody has taken."""
        here = asyncio.get_running_loop()
        if self._bound is not here:  # an event belongs to the loop on which it was first awaited
            self.loop, self._bound, self._woken = here, here, asyncio.Event()
        while not has_come():
            self._woken.clear()
            if not has_come():  # it may come on another thread
                await self._woken.wait()


def _read_error(answer: asyncio.Future[Any]) -> None:
    """Read the error of an answer, which asyncio would log else: it is raised from where the answer comes."""
    if not answer.cancelled():
        answer.exception()


async def iterate_on(loop: asyncio.AbstractEventLoop | None, items: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Yield what an asynchronous generator yields, which runs on its loop as in `run_on`."""
    at_work = asyncio.Lock()  # of that loop: a step that was given up ends there before the generator can be closed

    async def following() -> T:
        async with at_work:
            return await anext(items)

    async def closing() -> None:
        async with at_work:
            await items.aclose()

    try:
        while True:
            try:
                item = await run_on(loop, following())
            except StopAsyncIteration:
                return
            yield item
    finally:
        with suppress(SessionError):  # that loop has stopped, and the generator with it
            await run_on(loop, closing())


def run_blocking(loop: asyncio.AbstractEventLoop | None, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end and return its result; SessionError if its loop is closed or waits for this very call."""
    here = running_loop()
    loop = loop or here
    if loop is None:
        return asyncio.run(work)
    if loop.is_closed():
        work.close()
        raise SessionError(_LOOP_STOPPED)
    if here is not None and (here is loop or not loop.is_running()):
        return _nested(work, loop, here)
    turns = _turns.setdefault(loop, _Turns())
    if turns.is_run_by_others(loop):
        return hand_over(work, loop)
    handed = _HandedOver(work, loop)
    handed.answer.add_done_callback(turns.wake)
    try:
        while not handed.answer.done():
            turns.take(loop, handed.answer)
            if not handed.answer.done():
                handed.check()
        return handed.result()
    finally:
        handed.close()


class _Turns:
    """Which thread runs a loop that is otherwise idle, of those that wait for their work on it.

    It runs the loop until its own work is done. The work of the others goes on meanwhile, and then one of them runs it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken = False

    def is_run_by_others(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether others run the loop: a kernel, a program."""
        with self._changed:
            return loop.is_running() and not self._taken

    def wake(self, _: object = None) -> None:
        """Let all threads that wait look again."""
        with self._changed:
            self._changed.notify_all()

    def take(self, loop: asyncio.AbstractEventLoop, answer: concurrent.futures.Future[Any]) -> None:
        """Run the loop until the answer is there; where it runs already, wait for a pulse at most."""
        with self._changed:
            if self._taken or loop.is_running():
                self._changed.wait_for(
                    lambda: answer.done() or not (self._taken or loop.is_running()), timeout=PULSE_SECONDS
                )
                return
            self._taken = True
        try:
            _run_until(loop, answer)
        finally:
            with self._changed:
                self._taken = False
                self._changed.notify_all()


def _run_until(loop: asyncio.AbstractEventLoop, answer: concurrent.futures.Future[Any]) -> None:
    awaited = asyncio.wrap_future(answer, loop=loop)
    awaited.add_done_callback(_read_error)
    try:
        loop.run_until_complete(awaited)
    except (Exception, asyncio.CancelledError):
        if not answer.done() and not loop.is_running():  # else the answer has the error, or others run the loop now
            raise


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()


def _nested(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, here: asyncio.AbstractEventLoop) -> T:
    """Run `work` on a loop while a loop runs on this thread."""
    import nest_asyncio2

    try:
        for running in {loop, here}:
            nest_asyncio2.apply(running)
    except ValueError:
        work.close()
        raise SessionError(_UNPATCHED) from None
    task = loop.create_task(work)
    try:
        return loop.run_until_complete(task)
    except BaseException:
        task.cancel()  # interrupted: its result is no longer needed
        raise


def hand_over(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Run `work` on a loop that runs on another thread, and wait for the result; SessionError if it stands still."""
    handed = _HandedOver(work, loop)
    try:
        while not concurrent.futures.wait({handed.answer}, timeout=PULSE_SECONDS).done:
            handed.check()
        return handed.result()
    finally:
        handed.close()


class _HandedOver(Generic[T]):
    """Work for a loop of another thread: that loop begins it, or nobody does."""

    def __init__(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self._work = work
        self._loop = loop
        self._claim: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._pulse = _pulses.setdefault(loop, _Pulse())
        self._pulse.silence(loop)
        self.answer = asyncio.run_coroutine_threadsafe(self._begin(), loop)

    async def _begin(self) -> T:
        if not self._claim.set_running_or_notify_cancel():
            raise asyncio.CancelledError
        return await self._work

    def check(self) -> None:
        """Raise SessionError if no answer is to be expected.

        Code that computes comes to an end, so work that has begun waits for it. Code that waits for threads may wait
        for this one.
        """
        if self._loop.is_closed():
            raise SessionError(_LOOP_STOPPED if self._claim.cancel() else _CUT)
        silence = self._pulse.silence(self._loop)
        if silence > BLOCKED_SECONDS and self._pulse.waits_for_threads():
            raise SessionError(_BUSY if self._claim.cancel() else _BLOCKED)
        if silence > BUSY_SECONDS and not self._loop.is_running():
            raise SessionError(_IDLE if self._claim.cancel() else _CUT)
        if silence > BUSY_SECONDS and self._claim.cancel():
            raise SessionError(_BUSY)

    def result(self) -> T:
        """Return the result of the work that is done; SessionError if the end of its loop has cancelled it."""
        if self.answer.cancelled():
            raise SessionError(_LOOP_STOPPED if self._claim.cancel() else _CUT)
        return self.answer.result()

    def close(self) -> None:
        """Cancel the work unless it is done: nobody waits for it any longer."""
        if not self._loop.is_closed():
            self.answer.cancel()
        if self._claim.cancelled() or self._claim.cancel():
            self._work.close()


class _Pulse:
    """Whether a loop comes round, for all that wait for it.

    It is one for all, so that a loop which stands still is waited for once, and not by each item of a pool.
    """

    def __init__(self) -> None:
        self._thread = threading.main_thread().ident  # until the loop says on which it runs
        self._asked = time.monotonic() - PULSE_SECONDS
        self._has_answered = True
        self._wait: FrameType | None = None
        self._seen = 0.0

    def silence(self, loop: asyncio.AbstractEventLoop) -> float:
        """Return for how many seconds the loop has not come round; ask it again if it has."""
        now = time.monotonic()
        if self._has_answered and now >= self._asked + PULSE_SECONDS:
            self._asked = now
            self._has_answered = False
            loop.call_soon_threadsafe(self._answer)
        return 0.0 if self._has_answered else now - self._asked

    def _answer(self) -> None:
        self._thread = threading.get_ident()
        self._has_answered = True
        self._wait = None

    def waits_for_threads(self) -> bool:
        """Whether the thread of the loop waits for other threads, now and a pulse ago.

        To flush what a cell prints, a kernel waits for a thread, too, but not for long.
        """
        frame = sys._current_frames().get(self._thread or 0)
        if frame is not self._wait:
            self._wait, self._seen = frame, time.monotonic()
        waits = frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_WAITING)
        return waits and self._thread != threading.get_ident() and time.monotonic() - self._seen >= PULSE_SECONDS


_pulses: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pulse] = WeakKeyDictionary()
