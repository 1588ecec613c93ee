"""Servers over stdio that die, hang, and write what they should not."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic import errors
from mcp_magic.errors import InvalidResponseError, ProtocolError, RequestTimeoutError, SessionClosedError
from mcp_magic.session import stdio
from tests.support import SUPPORT
from tests.support.checking import Row, assert_clear, in_eras, outcome
from tests.support.hosts import bystander
from tests.support.processes import children
from tests.support.rogue_server import FLOOD, TOOLS
from tests.support.speaking import LEGACY, MODERN
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    import psutil

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

SERVER = SUPPORT / "rogue_server.py"
ENDED = "`%mcp reconnect rogue` opens it again"
BREAKS = "the server's answer breaks the protocol: "
NEVER = "the answer to "
SHORT = 1.0
"""Seconds in which a server says on a busy machine what it says instead of an answer."""
LONG_SECONDS = 100.0
"""Seconds for 100 MB on a busy machine; six are usual."""

ROWS = [
    # it ends
    Row("die", SessionClosedError, ENDED, SessionClosedError),
    Row("die_talking", SessionClosedError, "\n  stderr: Traceback line 4999", SessionClosedError),
    Row("die_after", "right", "", SessionClosedError),
    Row("half_and_die", SessionClosedError, ENDED, SessionClosedError),
    Row("close_stdout", SessionClosedError, ENDED, SessionClosedError),
    # it does not answer
    Row("half_and_hang", RequestTimeoutError, "no answer within 1 s", RequestTimeoutError, SHORT),
    Row("hang", RequestTimeoutError, "no answer within 1 s", RequestTimeoutError, SHORT),
    Row("silent", RequestTimeoutError, "no answer within 1 s", "right", SHORT),
    # what is no message does not disturb
    Row("garbage", "right"),
    Row("bad_utf8_line", "right"),
    Row("bad_utf8", "caf� �"),
    Row("array", "batch"),
    Row("scalars", "right"),
    Row("nested", "right"),
    # ids
    Row("wrong_id_first", "right"),
    Row("wrong_id", RequestTimeoutError, f"answered with id 987654, which no request has; {NEVER}", "right", SHORT),
    Row("no_id", RequestTimeoutError, f"answered with id null, which no request has; {NEVER}", "right", SHORT),
    Row("id_before", RequestTimeoutError, f", which had its answer already; {NEVER}", "right", SHORT),
    Row(
        "error_without_id",
        ProtocolError,
        "rogue:error_without_id: what? (-32700, parse error",
    ),
    # one that is clearly meant for the request ends it at once
    Row("float_id", "right"),
    Row("marked_id", InvalidResponseError, f'{BREAKS}Failed to parse the answer: it came with id "#'),
    Row("listed_id", InvalidResponseError, "], which no request has; "),
    Row("text_id", "right"),
    Row("twice", "right"),
    Row("old_id", "right"),
    # wrong shapes are read as far as they have a meaning
    Row("no_content", '{"nonsense": true}'),
    Row("content_is_text", "text"),
    Row("unknown_block", ""),  # a resource, which is shown
    Row("block_without_text", ""),
    Row("result_is_a_number", "5"),
    Row("result_is_null", ""),
    # others end the call at once, even one that has no time-out
    Row("neither", InvalidResponseError, "it has neither a result nor an error"),
    Row("error_is_text", ProtocolError, "rogue:error_is_text: bad (-32603, internal error"),
    Row("error_without_code", ProtocolError, "rogue:error_without_code: "),
    Row("wrong_version", "old"),
    Row("error_long", ProtocolError, "rogue:error_long: bad (-32000, server error"),
    Row("bad_notices", "right"),
]
FLOODS = ("log_flood", "unknown_flood", "progress_flood", "changed_flood", "ping_flood")
IN_BOTH = (
    *("die", "die_after", "half_and_die", "hang", "silent", "garbage", "bad_utf8", "wrong_id_first", "twice"),
    *("wrong_id", "float_id"),
    *("no_content", "unknown_block", "result_is_a_number", "neither", "error_is_text", "error_long", "bad_notices"),
)
BIG = ("long", "long_garbage")
ERAS = pytest.mark.parametrize("version", [LEGACY, MODERN])


def calls(log: Path) -> Counter[str]:
    return Counter(log.read_text().split()) if log.exists() else Counter()


async def connected(host: Host, version: str, log: Path, **options: Any) -> Connection:
    return await host.connect([sys.executable, str(SERVER), version, str(log)], name="rogue", **options)


def process() -> psutil.Process:
    [found] = children("rogue_server")
    return found


@pytest.fixture
def host(spotless: Host) -> Host:
    return spotless


def test_every_fault_of_the_server_is_in_the_table() -> None:
    assert {row.tool for row in ROWS} | {"right", *BIG, *FLOODS} == set(TOOLS)


@in_eras(ROWS, IN_BOTH)
async def test_a_fault_is_one_clear_error_or_none_and_harms_nobody(
    host: Host, tmp_path: Path, version: str, rows: list[Row]
) -> None:
    log = tmp_path / "log"
    async with bystander(host):
        connection = await connected(host, version, log)
        for row in rows:
            found = await outcome(connection, row.tool, row.timeout)
            if isinstance(row.comes_to, str):
                assert found == row.comes_to, row.tool
            else:
                assert_clear(found, row.comes_to, row.says)
            after = await outcome(connection, "right", row.timeout if row.then is RequestTimeoutError else None)
            assert after == row.then or isinstance(after, row.then), (row.tool, after)  # type: ignore[arg-type]
            assert calls(log)[row.tool] == 1, f"{row.tool}: nothing is sent twice"


@pytest.mark.parametrize("tool", FLOODS)
async def test_message_flood_spares_event_loop_and_memory(host: Host, tmp_path: Path, tool: str) -> None:
    connection = await connected(host, LEGACY, tmp_path / "log")
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    turning = asyncio.create_task(turn())
    assert (await connection.call_tool(tool, {}, timeout=LONG_SECONDS)).text == "right"
    turning.cancel()
    assert turns > FLOOD / 100, "others get their turn in between"
    assert len(connection.notices.messages) <= 1000
    assert (await connection.call("right")).text == "right"


@pytest.mark.parametrize("tool", BIG)
async def test_100_megabytes_in_one_line_are_read(host: Host, tmp_path: Path, tool: str) -> None:
    connection = await connected(host, LEGACY, tmp_path / "log")
    result = await connection.call_tool(tool, {}, timeout=LONG_SECONDS)
    assert len(result.text) == (100 * 2**20 if tool == "long" else len("right"))
    assert (await connection.call("right")).text == "right"
    assert host.trace.size < 10_000_000, "the trace cuts what it keeps"


async def test_overlong_line_fails_only_its_call_and_is_dropped(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_MESSAGE", 2**20)
    connection = await connected(host, LEGACY, tmp_path / "log")
    found = await outcome(connection, "long", LONG_SECONDS)
    assert_clear(found, ProtocolError, "the answer has more than 1,048,576 bytes in its line")
    assert (await connection.call_tool("long_garbage", {}, timeout=LONG_SECONDS)).text == "right"
    assert (await connection.call("right")).text == "right"


@ERAS
async def test_a_server_that_is_killed_before_a_call_gets_nothing(host: Host, tmp_path: Path, version: str) -> None:
    connection = await connected(host, version, tmp_path / "log")
    process().kill()
    await until(lambda: connection.state == "lost")
    found = await outcome(connection, "right")
    assert_clear(found, SessionClosedError, ENDED)
    assert found.sent is False
    assert calls(tmp_path / "log") == Counter()


@ERAS
async def test_killed_server_ends_all_calls_under_way(host: Host, tmp_path: Path, version: str) -> None:
    connection = await connected(host, version, tmp_path / "log")
    waiting = [asyncio.create_task(outcome(connection, "silent")) for _ in range(10)]
    await until(lambda: calls(tmp_path / "log")["silent"] == 10)
    process().kill()
    for found in await asyncio.gather(*waiting):
        assert_clear(found, SessionClosedError, ENDED)
        assert found.sent is True, "it may have run"
    assert calls(tmp_path / "log") == Counter(silent=10)


@ERAS
async def test_what_was_answered_before_the_end_is_not_lost(host: Host, tmp_path: Path, version: str) -> None:
    connection = await connected(host, version, tmp_path / "log")
    waiting = [asyncio.create_task(outcome(connection, tool)) for tool in [*["right"] * 20, "die_after"]]
    assert await asyncio.gather(*waiting) == ["right"] * 21
    await until(lambda: connection.state == "lost")
    assert calls(tmp_path / "log") == Counter(right=20, die_after=1)


@ERAS
async def test_a_server_that_is_stopped_and_goes_on_is_used_again(host: Host, tmp_path: Path, version: str) -> None:
    connection = await connected(host, version, tmp_path / "log")
    server = process()
    server.send_signal(signal.SIGSTOP)
    assert_clear(await outcome(connection, "right", SHORT), RequestTimeoutError, "no answer within 1 s")
    server.send_signal(signal.SIGCONT)
    assert await outcome(connection, "right") == "right"
    assert connection.state == "open"


@ERAS
async def test_killed_server_reconnects_and_repeats_no_call(host: Host, tmp_path: Path, version: str) -> None:
    connection = await connected(host, version, tmp_path / "log", reconnect=True)
    for _ in range(3):
        before = process()
        before.kill()
        found = await outcome(connection, "right")
        if found != "right":  # the end was noticed only when the call had been written
            assert_clear(found, SessionClosedError)
        await until(lambda: connection.state == "open" and children("rogue_server") not in ([], [before]))  # noqa: B023
    counted = calls(tmp_path / "log")["right"]
    assert await outcome(connection, "right") == "right"
    assert calls(tmp_path / "log")["right"] == counted + 1 <= 4


async def test_a_server_that_hangs_does_not_hold_up_the_end(host: Host, tmp_path: Path) -> None:
    connection = await connected(host, LEGACY, tmp_path / "log")
    waiting = asyncio.create_task(connection.call("hang"))
    await until(lambda: calls(tmp_path / "log")["hang"] == 1)
    async with asyncio.timeout(30):
        await host.close()
        with pytest.raises(errors.SessionClosedError):
            await waiting
