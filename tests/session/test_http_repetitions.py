"""Nothing that reacts to a server's message over HTTP repeats without a pause: sessions, streams, answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.errors import ProtocolError, RequestTimeoutError
from mcp_magic.session import http
from tests.support.asgi import answer, serving
from tests.support.speaking import LEGACY, MODERN, answer_to, called
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp_magic import Host
    from mcp_magic.session.connection import Connection

WANTS_SESSION = (
    b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}'
)
FORGOTTEN = b'{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}'


class Express:
    """A stateful server that has only `app.post("/mcp")`, over ASGI.

    Args:
        get: How it answers the GET for a stream of notifications.

    Attributes:
        counts: How often each method, and "GET", came.
        forgets: The methods for which it forgets the session.
        calls: How it answers a call.
        gives_session: Whether it gives a session id.
        discovers: Whether it answers `server/discover`, although it then wants a session.
        mute: The methods that it never answers.
    """

    def __init__(self, get: Callable[..., Any] | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.forgets: set[str] = set()
        self.calls: Callable[[Any, Any], Any] | None = None
        self.gives_session = True
        self.discovers = False
        self.mute: set[str] = set()
        self._get = get or (lambda send: answer(send, 405))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] != "POST":
            self.counts[scope["method"]] += 1
            await self._get(send)
            return
        message = json.loads((await receive())["body"])
        method = message.get("method", "answer")
        self.counts[method] += 1
        while method in self.mute:
            if (await receive())["type"] == "http.disconnect":
                return
        opens = method in ("initialize", "server/discover")
        if method in self.forgets:
            await answer(send, 404, FORGOTTEN)
        elif self.discovers and not opens and b"mcp-session-id" not in dict(scope["headers"]):
            await answer(send, 400, WANTS_SESSION)
        elif method == "tools/call" and self.calls is not None:
            await self.calls(send, message)
        elif "id" not in message:
            await answer(send, 202)
        else:
            version = MODERN if self.discovers and method == "server/discover" else LEGACY
            is_call = method == "tools/call"
            said = called(message["id"], LEGACY, "3") if is_call else answer_to(message, version, ["add"])
            session = method == "initialize" and self.gives_session
            more = {"mcp_session_id": f"session-{self.counts[method]}"} if session else {}
            await answer(send, 200, json.dumps(said).encode(), **more)


@asynccontextmanager
async def connected(host: Host, server: Express, **options: Any) -> AsyncIterator[Connection]:
    async with serving(server, lifespan="off") as url:
        yield await host.connect(f"{url}/mcp", name="express", **options)
        await host.close()


async def ended_stream(send: Any) -> None:
    """Open a stream of events, ask for no pause before the next, and end it."""
    await answer(send, 200, b"retry: 0\n\n", "text/event-stream")


async def unfinished(send: Any, message: Any = None) -> None:
    """Open a stream of events that can be resumed at once, and end it before the answer."""
    await answer(send, 200, b"id: 1\nretry: 0\ndata: \n\n", "text/event-stream")


async def nothing(send: Any, message: Any) -> None:
    """Answer a call as a server that uses 404 for what a tool does not find."""
    error = {"code": -32002, "message": "no such note"}
    await answer(send, 404, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(404, b"Cannot GET /mcp", id="404"),
        pytest.param(400, b"Invalid or missing session ID", id="400"),
        pytest.param(501, b"", id="501"),
        pytest.param(405, b"", id="405"),
    ],
)
async def test_get_without_a_stream_keeps_the_session(host, status, body):
    server = Express(lambda send: answer(send, status, body, "text/plain"))
    async with connected(host, server, reconnect=status != 400) as connection:
        await until(lambda: server.counts["GET"] >= (1 if status == 405 else 2))  # the SDK tries once more
        for _ in range(5):
            assert (await connection.call("add")).text == "3"
        assert server.counts["initialize"] == 1
        said = f"it has no stream of notifications (its GET was answered with HTTP {status}"
        remarks = connection.info().remarks
        assert [remark.startswith(said) for remark in remarks] == ([] if status == 405 else [True])


async def test_sessions_forgotten_each_time_are_renewed_with_pauses(host):
    server = Express()
    async with connected(host, server) as connection:
        server.forgets = {"tools/call"}
        loop = asyncio.get_running_loop()
        started = loop.time()
        for _ in range(3):
            with pytest.raises(ProtocolError, match="tried in two sessions"):
                await connection.call_tool("add", {}, timeout=20)
        assert loop.time() - started > 1, "each pause is longer than the one before"
        assert any("forgets its sessions" in remark for remark in connection.info().remarks)
        server.forgets = set()
        assert (await connection.call("add")).text == "3"


async def test_streams_that_end_at_once_are_reopened_with_pauses(host, slept):
    server = Express(ended_stream)
    async with connected(host, server) as connection:
        await until(lambda: server.counts["GET"] >= 6)
        assert slept[:5] == [0.0, 0.1, 0.2, 0.4, 0.8], "each pause is longer than the one before"
        assert (await connection.call("add")).text == "3"
        assert server.counts["initialize"] == 1


async def test_answers_that_never_come_are_resumed_with_pauses(host):
    server = Express(unfinished)
    server.calls = unfinished
    async with connected(host, server) as connection:
        with pytest.raises(RequestTimeoutError):
            await connection.call_tool("add", {}, timeout=1)
        assert server.counts["GET"] < 20
        assert server.counts["tools/call"] == 1


async def test_a_session_is_used_only_where_the_server_wants_one(host):
    server = Express()
    server.calls, server.gives_session = nothing, False
    async with connected(host, server) as connection:
        with pytest.raises(ProtocolError, match="no such note"):
            await connection.call("add")
        assert (server.counts["tools/call"], server.counts["initialize"]) == (1, 1), "404 forgets no session"
    server = Express()
    server.discovers = True
    async with connected(host, server) as connection:
        assert (await connection.call("add")).text == "3"
        assert (connection.protocol_version, server.counts["initialize"]) == (LEGACY, 1)


# Messages that the server never takes


async def test_an_untaken_notification_holds_no_call_back(host, monkeypatch):
    monkeypatch.setattr(http, "TAKING_SECONDS", 0.2)
    server = Express()
    server.mute = {"notifications/initialized"}
    async with connected(host, server, protocol="handshake") as connection:
        await connection.call_tool("add", {}, timeout=20)
        assert "it does not answer the POST of a notification" in "\n".join(connection.info().remarks)


async def test_the_timeout_of_a_call_is_that_of_its_listing(host, monkeypatch):
    monkeypatch.setattr("mcp_magic._host.PREFETCH_SECONDS", 0.1)
    server = Express()
    server.mute = {"tools/list"}
    async with connected(host, server, protocol="handshake") as connection:
        with pytest.raises(RequestTimeoutError, match="express:add: timed out: no answer to tools/list within"):
            await connection.call_tool("add", {}, timeout=0.5)
