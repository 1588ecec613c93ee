"""Messages of a server that are no JSON: no request waits for ever, and the log tells of it."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from mcp_magic.errors import ConnectError, InvalidResponseError, MCPMagicError
from mcp_magic.session import stdio
from tests.support.checking import assert_clear
from tests.support.no_json_server import BREAKS, serve_no_json
from tests.support.rogue_http import rogue_http
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

SECONDS = 40.0
"""Seconds in which anything here must be over; nothing has a time-out of its own."""

TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "ws"])
UNREAD = "The server rogue sent a message that cannot be read"


@asynccontextmanager
async def connected(host: Host, transport: str, break_method: str = "") -> AsyncIterator[Connection]:
    async with asyncio.timeout(SECONDS * 2):
        if transport == "stdio":
            command = [sys.executable, "-m", "tests.support.no_json_server", break_method]
            yield await host.connect(command, name="rogue")
        else:
            async with serve_no_json(break_method) as url:
                yield await host.connect(url, name="rogue")
                await host.close()


def logged(connection: Connection) -> list[str]:
    return [message.data for message in connection.notices.messages]


async def failing(connection: Connection, tool: str) -> MCPMagicError:
    async with asyncio.timeout(SECONDS):
        with pytest.raises(MCPMagicError) as caught:
            await connection.call_tool(tool, {})
    return caught.value


@TRANSPORTS
async def test_invalid_json_answer_ends_the_call_not_the_session(host: Host, transport: str) -> None:
    async with connected(host, transport) as connection:
        breaks = [how for how in BREAKS if how != "huge_integer"]  # which is read as a text
        for tool in (*breaks, "error", "id_last", "id_last_in_a_long_answer"):
            found = await failing(connection, tool)
            says = "the server's answer breaks the protocol: Failed to parse the answer: Invalid JSON: "
            assert_clear(found, InvalidResponseError, f"rogue:{tool}: {says}")
            assert (await connection.call("right")).text == "right"
        entries = logged(connection)
        assert len(entries) == len(breaks) + 3, "as many as there were of them"
        assert all(entry.startswith(f"{UNREAD} (Invalid JSON: ") for entry in entries)
        assert "9" * 5000 in (await connection.call("huge_integer")).raw.model_dump_json()


@TRANSPORTS
async def test_calls_beside_one_that_is_no_json_get_their_answers(host: Host, transport: str) -> None:
    async with connected(host, transport) as connection:
        asked = [connection.call_tool(tool, {}) for tool in ("right", "nested", "right")]
        first, bad, last = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), SECONDS)
        assert isinstance(bad, InvalidResponseError)
        assert [first.text, last.text] == ["right", "right"]  # type: ignore[union-attr]


@TRANSPORTS
async def test_invalid_json_notification_is_only_logged(host: Host, transport: str) -> None:
    async with connected(host, transport) as connection:
        assert (await connection.call("notice")).text == "right"
        (entry,) = logged(connection)
        assert entry.startswith(UNREAD)
        assert "notifications/message" in entry


@TRANSPORTS
@pytest.mark.parametrize(("tool", "code"), [("request", -32700), ("wrong_request", -32600)])
async def test_unreadable_server_request_is_refused_and_the_call_ends(
    host: Host, transport: str, tool: str, code: int
) -> None:
    async with connected(host, transport) as connection:
        error = json.loads((await asyncio.wait_for(connection.call(tool), SECONDS)).text)
        assert error["code"] == code
        assert error["message"].startswith("Failed to parse the request: ")


@TRANSPORTS
async def test_a_flood_of_messages_that_are_no_json_is_told_ten_times(host: Host, transport: str) -> None:
    async with connected(host, transport) as connection:
        for _ in range(12):
            await connection.call("notice")
        assert len(logged(connection)) == 10


@TRANSPORTS
async def test_invalid_json_handshake_fails_soon_with_a_reason(host: Host, transport: str) -> None:
    with pytest.raises(ConnectError, match="Failed to parse the answer: Invalid JSON"):
        async with connected(host, transport, "initialize"):
            pass


@TRANSPORTS
async def test_invalid_json_listing_is_a_readable_error(host: Host, transport: str) -> None:
    async with connected(host, transport, "tools/list") as connection:
        with pytest.raises(InvalidResponseError, match="Failed to parse the answer: Invalid JSON"):
            await asyncio.wait_for(connection.listing("tools", refresh=True), SECONDS)
        await until(lambda: bool(logged(connection)))


async def test_too_long_line_ends_its_call_even_with_the_id_last(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_MESSAGE", 2**20)
    async with connected(host, "stdio") as connection:
        found = await failing(connection, "too_long_id_last")
        assert "the answer has more than 1,048,576 bytes in its line, and was not read to its end" in str(found)
        assert (await connection.call("right")).text == "right"


@pytest.mark.parametrize(("tool", "why"), [("bad_json", "EOF while parsing a value"), ("bad_utf8", "expected value")])
async def test_http_error_and_log_explain_the_invalid_json(host: Host, tool: str, why: str) -> None:
    async with rogue_http() as rogue:
        connection = await host.connect(rogue.url, name="rogue")
        found = await failing(connection, tool)
        assert_clear(found, InvalidResponseError, f"Failed to parse JSON response: Invalid JSON: {why}")
        (entry,) = logged(connection)
        assert entry.startswith(
            "The server rogue sent an answer that cannot be read (Failed to parse JSON response: Invalid"
        )
        await host.close()
