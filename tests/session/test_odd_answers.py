"""Answers in a form that real servers use and the specification does not: they are read, and what is odd is told."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from mcp import MCPError
from mcp.server.mcpserver import MCPServer

from mcp_magic.doctor import examine
from mcp_magic.errors import (
    InvalidResponseError,
    MCPMagicError,
    NotAnMCPServerError,
    ProtocolError,
    SessionClosedError,
)
from mcp_magic.session import stdio
from mcp_magic.session.stdio import SpreadMessages
from tests.support.asgi import serving
from tests.support.cassettes import hosting
from tests.support.odd_server import TOOL, TRANSPORTS, USUAL, VERSION, connected
from tests.support.processes import free_port
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

EVERYWHERE = pytest.mark.parametrize("transport", TRANSPORTS)
JSON, EVENTS = "application/json", "text/event-stream"
NOTICE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "working"}}


def remarks(connection: Connection) -> str:
    return "\n".join(connection.info().remarks)


def error(code: int, message: str) -> str:
    return f'"error": {json.dumps({"code": code, "message": message})}'


async def outcome(connection: Connection, tool: str = "good") -> str:
    """Call a tool that the server does not answer in vain; return the text, or the class and words of the error."""
    try:
        return (await connection.call_tool(tool, {}, timeout=20)).text
    except MCPMagicError as problem:
        return f"{type(problem).__name__}: {problem}"


# A server's own errors in words of a lost session.

OWN = {
    "closed": (-32000, "Connection closed", "(-32000, server error; fault: the server)"),
    "closed_why": (-32000, "Connection closed: the database", "(-32000, server error; fault: the server)"),
    "lost": (-32000, "Connection lost", "(-32000, server error; fault: the server)"),
    "stream": (-32000, "SSE stream ended without a response", "(-32000, server error; fault: the server)"),
    "minus_one": (-1, "Connection closed", "(-1, the server's own code; fault: the server)"),
    "refused": (-1, "User rejected it", "(-1, refused by you or your rules; fault: you)"),
    "timed_out": (-32001, "Request 'query' timed out", "(-32001, no answer in time; fault: the server)"),
    "session": (-32001, "Session not found", "(-32001, the server's own code; fault: the server)"),
    "no_row": (-32002, "the row is locked", "(-32002, the server's own code; fault: the server)"),
    "no_note": (-32002, "no such note", "(-32002, resource not found; fault: the caller)"),
    "parsing": (-32602, "Failed to parse the date", "(-32602, invalid params; fault: the caller)"),
    "returned": (-32603, "Server returned an error response", "(-32603, internal error; fault: the server)"),
}


@EVERYWHERE
async def test_an_error_of_a_server_is_its_own(host: Host, transport: str) -> None:
    answers: dict[str, Any] = {f"tools/call {name}": error(*case[:2]) for name, case in OWN.items()}
    answers["tools/list"] = {"tools": [{**TOOL, "name": name} for name in ("good", *OWN)]}
    async with connected(host, answers, transport) as connection:
        for name, (code, message, meaning) in OWN.items():
            with pytest.raises(ProtocolError) as caught:
                await connection.call_tool(name, {}, timeout=20)
            assert str(caught.value).startswith(f"odd:{name}: {message} {meaning}")
            assert (caught.value.code, connection.state, connection.reconnects) == (code, "open", 0)
        assert await outcome(connection) == "right"


@pytest.mark.parametrize("protocol", ["auto", "handshake"])
async def test_an_error_of_a_server_in_this_kernel_is_its_own(host: Host, protocol: str) -> None:
    server = MCPServer("here")

    @server.tool()
    def closed() -> str:
        raise MCPError(-32000, "Connection closed")

    connection = await host.connect(server, name="here", protocol=protocol)
    for _ in range(2):
        with pytest.raises(ProtocolError, match="Connection closed"):
            await connection.call("closed")


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_own_errors_are_replayed_as_such(tmp_path: Path, transport: str) -> None:
    answers = {"tools/call good": error(-32000, "Connection closed")}
    async with hosting(tmp_path / "a.jsonl", "record") as host, connected(host, answers, transport) as connection:
        recorded, spec = await outcome(connection), connection.spec
    async with hosting(tmp_path / "a.jsonl", "replay") as host:
        replayed = await host.connect(spec, name="odd", protocol="handshake")
        assert await outcome(replayed) == recorded
        assert recorded.startswith("ProtocolError: odd:good: Connection closed (-32000, ")


async def test_a_404_that_is_an_answer_is_replayed_as_such(tmp_path: Path) -> None:
    server = Formed(lambda m: (404, JSON, body(refusal(m))))
    async with hosting(tmp_path / "a.jsonl", "record") as host, formed(host, server) as connection:
        recorded, spec = await outcome(connection), connection.spec
    async with hosting(tmp_path / "a.jsonl", "replay") as host:
        replayed = await host.connect(spec, name="odd")
        assert await outcome(replayed) == recorded
        assert replayed.reconnects == 0


# Batches.


@EVERYWHERE
async def test_a_batch_is_read(host: Host, transport: str) -> None:
    answers = {"form": "batch", "before tools/call good": [{k: v for k, v in NOTICE.items() if k != "jsonrpc"}]}
    async with connected(host, answers, transport) as connection:
        assert await outcome(connection) == "right"
        if transport != "http":
            await until(lambda: any(m.data == "working" for m in connection.notices.messages))
        assert "it sends lists of messages (batches)" in remarks(connection)
        assert "\n".join(connection.info().remarks).count("batches") == 1


# HTTP bodies, whatever their headers say.


def event(message: Any) -> bytes:
    return b"data: " + json.dumps(message).encode() + b"\n\n"


def body(message: Any) -> bytes:
    return json.dumps(message).encode()


BODIES: dict[str, tuple[Callable[[Any], tuple[int, str, bytes]], str]] = {
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
    "mark": (lambda m: (200, JSON, b"\xef\xbb\xbf" + body(m)), "byte-order mark"),
    "mark_and_type": (lambda m: (200, "text/html", b"\xef\xbb\xbf" + body(m)), "content type text/html, and are JSON"),
    "mark_before_events": (lambda m: (200, EVENTS, b"\xef\xbb\xbf" + event(m)), ""),
    "list": (lambda m: (200, JSON, body([m])), "(batches)"),
    "list_of_several": (lambda m: (200, JSON, body([NOTICE, {**m, "id": 987654}, m])), "(batches)"),
    "list_with_others": (lambda m: (200, JSON, body([5, {"a": 1}, m, None])), "(batches)"),
    "list_in_an_event": (lambda m: (200, EVENTS, event([NOTICE, m])), "(batches)"),
    "accepted": (lambda m: (202, JSON, body(m)), "with HTTP 202 and the answer as body"),
    "accepted_events": (lambda m: (202, EVENTS, event(m)), "with HTTP 202 and the answer as body"),
    "failed": (lambda m: (500, JSON, body(m)), "with HTTP 500 and the answer as body"),
    "failed_events": (lambda m: (500, EVENTS, event(NOTICE) + event(m)), "with HTTP 500 and the answer as body"),
    "not_utf_8": (lambda m: (200, JSON, body(m).replace(b"right", b"caf\xe9")), "bytes that are not UTF-8"),
}
TEXTS = {"latin_1": "café", "not_utf_8": "caf\ufffd"}


class Formed:
    """A streamable-HTTP server over ASGI that answers calls, and with `everything` all requests, in a form.

    Attributes:
        counts: How often each method came.
        sessions: Whether it gives session ids.
    """

    def __init__(self, form: Callable[[Any], tuple[int, str, bytes]], *, everything: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self.sessions = True
        self._form = form
        self._everything = everything

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] != "POST":
            await self.send(send, 405, "", b"")
            return
        message = json.loads((await receive())["body"])
        method = message["method"]
        self.counts[method] += 1
        if "id" not in message:
            await self.send(send, 202, "", b"")
            return
        result = USUAL.get("tools/call good" if method == "tools/call" else method)
        if result is None:
            missing = {"code": -32601, "message": "Method not found"}
            await self.send(send, 200, JSON, body({"jsonrpc": "2.0", "id": message["id"], "error": missing}))
        elif method == "tools/call" or self._everything:
            await self.send(send, *self._form({"jsonrpc": "2.0", "id": message["id"], "result": result}), method=method)
        else:
            answer = body({"jsonrpc": "2.0", "id": message["id"], "result": result})
            await self.send(send, 200, JSON, answer, method=method)

    async def send(self, send: Any, status: int, kind: str, content: bytes, *, method: str = "") -> None:
        headers = [(b"content-type", kind.encode())] if kind else []
        if method == "initialize" and self.sessions:
            headers.append((b"mcp-session-id", f"session-{self.counts[method]}".encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


@asynccontextmanager
async def formed(host: Host, server: Any, **options: Any) -> AsyncIterator[Connection]:
    async with serving(server, lifespan="off") as url:
        yield await host.connect(f"{url}/mcp", name="odd", **options)
        await host.close()


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("everything", [False, True], ids=["calls", "all"])
async def test_a_body_is_read_as_what_it_is(host: Host, name: str, everything: bool) -> None:
    form, remark = BODIES[name]
    async with formed(host, Formed(form, everything=everything)) as connection:
        assert await outcome(connection) == TEXTS.get(name, "right")
        assert remark in remarks(connection)
        assert bool(remark) is bool(connection.info().remarks)


async def test_the_doctor_reads_bodies_as_what_they_are(host: Host) -> None:
    for name in ("json_as_events", "events_as_json", "list", "mark_before_events"):
        form, remark = BODIES[name]
        async with serving(Formed(form, everything=True), lifespan="off") as url:
            report = await examine(host, f"{url}/mcp", call="good")
            assert report.ok
            assert remark in "\n".join(report.problems)


EMPTY = {
    "json": (200, JSON, "HTTP 200 with an empty body"),
    "no_type": (200, "", "HTTP 200 with an empty body"),
    "events": (200, EVENTS, "HTTP 200 with an empty body"),
    "no_content": (204, "", "HTTP 204 with an empty body"),
    "accepted": (202, "", "server answered a request with 202 Accepted"),
}


@pytest.mark.parametrize(("status", "kind", "says"), [pytest.param(*case, id=name) for name, case in EMPTY.items()])
async def test_an_empty_body_says_so_at_once(host: Host, status: int, kind: str, says: str) -> None:
    async with formed(host, Formed(lambda m: (status, kind, b""))) as connection:
        with pytest.raises(InvalidResponseError, match=says):
            await connection.call_tool("good", {})
        assert (connection.state, connection.reconnects) == ("open", 0)


REFUSED = {"code": -32602, "message": "Unknown tool: good"}


def refusal(message: Any, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "error": REFUSED, **members}


REFUSALS: dict[str, Callable[[Any], tuple[int, str, bytes]]] = {
    "not_found": lambda m: (404, JSON, body(refusal(m))),
    "plain": lambda m: (404, "text/plain", body(refusal(m))),
    "bad_request": lambda m: (400, "", body(refusal(m, id=None))),
    "list": lambda m: (400, JSON, body([refusal(m)])),
    "list_of_two": lambda m: (500, JSON, body([NOTICE, refusal(m)])),
    "events": lambda m: (500, EVENTS, event(NOTICE) + event(refusal(m))),
    "plain_events": lambda m: (404, "text/plain", event(refusal(m))),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_an_error_in_the_body_of_a_status_is_told(host: Host, name: str) -> None:
    server = Formed(REFUSALS[name])
    async with formed(host, server) as connection:
        with pytest.raises(ProtocolError, match=r"Unknown tool: good \(-32602, invalid params; fault: the caller\)"):
            await connection.call_tool("good", {})
        assert (server.counts["tools/call"], server.counts["initialize"]) == (1, 1), "no session is forgotten"
        assert connection.state == "open"


@pytest.mark.parametrize("number", [None, "server-error", "own"])
async def test_a_404_that_names_the_session_forgets_it(host: Host, number: str | None) -> None:
    gone = {"code": -32001, "message": "Session not found"}
    server = Formed(lambda m: (200, JSON, body(m)))

    def once(message: Any) -> tuple[int, str, bytes]:
        if server.counts["tools/call"] > 1:
            return 200, JSON, body(message)
        return 404, JSON, body({"jsonrpc": "2.0", "id": message["id"] if number == "own" else number, "error": gone})

    server._form = once
    async with formed(host, server) as connection:
        assert await outcome(connection) == "right"
        assert server.counts["initialize"] == 2


@pytest.mark.parametrize("kind", [JSON, EVENTS, "text/plain"])
async def test_a_body_that_is_cut_is_a_lost_session(host: Host, kind: str) -> None:
    half = b'{"jsonrpc": "2.0", "id": 3, "result": {"content": []}'
    async with raw_server({"tools/call": lambda m: (kind, b"Content-Length: 999\r\n", half)}) as (url, _):
        connection = await host.connect(url, name="odd", protocol="handshake")
        with pytest.raises(SessionClosedError, match="the connection was lost before the answer came"):
            await connection.call_tool("good", {}, timeout=20)
        await host.close()


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_on_the_same_origin_is_followed(host: Host, status: int, chunked: bool) -> None:
    server = Formed(lambda m: (200, JSON, body(m)))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/mcp":
            headers = [(b"location", b"/mcp/"), *([] if chunked else [(b"content-length", b"2")])]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b"to"})
        else:
            await server(scope, receive, send)

    async with formed(host, app) as connection:
        assert await outcome(connection) == "right"
        assert "/mcp redirects to /mcp/ with each request; connect to that" in remarks(connection)
        assert not connection.notices.messages


# Headers that ASGI servers do not send.


@asynccontextmanager
async def raw_server(
    odd: dict[str, Callable[[Any], tuple[str, bytes, bytes]]], session: bytes = b""
) -> AsyncIterator[tuple[str, Counter[str]]]:
    """Serve over sockets; `odd` has what answers a method: its content type, further headers, the body."""
    counts: Counter[str] = Counter()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
                headers = {name.lower(): value.strip(b" \t") for name, _, value in lines}
                content = await reader.readexactly(int(headers.get(b"content-length", 0)))
                if not head.startswith(b"POST"):
                    writer.write(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n")
                    continue
                message = json.loads(content)
                method = message["method"]
                counts[method] += 1
                is_known = method == "initialize" or headers.get(b"mcp-session-id", b"") == session
                if "id" not in message or not is_known or method not in {**USUAL, "tools/call": 0}:
                    status = b"202 Accepted" if is_known and "id" not in message else b"404 Not Found"
                    writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")
                    continue
                result = USUAL["tools/call good" if method == "tools/call" else method]
                answer = body({"jsonrpc": "2.0", "id": message["id"], "result": result})
                kind, more, answer = odd[method](message) if method in odd else (JSON, b"", answer)
                length = b"" if b"Content-Length" in more else f"Content-Length: {len(answer)}\r\n".encode()
                own = b"Mcp-Session-Id: " + session + b"\r\n" if session and method == "initialize" else b""
                start = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n".encode()
                writer.write(start + more + length + own + b"\r\n" + answer)
                if more:
                    break
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", counts


SESSIONS = {
    "space": (b"a b", "a b"),
    "utf_8": ("sitzung-ü".encode(), r"sitzung-\xc3\xbc"),
    "latin_1": (b"sitzung-\xfc", r"sitzung-\xfc"),
    "control": (b"a\x01b\x7f", r"a\x01b\x7f"),
}


@pytest.mark.parametrize(("session", "shown"), [pytest.param(*case, id=name) for name, case in SESSIONS.items()])
async def test_an_odd_session_id_is_sent_as_it_came(host: Host, session: bytes, shown: str) -> None:
    async with raw_server({}, session) as (url, counts):
        connection = await host.connect(url, name="odd", protocol="handshake")
        assert await outcome(connection) == "right"
        assert counts["initialize"] == 1
        told = f"its Mcp-Session-Id has other characters than visible ASCII: '{shown}'"
        assert told in remarks(connection)
        assert told in "\n".join((await examine(host, url, call="good")).problems)
        await host.close()


@pytest.mark.parametrize("session", [b"a\x00b", b"a\x0bb"], ids=["null", "tab"])
async def test_a_session_id_that_http_refuses_is_named(host: Host, session: bytes) -> None:
    async with raw_server({}, session) as (url, counts):
        with pytest.raises(NotAnMCPServerError) as caught:
            await host.connect(url, name="odd")
        shown = session.decode().encode("unicode_escape").decode()
        assert f"a header that HTTP does not allow: Mcp-Session-Id: {shown} (fault: the server)" in str(caught.value)
        assert counts["initialize"] <= 2
        report = await examine(host, url)
        assert "it does not answer initialize: illegal header line: " in "\n".join(report.problems)


# Sessions that are forgotten at once.


async def test_sessions_forgotten_at_once_are_given_up(host: Host) -> None:
    server = Formed(lambda m: (404, JSON, b'{"jsonrpc":"2.0","error":{"code":-32001,"message":"gone"},"id":null}'))
    usual = server._form

    def form(message: Any) -> tuple[int, str, bytes]:
        is_handshake = "protocolVersion" in message["result"]
        return (200, JSON, body(message)) if is_handshake else usual(message)

    server._form, server._everything = form, True
    async with formed(host, server, protocol="handshake") as connection:
        with pytest.raises(ProtocolError, match="tried in two sessions; the server forgot each at once"):
            await connection.call("good")
        while connection.state != "lost":
            with pytest.raises((ProtocolError, SessionClosedError)):
                await connection.call("good")
        with pytest.raises(SessionClosedError, match="it forgot 4 sessions in a row, each before it answered anything"):
            await connection.call("good")
        assert server.counts["initialize"] == 4


async def test_a_server_that_restarts_often_is_not_given_up(host: Host) -> None:
    """Its sessions are forgotten, too, and nothing is asked in them."""
    host.reconnection.first, host.reconnection.longest = 0.05, 0.2
    port = free_port()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serving(Restarted("0"), port=port, lifespan="off"))
        connection = await host.connect(f"http://127.0.0.1:{port}/mcp", name="odd", protocol="handshake")
        for number in range(1, 6):
            await stack.aclose()
            await until(lambda: connection.state == "reconnecting")
            await stack.enter_async_context(serving(Restarted(str(number)), port=port, lifespan="off"))
            await until(lambda: connection.state == "open")
        assert connection.reconnects == 5
        await host.close()


class Restarted(Formed):
    """A server that knows only its own sessions, and opens a stream of notifications that ends soon."""

    def __init__(self, name: str) -> None:
        super().__init__(lambda m: (200, JSON, self._bare(m)), everything=True)
        self._name = name.encode()

    @staticmethod
    def _bare(message: Any) -> bytes:
        """Return an answer that offers nothing, so that nothing is listed."""
        return body({**message, "result": {**message["result"], "capabilities": {}}})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        session = dict(scope.get("headers", ())).get(b"mcp-session-id", self._name)
        if scope["type"] == "http" and session != self._name:
            await self.send(send, 404, "", b"")
        elif scope["type"] == "http" and scope["method"] == "GET":
            await self.send(send, 200, EVENTS, b"retry: 50\n\n")
        else:
            await super().__call__(scope, receive, send)

    async def send(self, send: Any, status: int, kind: str, content: bytes, *, method: str = "") -> None:
        headers = [(b"mcp-session-id", self._name), *([(b"content-type", kind.encode())] if kind else [])]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


# Messages on several lines.


async def test_a_message_on_several_lines_is_read(host: Host) -> None:
    async with connected(host, {"form": "pretty"}, "stdio") as connection:
        assert await outcome(connection) == "right"
        assert remarks(connection) == "it spreads a message over several lines; MCP over stdio has one message on each"
        report = await examine(host, connection.spec, call="good")
        assert report.ok
        assert "over several lines" in "\n".join(report.problems)


def pretty(value: Any, **options: Any) -> str:
    return json.dumps(value, indent=2, **options) + "\n"


MESSAGE = {"jsonrpc": "2.0", "id": 1, "result": {"a": [1, True, None, -2.5, '{"[\\'], "b": {}, "c": [], "é": "\u2028"}}
WHOLE = json.dumps(MESSAGE) + "\n"

LINES = {
    "usual": (WHOLE * 2, [MESSAGE] * 2, ""),
    "pretty": (pretty(MESSAGE), [MESSAGE], ""),
    "unicode": (pretty(MESSAGE, ensure_ascii=False), [MESSAGE], ""),
    "windows": (pretty(MESSAGE).replace("\n", "\r\n"), [MESSAGE], ""),
    "tabs": (json.dumps(MESSAGE, indent="\t") + "\n", [MESSAGE], ""),
    "braces": ("{\n" + WHOLE[1:-2] + "\n}\n", [MESSAGE], ""),
    "batch": (pretty([MESSAGE, MESSAGE]), [[MESSAGE, MESSAGE]], ""),
    "text_before": ("[INFO] on,\nLoading {\n" + pretty(MESSAGE), [MESSAGE], "[INFO] on,\nLoading {\n"),
    "brace_before": ("{\n" + WHOLE, [MESSAGE], "{\n"),
    "brace_before_pretty": ("{\n" + pretty(MESSAGE), [MESSAGE], "{\n"),
    "list_before": ('[\n{"a": [\n' + WHOLE, [MESSAGE], '[\n{"a": [\n'),
    "other_object": (pretty({"a": [1]}) + WHOLE, [MESSAGE], pretty({"a": [1]})),
    "text_between": ('{\n  "jsonrpc": "2.0",\nLoading\n' + WHOLE, [MESSAGE], '{\n  "jsonrpc": "2.0",\nLoading\n'),
    "never_closed": ('{\n"a": 1,\n', [], '{\n"a": 1,\n'),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("size", [1, 1000], ids=["line_by_line", "together"])
def test_lines_of_messages_are_joined(name: str, size: int) -> None:
    text, messages, others = LINES[name]
    spread = SpreadMessages()
    lines = text.splitlines(keepends=True) if name != "unicode" else [f"{line}\n" for line in text[:-1].split("\n")]
    parts = lines if size == 1 else [text]
    passed = "".join(map(spread.join, parts)) + spread.rest()
    joined, rest = [], ""
    for line in passed.split("\n")[:-1]:
        value = None
        with suppress(ValueError):
            value = json.loads(line)
        if value in messages:
            joined.append(value)
        else:
            rest += f"{line}\n"
    assert joined == messages
    assert rest == others


def test_lines_are_kept_back_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_LINES", 10)
    spread = SpreadMessages()
    lines = ["{\n", *['"a": 1,\n'] * 20]
    assert "".join(map(spread.join, lines)).startswith("".join(lines[:11]))


# Versions that a refused handshake names.

PROGRAM = """
import json, sys
versions, error = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"result": {}} if message["method"] == "ping" else {"error": {"code": -32601, "message": "no"}}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"}}
        answer = {"result": {"protocolVersion": version, **about}} if version in versions else {"error": error}
    elif message["method"] == "tools/list":
        answer = {"result": {"tools": [{"name": "good", "inputSchema": {"type": "object"}}]}}
    elif message["method"] == "tools/call":
        answer = {"result": {"content": [{"type": "text", "text": "right"}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


def old(tmp_path: Path, versions: list[str], refused: dict[str, Any]) -> list[str]:
    program = tmp_path / "old.py"
    program.write_text(PROGRAM)
    return [sys.executable, str(program), json.dumps(versions), json.dumps(refused)]


NAMED = {
    "data": ({"code": -32602, "message": "no", "data": {"supported": ["2024-11-05", "2025-03-26"]}}, "2025-03-26"),
    "words": (
        {"code": -32600, "message": "Unsupported protocol version 2025-11-25 (2024-11-05 and 2024-10-07 are)"},
        "2024-11-05",
    ),
    "code": ({"code": -32022, "message": "no", "data": {"supported": ["2025-06-18"], "requested": "x"}}, "2025-06-18"),
}


@pytest.mark.parametrize("protocol", ["auto", "handshake"])
@pytest.mark.parametrize(("refused", "version"), [pytest.param(*case, id=name) for name, case in NAMED.items()])
async def test_a_version_that_a_refusal_names_is_tried(
    host: Host, tmp_path: Path, refused: dict[str, Any], version: str, protocol: str
) -> None:
    connection = await host.connect(old(tmp_path, [version], refused), name="old", protocol=protocol)
    assert (connection.protocol_version, await outcome(connection)) == (version, "right")
    assert f"{version} was asked for" in remarks(connection)


async def test_the_doctor_tries_a_version_too(host: Host, tmp_path: Path) -> None:
    refused, version = NAMED["data"]
    report = await examine(host, old(tmp_path, [version], refused), call="good")
    assert report.ok
    assert f"it names {version}, which a session then asks for" in "\n".join(report.problems)


@pytest.mark.parametrize("versions", [["2099-01-01"], ["2024-11-05"]], ids=["unknown", "refused_again"])
async def test_a_refused_handshake_names_the_versions_of_both(host: Host, tmp_path: Path, versions: list[str]) -> None:
    refused = {"code": -32602, "message": "Unsupported protocol version", "data": {"supported": versions}}
    with pytest.raises(NotAnMCPServerError) as caught:
        await host.connect(old(tmp_path, [], refused), name="old")
    both = f"it takes {versions[0]}; mcp_magic speaks 2026-07-28, 2025-11-25, {VERSION}, 2025-03-26, 2024-11-05"
    assert str(caught.value).splitlines()[1] == f"  {both}"
