"""HTTP servers that answer wrongly, in part, or not at all; redirects; TLS."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest

from mcp_magic.errors import (
    ConnectError,
    InvalidResponseError,
    MCPMagicError,
    ProtocolError,
    RequestTimeoutError,
    SessionClosedError,
)
from mcp_magic.session import stdio, transports
from tests.support.certificates import self_signed
from tests.support.checking import Row, assert_clear, in_eras, outcome
from tests.support.hosts import bystander
from tests.support.rogue_http import FAULTS, LONG, MEGABYTE, rogue_http
from tests.support.speaking import LEGACY, MODERN

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host

BREAKS = "the server's answer breaks the protocol: "
LOST = "the connection was lost before the answer came"
SHORT = 1.0
LONG_SECONDS = 100.0
SECRET = "Bearer canary-4711"

ROWS = [
    Row("right", "right"),
    Row("right_sse", "right"),
    # statuses
    Row("http_400", ProtocolError, "HTTP 400"),
    Row("http_401", ProtocolError, "HTTP 401"),
    Row("http_403", ProtocolError, "HTTP 403"),
    Row("http_404", ProtocolError, "Not Found"),
    Row("http_410", ProtocolError, "HTTP 410"),
    Row("http_429", ProtocolError, "3600 s"),
    Row("http_500", ProtocolError, "HTTP 500"),
    Row("http_502", ProtocolError, "HTTP 502"),
    Row("http_503", ProtocolError, "3600 s"),
    Row("http_204", InvalidResponseError, BREAKS),
    Row("http_202", InvalidResponseError, "202 Accepted"),
    Row("redirect_home", "redirected"),
    Row("redirect_away", InvalidResponseError, "not followed; use that URL as the endpoint"),
    Row("redirect_get", InvalidResponseError, "not followed"),
    # bodies
    Row("html", InvalidResponseError, f"{BREAKS}Unexpected content type: text/html"),
    Row("no_type", InvalidResponseError, f"{BREAKS}Unexpected content type"),
    Row("bad_json", InvalidResponseError, f"{BREAKS}Failed to parse JSON response"),
    Row("empty", InvalidResponseError, f"{BREAKS}Failed to parse the answer: HTTP 200 with an empty body"),
    Row("bad_utf8", InvalidResponseError, f"{BREAKS}Failed to parse JSON response"),
    Row("number", InvalidResponseError, f"{BREAKS}Failed to parse JSON response"),
    Row("wrong_shape", '{"nonsense": 1}'),
    Row(
        "wrong_id",
        InvalidResponseError,
        f"{BREAKS}Failed to parse the answer: it came with id 987654, which no",
    ),
    Row("no_http", SessionClosedError, LOST),
    Row("bad_chunk", SessionClosedError, LOST),
    Row("bad_gzip", SessionClosedError, LOST),
    Row("truncated", SessionClosedError, LOST),
    # streams
    Row("cut_stream", SessionClosedError, LOST),
    Row("ended_stream", SessionClosedError, LOST),
    Row("sse_garbage", "right"),
    Row("sse_bad_utf8", "right"),
    Row("sse_other_event", "right"),
    Row("sse_twice", "right"),
    Row("sse_wrong_id", "strange"),
    Row("sse_flood", "right"),
    # the connection
    Row("reset", SessionClosedError, LOST),
    Row("hang", RequestTimeoutError, "no answer within 1 s", "right", SHORT),
    Row("hang_in_stream", RequestTimeoutError, "no answer within 1 s", "right", SHORT),
]
IN_BOTH = (
    *(
        "right",
        "right_sse",
        "http_401",
        "http_404",
        "http_429",
        "http_500",
        "http_202",
        "redirect_home",
        "redirect_away",
    ),
    *("html", "bad_json", "wrong_shape", "wrong_id", "truncated", "cut_stream", "ended_stream", "sse_garbage", "reset"),
    *("hang", "hang_in_stream"),
)
BIG = ("long_json", "long_event", "packed")
ERAS = pytest.mark.parametrize("version", [LEGACY, MODERN])


@pytest.fixture
def host(spotless: Host) -> Host:
    return spotless


def test_every_fault_of_the_server_is_in_the_table() -> None:
    assert {row.tool for row in ROWS} | {"redirect_loop", *BIG} == set(FAULTS)


@in_eras(ROWS, IN_BOTH)
async def test_a_fault_is_one_clear_error_or_none_and_harms_nobody(host: Host, version: str, rows: list[Row]) -> None:
    async with bystander(host), rogue_http() as other, rogue_http(version, elsewhere=other.url) as rogue:
        connection = await host.connect(rogue.url, name="rogue", headers={"Authorization": SECRET})
        for row in rows:
            found = await outcome(connection, row.tool, row.timeout)
            if isinstance(row.comes_to, str):
                assert found == row.comes_to, row.tool
            else:
                assert_clear(found, row.comes_to, row.says)
                assert "canary" not in str(found)
                assert "<script" not in str(found)
            assert rogue.calls[row.tool] == 1, f"{row.tool}: nothing is sent twice"
            assert await outcome(connection, "right") == row.then, row.tool
            assert connection.state == "open"
        await host.disconnect("rogue")
        assert other.requests == [], "nobody else is asked, with or without credentials"


@pytest.mark.parametrize("tool", BIG)
async def test_a_long_answer_is_read(host: Host, tool: str) -> None:
    async with rogue_http() as rogue:
        connection = await host.connect(rogue.url, name="rogue")
        text = (await connection.call_tool(tool, {}, timeout=LONG_SECONDS)).text
        assert len(text) == (len("right") if tool == "packed" else LONG * MEGABYTE)
        assert (await connection.call("right")).text == "right"
        await host.disconnect("rogue")


@pytest.mark.parametrize("tool", BIG)
async def test_an_answer_that_is_too_long_is_not_read_to_its_end(
    host: Host, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    for module in (stdio, transports):
        monkeypatch.setattr(module, "MAX_MESSAGE", MEGABYTE)
    async with rogue_http() as rogue:
        connection = await host.connect(rogue.url, name="rogue")
        found = await outcome(connection, tool, LONG_SECONDS)
        if tool == "long_event":
            assert_clear(found, SessionClosedError, "exceeded the 1048576 byte")
        else:
            assert_clear(found, ProtocolError, "more than 1,048,576 bytes")
        assert await outcome(connection, "right", LONG_SECONDS) == "right"
        assert rogue.calls[tool] == 1
        await host.disconnect("rogue")


async def test_a_redirect_to_the_same_host_carries_the_credentials(host: Host) -> None:
    async with rogue_http() as rogue:
        connection = await host.connect(rogue.url, name="rogue", headers={"Authorization": SECRET})
        assert await outcome(connection, "redirect_home") == "redirected"
        path, headers = rogue.requests[-1]
        assert (path, headers["authorization"]) == ("POST /mcp?again=1", SECRET)
        await host.disconnect("rogue")


async def test_redirects_without_an_end_come_to_one(host: Host) -> None:
    async with rogue_http() as rogue:
        connection = await host.connect(rogue.url, name="rogue")
        found = await outcome(connection, "redirect_loop")
        assert isinstance(found, MCPMagicError)
        assert rogue.calls["redirect_loop"] <= 25
        await host.disconnect("rogue")


async def test_calls_at_the_same_time_have_a_fate_each(host: Host) -> None:
    async with rogue_http(MODERN) as rogue:
        connection = await host.connect(rogue.url, name="rogue")
        tools = ["right", "reset", "right_sse", "truncated", "http_500", "cut_stream", "html"] * 5
        found = await asyncio.gather(*(outcome(connection, tool) for tool in tools))
        for tool, one in zip(tools, found, strict=True):
            assert (one == "right") == tool.startswith("right"), (tool, one)
        assert all(rogue.calls[tool] == 5 for tool in tools)
        await host.disconnect("rogue")


# TLS


@ERAS
async def test_tls_that_ends_in_the_middle_is_one_clear_error(host: Host, tmp_path: Path, version: str) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with bystander(host), rogue_http(version, tls=context) as rogue:
        connection = await host.connect(rogue.url, name="rogue", verify=str(certificate))
        assert await outcome(connection, "right") == "right"
        for tool in ("truncated", "cut_stream", "reset"):
            assert_clear(await outcome(connection, tool), SessionClosedError, LOST)
            assert await outcome(connection, "right") == "right"
        assert rogue.calls["truncated"] == rogue.calls["cut_stream"] == rogue.calls["reset"] == 1
        await host.disconnect("rogue")


async def test_unanswered_tls_handshake_times_out(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_magic.session.transports.CONNECT_SECONDS", 0.5)
    async with rogue_http() as rogue:
        problem: MCPMagicError | None = None
        try:
            await host.connect(rogue.url.replace("http://", "https://"), name="rogue")
        except ConnectError as error:
            problem = error
        assert problem is not None
        assert "no connection to https://127.0.0.1" in str(problem)
        assert len(str(problem).splitlines()) <= 2


async def test_hang_up_in_tls_handshake_is_reported(host: Host) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    problem: MCPMagicError | None = None
    async with server:
        try:
            await host.connect(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", name="rogue")
        except ConnectError as error:
            problem = error
    assert problem is not None
    assert len(str(problem).splitlines()) <= 2


async def test_interrupted_tls_handshake_leaves_no_socket_open(host: Host) -> None:
    arrived = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        arrived.set()
        while await reader.read(1000):
            pass
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        connecting = asyncio.create_task(host.connect(url, name="rogue"))
        await arrived.wait()
        connecting.cancel()
        await asyncio.wait({connecting})
        await host.close()
