"""Work for the kernel's loop from another thread: it waits while the kernel computes, and is given up for good."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mcp_magic.errors import SessionError
from mcp_magic.outside.kernel import BusyError, Kernel, Turn


@pytest.fixture
def loop():
    """A loop that runs on another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def busy(loop):
    """Keep the loop busy until the event is set."""
    free = threading.Event()
    loop.call_soon_threadsafe(free.wait)
    yield free
    free.set()


async def ended(kernel: Kernel, work) -> Turn:
    """Begin work, and wait for its end on this loop."""
    here, over = asyncio.get_running_loop(), asyncio.Event()
    turn = kernel.begin(work, lambda turn: here.call_soon_threadsafe(over.set))
    await asyncio.wait_for(over.wait(), 30)
    return turn


async def test_work_runs_on_the_loop_of_the_kernel(loop):
    async def work() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert (await ended(Kernel(lambda: loop), work)).result() is loop
    assert (await ended(Kernel(), work)).result() is asyncio.get_running_loop()


async def test_work_raises_what_it_raises(loop):
    async def work() -> None:
        raise LookupError("no such thing")

    turn = await ended(Kernel(lambda: loop), work)
    with pytest.raises(LookupError, match="no such thing"):
        turn.result()


async def test_work_waits_for_a_kernel_that_computes(loop, busy):
    async def work() -> str:
        return "done"

    over = threading.Event()
    turn = Kernel(lambda: loop).begin(work, lambda turn: over.set())
    turn.check()
    assert not turn.has_begun
    busy.set()
    await asyncio.to_thread(over.wait, 30)
    assert turn.result() == "done"


async def test_work_that_is_given_up_never_begins(loop, busy):
    begun: list[str] = []

    async def work() -> None:
        begun.append("work")

    turn = Kernel(lambda: loop, 0.0).begin(work, lambda turn: begun.append("end"))
    with pytest.raises(BusyError, match=r"^the kernel has been running a cell for \d+ s\. Nothing was called, and "):
        turn.check()
    busy.set()
    await asyncio.to_thread(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result)
    assert begun == []


async def test_work_that_has_begun_is_cancelled(loop):
    begun, over = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    turn = Kernel(lambda: loop, 0.0).begin(work, lambda turn: over.set())
    await asyncio.to_thread(begun.wait, 30)
    turn.check()
    turn.cancel()
    await asyncio.to_thread(over.wait, 30)
    with pytest.raises(SessionError, match=r"^the call was cancelled in the kernel; it may have run\.$"):
        turn.result()


async def test_work_for_a_kernel_that_has_ended_fails(loop):
    async def work() -> None:
        raise AssertionError

    closed = asyncio.new_event_loop()
    closed.close()
    with pytest.raises(SessionError, match=r"the kernel has ended or restarts\. Nothing was called; connect again\."):
        Kernel(lambda: closed).begin(work, lambda turn: None)
    ending = asyncio.new_event_loop()
    turn = Kernel(lambda: ending).begin(work, lambda turn: None)
    ending.close()
    with pytest.raises(SessionError, match=r"Nothing was called; connect again\."):
        turn.check()
