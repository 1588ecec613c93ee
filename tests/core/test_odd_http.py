"""What servers over HTTP say beside answers: it is skipped, or reaches the person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.core.test_odd_answers import EVENTS, Formed, event, formed, outcome, remarks

if TYPE_CHECKING:
    from mcp_magic._host import Host

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
