"""Whoever watches a host is told of every change."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mcp_magic.config.specs import InProcessSpec
from tests.support.bundled import load
from tests.support.waiting import until

if TYPE_CHECKING:
    import pytest

    from mcp_magic._host import Host


def math() -> InProcessSpec:
    return InProcessSpec(server=load("math_server").server)


async def test_watcher_hears_server_come_reconnect_and_go(host: Host) -> None:
    told: list[tuple[str, str]] = []
    host.watch(lambda name: told.append((name, host[name].state if name in host else "gone")))
    await host.connect_spec(math(), "math")
    assert ("math", "open") in told
    told.clear()
    await host.reconnect("math")
    assert told[-1] == ("math", "open")
    told.clear()
    await host.disconnect("math")
    assert set(told) == {("math", "gone")}


async def test_watcher_hears_session_end_and_host_close(host: Host) -> None:
    connection = await host.connect_spec(math(), "math")
    told: list[str] = []
    host.watch(lambda name: told.append(connection.state))
    await connection.close()
    await until(lambda: bool(told))
    assert told[-1] == "closed"
    told.clear()
    await host.close()
    assert told


async def test_watcher_hears_of_fetched_listing_and_sees_it(host: Host) -> None:
    connection = await host.connect_spec(math(), "math")
    seen: list[int] = []
    host.watch(lambda name: seen.append(len(connection.catalog.cached("tools"))))
    await connection.listing("tools", refresh=True)
    assert seen == [len(await connection.listing("tools"))]


async def test_who_stopped_watching_is_told_nothing(host: Host) -> None:
    told: list[str] = []
    stop = host.watch(told.append)
    stop()
    stop()
    await host.connect_spec(math(), "math")
    assert told == []


async def test_a_watcher_that_fails_disturbs_nobody(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def fail(name: str) -> None:
        raise RuntimeError("a watcher's own mistake")

    host.watch(fail)
    host.watch(told.append)
    with caplog.at_level(logging.ERROR):
        await host.connect_spec(math(), "math")
    assert "math" in told
    assert "a watcher's own mistake" in caplog.text
