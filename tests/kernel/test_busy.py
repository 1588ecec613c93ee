"""Interrupt while the loop is busy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kernel.test_interrupt import interrupt
from tests.support.endless_server import VALUES
from tests.support.kernel_servers import HERE
from tests.support.kernels import until
from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from tests.support.kernels import Kernel

pytestmark = pytest.mark.timed

PLAIN = True
LIMIT = 1.5
"""Seconds: a quarter until the loop counts as busy, half of one for IPython to render the error, some for others."""

LINES = {
    "the arguments": "%mcp call endless:takes x=$big",
    "the answer": "%mcp call endless:answers",
    "nested": "[get_ipython().run_line_magic('mcp', 'call endless:takes x=$big') for _ in '1']",
}


@pytest.fixture(scope="module", autouse=True)
def server(kernel: Kernel) -> None:
    kernel.ok(f"%mcp connect {HERE / 'endless_server.py'} --name endless")
    kernel.ok("%mcp tools")
    kernel.ok(f"big = ['a'] * {VALUES}")


def busy(kernel: Kernel) -> None:
    """Wait until the kernel computes."""
    before = kernel.process.cpu_times().user
    until(lambda: kernel.process.cpu_times().user > before + 0.5, timeout=30, what="the kernel computes")


@pytest.mark.parametrize("what", LINES)
@tried_again
def test_interrupt_ends_a_check_that_takes_long(kernel: Kernel, what: str) -> None:
    calling = kernel.start(LINES[what])
    busy(kernel)

    cell = interrupt(kernel, calling)

    assert (cell.status, cell.ename) == ("error", "KeyboardInterrupt")
    soon(cell.seconds, LIMIT)
    assert kernel.ok("%mcp call endless:ping").text == "pong"


def test_a_signal_that_is_sent_again_is_not_the_next_cells(kernel: Kernel) -> None:
    calling = kernel.start(LINES["the arguments"])
    busy(kernel)
    assert interrupt(kernel, calling).ename == "KeyboardInterrupt"
    assert kernel.ok("import time\ntime.sleep(0.6)\n'slept'").text == "'slept'"


LONG = """\
from mcp.server import MCPServer
long = MCPServer("long")
for number in range(200):
    long.add_tool(lambda: "\\n" * 300_000, name=f"t{number}", description="- a\\n" * 5_000)
%mcp connect long
r = %mcp call long:t0
"""
RENDERED = {
    "results": "for _ in range(10_000):\n    display(r)",
    "pages": "%mcp docs long",
}


@pytest.mark.parametrize("what", RENDERED)
@tried_again
def test_interrupt_ends_rendering(kernel: Kernel, what: str) -> None:
    kernel.ok(LONG)
    rendering = kernel.start(RENDERED[what])
    busy(kernel)

    cell = interrupt(kernel, rendering)

    assert (cell.status, cell.ename) == ("error", "KeyboardInterrupt")
    soon(cell.seconds, LIMIT)
    assert kernel.ok("%mcp call endless:ping").text == "pong"
