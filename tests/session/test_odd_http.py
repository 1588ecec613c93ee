"""What servers over HTTP say beside answers: it is skipped, or reaches the person."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.errors import InvalidResponseError, NotAnMCPServerError, ProtocolError
from tests.session.test_odd_answers import EVENTS, JSON, Formed, body, event, formed, outcome, remarks
from tests.support.asgi import answer, never, serving
from tests.support.odd_server import texts
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

# Events before the answer.

BESIDE = {
    "text": b"data: keepalive\n\n",
    "type": b'data: {"type": "ping"}\n\n',
    "empty": b"data: {}\n\n",
    "params": b'data: {"jsonrpc": "2.0", "method": "notifications/progress", "params": "x"}\n\n',
    "cut": b'data: {"jsonrpc": "2.0", "method": "notif\n\n',
}


@pytest.mark.parametrize("beside", BESIDE.values(), ids=BESIDE)
async def test_an_event_that_is_no_message_is_skipped(host: Host, beside: bytes) -> None:
    async with formed(host, Formed(lambda m: (200, EVENTS, beside + event(m)))) as connection:
        assert await outcome(connection) == "right"
        assert "it sends events that are no messages; they are skipped" in remarks(connection)


async def test_a_last_event_without_its_empty_line_is_read(host: Host) -> None:
    async with formed(host, Formed(lambda m: (200, EVENTS, event(m)[:-1]))) as connection:
        assert await outcome(connection) == "right"
        assert "its last event has no empty line after it" in remarks(connection)


@pytest.mark.parametrize("data", ["the model is busy", '{"error": {"message": "the model is busy"}}'])
async def test_an_event_named_error_ends_its_request(host: Host, data: str) -> None:
    server = Formed(lambda m: (200, EVENTS, f"event: error\ndata: {data}\n\n".encode()))
    async with formed(host, server) as connection:
        assert await outcome(connection) == (
            "ProtocolError: odd:good: the model is busy (-32000, server error; fault: the server)"
        )
        assert connection.state == "open"


# HTTP+SSE: what comes with a POST, and on the stream.

ENDPOINT = "event: endpoint\ndata: /messages\n\n"
RIGHT = {"jsonrpc": "2.0", "result": {"content": [{"type": "text", "text": "right"}]}}


class Streamed:
    """A server over HTTP+SSE for one session; `post` answers the POST of a call, and `called` is its event.

    The stream begins with `first`, and ends after it unless that is `ENDPOINT`.
    """

    def __init__(
        self,
        post: Callable[[Any], tuple[int, str, bytes] | None] = lambda m: None,
        *,
        first: str = ENDPOINT,
        called: str = "",
    ) -> None:
        self.calls = 0
        self._post, self._first, self._called = post, first, called
        self._events: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] == "GET":
            await (self._stream(receive, send) if scope["path"] == "/sse" else answer(send, 404, b""))
            return
        message = json.loads((await receive())["body"])
        is_call = message["method"] == "tools/call"
        self.calls += is_call
        if is_call and (refused := self._post(message)) is not None:
            status, kind, content = refused
            await answer(send, status, content, kind)
            return
        await answer(send, 202, b"")
        if not is_call:
            for text in texts({}, message):
                self._events.put_nowait(f"data: {text}\n\n")
        elif message["params"]["arguments"].get("waits") is None:
            self._events.put_nowait(self._called or f"data: {texts({}, message)[-1]}\n\n")

    def say(self, message: Any) -> None:
        self._events.put_nowait(f"data: {json.dumps(message)}\n\n")

    async def _stream(self, receive: Any, send: Any) -> None:
        headers = [(b"content-type", EVENTS.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        is_open = self._first == ENDPOINT
        await send({"type": "http.response.body", "body": self._first.encode(), "more_body": is_open})
        gone = asyncio.ensure_future(never({"type": "http"}, receive, send))
        while is_open:
            text = asyncio.ensure_future(self._events.get())
            await asyncio.wait({gone, text}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                text.cancel()
                return
            await send({"type": "http.response.body", "body": text.result().encode(), "more_body": True})
        gone.cancel()


@asynccontextmanager
async def streamed(host: Host, server: Streamed) -> AsyncIterator[Connection]:
    async with serving(server, lifespan="off") as url:
        try:
            yield await host.connect(f"{url}/sse", name="odd", transport="sse")
        finally:
            await host.close()


POSTS: dict[str, tuple[Callable[[Any], tuple[int, str, bytes]], str]] = {
    "size": (lambda m: (413, "text/plain", b"too large"), "HTTP 413 (request entity too large; fault: the caller)"),
    "disk": (lambda m: (500, "text/plain", b"the disk is full"), "the server says: the disk is full"),
    "own": (
        lambda m: (400, JSON, body({"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "bad q"}})),
        "ProtocolError: odd:good: bad q (-32602, invalid params; fault: the caller)",
    ),
    "gone": (lambda m: (404, JSON, b'{"error": "no such session"}'), "the server says: no such session"),
    "token": (lambda m: (401, JSON, b'{"error": "token expired"}'), "the server says: token expired"),
    "answer": (lambda m: (200, JSON, body({**RIGHT, "id": m["id"]})), "right"),
}


@pytest.mark.parametrize(("post", "words"), POSTS.values(), ids=POSTS)
async def test_a_refused_post_over_sse_fails_alone(host: Host, post: Any, words: str) -> None:
    waiting: list[Any] = []

    def answered(message: Any) -> tuple[int, str, bytes] | None:
        if "waits" in message["params"]["arguments"]:
            waiting.append(message)
            return None
        return post(message)  # type: ignore[no-any-return]

    server = Streamed(answered)
    async with streamed(host, server) as connection:
        other = asyncio.ensure_future(connection.call_tool("good", {"waits": True}, timeout=20))
        await until(lambda: waiting)
        said = await outcome(connection)
        assert words in said
        assert "may have run" not in said
        server.say({**RIGHT, "id": waiting[0]["id"]})
        assert (await other).text == "right"
        assert (connection.state, connection.reconnects) == ("open", 0)


async def test_an_event_named_error_ends_the_only_request(host: Host) -> None:
    async with streamed(host, Streamed(called="event: error\ndata: the model is busy\n\n")) as connection:
        with pytest.raises(ProtocolError, match="the model is busy"):
            await connection.call_tool("good", {})


FIRST = {
    "other": (
        "event: endpoint\ndata: http://me:key@internal.example:8080/messages?session_id=abc\n\n",
        "its endpoint http://internal.example:8080/messages is of another origin and is refused.",
    ),
    "invalid": ("event: endpoint\ndata: http://[::1/\n\n", "the stream ended before it named its endpoint: Invalid"),
    "error": (
        'event: error\ndata: {"message": "too many sessions"}\n\n',
        "the stream ended before it named its endpoint: too many sessions.",
    ),
    "end": (": hello\n\n", "the stream ended before it named its endpoint."),
}


@pytest.mark.parametrize(("first", "words"), FIRST.values(), ids=FIRST)
async def test_a_stream_without_an_endpoint_tells_why(host: Host, first: str, words: str) -> None:
    with pytest.raises(NotAnMCPServerError) as caught:
        async with streamed(host, Streamed(first=first)):
            pass
    assert words in str(caught.value)


# Bodies that are no answers.

BODIES = {
    "json": (
        JSON,
        b'{"error": "API key missing"}',
        "Failed to parse JSON response\n  the server says: API key missing",
    ),
    "text": ("text/plain", b"the pool is empty", "content type: text/plain\n  the server says: the pool is empty"),
    "page": ("text/html", b"<title>Sign in</title>", "content type: text/html\n  the server says: Sign in"),
    "cut": (JSON, b'{"jsonrpc": "2.0", "id', "Invalid JSON: EOF while parsing a string at line 1 column 22"),
}


@pytest.mark.parametrize(("kind", "content", "words"), BODIES.values(), ids=BODIES)
async def test_a_body_that_is_no_answer_is_quoted(host: Host, kind: str, content: bytes, words: str) -> None:
    async with formed(host, Formed(lambda m: (200, kind, content))) as connection:
        with pytest.raises(InvalidResponseError) as caught:
            await connection.call_tool("good", {})
        assert str(caught.value).endswith(words)
        assert (content.decode() in caught.value.whole) is (b"id" not in content)
    with pytest.raises(NotAnMCPServerError) as refused:
        async with formed(host, Formed(lambda m: (200, kind, content), everything=True)):
            pass
    assert words in str(refused.value)
    assert "validation error" not in str(refused.value)


# Sessions that a server lost in a restart.

LOST = {
    "text": (400, "text/plain", b"Invalid or missing session ID"),
    "json": (400, JSON, b'{"error": "Invalid or missing session ID"}'),
    "gone": (410, "text/plain", b"session expired"),
    "unfit": (422, JSON, b'{"detail": "Session not found or expired"}'),
}


@pytest.mark.parametrize("sessions", [True, False], ids=["with_id", "without_id"])
@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
async def test_a_session_lost_in_any_words_is_renewed(host: Host, lost: Any, sessions: bool) -> None:
    refusals = [lost]
    server = Formed(lambda m: refusals.pop() if refusals else (200, JSON, body(m)))
    server.sessions = sessions
    async with formed(host, server, protocol="handshake") as connection:
        said = await outcome(connection)
        assert (said == "right") is sessions
        assert server.counts["initialize"] == 1 + sessions


# Redirects.


@pytest.mark.parametrize("paths", [["/mcp"], ["/mcp", "/mcp/"]], ids=["itself", "slash"])
async def test_redirects_in_a_circle_are_noticed(host: Host, paths: list[str]) -> None:
    asked: list[str] = []
    server = Formed(lambda m: (200, JSON, body(m)))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        event = await receive() if scope["type"] == "http" else {}
        if b'"tools/call"' not in event.get("body", b""):
            await server(scope, lambda: asyncio.sleep(0, event), send)
            return
        asked.append(scope["path"])
        there = paths[len(asked) % len(paths)]
        await send({"type": "http.response.start", "status": 307, "headers": [(b"location", there.encode())]})
        await send({"type": "http.response.body", "body": b""})

    async with formed(host, app) as connection:
        assert f"Redirects in a circle: {', '.join([*paths[1:], *paths, *paths][: len(paths) + 1])}" in await outcome(
            connection
        )
        assert asked == [*paths, "/mcp"]
