"""Bodies of HTTP answers in forms that real servers use: they are read by what they are, whatever their headers say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.doctor import examine
from mcp_magic.errors import InvalidResponseError, NotAnMCPServerError, ProtocolError
from tests.support.asgi import serving
from tests.support.odd_http import EVENTS, JSON, NOTICE, Formed, body, event, formed, outcome
from tests.support.odd_server import TRANSPORTS, connected, remarks
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable


Form = tuple[int, str, bytes]
MARK = b"\xef\xbb\xbf"
BODIES: dict[str, tuple[Callable[[Any], Form], str]] = {
    "plain": (lambda m: (200, "text/plain", body(m)), "content type text/plain, and are JSON"),
    "no_type": (lambda m: (200, "", body(m)), "no content type, and are JSON"),
    "utf_8": (lambda m: (200, f"{JSON}; charset=UTF-8", body(m)), ""),
    "latin_1": (
        lambda m: (200, f"{JSON}; charset=iso-8859-1", body(m).replace(b"right", b"caf\xe9")),
        "its answers are in iso-8859-1, where UTF-8 is right",
    ),
    "events_as_json": (lambda m: (200, JSON, event(NOTICE) + event(m)), f"{JSON}, and are an event stream"),
    "json_as_events": (lambda m: (200, EVENTS, json.dumps(m, indent=2).encode()), f"{EVENTS}, and are JSON"),
    "list_as_events": (lambda m: (200, EVENTS, body([NOTICE, m])), "(batches)"),
    "mark": (lambda m: (200, JSON, MARK + body(m)), "byte-order mark"),
    "mark_and_type": (lambda m: (200, "text/html", MARK + body(m)), "content type text/html, and are JSON"),
    "mark_before_events": (lambda m: (200, EVENTS, MARK + event(m)), ""),
    "list": (lambda m: (200, JSON, body([m])), "(batches)"),
    "list_of_several": (lambda m: (200, JSON, body([NOTICE, {**m, "id": 987654}, m])), "(batches)"),
    "list_with_others": (lambda m: (200, JSON, body([5, {"a": 1}, m, None])), "(batches)"),
    "list_in_an_event": (lambda m: (200, EVENTS, event([NOTICE, m])), "(batches)"),
    "accepted": (lambda m: (202, JSON, body(m)), "with HTTP 202 and the answer as body"),
    "accepted_events": (lambda m: (202, EVENTS, event(m)), "with HTTP 202 and the answer as body"),
    "failed": (lambda m: (500, JSON, body(m)), "with HTTP 500 and the answer as body"),
    "failed_events": (lambda m: (500, EVENTS, event(NOTICE) + event(m)), "with HTTP 500 and the answer as body"),
    "not_utf_8": (lambda m: (200, JSON, body(m).replace(b"right", b"caf\xe9")), "bytes that are not UTF-8"),
    # events beside the answer
    "text": (
        lambda m: (200, EVENTS, b"data: keepalive\n\n" + event(m)),
        "events that are no messages; they are skipped",
    ),
    "ping": (lambda m: (200, EVENTS, event({"type": "ping"}) + event(m)), "events that are no messages"),
    "object": (lambda m: (200, EVENTS, event({}) + event(m)), "events that are no messages"),
    "params": (lambda m: (200, EVENTS, event({**NOTICE, "params": "x"}) + event(m)), "events that are no messages"),
    "cut": (lambda m: (200, EVENTS, event(NOTICE)[:-9] + b"\n\n" + event(m)), "events that are no messages"),
    "last_line": (lambda m: (200, EVENTS, event(m)[:-1]), "its last event has no empty line after it"),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("everything", [False, True], ids=["calls", "all"])
async def test_a_body_is_read_as_what_it_is(host, name, everything):
    form, remark = BODIES[name]
    async with formed(host, Formed(form, everything=everything)) as connection:
        assert await outcome(connection) == {"latin_1": "café", "not_utf_8": "caf\ufffd"}.get(name, "right")
        assert remark in remarks(connection)
        assert bool(remark) is bool(connection.info().remarks)


@pytest.mark.parametrize("name", ["json_as_events", "events_as_json", "list", "mark_before_events"])
async def test_the_doctor_reads_bodies_as_what_they_are(host, name):
    form, remark = BODIES[name]
    async with serving(Formed(form, everything=True), lifespan="off") as url:
        report = await examine(host, f"{url}/mcp", call="good")
        assert report.ok
        assert remark in "\n".join(report.problems)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_batch_is_read(host, transport):
    answers = {"form": "batch", "before tools/call good": [{k: v for k, v in NOTICE.items() if k != "jsonrpc"}]}
    async with connected(host, answers, transport) as connection:
        assert await outcome(connection) == "right"
        if transport != "http":
            await until(lambda: any(m.data == "working" for m in connection.notices.messages))
        assert "it sends lists of messages (batches)" in remarks(connection)
        assert remarks(connection).count("batches") == 1


EMPTY = {
    "json": (200, JSON, "HTTP 200 with an empty body"),
    "no_type": (200, "", "HTTP 200 with an empty body"),
    "events": (200, EVENTS, "HTTP 200 with an empty body"),
    "no_content": (204, "", "HTTP 204 with an empty body"),
    "accepted": (202, "", "server answered a request with 202 Accepted"),
}


@pytest.mark.parametrize(("status", "kind", "says"), EMPTY.values(), ids=EMPTY)
async def test_an_empty_body_says_so_at_once(host, status, kind, says):
    async with formed(host, Formed(lambda m: (status, kind, b""))) as connection:
        with pytest.raises(InvalidResponseError, match=says):
            await connection.call_tool("good", {})
        assert (connection.state, connection.reconnects) == ("open", 0)


def refusal(message: Any, **members: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": message["id"],
        "error": {"code": -32602, "message": "Unknown tool: good"},
        **members,
    }


REFUSALS: dict[str, Callable[[Any], Form]] = {
    "not_found": lambda m: (404, JSON, body(refusal(m))),
    "plain": lambda m: (404, "text/plain", body(refusal(m))),
    "bad_request": lambda m: (400, "", body(refusal(m, id=None))),
    "list": lambda m: (400, JSON, body([refusal(m)])),
    "list_of_two": lambda m: (500, JSON, body([NOTICE, refusal(m)])),
    "events": lambda m: (500, EVENTS, event(NOTICE) + event(refusal(m))),
    "plain_events": lambda m: (404, "text/plain", event(refusal(m))),
}


@pytest.mark.parametrize("form", REFUSALS.values(), ids=REFUSALS)
async def test_an_error_in_the_body_of_a_status_is_told(host, form):
    server = Formed(form)
    async with formed(host, server) as connection:
        with pytest.raises(ProtocolError, match=r"Unknown tool: good \(-32602, invalid params; fault: the caller\)"):
            await connection.call_tool("good", {})
        assert (server.counts["tools/call"], server.counts["initialize"]) == (1, 1), "no session is forgotten"
        assert connection.state == "open"


@pytest.mark.parametrize("data", ["the model is busy", '{"error": {"message": "the model is busy"}}'])
async def test_an_event_named_error_ends_its_request(host, data):
    async with formed(host, Formed(lambda m: (200, EVENTS, f"event: error\ndata: {data}\n\n".encode()))) as connection:
        said = "ProtocolError: odd:good: the model is busy (-32000, server error; fault: the server)"
        assert await outcome(connection) == said
        assert connection.state == "open"


KEY = b'{"error": "API key missing"}'
NO_ANSWERS = {
    "json": (JSON, KEY, "Failed to parse JSON response\n  the server says: API key missing"),
    "text": ("text/plain", b"the pool is empty", "content type: text/plain\n  the server says: the pool is empty"),
    "page": ("text/html", b"<title>Sign in</title>", "content type: text/html\n  the server says: Sign in"),
    "cut": (JSON, b'{"jsonrpc": "2.0", "id', "Invalid JSON: EOF while parsing a string at line 1 column 22"),
}


@pytest.mark.parametrize(("kind", "content", "words"), NO_ANSWERS.values(), ids=NO_ANSWERS)
async def test_a_body_that_is_no_answer_is_quoted(host, kind, content, words):
    async with formed(host, Formed(lambda m: (200, kind, content))) as connection:
        with pytest.raises(InvalidResponseError) as caught:
            await connection.call_tool("good", {})
        assert str(caught.value).endswith(words)
        assert (content.decode() in caught.value.whole) is (b"id" not in content)
        if b"id" in content:
            logged = [message.data for message in connection.notices.messages]
            said = "The server odd sent an answer that cannot be read (Failed to parse JSON response: Invalid JSON: "
            assert [text.startswith(said) for text in logged] == [True]
    with pytest.raises(NotAnMCPServerError) as refused:
        async with formed(host, Formed(lambda m: (200, kind, content), everything=True)):
            pass
    assert words in str(refused.value)
    assert "validation error" not in str(refused.value)
