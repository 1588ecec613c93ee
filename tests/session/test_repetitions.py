"""Nothing that reacts to a server's message repeats without a pause: sessions, streams, listings, pages, handshakes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import Tool

from mcp_magic import doctor
from mcp_magic.ask.elicitation import Answer
from mcp_magic.errors import MCPMagicError, ProtocolError, RequestTimeoutError, SessionError
from mcp_magic.session import http
from mcp_magic.session.catalog import all_pages
from tests.support.asgi import answer, serving
from tests.support.plain import COMPLETE

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic import Host

ROOT = Path(__file__).parents[2]
HANDSHAKE = "2025-06-18"
TOOL = {"name": "add", "inputSchema": {"type": "object"}}


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
        self._get = get or (lambda send: answer(send, 404, b"Cannot GET /mcp", "text/html"))

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
        if (refusal := self._refusal(method, dict(scope["headers"]))) is not None:
            await answer(send, *refusal)
        elif method == "tools/call" and self.calls is not None:
            await self.calls(send, message)
        elif "id" not in message:
            await answer(send, 202, b"")
        elif method in (results := self._results()):
            session = f"session-{self.counts[method]}" if method == "initialize" and self.gives_session else ""
            await self._answer(send, message, results[method], session)
        else:
            error = {"code": -32601, "message": "Method not found"}
            await answer(send, 200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())

    def _refusal(self, method: str, headers: dict[bytes, bytes]) -> tuple[int, bytes] | None:
        """Return status and body for a request without the session that it needs; else None."""
        if method in self.forgets:
            return 404, b'{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}'
        if self.discovers and method not in ("initialize", "server/discover") and b"mcp-session-id" not in headers:
            return 400, (
                b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},'
                b'"id":null}'
            )
        return None

    def _results(self) -> dict[str, dict[str, Any]]:
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "express", "version": "1"}}
        discovered = {"server/discover": {**about, **COMPLETE, "supportedVersions": ["2026-07-28"]}}
        return {
            "initialize": {"protocolVersion": HANDSHAKE, **about},
            "tools/list": {"tools": [TOOL]},
            "tools/call": {"content": [{"type": "text", "text": "3"}]},
            "ping": {},
            **(discovered if self.discovers else {}),
        }

    @staticmethod
    async def _answer(send: Any, message: Any, result: Any, session: str = "") -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        headers = [(b"content-type", b"application/json"), *([(b"mcp-session-id", session.encode())] * bool(session))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def ended_stream(send: Any) -> None:
    """Open a stream of events, ask for no pause before the next, and end it."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    await send({"type": "http.response.body", "body": b"retry: 0\n\n"})


async def unfinished(send: Any, message: Any = None) -> None:
    """Open a stream of events that can be resumed at once, and end it before the answer."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    await send({"type": "http.response.body", "body": b"id: 1\nretry: 0\ndata: \n\n"})


async def nothing(send: Any, message: Any) -> None:
    """Answer a call as a server that uses 404 for what a tool does not find."""
    error = {"code": -32002, "message": "no such note"}
    await answer(send, 404, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())


async def until(condition: Callable[[], Any]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(404, b"Cannot GET /mcp", id="404"),
        pytest.param(400, b"Invalid or missing session ID", id="400"),
        pytest.param(501, b"", id="501"),
    ],
)
@pytest.mark.parametrize("reconnect", [True, False], ids=["reconnects", "not"])
async def test_get_without_a_stream_keeps_the_session(host: Host, status: int, body: bytes, reconnect: bool) -> None:
    server = Express(lambda send: answer(send, status, body, "text/plain"))
    async with serving(server) as url:
        connection = await host.connect(f"{url}/mcp", name="express", reconnect=reconnect)
        await until(lambda: server.counts["GET"] >= 2)  # the SDK tries once more
        for _ in range(5):
            assert (await connection.call("add")).text == "3"
        assert server.counts["initialize"] == 1
        [remark] = connection.info().remarks
        assert remark.startswith(f"it has no stream of notifications (its GET was answered with HTTP {status}")
        await host.disconnect("express")


async def test_get_405_needs_no_remark(host: Host) -> None:
    server = Express(lambda send: answer(send, 405, b"", "text/plain"))
    async with serving(server) as url:
        connection = await host.connect(f"{url}/mcp", name="express")
        await until(lambda: server.counts["GET"])
        assert (await connection.call("add")).text == "3"
        assert connection.info().remarks == ()
        await host.disconnect("express")


async def test_sessions_forgotten_each_time_are_renewed_with_pauses(host: Host) -> None:
    server = Express()
    async with serving(server) as url:
        connection = await host.connect(f"{url}/mcp", name="express")
        server.forgets = {"tools/call"}
        for _ in range(2):
            with pytest.raises(MCPMagicError):
                await connection.call("add", timeout=0.5)
        assert any("forgets its sessions" in remark for remark in connection.info().remarks)
        assert server.counts["initialize"] <= 4
        server.forgets = set()
        assert (await connection.call("add")).text == "3"
        await host.disconnect("express")


async def test_streams_that_end_at_once_are_reopened_with_pauses(host: Host) -> None:
    server = Express(ended_stream)
    async with serving(server) as url:
        connection = await host.connect(f"{url}/mcp", name="express")
        await until(lambda: server.counts["GET"] >= 3)
        before = server.counts["GET"]
        loop = asyncio.get_running_loop()
        started = loop.time()
        await until(lambda: server.counts["GET"] >= before + 3)
        assert loop.time() - started > 0.5, "each pause is longer than the one before"
        assert (await connection.call("add")).text == "3"
        assert server.counts["initialize"] == 1
        await host.disconnect("express")


async def test_answers_that_never_come_are_resumed_with_pauses(host: Host) -> None:
    server = Express(unfinished)
    server.calls = unfinished
    async with serving(server) as url:
        connection = await host.connect(f"{url}/mcp", name="express")
        with pytest.raises(RequestTimeoutError):
            await connection.call_tool("add", {}, timeout=2)
        assert server.counts["GET"] < 20
        assert server.counts["tools/call"] == 1
        await host.disconnect("express")


async def test_404_without_a_session_id_forgets_no_session(host: Host) -> None:
    server = Express(lambda send: answer(send, 405, b"", "text/plain"))
    server.calls, server.gives_session = nothing, False
    async with serving(server) as url:
        connection = await host.connect(f"{url}/mcp", name="express")
        with pytest.raises(ProtocolError, match="no such note"):
            await connection.call("add")
        assert (server.counts["tools/call"], server.counts["initialize"]) == (1, 1)
        await host.disconnect("express")


async def test_discovered_server_that_wants_a_session_gets_it(host: Host) -> None:
    server = Express(lambda send: answer(send, 405, b"", "text/plain"))
    server.discovers = True
    async with serving(server) as url:
        connection = await host.connect(f"{url}/mcp", name="express")
        assert (await connection.call("add")).text == "3"
        assert (connection.protocol_version, server.counts["initialize"]) == (HANDSHAKE, 1)
        await host.disconnect("express")


PROGRAM = """
import json, sys

def write(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

mode = sys.argv[1]
capabilities = {"tools": {"listChanged": True}}
about = {"capabilities": capabilities, "serverInfo": {"name": mode, "version": "1"}}
initialized = False
pages = {None: ("one", "b"), "b": ("two", "c"), "c": ("three", "b")}
for line in sys.stdin:
    message = json.loads(line)
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if number is None:
        continue
    if method == "server/discover" and mode == "uninitialized":
        write(id=number, result={**about, "supportedVersions": ["2026-07-28"], "resultType": "complete",
                                 "ttlMs": 0, "cacheScope": "private"})
    elif method == "initialize":
        initialized = True
        write(id=number, result={**about, "protocolVersion": "2025-06-18"})
    elif mode == "uninitialized" and not initialized:
        write(id=number, error={"code": -32002, "message": "initialize is required"})
    elif method == "tools/list":
        tool = {"inputSchema": {"type": "object"}}
        if mode == "circle":
            name, cursor = pages[params.get("cursor")]
            write(id=number, result={"tools": [{"name": name, **tool}], "nextCursor": cursor})
        elif mode == "same page":
            write(id=number, result={"tools": [{"name": "one", **tool}], "nextCursor": "again"})
        else:
            write(id=number, result={"tools": [{"name": "one", **tool}]})
            if mode == "changing":
                write(method="notifications/tools/list_changed")
    elif method == "tools/call":
        write(id=number, result={"content": [{"type": "text", "text": "done"}]})
    elif method == "ping":
        write(id=number, result={})
    else:
        write(id=number, error={"code": -32601, "message": "Method not found"})
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "raw_server.py"
    path.write_text(PROGRAM)
    return path


async def test_ever_changing_listings_are_fetched_with_pauses(host: Host, program: Path) -> None:
    connection = await host.connect([sys.executable, str(program), "changing"], name="changing")
    await connection.listing("tools")
    await until(lambda: connection.info().remarks)
    assert connection.info().remarks == (
        "it announces changes of its tools all the time; they are listed again with growing pauses",
    )
    lists = [entry for entry in connection.trace.entries if entry.method == "tools/list" and entry.kind == "request"]
    assert len(lists) < 30
    assert (await connection.call("one")).text == "done"


@pytest.mark.parametrize(
    ("mode", "names"),
    [pytest.param("circle", ["one", "two", "three"], id="circle"), pytest.param("same page", ["one"], id="same page")],
)
async def test_pages_in_a_circle_are_kept(host: Host, program: Path, mode: str, names: list[str]) -> None:
    connection = await host.connect([sys.executable, str(program), mode], name="paging")
    assert [tool.name for tool in await connection.listing("tools")] == names
    assert (await connection.call(names[-1])).text == "done"
    [remark] = connection.info().remarks
    assert remark.startswith("the listing of tools goes in a circle: the cursor of page ")


async def test_paging_ends_at_a_cursor_that_came_before() -> None:
    cursors: list[str | None] = []

    class Page:
        items = ("x",)
        next_cursor = "more"

    async def fetch(cursor: str | None) -> Any:
        cursors.append(cursor)
        return Page()

    assert await all_pages(fetch, "items") == ["x"]
    assert cursors == [None, "more"]


async def test_pages_with_nothing_new_end_the_listing() -> None:
    numbers = iter(range(100))

    class Page:
        items = ("x", "y")

        def __init__(self) -> None:
            self.next_cursor = str(next(numbers))

    async def fetch(cursor: str | None) -> Any:
        return Page()

    remarks: list[str] = []
    assert await all_pages(fetch, "items", remark=remarks.append) == ["x", "y"]
    assert remarks == ["the listing of items goes in a circle: all of page 2 came before; it ends there, with 2 items"]


async def test_long_pages_are_not_compared_item_by_item() -> None:
    class Item(Tool):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("two pages of 50,000 items would take hours")

    def item(name: str) -> Item:
        return Item(name=name, input_schema={"type": "object"})

    pages = iter([[item("a"), item("b")], [item("b"), item("c")]])

    class Page:
        next_cursor = "again"

        def __init__(self) -> None:
            self.items = next(pages)

    async def fetch(cursor: str | None) -> Any:
        return Page()

    assert [found.name for found in await all_pages(fetch, "items")] == ["a", "b", "c"]


REFUSING = """
from tests.support.plain import Plain, Refused

server, runs = Plain("tool"), []

@server.tool
def query() -> str:
    runs.append(1)
    raise Refused(-32000, f"the database is not initialized, in run {len(runs)}")

server.run()
"""


async def test_words_of_a_tool_do_not_begin_a_handshake(host: Host) -> None:
    connection = await host.connect([sys.executable, "-c", REFUSING], name="tool", cwd=str(ROOT))
    for number in (1, 2):
        with pytest.raises(ProtocolError, match=f"not initialized, in run {number}"):
            await connection.call("query")
    assert (connection.protocol_version, connection.info().remarks) == ("2026-07-28", ())


async def test_discovered_server_that_wants_the_handshake_gets_it(host: Host, program: Path) -> None:
    command = [sys.executable, str(program), "uninitialized"]
    connection = await host.connect(command, name="late")
    assert [tool.name for tool in await connection.listing("tools")] == ["one"]
    assert (await connection.call("one")).text == "done"
    assert connection.protocol_version == HANDSHAKE
    assert connection.info().remarks == (
        "it answers server/discover with 2026-07-28, and then wants `initialize`; "
        "the session began again with the handshake",
    )
    report = await doctor.examine(host, command)
    assert "wants `initialize`" in str(report)


# Questions

ASKS_AGAIN = """
import json, sys

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

info = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
results = {"initialize": info, "tools/list": {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}, "ping": {}}
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") != "tools/call":
        if "id" in message:
            say(id=message["id"], result=results[message["method"]])
        continue
    asked, answer = 0, {}
    while answer.get("result", {}).get("action") is None or answer["result"]["action"] == "decline":
        asked += 1
        say(id=f"q{asked}", method=METHOD, params=PARAMS)
        answer = {}
        while answer.get("id") != f"q{asked}":
            answer = json.loads(sys.stdin.readline())
            if answer.get("method") == "notifications/cancelled":
                break
        else:
            continue
        break
"""
ELICITS = ("elicitation/create", {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}})
SAID = {"role": "user", "content": {"type": "text", "text": "hi"}}
SAMPLES = ("sampling/createMessage", {"messages": [SAID], "maxTokens": 9})
SENSELESS = ("sampling/createMessage", {"messages": [], "maxTokens": 9})


@pytest.mark.parametrize(
    ("method", "params"), [ELICITS, SAMPLES, SENSELESS], ids=["elicitation", "sampling", "senseless"]
)
async def test_asking_again_ends_the_call(host: Host, tmp_path: Path, method: str, params: dict[str, Any]) -> None:
    async def declines(question: Any) -> Answer:
        return Answer.decline()

    async def fails(request: Any) -> Any:
        raise ValueError("no model here")

    host.elicitation.elicitor, host.sampling.sampler = declines, fails
    host.elicitation.max_questions = 2
    program = tmp_path / "asks.py"
    program.write_text(ASKS_AGAIN.replace("METHOD", repr(method)).replace("PARAMS", repr(params)))
    command = [sys.executable, str(program)]
    connection = await host.connect(command, name="asks", protocol="handshake", sampling="auto")
    with pytest.raises(SessionError) as error:
        await connection.call("go")
    assert str(error.value) == "asks:go: asked 4 times and was refused; given up. It was cancelled."
    await connection.ping()


# Messages that the server never takes


async def test_an_untaken_notification_holds_no_call_back(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "TAKING_SECONDS", 0.2)
    server = Express()
    server.mute = {"notifications/initialized"}
    async with serving(server, lifespan="off") as url:
        connection = await host.connect(f"{url}/mcp", name="mute", protocol="handshake")
        await connection.call_tool("add", {}, timeout=20)
        assert "it does not answer the POST of a notification" in "\n".join(connection.info().remarks)
        await host.close()


async def test_the_timeout_of_a_call_is_that_of_its_listing(host: Host) -> None:
    server = Express()
    server.mute = {"tools/list"}
    async with serving(server, lifespan="off") as url:
        connection = await host.connect(f"{url}/mcp", name="mute", protocol="handshake")
        with pytest.raises(RequestTimeoutError, match="mute:add: timed out: no answer to tools/list within"):
            await connection.call_tool("add", {}, timeout=0.5)
        await host.close()
