"""Sessions that last: servers that go and come back, networks that fail, and what is sent how often."""

from __future__ import annotations

import asyncio
import sys
import time
import warnings
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp import MCPDeprecationWarning
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

from mcp_magic import errors
from mcp_magic.config.specs import HttpSpec
from tests.environments import ROOT
from tests.support.asgi import Forgetful, serving
from tests.support.bundled import command
from tests.support.processes import PLAIN, children, free_port, start_http
from tests.support.proxy import proxied
from tests.support.waiting import until
from tests.support.websockets_server import serve_websocket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from mcp_magic._host import Host


class Counting:
    """A server that counts.

    Attributes:
        runs: What was called.
        release: Lets the calls of `hold` go on.
    """

    def __init__(self, name: str = "counting") -> None:
        self.server = MCPServer(name)
        self.runs: list[str] = []
        self.release = asyncio.Event()
        self.server.add_tool(self.count)
        self.server.add_tool(self.hold)
        self.server.add_tool(self.look, annotations=ToolAnnotations(read_only_hint=True))

    async def count(self) -> int:
        """Count."""
        self.runs.append("count")
        return len(self.runs)

    async def hold(self, ctx: Context[Any, Any]) -> int:
        """Wait until it is let go on."""
        self.runs.append("hold")
        await ctx.report_progress(0.0)
        await self.release.wait()
        return len(self.runs)

    async def look(self) -> int:
        """Look, and wait for nothing the second time."""
        self.runs.append("look")
        if self.runs.count("look") == 1:
            await self.release.wait()
        return len(self.runs)

    def app(self, *, legacy: bool = False, **options: Any) -> Any:
        """An ASGI app; a legacy one does not know `server/discover`."""
        app = self.server.streamable_http_app(**options)
        return Forgetful(app) if legacy else app


ERAS = pytest.mark.parametrize("legacy", [False, True], ids=["2026-07-28", "handshake"])


@ERAS
async def test_connection_reuses_server_that_comes_back(quick: Host, legacy: bool) -> None:
    server = Counting()
    app = server.app(legacy=legacy)
    async with serving(app) as url, proxied(url) as proxy:
        connection = await quick.connect(proxy.url(), name="counting")
        proxy.refuse()
        proxy.cut()
        waiting = asyncio.create_task(connection.call("count"))
        await until(lambda: connection.state == "reconnecting")
        assert "counting: the session has ended" in connection.problem
        await until(lambda: "tried" in connection.problem)
        await proxy.listen()
        assert (await waiting).data == 1
        assert (connection.state, connection.problem, connection.reconnects) == ("open", "", 1)
        assert quick["counting"] is connection
        assert server.runs == ["count"], "it was sent once"
        if legacy:
            assert [method for method, _ in app.requests].count("initialize") == 1, "the server lived, and its session"
        await quick.disconnect("counting")


async def test_connection_reuses_process_restarted_on_its_port(quick: Host) -> None:
    argv = command("showcase_server", "--transport", "http", "--port", str(free_port()))
    with start_http(argv) as server:
        connection = await quick.connect(server.url, name="show")
        first = (await connection.call("process")).text
        server.process.kill()
        server.wait_end()
        quick.reconnection.wait = 60.0  # an interpreter starts
        waiting = asyncio.create_task(connection.call("process"))
        await until(lambda: connection.state == "reconnecting")
        with start_http(argv):
            assert (await waiting).text != first
            await until(lambda: connection.state == "open")  # a stream may be cut late: the server is asked once more
            assert quick["show"] is connection
            await quick.disconnect("show")


async def test_what_a_server_offers_is_read_again_when_it_comes_back(quick: Host) -> None:
    seen: list[str] = []
    before, after = Counting(), Counting()

    async def added() -> str:
        """Was not there before."""
        return "new"

    after.server.add_tool(added)
    async with serving(before.app()) as url, serving(after.app()) as other, proxied(url) as proxy:
        connection = await quick.connect(proxy.url(), name="counting")
        quick.watch(seen.append)
        proxy.target = int(other.rpartition(":")[2])
        proxy.cut()
        proxy.refuse()
        asking = asyncio.create_task(connection.ping())
        await until(lambda: "tried" in connection.problem)
        await proxy.listen()
        await asking
        await until(lambda: any(tool.name == "added" for tool in connection.catalog.cached("tools")))
        assert (await connection.call("added")).text == "new"
        assert "counting" in seen
        await quick.disconnect("counting")


def attentive(told: list[str]) -> Any:
    """A server of the handshake era that wants to be told things."""
    from mcp.server import Server
    from mcp_types import EmptyResult, ListResourcesResult, SubscribeRequestParams

    async def set_level(context: Any, params: Any) -> EmptyResult:
        told.append(params.level)
        return EmptyResult()

    async def subscribe(context: Any, params: SubscribeRequestParams) -> EmptyResult:
        told.append(str(params.uri))
        return EmptyResult()

    async def resources(context: Any, params: Any) -> ListResourcesResult:
        return ListResourcesResult(resources=[])

    handlers: dict[str, Any] = {"on_set_logging_level": set_level, "on_subscribe_resource": subscribe}
    handlers |= {"on_list_resources": resources, "on_unsubscribe_resource": subscribe}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        server = Server("attentive", **handlers)
    return Forgetful(server.streamable_http_app())


async def test_returning_server_gets_log_level_roots_and_subscriptions(quick: Host, tmp_path: Path) -> None:
    told: tuple[list[str], list[str]] = ([], [])
    before, after = (attentive(one) for one in told)
    async with serving(before) as url, serving(after) as other, proxied(url) as proxy:
        connection = await quick.connect(proxy.url(), name="attentive")
        await connection.set_log_level("debug")
        await connection.roots.set(tmp_path)
        watching = asyncio.create_task(anext(aiter(await connection.subscribe("test://a"))))
        assert told == (["debug", "test://a"], [])
        proxy.target = int(other.rpartition(":")[2])
        proxy.cut()
        assert (await watching).missed, "whoever watches hears that something may have been missed"
        assert told[1] == ["debug", "test://a"]
        assert (connection.roots.directories, connection.reconnects) == ((tmp_path,), 1)
        await quick.disconnect("attentive")


async def test_a_call_that_waits_in_vain_says_so_and_was_not_sent(quick: Host) -> None:
    quick.reconnection.wait = 1.0  # in which it is tried at least once
    server = Counting()
    async with serving(server.app()) as url, proxied(url) as proxy:
        connection = await quick.connect(proxy.url(), name="counting")
        proxy.refuse()
        proxy.cut()
        with pytest.raises(errors.SessionClosedError) as caught:
            await connection.call("count")
        assert str(caught.value).startswith("counting:count: not sent: the session did not come back within 1 s")
        assert "`%mcp reconnect counting` tries it at once.\n  last: counting: nothing listens at" in str(caught.value)
        assert (caught.value.sent, caught.value.waited) == (False, True)
        with pytest.raises(errors.SessionClosedError, match=r"within 0\.05 s"):
            await connection.call_tool("count", {}, timeout=0.05)
        assert server.runs == []
        await quick.disconnect("counting")


async def test_disconnecting_stops_a_reconnect_at_once(quick: Host) -> None:
    quick.reconnection.first = quick.reconnection.longest = 60.0
    async with serving(Counting().app()) as url, proxied(url) as proxy:
        connection = await quick.connect(proxy.url(), name="counting")
        proxy.refuse()
        proxy.cut()
        waiting = asyncio.create_task(connection.call("count"))
        await until(lambda: "tried" in connection.problem)
        begun = time.monotonic()
        await quick.disconnect("counting")
        assert time.monotonic() - begun < 20.0
        with pytest.raises(errors.SessionClosedError):
            await waiting
        assert connection.state == "closed"


async def test_reconnecting_gives_up_and_reports_attempts(quick: Host) -> None:
    quick.reconnection.total = 0.1
    async with serving(Counting().app()) as url, proxied(url) as proxy:
        connection = await quick.connect(proxy.url(), name="counting")
        proxy.refuse()
        proxy.cut()
        with pytest.raises(errors.SessionClosedError) as caught:
            await connection.call("count")
        assert connection.state == "lost"
        assert "`%mcp reconnect counting` opens it again" in str(caught.value)
        assert "given up after" in str(caught.value)
        await proxy.listen()
        assert await quick.reconnect("counting") is connection
        assert (await connection.call("count")).data == 1
        await quick.disconnect("counting")


async def test_reconnect_is_at_once_and_the_calls_that_wait_go_on(quick: Host) -> None:
    quick.reconnection.first = quick.reconnection.longest = 60.0
    quick.reconnection.wait = 30.0
    server = Counting()
    async with serving(server.app()) as url, proxied(url) as proxy:
        connection = await quick.connect(proxy.url(), name="counting")
        proxy.refuse()
        proxy.cut()
        waiting = asyncio.create_task(connection.call("count"))
        await until(lambda: "tried" in connection.problem)
        await proxy.listen()
        assert await quick.reconnect("counting") is connection
        assert (await waiting).data == 1
        await quick.disconnect("counting")


async def test_nothing_is_opened_again_where_that_is_switched_off(quick: Host) -> None:
    for mode, reconnect in (("off", None), ("remote", False)):
        quick.reconnection.mode = mode
        async with serving(Counting().app()) as url, proxied(url) as proxy:
            connection = await quick.connect(proxy.url(), name="counting", reconnect=reconnect)
            proxy.refuse()
            proxy.cut()
            with pytest.raises(errors.SessionClosedError, match="`%mcp reconnect counting` opens it again"):
                await connection.call("count")
            await until(lambda: connection.state == "lost")  # noqa: B023
            await quick.disconnect("counting")


# What is sent how often


@ERAS
async def test_call_that_may_have_run_is_not_repeated(quick: Host, legacy: bool) -> None:
    server = Counting()
    async with serving(server.app(legacy=legacy)) as url, proxied(url) as proxy:
        connection = await quick.connect(proxy.url(), name="counting")
        held = asyncio.create_task(connection.call("hold"))
        await until(lambda: server.runs == ["hold"])
        proxy.cut()
        with pytest.raises(errors.SessionClosedError) as caught:
            await held
        assert str(caught.value).startswith("counting:hold: the connection was lost before the answer came")
        assert "so it may have run; it was not sent again." in str(caught.value)
        assert caught.value.sent
        assert (await connection.call("count")).data == 2
        assert server.runs == ["hold", "count"]
        await quick.disconnect("counting")


@pytest.mark.parametrize("trust", [True, False])
async def test_reading_tool_is_repeated_only_on_trusted_server(quick: Host, trust: bool) -> None:
    server = Counting()
    async with serving(server.app()) as url, proxied(url) as proxy:
        connection = await quick.connect(proxy.url(), name="counting", trust=trust)
        looking = asyncio.create_task(connection.call("look"))
        await until(lambda: server.runs == ["look"])
        proxy.cut()
        if trust:
            assert (await looking).data == 2
        else:
            with pytest.raises(errors.SessionClosedError, match="not sent again"):
                await looking
        assert server.runs.count("look") == (2 if trust else 1)
        await quick.disconnect("counting")


def unpooled(**options: Any) -> Any:
    """Make an HTTP client that opens a connection for each request."""
    import httpx2

    return httpx2.AsyncClient(**options, limits=httpx2.Limits(max_keepalive_connections=0))


async def test_refused_request_does_not_disturb_others_of_session(quick: Host) -> None:
    server = Counting()
    async with serving(server.app()) as url, proxied(url) as proxy:
        spec = HttpSpec(url=proxy.url(), client_factory=unpooled)
        connection = await quick.connect_spec(spec, "counting")
        held = asyncio.create_task(connection.call("hold"))
        await until(lambda: server.runs == ["hold"])
        proxy.refuse()
        refused = asyncio.create_task(connection.call("count"))
        await until(lambda: connection.state == "reconnecting")
        server.release.set()
        assert (await held).data == 1
        await proxy.listen()
        assert (await refused).data == 2
        await quick.disconnect("counting")


# Forgotten sessions


class Restarted:
    """A server of the handshake era that was made from the TypeScript SDK's example: it answers 400 to a session that
    it does not have (server-everything, `simpleStreamableHttp.ts`)."""

    def __init__(self, app: Any, says: str) -> None:
        self._forgetful = Forgetful(app)
        self.requests = self._forgetful.requests
        self.forget = self._forgetful.forget
        self._says = says

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] == 404:
                message = {**message, "status": 400}
            if message["type"] == "http.response.body" and message.get("body") == b'{"error": "not found"}':
                error = f'{{"jsonrpc": "2.0", "error": {{"code": -32000, "message": "{self._says}"}}, "id": null}}'
                message = {**message, "body": error.encode()}
            await send(message)

        await self._forgetful(scope, receive, answer)


@pytest.mark.parametrize("says", ["Bad Request: No valid session ID provided", "Bad Request: Server not initialized"])
async def test_session_refused_with_400_is_renewed_and_call_runs_once(quick: Host, says: str) -> None:
    server = Counting()
    app = Restarted(server.app(), says)
    async with serving(app) as url:
        connection = await quick.connect(f"{url}/mcp", name="counting")
        assert (await connection.call("count")).data == 1
        app.forget()
        assert (await connection.call("count")).data == 2
        assert [method for method, _ in app.requests].count("initialize") == 2
        assert connection.reconnects == 1
        await quick.disconnect("counting")


async def test_a_400_that_says_nothing_of_a_session_renews_nothing(quick: Host) -> None:
    app = Restarted(Counting().app(), "Bad Request: too many apples")
    async with serving(app) as url:
        connection = await quick.connect(f"{url}/mcp", name="counting")
        app.forget()
        with pytest.raises(errors.ProtocolError, match="too many apples"):
            await connection.call("count")
        assert [method for method, _ in app.requests].count("initialize") == 1
        await quick.disconnect("counting")


async def test_a_session_that_somebody_deleted_is_renewed(quick: Host) -> None:
    import httpx2

    server = Counting()
    app = server.app(legacy=True)
    async with serving(app) as url:
        connection = await quick.connect(f"{url}/mcp", name="counting")
        session = next(found for _, found in app.requests if found)
        async with httpx2.AsyncClient(timeout=60) as client:
            assert (await client.delete(f"{url}/mcp", headers={"mcp-session-id": session})).status_code == 200
        assert (await connection.call("count")).data == 1
        assert [method for method, _ in app.requests].count("initialize") == 2
        await quick.disconnect("counting")


# Busy servers


class Busy:
    """A server that answers calls with a status for a while.

    Attributes:
        left: How often it still does.
        asked: How many calls arrived.
    """

    def __init__(self, app: Any, status: int, retry_after: str | None) -> None:
        self._app = app
        self._status, self._retry_after = status, retry_after
        self.left = self.asked = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or dict(scope["headers"]).get(b"mcp-method") != b"tools/call":
            await self._app(scope, receive, send)
            return
        self.asked += 1
        if not self.left:
            await self._app(scope, receive, send)
            return
        self.left -= 1
        wait = [(b"retry-after", self._retry_after.encode())] if self._retry_after else []
        await send({"type": "http.response.start", "status": self._status, "headers": wait})
        await send({"type": "http.response.body", "body": b"busy"})


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_honoured(quick: Host, status: int) -> None:
    server = Counting()
    app = Busy(server.app(), status, "0")
    async with serving(app) as url:
        connection = await quick.connect(f"{url}/mcp", name="counting")
        app.left = 2
        assert (await connection.call("count")).data == 1
        assert (app.asked, server.runs) == (3, ["count"])
        app.left = 3
        with pytest.raises(errors.ProtocolError, match=f"counting:count: HTTP {status}: .*asks to wait 0 s"):
            await connection.call("count")
        assert (app.asked, server.runs) == (6, ["count"])
        await quick.disconnect("counting")


async def test_wait_beyond_time_limit_is_reported_not_waited(quick: Host) -> None:
    app = Busy(Counting().app(), 429, "3600")
    async with serving(app) as url:
        connection = await quick.connect(f"{url}/mcp", name="counting")
        app.left = 5
        with pytest.raises(errors.ProtocolError) as caught:
            await connection.call("count")
        said = "counting:count: HTTP 429: it got too many requests; it asks to wait 3600 s. It did not run."
        assert str(caught.value) == f"{said}\n  the server says: busy"
        assert app.asked == 1
        await quick.disconnect("counting")


async def test_a_status_without_retry_after_is_an_error_at_once(quick: Host) -> None:
    app = Busy(Counting().app(), 503, None)
    async with serving(app) as url:
        connection = await quick.connect(f"{url}/mcp", name="counting")
        app.left = 1
        with pytest.raises(errors.ProtocolError, match="HTTP 503"):
            await connection.call("count")
        assert app.asked == 1
        await quick.disconnect("counting")


# Other transports


async def test_a_stdio_server_is_started_again_where_its_spec_says_so(quick: Host) -> None:
    connection = await quick.connect(PLAIN, name="math", reconnect=True)
    children()[0].kill()
    await until(lambda: connection.state == "reconnecting")
    assert (await connection.call("add", a=1, b=1)).data == 2
    assert (connection.state, connection.reconnects, len(children())) == ("open", 1, 1)


async def test_a_call_in_which_a_stdio_server_dies_is_not_made_again(quick: Host) -> None:
    quick.reconnection.mode = "all"
    connection = await quick.connect(PLAIN, name="show")
    with pytest.raises(errors.SessionClosedError, match="may have run; it was not sent again"):
        await connection.call("die", message="out of ink")
    assert (await connection.call("add", a=1, b=1)).data == 2
    assert connection.reconnects == 1


async def test_server_that_keeps_dying_is_restarted_ever_more_slowly(quick: Host, tmp_path: Any) -> None:
    plan = quick.reconnection
    plan.mode, plan.lasting, plan.total, plan.wait = "all", 60.0, 1.0, 20.0
    script = tmp_path / "dying.py"
    script.write_text(
        "import os, pathlib, sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.support.plain import Plain\n"
        f"log = pathlib.Path({str(tmp_path / 'log')!r})\n"
        "with log.open('a') as file:\n    file.write('x')\n"
        "if len(log.read_text()) > 1:\n    sys.exit('no more')\n"
        "server = Plain('dying')\n"
        "@server.tool\ndef die():\n    os._exit(1)\n"
        "server.run()\n"
    )
    connection = await quick.connect([sys.executable, str(script)], name="dying")
    with pytest.raises(errors.SessionClosedError):
        await connection.call("die")
    await until(lambda: connection.state == "lost")
    with pytest.raises(errors.SessionClosedError, match="given up after"):
        await connection.ping()


@pytest.mark.parametrize("transport", ["sse", "ws"])
async def test_sessions_with_one_stream_are_opened_again(quick: Host, transport: str) -> None:
    server = Counting()
    async with streaming(server, transport) as url, proxied(url) as proxy:
        connection = await quick.connect(_target(proxy, transport), name="counting", transport=transport)
        assert (await connection.call("count")).data == 1
        version = connection.protocol_version
        proxy.refuse()
        proxy.cut()
        await until(lambda: connection.state == "reconnecting")
        waiting = asyncio.create_task(connection.call("count"))
        await until(lambda: "tried" in connection.problem)
        assert connection.protocol_version == version
        assert "counting: reconnecting\n" in connection._repr_mimebundle_()["text/plain"], "it can be looked at"
        await proxy.listen()
        assert (await waiting).data == 2
        assert (connection.state, connection.reconnects) == ("open", 1)
        await quick.disconnect("counting")


@asynccontextmanager
async def streaming(server: Counting, transport: str) -> AsyncIterator[str]:
    """Serve over HTTP+SSE or WebSocket."""
    if transport == "ws":
        async with serve_websocket(server.server) as url:
            yield url
        return
    async with serving(server.server.sse_app()) as url:
        yield url


def _target(proxy: Any, transport: str) -> str:
    return str(proxy.url("/sse") if transport == "sse" else proxy.url("/", "ws"))


# Health


@ERAS
async def test_ping_says_how_long_the_server_takes_in_both_eras(quick: Host, legacy: bool) -> None:
    async with serving(Counting().app(legacy=legacy)) as url:
        connection = await quick.connect(f"{url}/mcp", name="counting")
        assert 0 < await connection.ping() < 60
        assert connection.last_seen is not None
        assert connection.failures == 0
        await quick.disconnect("counting")


async def test_ping_of_a_server_that_does_not_answer_says_so(quick: Host) -> None:
    async with serving(Counting().app()) as url, proxied(url) as proxy:
        connection = await quick.connect(proxy.url(), name="counting")
        proxy.stall()
        with pytest.raises(errors.RequestTimeoutError, match=r"counting: ping: timed out: no answer within 0\.1 s"):
            await connection.ping(0.1)
        await quick.disconnect("counting")
