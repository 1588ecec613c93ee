"""Threads with an event loop of their own use the sessions of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kernel.conftest import LOAD
from tests.support.processes import PLAIN

if TYPE_CHECKING:
    from tests.support.kernels import Kernel

SETUP = [
    LOAD,
    f"""\
import asyncio, threading
from mcp_magic import host
from mcp_magic.session import loops

said = []

def visiting(work):
    try:
        said.append(asyncio.run(work()).text)
    except Exception as error:
        said.append(f"{{type(error).__name__}}: {{error}}")

async def connects():
    return await (await host.connect({PLAIN!r}, name="plain")).call("add", a=1, b=2)

async def calls():
    return await host["plain"].call("add", a=2, b=3)

thread = threading.Thread(target=visiting, args=(connects,))
thread.start()
await asyncio.to_thread(thread.join)
""",
]


def test_a_session_that_a_thread_opened_lives_on(kernel: Kernel) -> None:
    assert kernel.ok("said").text == "['3']"
    assert kernel.ok("(await calls()).text").text == "'5'"


def test_a_thread_calls_while_the_cell_awaits(kernel: Kernel) -> None:
    assert kernel.ok("said.clear()\nawait asyncio.to_thread(visiting, calls)\nsaid").text == "['5']"


def test_a_thread_calls_while_the_kernel_is_idle(kernel: Kernel) -> None:
    kernel.ok("said.clear()\nthread = threading.Thread(target=visiting, args=(calls,))\nthread.start()")
    assert kernel.ok("await asyncio.to_thread(thread.join)\nsaid").text == "['5']"


def test_a_thread_that_the_cell_waits_for_is_told(kernel: Kernel) -> None:
    before = kernel.ok("host['plain'].calls").text
    joining = "thread = threading.Thread(target=visiting, args=(calls,))\nthread.start()\nthread.join()\nsaid[0]"
    text = kernel.ok(f"said.clear()\nloops.BUSY_SECONDS = 0.5\n{joining}").text
    assert text.startswith("'SessionError: the event loop of the sessions is busy")
    assert "`await asyncio.to_thread(function)` instead of `thread.join()`" in text
    assert kernel.ok("await host['plain'].listing('tools')\nhost['plain'].calls").text == before, (
        "nothing is sent later"
    )
