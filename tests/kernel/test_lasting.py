"""A server that goes away, as somebody in a notebook meets it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.kernel_servers import MATH, command
from tests.support.kernels import gone, until
from tests.support.processes import free_port, start_http
from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.kernels import Kernel


def rows(kernel: Kernel) -> str:
    kernel.ok("listing = %mcp")
    return kernel.ok("[row['state'] for row in listing.rows]").text


def test_restarted_remote_server_works_in_next_cell(start: Callable[..., Kernel]) -> None:
    kernel = start()
    kernel.ok("%load_ext mcp_magic\nfrom mcp_magic import host\nhost.reconnection.first = 0.1")
    kernel.ok("host.reconnection.longest, host.reconnection.wait = 1.0, 60.0")
    server = command("holding_server", "--transport", "http", "--port", str(free_port()))
    with start_http(server) as running:
        kernel.ok(f"held = %mcp connect {running.url} --name http")
        running.process.kill()
        running.wait_end()
        calling = kernel.start("%mcp call http:ping")
        with start_http(server):
            cell = kernel.finish(calling)
            assert cell.text == "pong", cell.evalue
            assert kernel.ok("(await held.call('ping')).text, host['http'] is held").text == "('pong', True)"
            kernel.ok("%mcp disconnect http")


@pytest.mark.timed
@tried_again
def test_interrupt_ends_waiting_call_and_shutdown_ends_attempts(start: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel = start(MCP_MAGIC_RECONNECT="all")
    kernel.ok(f"%load_ext mcp_magic\n%mcp connect {MATH} --name math")
    kernel.ok("from mcp_magic import host\nhost.reconnection.first = host.reconnection.longest = 60.0")
    with start_http(command("holding_server", "--transport", "http", "--port", "0")) as running:
        kernel.ok(f"%mcp connect {running.url} --name http")
        running.process.kill()
        running.wait_end()
    kernel.ok("import asyncio, pathlib\nloop = asyncio.get_running_loop()")
    calling = kernel.start(f"loop.call_soon(pathlib.Path({str(tmp_path)!r}, 'waits').touch)\n%mcp call http:ping")
    until((tmp_path / "waits").exists, what="the call has begun")
    begun = time.monotonic()
    kernel.interrupt()
    cell = kernel.finish(calling)
    assert (cell.status, cell.ename) == ("error", "KeyboardInterrupt")
    soon(time.monotonic() - begun, 2.0)
    assert rows(kernel) == "['open', 'reconnecting']"
    servers = kernel.process.children(recursive=True)
    begun = time.monotonic()
    kernel.shutdown()
    soon(time.monotonic() - begun, 10.0)
    gone(servers)
