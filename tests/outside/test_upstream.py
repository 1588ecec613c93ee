"""The proxy towards one kernel: what a stranger at its port gets, and a kernel that gives no answer."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from mcp_magic.outside import upstream
from mcp_magic.outside.choice import Target, none_serves
from mcp_magic.outside.proxy import Proxy
from mcp_magic.outside.runtime import announce, running_kernels
from mcp_magic.outside.upstream import KernelSession
from tests.support.scripted_kernel import scripted_kernel
from tests.support.stdio_proxy import (
    call,
    connected,
    initialize,
    modern,
    proxied,
    serving,
    text,
    tools,
)
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("folder")


class Stranger:
    """A server at a port that a runtime file names, which is no kernel's."""

    def __init__(self, relay_to: int = 0) -> None:
        self.heard = b""
        self.relay_to = relay_to

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read(65536)
        self.heard += data
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"
        if self.relay_to and data:
            theirs, mine = await asyncio.open_connection("127.0.0.1", self.relay_to)
            mine.write(data)
            answer = await theirs.read()
            mine.close()
        writer.write(answer)
        writer.close()


@pytest.mark.parametrize("relays", [False, True], ids=["answers", "relays"])
async def test_stranger_at_the_port_gets_no_token_and_no_request(folder, mode, relays):
    """Its runtime file and token are this user's, as if it had taken the port of a kernel that has stopped."""
    async with serving() as (_, served):
        stranger = Stranger(served.kernel.port if relays else 0)
        async with await asyncio.start_server(stranger, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            token = served.token_file.read_text()
            served.token_file.with_name(f"kernel-{port}.token").touch(0o600)
            served.token_file.with_name(f"kernel-{port}.token").write_text(token)
            announce(port, folder=folder / "near", notebook="", kernel="", started="2026-01-02T03:04:05.678")
            async with connected(folder / "near", mode=mode) as client:
                assert await tools(client) == ["find_kernels"]
                assert text(await client.call_tool("who", {})) == none_serves()
        assert b"GET /proof?nonce=" in stranger.heard
        assert token.encode() not in stranger.heard
        assert b"Authorization" not in stranger.heard
        assert b"tools/" not in stranger.heard


async def test_kernel_that_gives_no_answer_is_said_to_be_busy(folder, monkeypatch):
    monkeypatch.setattr(upstream, "CONNECT_SECONDS", 0.2)
    written: list[dict[str, Any]] = []

    async def following():
        yield json.dumps({"jsonrpc": "2.0", **initialize()}).encode()
        yield json.dumps({"jsonrpc": "2.0", **call(1, "who")}).encode()
        await until(lambda: len(written) == 2)

    async def silent(reader, writer):
        await reader.read()
        writer.close()

    async with serving() as (_, served):
        token = served.token_file.read_text()
    async with await asyncio.start_server(silent, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        file = served.token_file.with_name(f"kernel-{port}.token")
        file.touch(0o600)
        file.write_text(token)
        announce(port, folder=folder, notebook="a.ipynb", kernel="", started="2026-01-02T03:04:05.678")
        await Proxy(Target((folder,)), lambda line: written.append(json.loads(line))).run(following())
    said = f"a.ipynb in {folder} does not answer now: it runs what leaves no time for others. Try again later"
    assert said in written[0]["result"]["instructions"]
    assert said in written[1]["result"]["content"][0]["text"]


async def test_stranger_that_answers_without_an_end_is_left(folder):
    async def endless(reader, writer):
        with suppress(ConnectionError):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
            while True:
                writer.write(b"0" * 65536)
                await writer.drain()

    async with serving() as (_, served), await asyncio.start_server(endless, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        file = served.token_file.with_name(f"kernel-{port}.token")
        file.touch(0o600)
        file.write_text(served.token_file.read_text())
        announce(port, folder=folder / "near", notebook="", kernel="", started="2026-01-02T03:04:05.678")
        async with connected(folder / "near", mode="legacy") as client:
            assert await tools(client) == ["find_kernels"]


async def test_kernel_that_does_not_begin_a_session_is_said_to_be_busy(folder, monkeypatch):
    monkeypatch.setattr(upstream, "CONNECT_SECONDS", 0.2)
    async with scripted_kernel(folder, "initialize"), proxied(folder, initialize(), call(1, "who")) as written:
        await until(lambda: len(written) == 2)
    said = f"a.ipynb in {folder} does not answer now: it runs what leaves no time for others. Try again later"
    assert said in written[0]["result"]["instructions"]
    assert said in written[1]["result"]["content"][0]["text"]


async def test_requests_at_a_time_wait_for_a_connection(folder, monkeypatch):
    monkeypatch.setattr(upstream, "MAX_CONNECTIONS", 3)

    async def ask(number):
        async for _ in session.exchange(modern(number, "ping")):
            pass

    async with scripted_kernel(folder, "ping") as kernel:
        [running] = running_kernels()
        session = KernelSession(running, kernel.token, "me")
        requests = [asyncio.create_task(ask(number)) for number in range(10)]
        for number, request in enumerate(requests):
            sent = min(number + 3, 10)
            await until(lambda sent=sent: kernel.methods.count("ping") == sent)
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
        await session.close()
    assert kernel.most <= 4, "a closed one may not be seen to be closed"
