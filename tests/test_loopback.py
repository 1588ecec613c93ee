"""What any program on this machine can do to `%mcp serve` and to a log-in that waits, without the token."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic import loopback
from mcp_magic.auth import login
from mcp_magic.auth.login import CallbackServer
from mcp_magic.config.specs import HttpSpec
from mcp_magic.loopback import proof_of
from mcp_magic.server.http import Serving, serve
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine


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


CLIENT = """
import sys, urllib.request
headers = {"Authorization": sys.argv[2], "Content-Type": "application/json"}
headers["Accept"] = "application/json, text/event-stream"
print(urllib.request.urlopen(urllib.request.Request(sys.argv[1], sys.argv[3].encode(), headers), timeout=60).status)
"""
HELD: list[str] = []


async def outcome(work: Coroutine[Any, Any, object]) -> type[BaseException] | None:
    """Return the type of the error that something ends with."""
    try:
        await work
    except Exception as error:
        return type(error)
    return None


@asynccontextmanager
async def serving(folder: Path, *, own_thread: bool = False) -> AsyncIterator[tuple[Serving, HttpSpec]]:
    async def wait() -> str:
        assert await said(served.port, "") == b"", "a stranger that comes later is gone sooner"
        return "done"

    def add(a: int, b: int) -> int:
        return a + b

    async def hold() -> str:
        HELD[:] = ["held"]
        try:
            await asyncio.Event().wait()
        finally:
            HELD[:] = ["cancelled"]

    HELD.clear()
    server: MCPServer = MCPServer("adder")
    for function in (add, wait, hold):
        server.add_tool(function)
    served = await serve("adder", server, folder, own_thread=own_thread)
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


async def test_connections_are_limited_with_the_token_too(tmp_path, monkeypatch):
    monkeypatch.setattr(loopback, "MOST_CONNECTIONS", 3)
    async with serving(tmp_path) as (served, _):
        request = f"{POST}Authorization: Bearer {served.token}\r\nConnection: close\r\n\r\n"
        async with flooding(served.port, 2):
            assert (await said(served.port, request)).startswith(b"HTTP/1.1 503 ")
        answers = [await said(served.port, request) for _ in range(20)]  # once the server has seen them close
        assert not answers[-1].startswith(b"HTTP/1.1 503 ")


async def test_a_body_without_token_is_not_read(tmp_path):
    async with serving(tmp_path) as (served, _):
        answer = await said(served.port, f"{POST}Content-Length: 1000000000\r\n\r\n{'x' * 1000}")
        assert answer.startswith(b"HTTP/1.1 401 ")


async def test_a_client_cannot_say_that_it_is_another_one(tmp_path):
    async with serving(tmp_path) as (served, _):
        head = f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nX-Forwarded-For: 10.0.0.1\r\n"
        answer = await said(served.port, f"{head}Authorization: Bearer {served.token}\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 4")


INITIALIZE = {
    **{"jsonrpc": "2.0", "id": 1, "method": "initialize"},
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:PORT"}, 200),
        ({"Origin": "http://127.0.0.1:PORT"}, 200),
        ({"Host": "rebound.example:PORT"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost:8888"}, 403),
        ({"Origin": "null"}, 403),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "TOKEN"}, 401),
    ],
)
async def test_only_requests_to_this_address_and_origin_come_in(tmp_path, headers, status):
    async with serving(tmp_path) as (served, spec):
        own = {"Accept": "application/json, text/event-stream", **spec.headers, **headers}
        filled = {
            key: value.replace("PORT", str(served.port)).replace("TOKEN", served.token) for key, value in own.items()
        }
        async with httpx2.AsyncClient() as http:
            assert (await http.post(served.url, headers=filled, json=INITIALIZE)).status_code == status
            in_url = await http.post(f"{served.url}?token={served.token}&authorization=Bearer%20{served.token}")
            assert in_url.status_code == 401


async def test_proof_is_of_the_token_and_the_port_alone(tmp_path):
    async with serving(tmp_path) as (served, _), httpx2.AsyncClient() as http:
        nonce = "ab" * 16
        proof = (await http.get(f"http://127.0.0.1:{served.port}/proof?nonce={nonce}")).text.strip()
        assert proof == proof_of(served.token, served.port, nonce)
        assert proof not in (proof_of(served.token, served.port + 1, nonce), proof_of("x", served.port, nonce))
        assert served.token not in proof
        for query in ("", "?nonce=", "?nonce=zz", f"?nonce={'a' * 1000}", f"?nonce={nonce}&x=1"):
            assert (await http.get(f"http://127.0.0.1:{served.port}/proof{query}")).status_code == 401


async def test_server_on_own_thread_answers_while_this_one_computes(host, tmp_path):
    async with serving(tmp_path, own_thread=True) as (served, spec):
        body = json.dumps(INITIALIZE)
        command = [sys.executable, "-c", CLIENT, served.url, spec.headers["Authorization"], body]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "200\n"  # it blocks
        await host.connect(spec, name="adder")
        assert (await host.call("adder:add", {"a": 1, "b": 2})).data == 3
        await host.close()


async def test_stop_cuts_requests_and_streams_on_own_thread(tmp_path):
    async with serving(tmp_path, own_thread=True) as (served, spec):
        async with httpx2.AsyncClient(
            headers={**spec.headers, "Accept": "application/json, text/event-stream"}
        ) as http:
            session = {"Mcp-Session-Id": (await http.post(served.url, json=INITIALIZE)).headers["mcp-session-id"]}
            await http.post(served.url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
            call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "hold", "arguments": {}}}
            async with http.stream("GET", served.url, headers=session) as stream, asyncio.TaskGroup() as group:
                waiting = group.create_task(outcome(http.post(served.url, json=call, headers=session, timeout=60)))
                await until(lambda: HELD)
                await served.stop()
                assert not served.running
                assert await waiting in (httpx2.RemoteProtocolError, httpx2.ReadError)
                assert await outcome(stream.aread()) in (httpx2.RemoteProtocolError, httpx2.ReadError)
            assert HELD == ["cancelled"]
            assert await outcome(http.post(served.url, json=INITIALIZE)) is httpx2.ConnectError
        assert not served.token_file.exists()
        await served.stop()


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


async def test_parts_of_an_answer_are_sent_at_once():
    delays = []

    async def app(scope, receive, send):
        if scope["type"] == "http":
            [connection] = server._uvicorn.server_state.connections
            own = connection.transport.get_extra_info("socket")
            delays.append(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"done"})

    server = loopback.LoopbackServer(app, lambda scope: None, "test")
    listening = loopback.listen()
    await server.start(listening)
    async with httpx2.AsyncClient() as client:
        assert (await client.get(f"http://127.0.0.1:{listening.getsockname()[1]}/")).text == "done"
    await server.stop()
    assert delays == [1]


@pytest.mark.parametrize("own_thread", [True, False])
async def test_stop_ends_what_a_forked_process_has_copies_of(own_thread):
    copies = []

    async def app(scope, receive, send):
        if scope["type"] == "http":
            [connection] = server._uvicorn.server_state.connections
            copies.append(connection.transport.get_extra_info("socket").dup())
            await asyncio.Event().wait()

    server = loopback.LoopbackServer(app, lambda scope: None, "test", own_thread=own_thread)
    listening = loopback.listen()
    port = listening.getsockname()[1]
    with closing(listening.dup()):
        await server.start(listening)
        waiting = asyncio.create_task(said(port, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
        await until(lambda: copies)
        await server.stop()
        assert not server.running
        assert (await waiting)[:13] in (b"", b"HTTP/1.1 500 ")
        assert await outcome(said(port, "")) is ConnectionRefusedError
        loopback.listen(port).close()
    copies[0].close()
