"""Streams that are cut: what comes on them arrives all the same, once."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventMessage, EventStore

from mcp_magic import errors
from mcp_magic.session import http, notifications
from tests.support.asgi import Forgetful, answer, serving
from tests.support.proxy import proxied
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection
    from tests.support.proxy import Proxy

RETRY_MS = 60


class Kept(EventStore):
    """Events in memory."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        after = int(last_event_id)
        stream = self.events[after - 1][0]
        for number, (owner, message) in list(enumerate(self.events, 1))[after:]:
            if owner == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class Growing:
    """A server that becomes more, and says so on the stream of notifications."""

    def __init__(self) -> None:
        self.server = MCPServer("growing")
        self.server.add_tool(self.grow)

    async def grow(self, ctx: Context[Any, Any]) -> str:
        """Become more, and say so."""
        name = f"grown_{len(await self.server.list_tools())}"
        self.server.add_tool(lambda: name, name=name)
        await self.tell(ctx)
        return name

    async def tell(self, ctx: Context[Any, Any]) -> None:
        """Say so."""
        await ctx.notify_tools_changed()


class Stepping(Growing):
    """A server of the handshake era whose call reports a step whenever it is told to.

    Attributes:
        runs: How often it was called.
        steps: Gets the steps to report; None ends the call.
        gets: The streams that were opened with GET: when, and after which event.
        gates: The statuses that the next of them get.
        live: How many of them went on after an event and have got to what is told from now on. What the SDK's server
            tells between the replay and that is lost until the stream is opened once more.
        opens: What a GET waits for.
        order: The HTTP methods of what came, in the order in which it went on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.runs = self.live = 0
        self.steps: asyncio.Queue[int | None] = asyncio.Queue()
        self.gets: list[tuple[float, str]] = []
        self.gates: list[int] = []
        self.opens = asyncio.Event()
        self.opens.set()
        self.order: list[str] = []
        self.server.add_tool(self.step)
        self._app = Forgetful(self.server.streamable_http_app(event_store=Kept(), retry_interval=RETRY_MS))
        self.forget = self._app.forget

    async def step(self, ctx: Context[Any, Any]) -> str:
        """Report steps."""
        self.runs += 1
        await ctx.report_progress(0)
        while (number := await self.steps.get()) is not None:
            await ctx.report_progress(number)
        return "done"

    async def tell(self, ctx: Context[Any, Any]) -> None:
        await ctx.request_context.session.send_tool_list_changed()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "GET":
            await self.opens.wait()
            self.gets.append((time.monotonic(), dict(scope["headers"]).get(b"last-event-id", b"").decode()))
        self.order.append(scope["method"])
        if scope["method"] == "GET" and self.gates:
            await answer(send, self.gates.pop(0))
            return

        async def sent(message: Any) -> None:
            await send(message)
            if scope["method"] == "GET" and b"retry:" in message.get("body", b""):
                self.live += 1

        await self._app(scope, receive, sent)

    def resumed(self) -> list[tuple[float, str]]:
        """Return the streams that went on after an event."""
        return [stream for stream in self.gets if stream[1]]


@asynccontextmanager
async def connected(host: Host, app: Any) -> AsyncIterator[tuple[Connection, Proxy]]:
    async with serving(app) as url, proxied(url) as proxy:
        yield await host.connect(proxy.url(), name="stepping"), proxy
        await host.close()


async def stepping(connection: Connection, told: list[float] | None = None) -> asyncio.Task[Any]:
    """Start a call, and return when the first of it has come back: from then on it can be resumed."""
    heard: list[float] = [] if told is None else told

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    call = asyncio.create_task(connection.call_tool("step", {}, on_progress=on_progress))
    await until(lambda: heard == [0])
    return call


def has(connection: Connection, name: str) -> bool:
    return any(tool.name == name for tool in connection.catalog.cached("tools"))


@pytest.mark.parametrize("cuts", [1, 4])
async def test_answer_and_progress_arrive_after_stream_is_cut(quick, cuts, monkeypatch):
    pauses, sleep = [], anyio.sleep
    monkeypatch.setattr(anyio, "sleep", lambda seconds: pauses.append(seconds) or sleep(seconds))
    server = Stepping()
    told: list[float] = []
    async with connected(quick, server) as (connection, proxy):
        call = await stepping(connection, told)
        for number in range(1, cuts + 1):
            seen = len(server.resumed())
            proxy.cut()
            server.steps.put_nowait(2 * number - 1)  # it says this while nobody hears it
            await until(lambda: server.live > seen)  # noqa: B023
            assert pauses.count(RETRY_MS / 1000) >= number, "the server's `retry` is honoured"
            server.steps.put_nowait(2 * number)
            await until(lambda: len(told) == 2 * number + 1)  # noqa: B023
        server.steps.put_nowait(None)
        assert (await call).text == "done"
        assert told == list(range(2 * cuts + 1)), "nothing is lost, nothing comes twice"
        assert server.runs == 1
        assert (connection.state, connection.failures) == ("open", 0)


async def test_stream_resumes_after_a_long_absence_and_refusals(quick):
    server = Stepping()
    async with connected(quick, server) as (connection, proxy):
        call = await stepping(connection)
        proxy.lose()
        await until(lambda: re.search(r"tried ([7-9]|\d\d)", connection.problem))  # longer than the SDK tries
        server.steps.put_nowait(None)
        await proxy.listen()
        assert (await call).text == "done"
        call = await stepping(connection)
        server.gates = [503, 409, 502, 429]
        proxy.cut()
        server.steps.put_nowait(None)
        assert (await call).text == "done"
        assert server.runs == 2


async def test_call_with_forgotten_session_ends_with_an_error(quick):
    server = Stepping()
    async with connected(quick, server) as (connection, proxy):
        call = await stepping(connection)
        server.gates = [404, 404, 404, 404]
        server.forget()
        proxy.cut()
        with pytest.raises(errors.SessionClosedError, match="stepping:step: the connection was lost"):
            await call
        await until(lambda: connection.state == "open")
        assert server.runs == 1


async def test_an_interrupted_call_whose_stream_is_away_ends_at_once(quick):
    begun = time.monotonic()
    async with connected(quick, Stepping()) as (connection, proxy):
        call = await stepping(connection)
        proxy.lose()
        await until(lambda: connection.state == "reconnecting")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert time.monotonic() - begun < 20.0


async def test_stream_of_notifications_reopens_after_all_cuts(quick):
    server = Stepping()
    async with connected(quick, server) as (connection, proxy):
        await until(lambda: len(server.gets) == 1)
        await connection.call("grow")
        await until(lambda: len(connection.catalog.cached("tools")) == 3)
        for cuts in range(1, 5):
            proxy.cut()
            await until(lambda: len(server.gets) > cuts)  # noqa: B023
            await until(lambda: connection.state == "open")
            name = (await connection.call("grow")).text
            await until(lambda: has(connection, name))  # noqa: B023
        assert all(after for _, after in server.gets[1:]), "each goes on where the one before was cut"


async def test_notice_of_first_call_is_kept_if_stream_opens_late(host, monkeypatch):
    monkeypatch.setattr(http, "STREAM_SECONDS", 30)
    monkeypatch.setattr("mcp_magic._host.PREFETCH_SECONDS", 0.1)
    server = Stepping()
    server.opens.clear()
    async with serving(server) as url:
        connection = await host.connect(f"{url}/mcp", name="stepping")
        asyncio.get_running_loop().call_later(0.1, server.opens.set)
        name = (await connection.call("grow")).text
        await until(lambda: has(connection, name))
        before = server.order[: server.order.index("GET")]
        assert before == ["POST"] * 3, "discovery and the handshake, and nothing else before the stream"
        await host.disconnect("stepping")


async def test_late_stream_of_notifications_is_waited_for_once(host, monkeypatch):
    monkeypatch.setattr(http, "STREAM_SECONDS", 0.05)
    server = Stepping()
    server.opens.clear()
    async with serving(server) as url:
        connection = await host.connect(f"{url}/mcp", name="stepping")
        assert (await connection.call("grow")).text == "grown_2"
        monkeypatch.setattr(http, "STREAM_SECONDS", 30)
        async with asyncio.timeout(20):
            assert (await connection.call("grow")).text == "grown_3"
        assert "GET" not in server.order
        server.opens.set()
        await host.disconnect("stepping")


class Announcing(Growing):
    """A server of 2026-07-28 that announces changes of its lists.

    Attributes:
        listens: How many streams for that were opened.
    """

    def __init__(self) -> None:
        super().__init__()
        self.listens = 0
        self._app = self.server.streamable_http_app()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.listens += dict(scope["headers"]).get(b"mcp-method") == b"subscriptions/listen"
        await self._app(scope, receive, send)


async def test_stream_of_2026_07_28_changes_reopens_after_all_cuts(quick, monkeypatch):
    monkeypatch.setattr(notifications, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(notifications, "LONGEST_PAUSE_SECONDS", 0.02)
    server = Announcing()
    async with connected(quick, server) as (connection, proxy):
        assert connection.protocol_version == "2026-07-28"
        for cuts in range(4):
            await until(lambda: server.listens > cuts and connection.state == "open")  # noqa: B023
            name = (await connection.call("grow")).text
            await until(lambda: has(connection, name))  # noqa: B023
            proxy.cut()


@pytest.mark.parametrize("made", [Announcing, Stepping])
async def test_a_server_that_goes_while_nothing_is_asked_is_noticed(quick, made):
    async with connected(quick, made()) as (connection, proxy):
        await until(lambda: proxy.accepted > 1)
        proxy.lose()
        await until(lambda: connection.state == "reconnecting")
        await proxy.listen()
        await until(lambda: connection.state == "open")
