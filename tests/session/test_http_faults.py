"""HTTP servers that answer wrongly, in part, or not at all, over a network that comes and goes."""

from __future__ import annotations

import asyncio

import pytest

from mcp_magic.errors import InvalidResponseError, MCPMagicError, ProtocolError, RequestTimeoutError, SessionClosedError
from mcp_magic.session import stdio, transports
from tests.support.checking import ERAS, LOST, Row, assert_clear, check_rows, in_eras, outcome
from tests.support.hosts import bystander
from tests.support.proxy import proxied
from tests.support.rogue_http import FAULTS, LONG, MEGABYTE, rogue_http
from tests.support.speaking import MODERN
from tests.support.waiting import until

SHORT = 1.0
SECRET = "Bearer canary-4711"
INVALID, PARSE = InvalidResponseError, "the server's answer breaks the protocol: Failed to parse"

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
    Row("redirect_home", "redirected"),
    Row("redirect_away", INVALID, "not followed; use that URL as the endpoint"),
    Row("redirect_get", INVALID, "not followed"),
    # bodies
    Row("no_type", INVALID, "the server's answer breaks the protocol: Unexpected content type"),
    Row("bad_json", INVALID, f"{PARSE} JSON response: Invalid JSON: EOF while parsing a value"),
    Row("bad_utf8", INVALID, f"{PARSE} JSON response: Invalid JSON: expected value"),
    Row("number", INVALID, f"{PARSE} JSON response"),
    Row("wrong_id", INVALID, f"{PARSE} the answer: it came with id 987654, which no"),
    Row("no_http", SessionClosedError, LOST),
    Row("bad_chunk", SessionClosedError, LOST),
    Row("bad_gzip", SessionClosedError, LOST),
    Row("truncated", SessionClosedError, LOST),
    Row("ended_json", SessionClosedError, LOST),
    Row("ended_event", SessionClosedError, LOST),
    Row("ended_text", SessionClosedError, LOST),
    # streams
    Row("cut_stream", SessionClosedError, LOST),
    Row("ended_stream", SessionClosedError, LOST),
    Row("sse_bad_utf8", "right"),
    Row("sse_other_event", "right"),
    Row("sse_twice", "right"),
    Row("sse_wrong_id", "strange"),
    Row("sse_flood", "right"),
    # the connection
    Row("reset", SessionClosedError, LOST),
    Row("hang", RequestTimeoutError, "no answer within 1 s", timeout=SHORT),
    Row("hang_in_stream", RequestTimeoutError, "no answer within 1 s", timeout=SHORT),
]
IN_BOTH = "right right_sse http_401 http_404 http_429 http_500 redirect_home redirect_away bad_json wrong_id truncated "
IN_BOTH += "cut_stream ended_stream reset hang hang_in_stream"
BIG = ("long_json", "long_event", "packed")


@pytest.fixture
def host(spotless):
    return spotless


def test_all_faults_of_the_server_are_in_the_table():
    assert {row.tool for row in ROWS} | {"redirect_loop", *BIG} == set(FAULTS)


@in_eras(ROWS, IN_BOTH)
async def test_a_fault_is_one_clear_error_or_none(host, version, rows):
    async with bystander(host), rogue_http() as other, rogue_http(version, elsewhere=other.url) as rogue:
        connection = await host.connect(rogue.url, name="rogue", headers={"Authorization": SECRET})
        await check_rows(connection, rows, lambda tool: rogue.calls[tool])
        if "redirect_home" in [row.tool for row in rows]:
            [headers] = [headers for path, headers in rogue.requests if path == "POST /mcp?again=1"]
            assert headers["authorization"] == SECRET, "a redirect to the same host carries the credentials"
        await host.disconnect("rogue")
        assert other.requests == [], "nobody else is asked, with or without credentials"


@pytest.mark.parametrize("tool", BIG)
async def test_a_long_answer_is_read_up_to_a_limit(host, monkeypatch, tool):
    async with rogue_http() as rogue:
        connection = await host.connect(rogue.url, name="rogue")
        text = (await connection.call_tool(tool, {}, timeout=100)).text
        assert len(text) == (len("right") if tool == "packed" else LONG * MEGABYTE)
        assert await outcome(connection, "right") == "right"
        for module in (stdio, transports):
            monkeypatch.setattr(module, "MAX_MESSAGE", MEGABYTE)
        await host.reconnect("rogue")
        error = await outcome(connection, tool, 100)
        if tool == "long_event":
            assert_clear(error, SessionClosedError, "exceeded the 1048576 byte")
        else:
            assert_clear(error, ProtocolError, "more than 1,048,576 bytes")
        assert await outcome(connection, "right", 100) == "right"
        assert rogue.calls[tool] == 2
        await host.disconnect("rogue")


async def test_calls_at_the_same_time_have_a_fate_each(host):
    async with rogue_http(MODERN) as rogue:
        connection = await host.connect(rogue.url, name="rogue")
        assert isinstance(await outcome(connection, "redirect_loop"), MCPMagicError)
        assert rogue.calls["redirect_loop"] <= 25, "redirects without an end come to one"
        tools = ["right", "reset", "right_sse", "truncated", "http_500", "cut_stream", "bad_json"] * 5
        for tool, one in zip(tools, await asyncio.gather(*(outcome(connection, tool) for tool in tools)), strict=True):
            assert (one == "right") == tool.startswith("right"), (tool, one)
        assert all(rogue.calls[tool] == 5 for tool in tools)
        await host.disconnect("rogue")


# The network


@ERAS
async def test_a_network_that_is_cut_or_stalls_ends_calls(host, version):
    async with bystander(host), rogue_http(version) as rogue, proxied(rogue.url) as proxy:
        connection = await host.connect(proxy.url(), name="rogue")
        waiting = [asyncio.create_task(outcome(connection, "hang")) for _ in range(10)]
        await until(lambda: rogue.calls["hang"] == 10)
        proxy.cut()
        for error in await asyncio.gather(*waiting):
            assert_clear(error, SessionClosedError, "it was not sent again")
            assert error.sent is True
        assert await outcome(connection, "right") == "right"
        assert (rogue.calls["hang"], rogue.calls["right"]) == (10, 1)
        assert host["rogue"] is connection
        proxy.stall()
        assert_clear(await outcome(connection, "right", 1), RequestTimeoutError, "no answer within 1 s")
        proxy.cut()
        assert await outcome(connection, "right") == "right"
        assert rogue.calls["right"] == 2, "what waited in the network is lost"
        await host.disconnect("rogue")


@ERAS
async def test_a_call_waits_for_the_network_and_is_made_once(host, version):
    async with bystander(host), rogue_http(version) as rogue, proxied(rogue.url) as proxy:
        connection = await host.connect(proxy.url(), name="rogue")
        for count in (1, 2, 3):
            proxy.refuse()
            proxy.cut()
            call = asyncio.create_task(outcome(connection, "right"))
            seen = proxy.accepted
            await proxy.listen()
            assert await call == "right"
            assert rogue.calls["right"] == count
            assert proxy.accepted > seen
        await host.disconnect("rogue")


async def test_calls_over_a_flapping_network_are_made_at_most_once(host):
    async with rogue_http(MODERN) as rogue, proxied(rogue.url) as proxy:
        connection = await host.connect(proxy.url(), name="rogue")
        answered = 0
        for number in range(15):
            waiting = [asyncio.create_task(outcome(connection, "right_sse")) for _ in range(8)]
            count = rogue.calls["right_sse"]
            await until(lambda: rogue.calls["right_sse"] > count or all(one.done() for one in waiting))  # noqa: B023
            if number % 2:
                proxy.cut()
            for one in await asyncio.gather(*waiting):
                answered += one == "right"
                if one != "right":
                    assert_clear(one, SessionClosedError)
        assert 8 * 8 <= answered <= rogue.calls["right_sse"] <= 15 * 8, "rounds without a cut lose nothing"
        await host.disconnect("rogue")
