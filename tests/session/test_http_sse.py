"""Sessions over HTTP+SSE: what comes with a POST, and on the stream."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.errors import NotAnMCPServerError, ProtocolError
from tests.support.odd_http import JSON, Streamed, body, formed, outcome
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable


RIGHT = {"jsonrpc": "2.0", "result": {"content": [{"type": "text", "text": "right"}]}}
BAD = {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "bad q"}}
OWN = "ProtocolError: odd:good: bad q (-32602, invalid params; fault: the caller)"
POSTS: dict[str, tuple[Callable[[Any], tuple[int, str, bytes]], str]] = {
    "size": (lambda m: (413, "text/plain", b"too large"), "HTTP 413 (request entity too large; fault: the caller)"),
    "disk": (lambda m: (500, "text/plain", b"the disk is full"), "the server says: the disk is full"),
    "own": (lambda m: (400, JSON, body(BAD)), OWN),
    "gone": (lambda m: (404, JSON, b'{"error": "no such session"}'), "the server says: no such session"),
    "token": (lambda m: (401, JSON, b'{"error": "token expired"}'), "the server says: token expired"),
    "answer": (lambda m: (200, JSON, body({**RIGHT, "id": m["id"]})), "right"),
}


@pytest.mark.parametrize(("post", "words"), POSTS.values(), ids=POSTS)
async def test_a_refused_post_over_sse_fails_alone(host, post, words):
    waiting: list[Any] = []

    def answered(message: Any) -> tuple[int, str, bytes]:
        if "waits" not in message["params"]["arguments"]:
            return post(message)  # type: ignore[no-any-return]
        waiting.append(message["id"])
        return 202, JSON, b""

    server = Streamed(post=answered)
    async with formed(host, server, "/sse", transport="sse") as connection:
        other = asyncio.ensure_future(connection.call_tool("good", {"waits": True}, timeout=20))
        await until(lambda: waiting)
        said = await outcome(connection)
        assert words in said
        assert "may have run" not in said
        server.events.put_nowait(f"data: {json.dumps({**RIGHT, 'id': waiting[0]})}\n\n".encode())
        assert (await other).text == "right"
        assert (connection.state, connection.reconnects) == ("open", 0)


async def test_an_event_named_error_ends_the_only_request(host):
    def busy(message: Any) -> tuple[int, str, bytes]:
        server.events.put_nowait(b"event: error\ndata: the model is busy\n\n")
        return 202, JSON, b""

    server = Streamed(post=busy)
    async with formed(host, server, "/sse", transport="sse") as connection:
        with pytest.raises(ProtocolError, match="the model is busy"):
            await connection.call_tool("good", {})


OTHER = "event: endpoint\ndata: http://me:key@internal.example:8080/messages?session_id=abc\n\n"
ENDED = "the stream ended before it named its endpoint"
FIRST = {
    "other": (OTHER, "its endpoint http://internal.example:8080/messages is of another origin and is refused."),
    "invalid": ("event: endpoint\ndata: http://[::1/\n\n", f"{ENDED}: Invalid"),
    "error": ('event: error\ndata: {"message": "too many sessions"}\n\n', f"{ENDED}: too many sessions."),
    "end": (": hello\n\n", f"{ENDED}."),
}


@pytest.mark.parametrize(("first", "words"), FIRST.values(), ids=FIRST)
async def test_a_stream_without_an_endpoint_tells_why(host, first, words):
    with pytest.raises(NotAnMCPServerError) as caught:
        async with formed(host, Streamed(first=first), "/sse", transport="sse"):
            pass
    assert words in str(caught.value)
