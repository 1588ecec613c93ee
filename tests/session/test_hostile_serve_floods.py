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
from mcp_magic._host import Host
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
STARTED = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Serving]:
    server: MCPServer = MCPServer("adder")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    found = await serve("adder", server, folder)
    try:
        yield found
    finally:
        await found.stop()


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


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc tells the file descriptors")


@needs_proc
@pytest.mark.parametrize(("count", "sent"), [(1000, ""), (300, STARTED)], ids=["silent", "in the middle of a header"])
async def test_tokenless_connections_take_few_descriptors(count: int, sent: str, tmp_path: Path) -> None:
    host = Host()
    async with serving(tmp_path) as found:
        before = descriptors()
        spec = HttpSpec(url=found.url, headers={"Authorization": f"Bearer {found.token}"})
        async with flooding(found.port, count, sent):
            assert descriptors() - before <= loopback.MOST_STRANGERS + loopback.BACKLOG + 20
            await host.connect(spec, name="adder")
            result = await host.call("adder:add", {"a": 1, "b": 2})
            assert result.data == 3
        await host.close()


async def test_a_connection_that_sends_no_token_in_time_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopback, "HEADER_SECONDS", 0.2)
    async with serving(tmp_path) as found:
        for sent in (b"", STARTED.encode()):
            reader, writer = await asyncio.open_connection("127.0.0.1", found.port)
            writer.write(sent)
            async with asyncio.timeout(60):
                with pytest.raises((ConnectionError, EOFError)):
                    await reader.readexactly(1)
            writer.close()


@pytest.mark.lowest
async def test_connection_with_token_stays_until_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "HEADER_SECONDS", 2.0)
    server: MCPServer = MCPServer("slow")

    @server.tool()
    async def wait() -> str:
        await asyncio.sleep(2.2)
        return "done"

    host = Host()
    found = await serve("slow", server, tmp_path)
    await host.connect(HttpSpec(url=found.url, headers={"Authorization": f"Bearer {found.token}"}), name="slow")
    assert (await host.call("slow:wait", {})).text == "done"
    await host.close()
    await found.stop()


async def test_body_without_token_is_not_read_and_the_connection_ends(tmp_path: Path) -> None:
    async with serving(tmp_path) as found:
        reader, writer = await asyncio.open_connection("127.0.0.1", found.port)
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 1000)
        async with asyncio.timeout(60):
            answer = await reader.read()  # to the end: the connection is closed
        assert answer.startswith(b"HTTP/1.1 401 ")
        writer.close()


async def test_a_client_cannot_say_that_it_is_another_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as found:
        reader, writer = await asyncio.open_connection("127.0.0.1", found.port)
        head = f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{found.port}\r\nX-Forwarded-For: 10.0.0.1\r\n"
        writer.write(f"{head}Authorization: Bearer {found.token}\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(60):
            assert (await reader.readline()).startswith(b"HTTP/1.1 4")
        writer.close()


@needs_proc
async def test_waiting_log_in_keeps_few_connections_and_answers() -> None:
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
