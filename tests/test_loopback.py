"""What any program on this machine can do to `%mcp serve` and to a log-in that waits, without the token."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic import loopback
from mcp_magic.auth import login
from mcp_magic.auth.login import CallbackServer
from mcp_magic.config.specs import HttpSpec
from mcp_magic.server.http import Serving, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


FLOOD = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
held = []
for number in range(int(sys.argv[2])):
    one = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
    one.sendall(sys.argv[3].encode())
    held.append(one)
print("held", flush=True)
sys.stdin.read()
"""
POST = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[Serving, HttpSpec]]:
    async def wait() -> str:
        assert await said(served.port, "") == b"", "a stranger that comes later is gone sooner"
        return "done"

    def add(a: int, b: int) -> int:
        return a + b

    server: MCPServer = MCPServer("adder")
    server.add_tool(add)
    server.add_tool(wait)
    served = await serve("adder", server, folder)
    try:
        yield served, HttpSpec(url=served.url, headers={"Authorization": f"Bearer {served.token}"})
    finally:
        await served.stop()


@asynccontextmanager
async def flooding(port: int, count: int, sent: str = "") -> AsyncIterator[None]:
    """A program that opens many connections and holds them."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-c", FLOOD, str(port), str(count), sent)
    program = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        assert await program.stdout.readline() == b"held\n"
        yield
    finally:
        program.stdin.close()
        await program.wait()


async def said(port: int, text: str) -> bytes:
    """Send something and return what is answered until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.encode())
    try:
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc tells the file descriptors")


@needs_proc
@pytest.mark.parametrize(("count", "sent"), [(1000, ""), (300, f"{POST}X-Slow: ")], ids=["silent", "header"])
async def test_connections_without_token_take_few_descriptors(host, count, sent, tmp_path):
    async with serving(tmp_path) as (served, spec):
        before = descriptors()
        async with flooding(served.port, count, sent):
            assert descriptors() - before <= loopback.MOST_STRANGERS + loopback.BACKLOG + 20
            await host.connect(spec, name="adder")
            assert (await host.call("adder:add", {"a": 1, "b": 2})).data == 3
        await host.close()


@pytest.mark.lowest
async def test_only_a_connection_without_token_is_closed_in_time(host, tmp_path, monkeypatch):
    async with serving(tmp_path) as (served, spec):
        monkeypatch.setattr(loopback, "HEADER_SECONDS", 0.2)
        assert [await said(served.port, sent) for sent in ("", f"{POST}X-Slow: ")] == [b"", b""]
        monkeypatch.setattr(loopback, "HEADER_SECONDS", 1.0)
        await host.connect(spec, name="adder")
        assert (await host.call("adder:wait", {})).text == "done"
        await host.close()


async def test_a_body_without_token_is_not_read(tmp_path):
    async with serving(tmp_path) as (served, _):
        answer = await said(served.port, f"{POST}Content-Length: 1000000000\r\n\r\n{'x' * 1000}")
        assert answer.startswith(b"HTTP/1.1 401 ")


async def test_a_client_cannot_say_that_it_is_another_one(tmp_path):
    async with serving(tmp_path) as (served, _):
        head = f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nX-Forwarded-For: 10.0.0.1\r\n"
        answer = await said(served.port, f"{head}Authorization: Bearer {served.token}\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 4")


@needs_proc
async def test_a_waiting_log_in_keeps_few_connections_and_answers():
    server = CallbackServer()
    try:
        before = descriptors()
        async with flooding(server.server_port, 80):
            assert descriptors() - before <= login.MOST_CONNECTIONS + 20
            with closing(socket.create_connection(("127.0.0.1", server.server_port), timeout=9)) as one:
                one.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
                assert (await asyncio.to_thread(one.recv, 100)).startswith(b"HTTP/1.0 404")
    finally:
        server.close()
