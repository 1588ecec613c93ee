"""The clock of the machine jumps, by hours or years: nothing is lost, waits for ever or is shown as negative."""

from __future__ import annotations

import asyncio
import re
import time

import pytest
from langgraph.checkpoint.base import id as checkpoint_ids
from mcp.server.mcpserver import MCPServer

from mcp_magic._host import Host
from mcp_magic.errors import RequestTimeoutError
from mcp_magic.watch import Watch, status_text
from tests.support.protected_server import logged_in
from tests.support.threads_in import kept, run

HOUR, YEAR = 3600.0, 31_536_000.0
JUMPS = pytest.mark.parametrize("jump", [-10 * YEAR, -HOUR, HOUR, 10 * YEAR])


class Clock:
    """The clock on the wall, which can be set; what `time.monotonic` says goes on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        now, now_ns = time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: now() + self.ahead)
        monkeypatch.setattr(time, "time_ns", lambda: now_ns() + int(self.ahead * 1e9))


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@JUMPS
async def test_a_call_has_the_time_that_it_was_given(clock, jump):
    async def answer() -> str:
        clock.ahead = jump
        await asyncio.sleep(0.05)
        return "in time"

    async def never() -> None:
        clock.ahead = -jump
        await asyncio.Event().wait()

    server = MCPServer("slow", log_level="ERROR")
    server.tool()(answer)
    server.tool()(never)
    async with Host() as host:
        connection = await host.connect(server, name="slow")
        watch = Watch(host, "server", "a:b")
        assert (await connection.call_tool("answer", {}, timeout=60.0)).text == "in time"
        watch.stop()
        assert re.search(r"watched for (\d+ ms|\d s)", status_text(watch))
        began = time.monotonic()
        with pytest.raises(RequestTimeoutError):
            await connection.call_tool("never", {}, timeout=0.2)
        assert time.monotonic() - began < 60
        (entry,) = [e for e in connection.trace.entries if e.method == "tools/call" and e.kind == "answer"]
        assert entry.seconds is not None
        assert 0.04 < entry.seconds < 60


@JUMPS
async def test_conversation_survives_a_new_kernel_and_a_clock_change(host, tmp_path, clock, monkeypatch, jump):
    file = tmp_path / "threads.sqlite"
    await run(host, file, ["first"])
    clock.ahead = jump
    monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", None)  # what a new kernel begins with
    _, problem = await run(host, file, ["second"], "and then?")
    assert problem == ""
    assert [text for _, text in await kept(file)] == ["go", "first", "and then?", "second"]


@JUMPS
async def test_token_survives_a_clock_change_without_a_new_log_in(host, clock, jump):
    async with logged_in(host) as (_, connection, person):
        clock.ahead = jump
        assert await connection.listing("tools", refresh=True)
    assert len(person.shown) == 1
