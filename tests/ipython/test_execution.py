"""An Interrupt at any line of what runs a magic ends the magic, or reaches the handler that was there before."""

import asyncio
import os
import signal
import sys
import time
import warnings

import psutil
import pytest

from mcp_magic.ipython import execution
from tests.support.magic import own_home  # noqa: F401
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def heard():
    """The signals that reached the handler of before."""
    signals = []
    before = signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    yield signals
    signal.signal(signal.SIGINT, before)


class AtLine:
    """Sends SIGINT at the line with a number, counted over all lines of the module that run."""

    def __init__(self, number):
        self._left = number
        self.sent = False

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename != execution.__file__ or frame.f_code.co_name.startswith("_"):
            return None
        if event == "line" and not self.sent:
            self._left -= 1
            if self._left < 0:
                self.sent = True
                signal.raise_signal(signal.SIGINT)
        return self


async def work():
    await asyncio.sleep(0)
    return "done"


async def run(number):
    """Return whether the signal was sent, and whether the magic was interrupted."""
    at_line = AtLine(number)
    usual = sys.gettrace()
    magic = execution.interruptible(work())
    sys.settrace(at_line)
    try:
        await magic
    except KeyboardInterrupt:
        return at_line.sent, True
    finally:
        sys.settrace(usual)
    return at_line.sent, False


async def test_an_interrupt_at_any_line_is_not_lost(heard):
    number, lost = 0, []
    while True:
        heard.clear()
        sent, interrupted = await run(number)
        if not sent:
            break
        if not interrupted and not heard:
            lost.append(number)
        number += 1
    assert number > 20
    assert lost == []


@pytest.mark.skipif(os.name != "posix", reason="runs code between fork and exec")
async def test_the_start_of_a_process_is_not_cut_off(heard):
    before = psutil.Process().children()

    def interrupt_twice() -> None:
        for _ in range(2):  # the second ends what keeps the loop busy
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(0.2)

    task = asyncio.create_task(asyncio.create_subprocess_exec("sleep", "60", preexec_fn=interrupt_twice))
    with pytest.raises(KeyboardInterrupt), execution.interrupting(task):
        await task
    await until(lambda: psutil.Process().children() == before, timeout=10)


def test_a_new_home_loop_closes_the_sockets_of_the_former():
    with warnings.catch_warnings(record=True) as leaks:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(3):
            with asyncio.Runner() as runner:
                assert runner.run(execution.interruptible(work())) == "done"
    assert [str(leak.message) for leak in leaks] == []
