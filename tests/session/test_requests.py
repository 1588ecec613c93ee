"""What is sent how often: requests whose connection is cut, whose server is busy, or that are cancelled."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

from mcp_magic import errors
from mcp_magic.ask.elicitation import Answer
from mcp_magic.calls.call import Call
from mcp_magic.flight.request import Limits
from tests.support.asgi import Forgetful, answer, read, serving
from tests.support.bundled import load
from tests.support.counting import Counting, Holding, behind_proxy
from tests.support.processes import PLAIN
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection


# Connections that are cut


async def test_call_that_may_have_run_is_not_repeated(quick):
    server = Counting()
    async with behind_proxy(quick, server.app()) as (connection, proxy):
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


@pytest.mark.parametrize("trust", [True, False])
async def test_reading_tool_is_repeated_only_on_trusted_server(quick, trust):
    server = Counting()
    async with behind_proxy(quick, server.app(), trust=trust) as (connection, proxy):
        looking = asyncio.create_task(connection.call("look"))
        await until(lambda: server.runs == ["look"])
        proxy.cut()
        if trust:
            assert (await looking).data == 2
        else:
            with pytest.raises(errors.SessionClosedError, match="not sent again"):
                await looking
        assert server.runs.count("look") == (2 if trust else 1)


async def test_refused_request_does_not_disturb_others_of_session(quick):
    def unpooled(**options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(**options, limits=httpx2.Limits(max_keepalive_connections=0))

    server = Counting()
    async with behind_proxy(quick, server.app(), client_factory=unpooled) as (connection, proxy):
        held = asyncio.create_task(connection.call("hold"))
        await until(lambda: server.runs == ["hold"])
        proxy.refuse()
        refused = asyncio.create_task(connection.call("count"))
        await until(lambda: connection.state == "reconnecting")
        server.release.set()
        assert (await held).data == 1
        await proxy.listen()
        assert (await refused).data == 2


async def test_ping_says_how_long_it_took_or_that_it_did_not_come(quick):
    async with behind_proxy(quick, Counting().app(legacy=True)) as (connection, _):
        assert 0 < await connection.ping() < 60
        assert connection.last_seen is not None
        assert connection.failures == 0
    async with behind_proxy(quick, Counting().app()) as (connection, proxy):
        proxy.stall()
        with pytest.raises(errors.RequestTimeoutError, match=r"counting: ping: timed out: no answer within 0\.1 s"):
            await connection.ping(0.1)


# Servers that are busy


class Busy:
    """Answers calls with the status that their argument `n` or `status` says, reads with 429, and the rest as `app`.

    Attributes:
        headers: What is sent with a status beside it.
        status: The status of all calls, if it is not 0.
        left: How many requests still get a status.
        asked: How many calls and reads arrived.
        refused: The statuses that were begun with; their bodies come when `go_on` is set.
    """

    def __init__(self, app: Any, status: int = 0, **headers: str) -> None:
        self._app = app
        self.headers, self.status = headers, status
        self.left, self.asked = 1000, 0
        self.refused: list[int] = []
        self.go_on = asyncio.Event()
        self.body, self.kind = b"busy", "text/plain"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body, again = await read(receive)
        message = json.loads(body)
        method, status = message.get("method"), 0
        if method in ("tools/call", "resources/read"):
            self.asked += 1
            status = self.status or message["params"].get("arguments", {}).get("n", 429)
        if status < 400 or not self.left:
            await self._app(scope, again, send)
            return
        self.left -= 1
        headers = {"content-type": self.kind, **{name.replace("_", "-"): value for name, value in self.headers.items()}}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        self.refused.append(status)
        await self.go_on.wait()
        await send({"type": "http.response.body", "body": self.body})


@pytest.fixture
async def holding():
    return Holding()


async def connected(host: Host, app: Any) -> AsyncIterator[Connection]:
    app.go_on.set()
    async with serving(app) as url:
        yield await host.connect(f"{url}/mcp", name="load")
        await host.close()


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_honoured(quick, status):
    server = Counting()
    app = Busy(server.app(), status, retry_after="0")
    async for connection in connected(quick, app):
        app.left = 2
        assert (await connection.call("count")).data == 1
        assert (app.asked, server.runs) == (3, ["count"])
        app.left = 3
        with pytest.raises(errors.ProtocolError, match=f"load:count: HTTP {status}: .*asks to wait 0 s"):
            await connection.call("count")
        assert (app.asked, server.runs) == (6, ["count"])


async def test_no_wait_beyond_the_limit_or_without_retry_after(quick):
    app = Busy(Counting().app(), 429, retry_after="3600")
    async for connection in connected(quick, app):
        with pytest.raises(errors.ProtocolError) as caught:
            await connection.call("count")
        said = "load:count: HTTP 429: it got too many requests; it asks to wait 3600 s. It did not run."
        assert str(caught.value) == f"{said}\n  the server says: busy"
        app.status, app.headers = 503, {}
        with pytest.raises(errors.ProtocolError, match="HTTP 503"):
            await connection.call("count")
        assert app.asked == 2


@pytest.mark.parametrize(
    ("status", "says", "seconds"),
    [
        (429, "7", 7.0),
        (429, "0", 0.0),
        (429, None, None),
        (503, "120", 120.0),
        (503, "soon", None),
        (503, f"Jan 31 23:59:60 {'9' * 300} 0001", None),
    ],
)
async def test_call_without_waiting_gets_status_and_delay_at_once(host, holding, status, says, seconds):
    app = Busy(holding.app(), **({"retry_after": says} if says is not None else {}))
    holding.release.set()
    at_once = Limits(waits_if_busy=False)
    async for connection in connected(host, app):
        with pytest.raises(errors.ProtocolError) as caught:
            await host.caller.call(Call(connection, "hold", {"n": status}, limits=at_once))
        assert (caught.value.status, caught.value.retry_after, app.asked) == (status, seconds, 1)
        assert (await host.caller.call(Call(connection, "hold", {"n": 7}, limits=at_once))).data == 7
        with pytest.raises(errors.ProtocolError) as caught:
            await connection.read("test://a", wait_if_busy=False)
        assert (caught.value.status, caught.value.retry_after, app.asked) == (429, seconds, 3)


async def test_old_transport_and_connect_have_status_and_delay(host, holding):
    app = Busy(holding.server.sse_app())
    app.go_on.set()
    async with serving(app) as url:
        connection = await host.connect(f"{url}/sse", name="load", transport="sse")
        with pytest.raises(errors.ProtocolError, match="HTTP 429") as caught:
            await connection.call("hold", n=429)
        assert (caught.value.status, caught.value.retry_after, app.asked) == (429, None, 1), "it is not repeated"
        await host.disconnect("load")

    async def busy(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, 503, b"later", "text/plain", retry_after="30")

    async with serving(busy, lifespan="off") as url:
        with pytest.raises(errors.HTTPStatusError) as refused:
            await host.connect(f"{url}/mcp", name="load")
    assert (refused.value.status, refused.value.retry_after) == (503, 30.0)
    said = "the server is not ready; try again. It asks to wait 30 s.\n  the server says: later"
    assert str(refused.value).endswith(said)


# Whose answer it is


async def test_concurrent_errors_have_their_own_status(host, holding):
    app = Busy(holding.app())
    async with serving(app) as url:
        connection = await host.connect(f"{url}/mcp", name="load")
        tasks: dict[int, asyncio.Task[Any]] = {}
        for n in (429, 500, 503, 7):
            tasks[n] = asyncio.create_task(connection.call("hold", n=n))
            await until(lambda: len(app.refused) + len(holding.held) == len(tasks))
        holding.release.set()
        assert (await tasks.pop(7)).data == 7  # this was answered last; all the statuses before
        app.go_on.set()
        told = dict(zip(tasks, await asyncio.gather(*tasks.values(), return_exceptions=True), strict=True))
        assert {n: (error.status, error.retry_after) for n, error in told.items()} == {n: (n, None) for n in tasks}
        says = "\n  the server says: busy"
        assert str(told[429]) == (
            "load:hold: HTTP 429 (too many requests; fault: the caller): it got too many requests; wait and try again."
            + says
        )
        assert str(told[500]) == (
            "load:hold: HTTP 500 (internal server error; fault: the server): the server failed." + says
        )
        assert str(told[503]).startswith("load:hold: HTTP 503 (service unavailable; fault: the server)")
        app.kind = "application/json"
        app.body = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "10 a minute."}}'
        with pytest.raises(errors.ProtocolError) as caught:
            await connection.call("hold", n=429)
        assert str(caught.value) == "load:hold: HTTP 429 (too many requests; fault: the caller): 10 a minute."
        assert (caught.value.code, caught.value.status) == (-32000, 429)
        await host.disconnect("load")


class Name(BaseModel):
    name: str


class Hurried(Forgetful):
    """Takes every answer to a question, and says that it is asked too often."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def reply(message: Any) -> None:
            if self.requests and self.requests[-1][0] == "response" and "status" in message:
                message = {**message, "status": 429, "headers": [*message["headers"], (b"retry-after", b"0")]}
            await send(message)

        await super().__call__(scope, receive, reply)


async def test_status_of_an_elicitation_answer_does_not_affect_call(host):
    server = MCPServer("asking", log_level="ERROR")

    @server.tool()
    async def greet(ctx: Context[Any, Any]) -> str:
        """Ask for a name, and fail."""
        answer = await ctx.elicit("Who?", Name)
        raise MCPError(-32603, f"{answer.action}, but no")

    async def person(question: Any) -> Answer:
        return Answer("accept", {"name": "Ada"})

    app = Hurried(server.streamable_http_app())
    async with serving(app) as url:
        host.elicitation.elicitor = person
        connection = await host.connect(f"{url}/mcp", name="asking")
        with pytest.raises(errors.ProtocolError, match="asking:greet: accept, but no") as caught:
            await connection.call("greet")
        assert caught.value.retry_after is None
        methods = [method for method, _ in app.requests]
        assert (methods.count("response"), methods.count("tools/call")) == (1, 1), "it ran, and was not repeated"
        await host.disconnect("asking")


async def test_many_calls_that_ask_the_person_are_answered(host):
    server = MCPServer("asking", log_level="ERROR")
    under_way: list[None] = []
    all_under_way = asyncio.Event()

    @server.tool()
    async def greet(ctx: Context[Any, Any]) -> str:
        """Ask for a name."""
        under_way.append(None)
        if len(under_way) == 105:
            all_under_way.set()
        answer = await ctx.elicit("Who?", Name)
        return str(answer.data.name)  # type: ignore[union-attr]

    async def person(question: Any) -> Answer:
        await all_under_way.wait()
        return Answer("accept", {"name": "Ada"})

    async with serving(Forgetful(server.streamable_http_app())) as url:
        host.elicitation.elicitor = person
        connection = await host.connect(f"{url}/mcp", name="asking")
        results = await asyncio.gather(*(connection.call("greet") for _ in range(105)))
        assert {result.text for result in results} == {"Ada"}
        await host.disconnect("asking")


# Calls that are cancelled


@pytest.mark.parametrize("way", ["stdio", "http", "in process"])
async def test_a_cancelled_call_is_cancelled_on_the_server(host, way):
    showcase = load("showcase_server").server
    started = asyncio.Event()

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        started.set()

    async with serving(showcase.streamable_http_app()) as url:
        target = {"stdio": PLAIN, "http": f"{url}/mcp"}.get(way, showcase)
        connection = await host.connect(target, name="show")
        arguments = {} if way == "stdio" else {"seconds": 30}
        call = asyncio.create_task(connection.call_tool("slow", arguments, on_progress=progressed))
        async with asyncio.timeout(60):
            await started.wait()
        begun = time.monotonic()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert time.monotonic() - begun < 20.0
        async with asyncio.timeout(60):
            while (await connection.call("cancellations")).data == 0:
                await asyncio.sleep(0.02)
        await host.disconnect("show")
