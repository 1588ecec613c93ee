"""The HTTP connections of a session: connections are used again, and few are kept."""

from __future__ import annotations

import asyncio
import resource
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import psutil
import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.config.specs import HttpSpec
from mcp_magic.flight.progress import Reports
from mcp_magic.session import pool, transports
from mcp_magic.session.connection import Connection
from mcp_magic.session.pool import KEPT_CONNECTIONS, ConnectionPool
from mcp_magic.session.services import Services
from tests.support.asgi import serving
from tests.support.clocks import jump
from tests.support.counting import Holding, answers, calls
from tests.support.proxy import Proxy, proxied
from tests.support.waiting import until
from tests.support.watching import Watching
from tests.support.websockets_server import serve_websocket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """Let a hundred connections at once take as long as they do on a busy machine."""
    monkeypatch.setattr(transports, "CONNECT_SECONDS", 100.0)
    monkeypatch.setattr("mcp.shared.jsonrpc_dispatcher._ABANDON_WRITE_TIMEOUT", 100.0)


@asynccontextmanager
async def relayed(server: MCPServer) -> AsyncIterator[tuple[str, Proxy]]:
    """Serve a server behind a proxy; yield the URL and the proxy."""
    async with serving(server.streamable_http_app()) as url, proxied(url) as proxy:
        yield proxy.url(), proxy


async def test_calls_use_one_connection_while_the_server_keeps_it(host):
    server = MCPServer("echo", log_level="ERROR")

    @server.tool()
    async def length(text: str) -> int:
        """Return how long a text is."""
        return len(text)

    async with relayed(server) as (url, relay):
        connection = await host.connect(url, name="echo")
        assert (await connection.call("length", text="word")).data == 4
        opened = relay.accepted
        for _ in range(20):
            await connection.call("length", text="")
        assert relay.accepted == opened

        relay.cut()
        await until(lambda: not relay.open or relay.accepted > opened)
        assert (await connection.call("length", text="word")).data == 4, "none is used that the server has closed"
        assert connection.failures == 0
        await host.disconnect("echo")


async def test_few_of_the_connections_of_many_calls_at_once_are_kept(host):
    holding = Holding()
    async with relayed(holding.server) as (url, relay):
        connection = await host.connect(url, name="load")
        tasks = calls(connection, 3 * KEPT_CONNECTIONS)
        await until(lambda: len(holding.held) == len(tasks))
        assert relay.open >= len(tasks)
        holding.release.set()
        assert await answers(tasks) == list(range(len(tasks)))
        await until(lambda: relay.open <= KEPT_CONNECTIONS + 1)  # and the stream of notifications
        await host.disconnect("load")
        await until(lambda: not relay.open)


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALL = {
    "json": {
        **{"jsonrpc": "2.0", "id": 1, "method": "tools/call"},
        "params": {"name": "hold", "arguments": {"n": 1}, "_meta": META},
    },
    "headers": {
        **{"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"},
        **{"mcp-method": "tools/call", "mcp-name": "hold"},
    },
}


async def test_an_interrupted_request_leaves_no_connection():
    holding = Holding()
    async with relayed(holding.server) as (url, relay):
        async with httpx2.AsyncClient(transport=ConnectionPool(httpx2.create_ssl_context)) as client:
            request = asyncio.create_task(client.post(url, **CALL))  # type: ignore[arg-type]
            await until(lambda: len(holding.held) == 1)
            assert relay.open == 1
            request.cancel()
            await until(lambda: not relay.open)
            holding.release.set()
            assert (await client.post(url, **CALL)).status_code == 200  # type: ignore[arg-type]
        await until(lambda: not relay.open)


async def test_errors_are_those_of_httpx2():
    async with httpx2.AsyncClient(transport=ConnectionPool(httpx2.create_ssl_context)) as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get("http://127.0.0.1:9/")
        with pytest.raises(httpx2.UnsupportedProtocol):
            await client.get("ftp://127.0.0.1/")


# Many at once


@pytest.mark.parametrize("legacy", [False, True], ids=["2026-07-28", "handshake"])
async def test_many_calls_at_once_are_answered_or_interrupted(host, legacy):
    holding, count = Holding(), 110
    async with serving(holding.app(legacy=legacy)) as url:
        connection = await host.connect(f"{url}/mcp", name="load")
        before = psutil.Process().num_fds()
        tasks = calls(connection, count)
        await until(lambda: len(holding.held) == count)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        await until(lambda: not holding.held)
        tasks = calls(connection, count)
        await until(lambda: len(holding.held) == count)
        holding.release.set()
        assert await answers(tasks) == list(range(count))
        assert (connection.state, connection.failures, connection.reconnects) == ("open", 0, 0)
        await until(lambda: psutil.Process().num_fds() <= before + 50)
        await host.disconnect("load")


async def test_idle_connections_close_and_busy_ones_stay(host, monkeypatch):
    holding = Holding()
    async with relayed(holding.server) as (url, relay):
        connection = await host.connect(url, name="load")
        tasks = calls(connection, 60)
        await until(lambda: len(holding.held) == 60)
        assert relay.open >= 60
        monkeypatch.setattr(pool, "IDLE_SECONDS", 0.0)
        for task in tasks[:40]:
            task.cancel()
        await until(lambda: len(holding.held) == 20)
        await connection.listing("tools", refresh=True)
        assert len(holding.held) == 20
        holding.release.set()
        assert await answers(tasks[40:]) == list(range(40, 60))
        for _ in range(10):
            await connection.listing("tools", refresh=True)
        await until(lambda: relay.open <= 3)
        await host.disconnect("load")


async def test_waiting_for_limited_client_is_no_failure(host):
    def limited(**options: Any) -> httpx2.AsyncClient:
        timeout = httpx2.Timeout(15.0, read=None, pool=0.05)
        return httpx2.AsyncClient(headers=options["headers"], timeout=timeout, limits=httpx2.Limits(max_connections=4))

    holding = Holding()
    async with serving(holding.app()) as url:
        connection = await host.connect_spec(HttpSpec(url=f"{url}/mcp", client_factory=limited), "load")
        tasks = calls(connection, 12)
        await until(lambda: len(holding.held) >= 3)
        jump(1)
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in tasks)
        assert (len(holding.held) <= 4, connection.state) == (True, "open")
        holding.release.set()
        assert await answers(tasks) == list(range(12))
        await host.disconnect("load")


@contextmanager
def open_files(limit: int) -> Iterator[None]:
    """Let this process open no more than so many files meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_concurrent_calls_use_at_most_half_of_open_files():
    holding, watching = Holding(), Watching()
    async with serving(holding.app()) as url:
        with open_files(20):
            connection = Connection("load", HttpSpec(url=f"{url}/mcp"), Services(reports=Reports(reporter=watching)))
        await connection.open()
        tasks = calls(connection, 25)
        await until(lambda: len(holding.held) == 10)
        # on a busy machine what came before may have taken a second, too
        await until(lambda: len([r for r in watching.shown if r.state == "running"]) == 25)
        running = [r.words() for r in watching.shown if r.state == "running"]
        assert all(words.endswith("s · 10 calls are under way, others wait") for words in running), running
        assert await connection.ping() < 60, "what is no call does not stand behind calls"
        for task in tasks[10:15]:
            task.cancel()
        holding.release.set()
        assert await answers(tasks[:10] + tasks[15:]) == [*range(10), *range(15, 25)]
        assert holding.most == 10
        await connection.close()


async def test_thousand_concurrent_calls_report_no_stray_answers(host):
    holding = Holding()
    async with serve_websocket(holding.server) as url:
        connection = await host.connect(url, name="load")
        tasks = calls(connection, 1050)
        await until(lambda: len(holding.held) == 1050)
        holding.release.set()
        assert await answers(tasks) == list(range(1050))
        assert not connection.notices.messages
        await host.disconnect("load")
