"""Errors of a server and of its tools: whose they are, in its own words, and where the rest is."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp import MCPError
from mcp.server.mcpserver import MCPServer

from mcp_magic._host import Host
from mcp_magic.cassette.cassette import deck
from mcp_magic.errors import MCPMagicError, ProtocolError
from tests.support.asgi import serving
from tests.support.odd_http import JSON, Formed, body, formed, outcome
from tests.support.odd_server import TOOL, TRANSPORTS, connected
from tests.support.processes import PLAIN, children
from tests.support.waiting import until

if TYPE_CHECKING:
    from mcp_magic.session.connection import Connection

SERVER = "(-32000, server error; fault: the server)"
OWN = {
    "closed": (-32000, "Connection closed", SERVER),
    "closed_why": (-32000, "Connection closed: the database", SERVER),
    "lost": (-32000, "Connection lost", SERVER),
    "stream": (-32000, "SSE stream ended without a response", SERVER),
    "minus_one": (-1, "Connection closed", "(-1, the server's own code; fault: the server)"),
    "refused": (-1, "User rejected it", "(-1, refused by you or your rules; fault: you)"),
    "timed_out": (-32001, "Request 'query' timed out", "(-32001, no answer in time; fault: the server)"),
    "session": (-32001, "Session not found", "(-32001, the server's own code; fault: the server)"),
    "no_row": (-32002, "the row is locked", "(-32002, the server's own code; fault: the server)"),
    "no_note": (-32002, "no such note", "(-32002, resource not found; fault: the caller)"),
    "parsing": (-32602, "Failed to parse the date", "(-32602, invalid params; fault: the caller)"),
    "returned": (-32603, "Server returned an error response", "(-32603, internal error; fault: the server)"),
}


def error(code: int, message: str) -> str:
    return f'"error": {json.dumps({"code": code, "message": message})}'


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_error_of_a_server_is_its_own(host, transport):
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
async def test_an_error_of_a_server_in_this_kernel_is_its_own(host, protocol):
    server = MCPServer("here")

    @server.tool()
    def closed() -> str:
        raise MCPError(-32000, "Connection closed")

    connection = await host.connect(server, name="here", protocol=protocol)
    for _ in range(2):
        with pytest.raises(ProtocolError, match="Connection closed"):
            await connection.call("closed")


@pytest.mark.parametrize("how", ["stdio", "http", "404"])
async def test_own_errors_are_replayed_as_such(tmp_path, how):
    refused = {"code": -32602, "message": "Unknown tool: good"}
    server = Formed(lambda m: (404, JSON, body({"jsonrpc": "2.0", "id": m["id"], "error": refused})))
    answers = {"tools/call good": error(-32000, "Connection closed")}
    host = Host()
    with deck.holding(tmp_path / "a.jsonl", "record"):
        async with formed(host, server) if how == "404" else connected(host, answers, how) as connection:
            recorded, spec = await outcome(connection), connection.spec
        await host.close()
    with deck.holding(tmp_path / "a.jsonl", "replay"):
        replayed = await host.connect(spec, name="odd", **({} if how == "404" else {"protocol": "handshake"}))
        assert await outcome(replayed) == recorded
        assert replayed.reconnects == 0
        await host.close()
    says = "Unknown tool: good (-32602, " if how == "404" else "Connection closed (-32000, "
    assert recorded.startswith(f"ProtocolError: odd:good: {says}")


# Why a tool failed, or ended its server

HALF = '''
import asyncio, os, sys
from mcp.server import MCPServer

server = MCPServer("half")

@server.tool()
def bad(a: int) -> str:
    """Fails."""
    raise ValueError("<b>no ink</b> for " + os.environ["API_TOKEN"])

late = []

@server.tool()
async def together(a: int) -> str:
    """Fails when three calls have come."""
    late.append(a)
    while len(late) < 3:
        await asyncio.sleep(0.01)
    raise ValueError(f"no ink for {a}")

@server.tool()
def noisy() -> str:
    """Writes much."""
    print("one\\ntwo\\nthree", file=sys.stderr)
    return "done"

@server.tool()
def silent() -> str:
    """Fails, and its log says nothing."""
    import logging
    logging.disable(logging.CRITICAL)
    raise KeyError("x")

@server.tool()
def die() -> str:
    """Ends."""
    os._exit(3)

server.run()
'''


async def said(connection: Connection, tool: str, **arguments: object) -> str:
    with pytest.raises(MCPMagicError) as caught:
        await connection.call(tool, **arguments)
    return f"{type(caught.value).__name__}: {caught.value}"


async def test_a_failure_of_tool_or_server_has_its_own_words(host, tmp_path):
    (tmp_path / "half.py").write_text(HALF)
    program = [sys.executable, str(tmp_path / "half.py")]
    half = await host.connect(program, name="half", env={"API_TOKEN": "sesame-123"})
    cause = "ToolError: half:bad failed: ValueError: <b>no ink</b> for *** (`%mcp logs half` has more)"

    assert await said(half, "bad", a=1) == cause
    await half.call("noisy")
    assert await asyncio.gather(*(said(half, "bad", a=1) for _ in range(3))) == [cause] * 3, "whoever calls beside it"
    for a, failure in enumerate(await asyncio.gather(*(said(half, "together", a=a) for a in range(3)))):
        assert failure.startswith("ToolError: half:together failed")
        assert not [other for other in range(3) if other != a and f"no ink for {other}" in failure], failure
    assert await said(half, "silent") == "ToolError: half:silent failed and did not say why; `%mcp logs half` may"
    await half.call("noisy")
    ended = "(exit code 3) before the answer came, so it may have run; `%mcp reconnect half` opens it again."
    assert await said(half, "die") == f"SessionClosedError: half:die: the session has ended {ended}"
    later = "SessionClosedError: half: the session has ended (exit code 3); `%mcp reconnect half` opens it again."
    assert await said(half, "die") == later


async def test_a_remote_server_is_said_to_know_why_a_tool_failed(host):
    server = MCPServer("web")

    @server.tool()
    def bad() -> int:
        """Fails."""
        raise KeyError("no ink")

    async with serving(server.streamable_http_app()) as url:
        connection = await host.connect(f"{url}/mcp", name="web")
        own = "ToolError: web:bad failed and did not say why; the server's own log may"
        assert await said(connection, "bad") == own
        await host.disconnect("web")


async def test_a_server_killed_between_calls_says_by_which_signal(host):
    connection = await host.connect(PLAIN, name="show")
    children()[0].kill()
    await until(lambda: connection.state == "lost")
    await until(lambda: "has ended (SIGKILL);" in connection.problem)
