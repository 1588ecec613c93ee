"""The servers of a kernel end with it, however it ends; a call waits for a server that comes back."""

import sys

import pytest

from tests.support.kernel_servers import CONNECT_PLAIN, LOAD, SMALL, command
from tests.support.kernels import gone, until
from tests.support.processes import free_port, start_http


def connected(kernel, *commands):
    """Connect to servers; return their processes."""
    kernel.ok(LOAD)
    servers = {str(i): {"command": program, "args": rest} for i, (program, *rest) in enumerate(commands)}
    kernel.ok(f"import json, pathlib\npathlib.Path('mcp.json').write_text(json.dumps({{'mcpServers': {servers!r}}}))")
    kernel.ok("opened = %mcp connect --config mcp.json")
    assert kernel.ok("{row['state'] for row in opened.rows}").text == "{'open'}"
    processes = kernel.process.children(recursive=True)
    assert len(processes) == len(commands), [process.cmdline() for process in processes]
    return processes


def test_shutdown_ends_busy_and_stubborn_servers(start, tmp_path):
    kernel = start()
    *servers, stubborn = connected(kernel, SMALL, SMALL, command("holding_server"), command("stubborn_server"))
    kernel.start(f"%mcp call hold folder={tmp_path}")
    until((tmp_path / "started").exists, what="the tool has started")
    kernel.shutdown()
    gone(servers)
    gone([stubborn], 30)


@pytest.mark.parametrize("end", ["restart", "exit", "kill"])
def test_a_kernel_that_ends_leaves_no_well_behaved_server(start, end):
    kernel = start()
    servers = connected(kernel, SMALL)
    if end == "exit":
        kernel.client.execute("exit()")
    else:
        {"restart": kernel.restart, "kill": kernel.process.kill}[end]()
    gone(servers)
    if end == "restart":
        kernel.ok(LOAD)
        assert kernel.ok("r = %mcp\nr.rows").text == "[]"


def test_a_call_waits_for_its_server_until_an_interrupt(start, tmp_path):
    kernel = start(MCP_MAGIC_RECONNECT="all")
    kernel.ok(f"{LOAD}\nfrom mcp_magic import host\nhost.reconnection.first = 0.1")
    kernel.ok("host.reconnection.longest, host.reconnection.wait = 1.0, 60.0")
    kernel.ok(CONNECT_PLAIN)
    server = command("holding_server", "--transport", "http", "--port", str(free_port()))
    with start_http(server) as running:
        kernel.ok(f"held = %mcp connect {running.url} --name http")
        running.process.kill()
        running.wait_end()
        calling = kernel.start("%mcp call http:ping")
        with start_http(server) as again:
            cell = kernel.finish(calling)
            assert cell.text == "pong", cell.evalue
            assert kernel.ok("(await held.call('ping')).text, host['http'] is held").text == "('pong', True)"
            kernel.ok("host.reconnection.first = host.reconnection.longest = 60.0")
            again.process.kill()
            again.wait_end()
    kernel.ok("import asyncio, pathlib\nloop = asyncio.get_running_loop()")
    calling = kernel.start(f"loop.call_soon(pathlib.Path({str(tmp_path)!r}, 'waits').touch)\n%mcp call http:ping")
    until((tmp_path / "waits").exists, what="the call has begun")
    assert kernel.stop(calling).ename == "KeyboardInterrupt"
    kernel.ok("listing = %mcp")
    assert kernel.ok("[row['state'] for row in listing.rows]").text == "['open', 'reconnecting']"

    connecting = kernel.start(f"%mcp connect -- {sys.executable} -c 'import sys; sys.stdin.read()'")
    until(lambda: len(kernel.process.children()) == 2, what="the process runs")
    servers = kernel.process.children(recursive=True)
    kernel.stop(connecting)
    kernel.shutdown()
    gone(servers)
