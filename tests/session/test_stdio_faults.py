"""Servers over stdio that die, hang, and write what they should not."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.errors import InvalidResponseError, ProtocolError, RequestTimeoutError, SessionClosedError
from mcp_magic.session import stdio
from tests.support.checking import ERAS, Row, assert_clear, check_rows, in_eras, outcome
from tests.support.hosts import bystander
from tests.support.processes import children
from tests.support.rogue_server import FLOOD, LONG, TOOLS, command
from tests.support.speaking import LEGACY
from tests.support.waiting import until

if TYPE_CHECKING:
    import psutil

    from mcp_magic.session.connection import Connection

ENDED = "`%mcp reconnect rogue` opens it again"
BREAKS = "the server's answer breaks the protocol: Failed to parse the answer: it came with id "
NEVER = "the answer to "
WAITED = "no answer within 1 s"
SHORT = 1.0
"""Seconds in which a server says on a busy machine what it says instead of an answer."""

ROWS = [
    # it ends
    Row("die", SessionClosedError, ENDED, SessionClosedError),
    Row("die_talking", SessionClosedError, "\n  stderr: Traceback line 4999", SessionClosedError),
    Row("die_after", "right", "", SessionClosedError),
    Row("half_and_die", SessionClosedError, ENDED, SessionClosedError),
    Row("close_stdout", SessionClosedError, ENDED, SessionClosedError),
    # it does not answer
    Row("half_and_hang", RequestTimeoutError, WAITED, RequestTimeoutError, SHORT),
    Row("hang", RequestTimeoutError, WAITED, RequestTimeoutError, SHORT),
    Row("silent", RequestTimeoutError, WAITED, "right", SHORT),
    # what is no message does not disturb
    Row("garbage", "right"),
    Row("bad_utf8_line", "right"),
    Row("bad_utf8", "caf\ufffd \ufffd"),
    Row("scalars", "right"),
    Row("nested", "right"),
    # ids
    Row("wrong_id_first", "right"),
    Row("wrong_id", RequestTimeoutError, f"answered with id 987654, which no request has; {NEVER}", "right", SHORT),
    Row("no_id", RequestTimeoutError, f"answered with id null, which no request has; {NEVER}", "right", SHORT),
    Row("id_before", RequestTimeoutError, f", which had its answer already; {NEVER}", "right", SHORT),
    Row("error_without_id", ProtocolError, "rogue:error_without_id: what? (-32700, parse error"),
    # one that is clearly meant for the request ends it at once
    Row("marked_id", InvalidResponseError, f'{BREAKS}"#'),
    Row("listed_id", InvalidResponseError, "], which no request has; "),
    Row("text_id", "right"),
    Row("twice", "right"),
    Row("old_id", "right"),
    # wrong shapes are read as far as they have a meaning
    Row("unknown_block", ""),  # a resource, which is shown
    # others end the call at once, even one that has no time-out
    Row("neither", InvalidResponseError, "it has neither a result nor an error"),
    Row("wrong_version", "old"),
    Row("error_long", ProtocolError, "rogue:error_long: bad (-32000, server error"),
    Row("bad_notices", "right"),
]
FLOODS = ("log_flood", "unknown_flood", "progress_flood", "changed_flood", "ping_flood")
IN_BOTH = "die die_after half_and_die hang silent garbage bad_utf8 wrong_id_first twice wrong_id unknown_block neither "
IN_BOTH += "error_long bad_notices"


@pytest.fixture
def host(spotless):
    return spotless


@pytest.fixture
async def rogue(host, tmp_path):
    async def connect(version: str = LEGACY, **options: Any) -> Connection:
        return await host.connect(command(version, tmp_path / "log"), name="rogue", **options)

    return connect


@pytest.fixture
def calls(tmp_path):
    log = tmp_path / "log"
    return lambda: Counter(log.read_text().split()) if log.exists() else Counter()


def process() -> psutil.Process:
    [one] = children("rogue_server")
    return one


def test_all_faults_of_the_server_are_in_the_table():
    assert {row.tool for row in ROWS} | {"right", "long", "long_garbage", *FLOODS} == set(TOOLS)


@in_eras(ROWS, IN_BOTH)
async def test_a_fault_is_one_clear_error_or_none(host, rogue, calls, version, rows):
    async with bystander(host):
        await check_rows(await rogue(version), rows, lambda tool: calls()[tool])


@pytest.mark.parametrize("tool", FLOODS)
async def test_a_flood_of_messages_spares_loop_and_memory(rogue, tool):
    connection = await rogue()
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    turning = asyncio.create_task(turn())
    assert await outcome(connection, tool, 100) == "right"
    turning.cancel()
    assert turns > FLOOD / 100, "others get their turn in between"
    assert len(connection.notices.messages) <= 1000
    assert await outcome(connection, "right") == "right"


async def test_a_long_line_is_read_up_to_a_limit(host, rogue, monkeypatch):
    connection = await rogue()
    assert len((await connection.call_tool("long", {}, timeout=100)).text) == LONG
    assert await outcome(connection, "long_garbage", 100) == "right"
    assert host.trace.size < 10_000_000, "the trace cuts what it keeps"
    monkeypatch.setattr(stdio, "MAX_MESSAGE", 2**20)
    await host.reconnect("rogue")
    error = await outcome(connection, "long", 100)
    assert_clear(error, ProtocolError, "the answer has more than 1,048,576 bytes in its line")
    assert await outcome(connection, "long_garbage", 100) == "right"
    assert await outcome(connection, "right") == "right"


@ERAS
async def test_a_killed_server_ends_all_calls_under_way(rogue, calls, version):
    connection = await rogue(version)
    waiting = [asyncio.create_task(outcome(connection, "silent")) for _ in range(10)]
    await until(lambda: calls()["silent"] == 10)
    process().kill()
    for error in await asyncio.gather(*waiting):
        assert_clear(error, SessionClosedError, ENDED)
        assert error.sent is True, "it may have run"
    await until(lambda: connection.state == "lost")
    error = await outcome(connection, "right")
    assert_clear(error, SessionClosedError, ENDED)
    assert error.sent is False
    assert calls() == Counter(silent=10), "nothing is sent again, or to a server that is gone"


@ERAS
async def test_answers_before_the_end_are_not_lost(rogue, calls, version):
    connection = await rogue(version)
    waiting = [asyncio.create_task(outcome(connection, tool)) for tool in [*["right"] * 20, "die_after"]]
    assert await asyncio.gather(*waiting) == ["right"] * 21
    await until(lambda: connection.state == "lost")
    assert calls() == Counter(right=20, die_after=1)


@ERAS
async def test_a_stopped_server_that_goes_on_is_used_again(rogue, version):
    connection = await rogue(version)
    server = process()
    server.send_signal(signal.SIGSTOP)
    assert_clear(await outcome(connection, "right", SHORT), RequestTimeoutError, WAITED)
    server.send_signal(signal.SIGCONT)
    assert await outcome(connection, "right") == "right"
    assert connection.state == "open"


@ERAS
async def test_a_killed_server_is_reopened_and_gets_no_call_twice(rogue, calls, version):
    connection = await rogue(version, reconnect=True)
    for _ in range(3):
        before = process()
        before.kill()
        error = await outcome(connection, "right")
        if error != "right":  # the end was noticed only when the call had been written
            assert_clear(error, SessionClosedError)
        await until(lambda: connection.state == "open" and children("rogue_server") not in ([], [before]))  # noqa: B023
    counted = calls()["right"]
    assert await outcome(connection, "right") == "right"
    assert calls()["right"] == counted + 1 <= 4


async def test_a_server_that_hangs_does_not_hold_up_the_end(host, rogue, calls):
    connection = await rogue()
    waiting = asyncio.create_task(connection.call("hang"))
    await until(lambda: calls()["hang"] == 1)
    async with asyncio.timeout(30):
        await host.close()
        with pytest.raises(SessionClosedError):
            await waiting
