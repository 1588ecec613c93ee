from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.support.kernel_servers import SMALL, command
from tests.support.kernels import Kernel, gone, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psutil

    Start = Callable[..., Kernel]


def children(kernel: Kernel, count: int) -> list[psutil.Process]:
    """Return the kernel's server processes, which must be `count`."""
    found = kernel.process.children(recursive=True)
    assert len(found) == count, [process.cmdline() for process in found]
    return found


def connected(kernel: Kernel, *commands: list[str]) -> list[psutil.Process]:
    kernel.ok("%load_ext mcp_magic")
    servers = {str(i): {"command": program, "args": rest} for i, (program, *rest) in enumerate(commands)}
    kernel.ok(f"import json, pathlib\npathlib.Path('mcp.json').write_text(json.dumps({{'mcpServers': {servers!r}}}))")
    kernel.ok("opened = %mcp connect --config mcp.json")
    assert kernel.ok("{row['state'] for row in opened.rows}").text == "{'open'}"
    return children(kernel, len(commands))


def test_shutdown_ends_busy_and_stubborn_servers(start: Start, tmp_path: Path) -> None:
    kernel = start()
    *servers, stubborn = connected(kernel, SMALL, SMALL, command("holding_server"), command("stubborn_server"))
    kernel.start(f"%mcp call hold folder={tmp_path}")
    until((tmp_path / "started").exists, what="the tool has started")

    kernel.shutdown()

    gone(servers)
    gone([stubborn], 30)


def test_a_restart_ends_the_servers_and_the_new_kernel_works(start: Start) -> None:
    kernel = start()
    servers = connected(kernel, SMALL)

    kernel.restart()

    gone(servers)
    kernel.ok("%load_ext mcp_magic")
    assert kernel.ok("r = %mcp\nr.rows").text == "[]"


def test_sys_exit_ends_the_servers(start: Start) -> None:
    kernel = start()
    servers = connected(kernel, SMALL)

    kernel.client.execute("exit()")

    gone(servers)


def test_a_kernel_that_is_killed_leaves_no_well_behaved_server(start: Start) -> None:
    kernel = start()
    servers = connected(kernel, SMALL)

    kernel.process.kill()

    gone(servers)


def test_server_of_interrupted_connect_ends_with_kernel(start: Start) -> None:
    kernel = start()
    kernel.ok("%load_ext mcp_magic")
    connecting = kernel.start(f"%mcp connect -- {sys.executable} -c 'import sys; sys.stdin.read()'")
    until(lambda: len(kernel.process.children()) == 1, what="the process runs")
    servers = children(kernel, 1)

    kernel.interrupt()
    kernel.finish(connecting)
    kernel.shutdown()

    gone(servers)
