"""How the bundled servers' processes start, from any folder, and how they end."""

import json
import os
import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from mcp import Client

from mcp_magic import Host
from mcp_magic.config.specs import StdioSpec
from tests.support import bundled
from tests.support.kernels import until
from tests.support.processes import start_http

NAMES = {file.stem for file in bundled.FOLDER.glob("*_server.py")}
STARTED = {f"{name}_server" for name in ("documents", "faulty", "math", "paging", "showcase", "weather")}
"""Those that other tests start."""

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
}


@pytest.fixture(params=["math_server", "paging_server"])
def process(request, tmp_path):
    """A stdio server that was started in an empty folder and has answered."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(bundled.command(request.param), cwd=tmp_path, text=True, **pipes) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(INITIALIZE) + "\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"]
        try:
            yield server
        finally:
            server.kill()


@pytest.mark.parametrize("name", sorted(NAMES - STARTED))
async def test_a_host_starts_a_bundled_server_by_its_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with Host() as host:
        connection = await host.connect(os.path.relpath(bundled.FOLDER / f"{name}.py"))
        assert isinstance(connection.spec, StdioSpec)
        assert await connection.listing("tools")


def test_a_stdio_server_ends_silently_when_its_input_ends(process):
    said, errors = process.communicate(timeout=60)
    assert (process.returncode, said, errors) == (0, "", "")


def test_interrupt_ends_stdio_server_without_traceback(process):
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == -signal.SIGINT  # its input is still open
    assert process.stderr is not None
    assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("name", "options", "path"),
    [
        pytest.param("weather_server", (), "/mcp", id="port"),
        pytest.param("weather_server", ("--transport", "sse"), "/sse", id="sse"),
        pytest.param("paging_server", ("--transport", "http"), "/mcp", id="http"),
    ],
)
async def test_http_server_listens_where_told_until_interrupt(name, options, path):
    with start_http(bundled.command(name, "--port", "0", *options)) as running:
        assert running.url.startswith("http://127.0.0.1:")
        assert urlsplit(running.url).path == path
        if path == "/mcp":
            async with Client(running.url, mode="legacy") as client:  # keeps an event stream open
                assert (await client.list_tools()).tools
                running.process.send_signal(signal.SIGINT)
                assert running.wait_end(60) == 0
    assert "Traceback" not in running.stderr


def test_notebook_server_ends_with_its_kernel():
    code = "from servers.start import start\nprint(start('weather_server.py'), flush=True)\ninput()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], cwd=bundled.FOLDER.parent, text=True, **pipes) as kernel:
        assert kernel.stdout is not None
        address = urlsplit(kernel.stdout.readline().strip())
        assert address.hostname is not None
        with socket.create_connection((address.hostname, address.port or 0)):
            kernel.kill()

    def gone():
        with socket.socket() as client:
            return client.connect_ex((address.hostname, address.port)) != 0

    until(gone, timeout=60, what="the server has ended")


def test_a_port_that_is_taken_is_an_error_that_says_so():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        argv = bundled.command("weather_server", "--port", str(taken.getsockname()[1]))
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "address already in use" in done.stderr
    assert "Traceback" not in done.stderr
