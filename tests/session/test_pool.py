"""The HTTP connections of a session: requests go out whole, connections are used again, and few are kept."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx2
import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.session.pool import HELD_BYTES, KEPT_CONNECTIONS, ConnectionPool
from tests.session.test_load import Holding, answers, calls
from tests.support.asgi import serving
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic._host import Host


class Relay:
    """Passes bytes on between clients and a server.

    Attributes:
        sent: What clients sent, in the parts in which it arrived.
        opened: How many connections were opened.
        open: Those that are open.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.sent: list[bytes] = []
        self.opened = 0
        self.open: set[asyncio.StreamWriter] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a client."""
        self.opened += 1
        self.open.add(writer)
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        ways = [self._pass(reader, to_server, self.sent), self._pass(from_server, writer, [])]
        try:
            await asyncio.wait([asyncio.ensure_future(way) for way in ways], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.open.discard(writer)
            writer.close()
            to_server.close()

    @staticmethod
    async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, parts: list[bytes]) -> None:
        try:
            while part := await reader.read(2**20):
                parts.append(part)
                writer.write(part)
                await writer.drain()
        except ConnectionError:
            return


@asynccontextmanager
async def relayed(server: MCPServer) -> AsyncIterator[tuple[str, Relay]]:
    """Serve a server behind a relay; yield the URL and the relay."""
    async with serving(server.streamable_http_app()) as url:
        relay = Relay(int(url.rpartition(":")[2]))
        async with await asyncio.start_server(relay, "127.0.0.1", 0) as listener:
            yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp", relay
            listener.close()


def echo() -> MCPServer:
    """Return a server with one tool."""
    server = MCPServer("echo", log_level="ERROR")

    @server.tool()
    async def length(text: str) -> int:
        """Return how long a text is."""
        return len(text)

    return server


async def test_a_request_arrives_with_its_body_in_one_part(host: Host) -> None:
    async with relayed(echo()) as (url, relay):
        connection = await host.connect(url, name="echo")
        relay.sent.clear()
        assert (await connection.call("length", text="word")).data == 4
        await host.disconnect("echo")

    (request,) = [part for part in relay.sent if b'"tools/call"' in part]
    head, _, body = request.partition(b"\r\n\r\n")
    found = re.search(rb"(?i)content-length: (\d+)", head)
    assert found is not None
    assert len(body) == int(found[1])


async def test_a_long_request_arrives_too(host: Host) -> None:
    async with relayed(echo()) as (url, _):
        connection = await host.connect(url, name="echo")
        for length in (HELD_BYTES - 1, HELD_BYTES, 20 * HELD_BYTES):
            assert (await connection.call("length", text="x" * length)).data == length
        await host.disconnect("echo")


async def test_calls_one_after_the_other_use_one_connection(host: Host) -> None:
    async with relayed(echo()) as (url, relay):
        connection = await host.connect(url, name="echo")
        await connection.call("length", text="")
        opened = relay.opened
        for _ in range(20):
            await connection.call("length", text="")
        assert relay.opened == opened
        await host.disconnect("echo")


async def test_pool_does_not_reuse_connection_closed_by_server(host: Host) -> None:
    async with relayed(echo()) as (url, relay):
        connection = await host.connect(url, name="echo")
        await connection.call("length", text="")
        opened = relay.opened
        for writer in list(relay.open):
            writer.close()
        await until(lambda: not relay.open or relay.opened > opened)
        assert (await connection.call("length", text="word")).data == 4
        assert connection.failures == 0
        await host.disconnect("echo")


async def test_few_of_the_connections_of_many_calls_at_once_are_kept(host: Host) -> None:
    holding = Holding()
    async with relayed(holding.server) as (url, relay):
        connection = await host.connect(url, name="load")
        tasks = calls(connection, 3 * KEPT_CONNECTIONS)
        await until(lambda: len(holding.held) == len(tasks))
        assert len(relay.open) >= len(tasks)
        holding.release.set()
        assert await answers(tasks) == list(range(len(tasks)))
        await until(lambda: len(relay.open) <= KEPT_CONNECTIONS + 1)  # and the stream of notifications
        await host.disconnect("load")
        await until(lambda: not relay.open)


async def test_an_interrupted_request_leaves_no_connection() -> None:
    holding = Holding()
    async with relayed(holding.server) as (url, relay):
        async with httpx2.AsyncClient(transport=ConnectionPool(httpx2.create_ssl_context)) as client:
            request = asyncio.create_task(client.post(url, json=_call(), headers=_HEADERS))
            await until(lambda: len(holding.held) == 1)
            assert len(relay.open) == 1
            request.cancel()
            await until(lambda: not relay.open)
            holding.release.set()
            assert (await client.post(url, json=_call(), headers=_HEADERS)).status_code == 200
        await until(lambda: not relay.open)


@pytest.mark.parametrize(
    ("url", "error"),
    [("http://127.0.0.1:9/", httpx2.ConnectError), ("ftp://127.0.0.1/", httpx2.UnsupportedProtocol)],
    ids=["refused", "no HTTP"],
)
async def test_errors_are_those_of_httpx2(url: str, error: type[Exception]) -> None:
    async with httpx2.AsyncClient(transport=ConnectionPool(httpx2.create_ssl_context)) as client:
        with pytest.raises(error):
            await client.get(url)


_HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "hold",
}


def _call() -> dict[str, object]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "hold", "arguments": {"n": 1}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
