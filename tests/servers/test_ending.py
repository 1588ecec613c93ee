"""How the bundled servers' processes start, from any folder, and how they end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from mcp import Client

from mcp_magic import Host
from mcp_magic.config.specs import StdioSpec
from tests.support import bundled
from tests.support.kernels import until
from tests.support.processes import start_http

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOTEBOOKS = bundled.FOLDER.parent

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
}


@pytest.fixture(params=["math_server", "paging_server"])
def process(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
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


@pytest.mark.parametrize("file", sorted(bundled.FOLDER.glob("*_server.py")), ids=lambda file: file.stem)
async def test_a_host_starts_a_bundled_server_by_its_file(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with Host() as host:
        connection = await host.connect(os.path.relpath(file))
        assert isinstance(connection.spec, StdioSpec)
        assert await connection.listing("tools")


@pytest.mark.parametrize(
    ("options", "path"),
    [(("--port", "0"), "/mcp"), (("--port", "0", "--transport", "sse"), "/sse")],
    ids=["port", "sse"],
)
def test_a_bundled_server_serves_http_where_it_is_told(options: tuple[str, ...], path: str) -> None:
    with start_http(bundled.command("weather_server", *options)) as running:
        assert urlsplit(running.url).path == path


def test_a_stdio_server_ends_silently_when_its_input_ends(process: subprocess.Popen[str]) -> None:
    said, errors = process.communicate(timeout=60)
    assert (process.returncode, said, errors) == (0, "", "")


def test_interrupt_ends_stdio_server_without_traceback(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    code = process.wait(timeout=60)  # its input is still open
    assert code == -signal.SIGINT
    assert process.stderr is not None
    assert process.stderr.read() == ""


@pytest.mark.parametrize("name", ["weather_server", "paging_server"])
async def test_interrupt_ends_http_server_without_traceback(name: str) -> None:
    with start_http(bundled.command(name, "--transport", "http", "--port", "0")) as running:
        assert running.url.startswith("http://127.0.0.1:")
        async with Client(running.url, mode="legacy") as client:  # keeps an event stream open
            assert (await client.list_tools()).tools
            running.process.send_signal(signal.SIGINT)
            assert running.wait_end(60) == 0
    assert "Traceback" not in running.stderr


def test_notebook_server_ends_with_its_kernel() -> None:
    code = "from servers.start import start\nprint(start('weather_server.py'), flush=True)\ninput()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], cwd=NOTEBOOKS, text=True, **pipes) as kernel:
        assert kernel.stdout is not None
        address = urlsplit(kernel.stdout.readline().strip())
        assert address.hostname is not None
        with socket.create_connection((address.hostname, address.port or 0)):
            kernel.kill()

    def gone() -> bool:
        with socket.socket() as client:
            return client.connect_ex((address.hostname, address.port)) != 0

    until(gone, timeout=60, what="the server has ended")


def test_a_port_that_is_taken_is_an_error_that_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        argv = bundled.command("weather_server", "--port", str(taken.getsockname()[1]))
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "address already in use" in done.stderr
    assert "Traceback" not in done.stderr
