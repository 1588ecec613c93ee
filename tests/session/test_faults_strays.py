"""Answers that no request asked for: what the user is told, and when."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest

from mcp_magic.config.specs import StdioSpec
from mcp_magic.errors import ConnectError, RequestTimeoutError
from mcp_magic.session.failures import connect_error
from mcp_magic.session.wire import Place, Wire
from mcp_magic.trace.trace import Recorder, fault
from tests.session.test_faults_stdio import connected
from tests.support.speaking import LEGACY
from tests.support.waiting import until
from tests.support.watching import Watching

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host

STRANGE = "The server answered with id 987654, which no request has"
MISNUMBERS = """
import json, sys
for line in sys.stdin:
    number = json.loads(line).get("id")
    if number is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": f"#{number}", "result": {}}), flush=True)
"""


@pytest.fixture
def host(spotless: Host) -> Host:
    return spotless


async def test_the_error_of_the_time_out_says_what_came_instead(host: Host, tmp_path: Path) -> None:
    connection = await connected(host, LEGACY, tmp_path / "log")

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


async def test_a_call_without_a_time_out_shows_it_while_it_waits(host: Host, tmp_path: Path) -> None:
    host.reports.reporter = watching = Watching()
    connection = await connected(host, LEGACY, tmp_path / "log")
    call = asyncio.create_task(connection.call("wrong_id"))

    await until(lambda: bool(watching.reports))

    assert [message.data for message in watching.reports[0].messages] == [STRANGE]
    assert [message.data for message in connection.notices.messages] == [STRANGE]
    assert not call.done()
    stray = next(entry for entry in reversed(connection.trace.entries) if entry.kind == "answer")
    assert (stray.label, fault(stray)) == ("answer to nothing", "the server")
    call.cancel()
    await asyncio.wait({call})


async def test_a_flood_of_them_is_told_ten_times(host: Host, tmp_path: Path) -> None:
    connection = await connected(host, LEGACY, tmp_path / "log")
    for _ in range(4):
        assert (await connection.call("wrong_id_first")).text == "right"  # three strays each
    assert len(connection.notices.messages) == 10


async def test_misspelled_handshake_id_is_reported_at_once(host: Host) -> None:
    with pytest.raises(ConnectError, match=r'it came with id "#\d", which no request has; the request has id \d'):
        await host.connect([sys.executable, "-c", MISNUMBERS], name="rogue")


def test_handshake_time_out_shows_stray_answer() -> None:
    spec = StdioSpec(command="server", timeout=5)
    wire = Wire(Recorder("rogue", spec), stray=STRANGE)
    error = connect_error(TimeoutError(), Place("rogue", spec, wire))
    assert str(error) == (
        "rogue: server did not answer the handshake within 5 s (--timeout S waits longer).\n"
        f"  {STRANGE} (fault: the server)."
    )
