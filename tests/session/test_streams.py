"""Messages that no request asked for, and messages that are no JSON: no request waits for ever, and the log tells."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.config.specs import StdioSpec
from mcp_magic.errors import ConnectError, InvalidResponseError, RequestTimeoutError, SessionClosedError
from mcp_magic.session import stdio
from mcp_magic.session.failures import connect_error
from mcp_magic.session.wire import ErrorContext, Wire
from mcp_magic.trace.trace import Recorder, fault
from tests.support.checking import assert_clear, outcome
from tests.support.no_json_server import BREAKS, serve_no_json
from tests.support.rogue_server import command
from tests.support.speaking import LEGACY
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

STRANGE = "The server answered with id 987654, which no request has"


@pytest.fixture
def host(spotless):
    return spotless


def logged(connection: Connection) -> list[Any]:
    return [message.data for message in connection.notices.messages]


# Answers to nothing


async def test_a_stray_answer_is_told_with_the_time_out(host, tmp_path):
    connection = await host.connect(command(LEGACY, tmp_path / "log"), name="rogue")
    with pytest.raises(RequestTimeoutError) as caught:
        await connection.call_tool("wrong_id", {}, timeout=1)
    number = next(entry.id for entry in reversed(connection.trace.entries) if entry.method == "tools/call")
    assert str(caught.value) == (
        "rogue:wrong_id: timed out: no answer within 1 s. The call was cancelled.\n"
        f"  {STRANGE}; the answer to {number} never came (fault: the server)."
    )
    with pytest.raises(RequestTimeoutError) as other:
        await connection.call_tool("silent", {}, timeout=1)
    assert "answered" not in str(other.value), "that was of another call"


async def test_a_waiting_call_shows_stray_answers_ten_times(host, tmp_path):
    reports: list[Any] = []
    host.reports.reporter = lambda report: reports.append(report) or (lambda: None)  # type: ignore[func-returns-value]
    connection = await host.connect(command(LEGACY, tmp_path / "log"), name="rogue")
    call = asyncio.create_task(connection.call("wrong_id"))
    await until(lambda: any(report.logged for report in reports))
    [report] = [report for report in reports if report.logged]
    assert [message.data for message in report.messages] == logged(connection) == [STRANGE]
    assert not call.done()
    stray = next(entry for entry in reversed(connection.trace.entries) if entry.kind == "answer")
    assert (stray.label, fault(stray)) == ("answer to nothing", "the server")
    call.cancel()
    await asyncio.wait({call})
    for _ in range(4):
        assert await outcome(connection, "wrong_id_first") == "right"  # three strays each
    assert len(logged(connection)) == 10


MISNUMBERS = """
import json, sys
for line in sys.stdin:
    number = json.loads(line).get("id")
    if number is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": f"#{number}", "result": {}}), flush=True)
"""


async def test_a_stray_answer_to_the_handshake_is_told(host):
    with pytest.raises(ConnectError, match=r'it came with id "#\d", which no request has; the request has id \d'):
        await host.connect([sys.executable, "-c", MISNUMBERS], name="rogue")
    spec = StdioSpec(command="server", timeout=5)
    place = ErrorContext("rogue", spec, Wire(Recorder("rogue", spec), stray=STRANGE))
    assert str(connect_error(TimeoutError(), place)) == (
        "rogue: server did not answer the handshake within 5 s (--timeout S waits longer).\n"
        f"  {STRANGE} (fault: the server)."
    )


# Messages that are no JSON

TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "ws"])
UNREAD = "The server rogue sent a message that cannot be read"
PARSE = "Failed to parse the answer: Invalid JSON"


@asynccontextmanager
async def connected(host: Host, transport: str, break_method: str = "") -> AsyncIterator[Connection]:
    async with asyncio.timeout(80):  # nothing has a time-out of its own
        if transport == "stdio":
            target = [sys.executable, "-m", "tests.support.no_json_server", break_method]
            yield await host.connect(target, name="rogue")
        else:
            async with serve_no_json(break_method) as url:
                yield await host.connect(url, name="rogue")
                await host.close()


@TRANSPORTS
async def test_an_answer_that_is_no_json_ends_its_call_only(host, transport):
    async with connected(host, transport) as connection:
        breaks = [how for how in BREAKS if how != "huge_integer"]  # which is read as a text
        for tool in (*breaks, "error", "id_last", "id_last_in_a_long_answer"):
            says = f"rogue:{tool}: the server's answer breaks the protocol: {PARSE}: "
            assert_clear(await outcome(connection, tool), InvalidResponseError, says)
            assert await outcome(connection, "right") == "right"
        entries = logged(connection)
        assert len(entries) == len(breaks) + 3, "as many as there were of them"
        assert all(entry.startswith(f"{UNREAD} (Invalid JSON: ") for entry in entries)
        assert "9" * 5000 in (await connection.call("huge_integer")).raw.model_dump_json()
        first, bad, last = await asyncio.gather(*(outcome(connection, tool) for tool in ("right", "nested", "right")))
        assert (first, type(bad), last) == ("right", InvalidResponseError, "right")


@TRANSPORTS
async def test_a_notice_that_is_no_json_is_logged_ten_times(host, transport):
    async with connected(host, transport) as connection:
        assert await outcome(connection, "notice") == "right"
        [entry] = logged(connection)
        assert entry.startswith(UNREAD)
        assert "notifications/message" in entry
        for _ in range(11):
            await connection.call("notice")
        assert len(logged(connection)) == 10


@TRANSPORTS
@pytest.mark.parametrize(("tool", "code"), [("request", -32700), ("wrong_request", -32600)])
async def test_a_request_that_is_no_json_is_refused(host, transport, tool, code):
    async with connected(host, transport) as connection:
        error = json.loads((await connection.call(tool)).text)
        assert error["code"] == code
        assert error["message"].startswith("Failed to parse the request: ")


@TRANSPORTS
async def test_a_handshake_or_listing_that_is_no_json_fails(host, transport):
    with pytest.raises(ConnectError, match=PARSE):
        async with connected(host, transport, "initialize"):
            pass
    async with connected(host, transport, "tools/list") as connection:
        with pytest.raises(InvalidResponseError, match=PARSE):
            await connection.listing("tools", refresh=True)
        await until(lambda: bool(logged(connection)))


async def test_a_too_long_line_with_its_id_last_ends_its_call(host, monkeypatch):
    monkeypatch.setattr(stdio, "MAX_MESSAGE", 2**20)
    async with connected(host, "stdio") as connection:
        error = await outcome(connection, "too_long_id_last")
        assert "the answer has more than 1,048,576 bytes in its line, and was not read to its end" in str(error)
        assert await outcome(connection, "right") == "right"


@pytest.mark.parametrize("options", [{}, {"protocol": "handshake"}], ids=["discovered", "handshake"])
async def test_a_call_in_this_process_ends_with_its_session(host, options):
    server, reached, ended = MCPServer("s"), asyncio.Event(), asyncio.Event()

    @server.tool()
    async def hang() -> str:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    connection = await host.connect(server, name="s", **options)
    call = asyncio.create_task(connection.call("hang"))
    await reached.wait()
    await host.disconnect("s")
    with pytest.raises(SessionClosedError, match="the session has ended before the answer came"):
        await asyncio.wait_for(call, 30)
    await asyncio.wait_for(ended.wait(), 30)
