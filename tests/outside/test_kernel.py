"""Work for the kernel's loop from another thread: it waits while the kernel computes, and is given up for good."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mcp_magic.errors import SessionError
from mcp_magic.outside.kernel import BusyError, Kernel


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


async def test_work_runs_on_the_loop_of_the_kernel(loop):
    async def work() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert await Kernel(loop).run(work) is loop
    assert await Kernel(None).run(work) is asyncio.get_running_loop()


async def test_work_raises_what_it_raises(loop):
    async def work() -> None:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        await Kernel(loop).run(work)


async def test_work_waits_for_a_kernel_that_computes(loop, busy):
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        busy.set()

    async def work() -> str:
        return "done"

    assert await Kernel(loop).run(work, wait) == "done"
    assert len(waits) == 1


async def test_work_that_is_given_up_never_begins(loop, busy):
    begun: list[str] = []

    async def work() -> None:
        begun.append("work")

    with pytest.raises(BusyError, match=r"^the kernel has been running a cell for 0 s\. Nothing was called, and noth"):
        await Kernel(loop, lambda: 0.0).run(work)
    busy.set()
    await asyncio.to_thread(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result)
    assert begun == []


async def test_work_is_cancelled_with_its_awaiter(loop):
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.create_task(Kernel(loop).run(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(ended.wait)


async def test_work_for_a_kernel_that_has_ended_fails(loop):
    async def work() -> None:
        raise AssertionError

    closed = asyncio.new_event_loop()
    closed.close()
    with pytest.raises(SessionError, match=r"the kernel has ended or restarts\. Nothing was called; connect again\."):
        await Kernel(closed).run(work)
