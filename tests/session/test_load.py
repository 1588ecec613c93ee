"""Many calls at once on one session: none is lost, an error tells its own answer, waiting is the caller's choice."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import psutil
import pytest
from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

from mcp_magic import errors
from mcp_magic.ask.elicitation import Answer
from mcp_magic.config.specs import HttpSpec
from mcp_magic.inflight import Reports
from mcp_magic.session import pool, transports
from mcp_magic.session.connection import Connection
from mcp_magic.session.services import Services
from tests.support.asgi import Forgetful, serving
from tests.support.persons import logging_in
from tests.support.protected_server import protected_server
from tests.support.waiting import until
from tests.support.websockets_server import serve_websocket
from tests.test_progress import Watching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic._host import Host

ERAS = pytest.mark.parametrize("legacy", [False, True], ids=["2026-07-28", "handshake"])


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a hundred connections at once take as long as they do on a busy machine."""
    monkeypatch.setattr(transports, "CONNECT_SECONDS", 100.0)


class Holding:
    """A server that answers when it is told to.

    Attributes:
        held: The calls that it has begun with and not answered.
        most: How many there were at once at most.
        release: Lets it answer them, and all that come.
    """

    def __init__(self) -> None:
        self.server = MCPServer("load", log_level="ERROR")
        self.held: list[int] = []
        self.most = 0
        self.release = asyncio.Event()
        self.server.add_tool(self.hold)

    async def hold(self, n: int) -> int:
        """Answer with `n` when it is time."""
        self.held.append(n)
        self.most = max(self.most, len(self.held))
        try:
            await self.release.wait()
        finally:
            self.held.remove(n)
        return n

    def app(self, *, legacy: bool = False) -> Any:
        """An ASGI app; a legacy one does not know `server/discover`."""
        app = self.server.streamable_http_app()
        return Forgetful(app) if legacy else app


def calls(connection: Connection, count: int) -> list[asyncio.Task[Any]]:
    """Make so many calls at once."""
    return [asyncio.create_task(connection.call("hold", n=n)) for n in range(count)]


async def answers(tasks: list[asyncio.Task[Any]]) -> list[Any]:
    """Return the values that were answered."""
    return [result.data for result in await asyncio.gather(*tasks)]


# Connections


@pytest.mark.parametrize(("legacy", "count"), [(False, 150), (True, 120)], ids=["2026-07-28", "handshake"])
async def test_many_slow_calls_are_all_answered(host: Host, legacy: bool, count: int) -> None:
    holding = Holding()
    async with serving(holding.app(legacy=legacy)) as url:
        connection = await host.connect(f"{url}/mcp", name="load")
        tasks = calls(connection, count)
        await until(lambda: len(holding.held) == count)
        holding.release.set()
        assert await answers(tasks) == list(range(count))
        assert (connection.state, connection.failures, connection.reconnects) == ("open", 0, 0)
        await host.disconnect("load")


async def test_idle_connections_close_and_busy_ones_stay(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    holding = Holding()
    async with serving(holding.app()) as url:
        port = int(url.rpartition(":")[2])

        def opened() -> int:
            found = psutil.Process().net_connections("tcp")
            return sum(bool(one.raddr) and one.raddr.port == port and one.status == "ESTABLISHED" for one in found)

        connection = await host.connect(f"{url}/mcp", name="load")
        tasks = calls(connection, 60)
        await until(lambda: len(holding.held) == 60)
        assert opened() >= 60
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
        assert opened() <= 3
        await host.disconnect("load")


async def test_waiting_for_limited_client_is_no_failure(host: Host) -> None:
    def limited(**options: Any) -> httpx2.AsyncClient:
        timeout = httpx2.Timeout(15.0, read=None, pool=0.05)
        return httpx2.AsyncClient(headers=options["headers"], timeout=timeout, limits=httpx2.Limits(max_connections=4))

    holding = Holding()
    async with serving(holding.app()) as url:
        connection = await host.connect_spec(HttpSpec(url=f"{url}/mcp", client_factory=limited), "load")
        tasks = calls(connection, 12)
        await until(lambda: len(holding.held) >= 3)
        begun = time.monotonic()
        await until(lambda: time.monotonic() - begun > 0.2 or any(task.done() for task in tasks))
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


async def test_concurrent_calls_use_at_most_half_of_open_files(host: Host) -> None:
    holding = Holding()
    async with serving(holding.app()) as url:
        with open_files(20):
            watching = Watching()
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


class Name(BaseModel):
    name: str


async def test_many_calls_that_ask_the_person_are_answered(host: Host) -> None:
    server = MCPServer("asking", log_level="ERROR")
    under_way: list[None] = []
    all_under_way = asyncio.Event()

    @server.tool()
    async def greet(ctx: Context[Any, Any]) -> str:
        """Ask for a name."""
        under_way.append(None)
        if len(under_way) == 120:
            all_under_way.set()
        answer = await ctx.elicit("Who?", Name)
        return str(answer.data.name)  # type: ignore[union-attr]

    async def person(question: Any) -> Answer:
        await all_under_way.wait()
        return Answer("accept", {"name": "Ada"})

    async with serving(Forgetful(server.streamable_http_app())) as url:
        host.elicitation.elicitor = person
        connection = await host.connect(f"{url}/mcp", name="asking")
        results = await asyncio.gather(*(connection.call("greet") for _ in range(120)))
        assert {result.text for result in results} == {"Ada"}
        await host.disconnect("asking")


@ERAS
async def test_interrupted_calls_leave_nothing_and_session_goes_on(host: Host, legacy: bool) -> None:
    holding = Holding()
    async with serving(holding.app(legacy=legacy)) as url:
        connection = await host.connect(f"{url}/mcp", name="load")
        before = psutil.Process().num_fds()
        tasks = calls(connection, 120)
        await until(lambda: len(holding.held) == 120)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        await until(lambda: not holding.held)
        holding.release.set()
        assert (await connection.call("hold", n=7)).data == 7
        assert (connection.state, connection.failures) == ("open", 0)
        await until(lambda: psutil.Process().num_fds() <= before + 50)
        await host.disconnect("load")


async def test_thousand_concurrent_calls_report_no_stray_answers(host: Host) -> None:
    holding = Holding()
    async with serve_websocket(holding.server) as url:
        connection = await host.connect(url, name="load")
        tasks = calls(connection, 1050)
        await until(lambda: len(holding.held) == 1050)
        holding.release.set()
        assert await answers(tasks) == list(range(1050))
        assert not connection.notices.messages
        await host.disconnect("load")


# Whose answer it is


class Mixed:
    """Answers calls as their argument `n` says: a status, or what the server answers.

    Attributes:
        headers: What is sent with a status beside it.
        refused: The statuses that were begun with; their bodies come when `go_on` is set.
        asked: The calls that arrived.
    """

    def __init__(self, app: Any, **headers: str) -> None:
        self._app = app
        self.headers = headers
        self.refused: list[int] = []
        self.asked: list[int] = []
        self.go_on = asyncio.Event()
        self.body, self.kind = b"busy", b"text/plain"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        event = await receive()
        assert not event.get("more_body")
        sent = False

        async def again() -> Any:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return event

        message = json.loads(event["body"])
        arguments = message.get("params", {}).get("arguments", {})
        if message.get("method") in ("tools/call", "resources/read"):
            self.asked.append(arguments.get("n", 0))
        status = arguments.get("n", 0)
        if message.get("method") == "resources/read":
            status = 429
        if status < 400:
            await self._app(scope, again, send)
            return
        headers = [(b"content-type", self.kind), *((k.encode(), v.encode()) for k, v in self.headers.items())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        self.refused.append(status)
        await self.go_on.wait()
        await send({"type": "http.response.body", "body": self.body})


async def test_concurrent_errors_have_their_own_status(host: Host) -> None:
    holding = Holding()
    app = Mixed(holding.app())
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
        assert str(told[429]) == (
            "load:hold: HTTP 429 (too many requests; fault: the caller): it got too many requests; wait and try again."
            "\n  the server says: busy"
        )
        assert str(told[500]) == (
            "load:hold: HTTP 500 (internal server error; fault: the server): the server failed."
            "\n  the server says: busy"
        )
        assert str(told[503]).startswith("load:hold: HTTP 503 (service unavailable; fault: the server)")
        await host.disconnect("load")


async def test_a_busy_server_is_blamed_by_its_status_in_its_own_words(host: Host) -> None:
    holding = Holding()
    app = Mixed(holding.app())
    app.kind, app.body = (
        b"application/json",
        b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "10 a minute."}}',
    )
    app.go_on.set()
    async with serving(app) as url:
        connection = await host.connect(f"{url}/mcp", name="load")
        with pytest.raises(errors.ProtocolError) as caught:
            await connection.call("hold", n=429)
        assert str(caught.value) == "load:hold: HTTP 429 (too many requests; fault: the caller): 10 a minute."
        assert (caught.value.code, caught.value.status) == (-32000, 429)
        await host.disconnect("load")


async def test_refused_log_in_explains_only_its_own_call(host: Host) -> None:
    logging_in(host)
    async with protected_server() as protected:
        connection = await host.connect(protected.url, name="notes")
        protected.authority.behaves.error = "access_denied"
        with pytest.raises(errors.AuthorizationError, match="did not give access"):
            await connection.call("erase", name="a")
        protected.status = 403
        with pytest.raises(errors.ProtocolError, match=r"notes:whoami: HTTP 403 \(forbidden; fault: you\)"):
            await connection.call("whoami")
        protected.status = 0
        await host.disconnect("notes")


class Hurried(Forgetful):
    """Takes every answer to a question, and says that it is asked too often."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def answer(message: Any) -> None:
            if self.requests and self.requests[-1][0] == "response" and "status" in message:
                message = {**message, "status": 429, "headers": [*message["headers"], (b"retry-after", b"0")]}
            await send(message)

        await super().__call__(scope, receive, answer)


async def test_status_of_an_elicitation_answer_does_not_affect_call(host: Host) -> None:
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


# Who waits for a busy server


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
async def test_call_without_waiting_gets_status_and_delay_at_once(
    host: Host, status: int, says: str | None, seconds: float | None
) -> None:
    holding = Holding()
    app = Mixed(holding.app(), **({"retry-after": says} if says is not None else {}))
    app.go_on.set()
    holding.release.set()
    async with serving(app) as url:
        connection = await host.connect(f"{url}/mcp", name="load")
        with pytest.raises(errors.ProtocolError) as caught:
            await connection.call_tool("hold", {"n": status}, wait_if_busy=False)
        assert (caught.value.status, caught.value.retry_after) == (status, seconds)
        assert app.asked == [status]
        assert (await connection.call_tool("hold", {"n": 7}, wait_if_busy=False)).data == 7
        await host.disconnect("load")


async def test_sse_call_has_status_and_is_not_repeated_without_delay(
    host: Host,
) -> None:
    app = Mixed(Holding().server.sse_app())
    app.go_on.set()
    async with serving(app) as url:
        connection = await host.connect(f"{url}/sse", name="load", transport="sse")
        with pytest.raises(errors.ProtocolError, match="HTTP 429") as caught:
            await connection.call("hold", n=429)
        assert (caught.value.status, caught.value.retry_after, app.asked) == (429, None, [429])
        await host.disconnect("load")


async def test_read_without_waiting_fails_at_once_on_busy_server(host: Host) -> None:
    app = Mixed(Holding().app(), **{"retry-after": "1"})
    app.go_on.set()
    async with serving(app) as url:
        connection = await host.connect(f"{url}/mcp", name="load")
        with pytest.raises(errors.ProtocolError) as caught:
            await connection.read("test://a", wait_if_busy=False)
        assert (caught.value.status, caught.value.retry_after, len(app.asked)) == (429, 1.0, 1)
        await host.disconnect("load")


async def test_a_busy_server_says_when_to_connect(host: Host) -> None:
    async def busy(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 503, "headers": [(b"retry-after", b"30")]})
            await send({"type": "http.response.body", "body": b"later"})

    async with serving(busy, lifespan="off") as url:
        with pytest.raises(errors.HTTPStatusError) as caught:
            await host.connect(f"{url}/mcp", name="load")
    assert (caught.value.status, caught.value.retry_after) == (503, 30.0)
    assert str(caught.value).endswith(
        "the server is not ready; try again. It asks to wait 30 s.\n  the server says: later"
    )
