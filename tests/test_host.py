"""A host: the names of its sessions, its end, and that whoever watches it is told of every change."""

from __future__ import annotations

import asyncio
import logging
import sys

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic._host import Host
from mcp_magic.config.specs import StdioSpec
from mcp_magic.errors import SessionClosedError
from tests.environments import ROOT
from tests.support.bundled import load
from tests.support.processes import PLAIN, children
from tests.support.waiting import until

MATH = load("math_server").server


async def test_a_session_is_used_by_tasks_that_did_not_open_it(host):
    await asyncio.create_task(host.connect(PLAIN, name="math"))
    results = await asyncio.gather(*(asyncio.create_task(host.call("math:add", a=n, b=1)) for n in range(20)))
    assert [result.data for result in results] == list(range(1, 21))
    await asyncio.create_task(host.disconnect("math"))
    assert "math" not in host


async def test_same_server_keeps_its_session_and_another_takes_over(host):
    first = await host.connect(PLAIN)
    assert await host.connect(PLAIN) is first
    assert len(children()) == 1
    assert (await host.connect([*PLAIN, "2025-06-18"])).name == f"{first.name}_2"

    old = await host.connect(PLAIN, name="s")
    new = await host.connect(MATH, name="s")
    assert host["s"] is new
    assert old.state == "closed"

    old = await host.connect(MCPServer("notes"))
    new = await host.connect(MCPServer("notes"))
    assert (old.state, new.state, list(host)[-1]) == ("closed", "open", "notes"), "a cell that is run again"


async def test_a_program_leaves_a_host_with_all_its_sessions():
    async with Host() as host:
        math = await host.connect(PLAIN, name="math")
        assert (await math.call("add", a=1, b=2)).data == 3
        late = asyncio.create_task(host.connect(PLAIN, name="show"))
        await asyncio.sleep(0)
    assert (math.state, list(host), children()) == ("closed", [], [])
    with pytest.raises(SessionClosedError):
        await late


TOGETHER = """
import pathlib, sys, time
from tests.support.plain import Plain
started = pathlib.Path(sys.argv[1], sys.argv[2])
started.touch()
while len(list(started.parent.iterdir())) < 4:
    time.sleep(0.01)
Plain("late").run()
"""


async def test_many_servers_connect_in_parallel(host, tmp_path):
    specs = {
        name: StdioSpec(command=sys.executable, args=("-c", TOGETHER, str(tmp_path), name), cwd=ROOT)
        for name in ("one", "two", "three", "four")
    }
    opened = await host.connect_many(specs)  # none of them answers before all have begun
    assert [connection.state for connection in opened.values()] == ["open"] * 4  # type: ignore[union-attr]


async def test_watcher_hears_server_come_reconnect_and_go(host):
    told: list[tuple[str, str]] = []
    ignored: list[str] = []
    stop = host.watch(ignored.append)
    stop()
    stop()
    host.watch(lambda name: told.append((name, host[name].state if name in host else "gone")))
    connection = await host.connect(MATH, name="math")
    assert ("math", "open") in told
    seen: list[int] = []
    unwatch = host.watch(lambda name: seen.append(len(connection.catalog.cached("tools"))))
    await connection.listing("tools", refresh=True)
    assert seen == [len(await connection.listing("tools"))]
    unwatch()
    for act, state in ((host.reconnect, "open"), (host.disconnect, "gone")):
        told.clear()
        await act("math")
        assert told[-1] == ("math", state)
    assert set(told) == {("math", "gone")}
    assert ignored == []


async def test_watcher_hears_session_end_and_another_may_fail(host, caplog):
    def fail(name: str) -> None:
        raise RuntimeError("a watcher's own mistake")

    told: list[str] = []
    host.watch(fail)
    host.watch(lambda name: told.append(host[name].state if name in host else "gone"))
    with caplog.at_level(logging.ERROR):
        connection = await host.connect(MATH, name="math")
    assert "open" in told
    assert "a watcher's own mistake" in caplog.text
    told.clear()
    await connection.close()
    await until(lambda: bool(told))
    assert told[-1] == "closed"
    told.clear()
    await host.close()
    assert told
