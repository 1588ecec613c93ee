"""Log messages and lines of stderr are followed, from one session to the next; a watch says why it ended."""

from __future__ import annotations

import asyncio

from mcp_magic.watch import LogFollower, Watch
from tests.support.changing_server import Changing
from tests.support.processes import PLAIN
from tests.support.reporting_server import reporting_server


async def test_new_messages_are_followed_also_on_the_next_session(host):
    connection = await host.connect(PLAIN, name="reports", env={"API_TOKEN": "sesame-123"})
    await connection.call("stderr", text="before")
    seen: list[tuple[str, str]] = []

    async def until(text: str) -> None:
        async with asyncio.timeout(60):
            while not any(text in said for _, said in seen):
                seen.extend((message.logger, message.data) for message in await follower.take() or ())

    with LogFollower(lambda: host.connections.get("reports")) as follower:
        await connection.call("log", text="first")
        await until("first")
        await connection.call("stderr", text="using sesame-123")
        await until("using")
        again = await host.reconnect("reports")
        await follower.take()
        await again.call("stderr", text="of the next")
        await until("of the next")
        await host.disconnect("reports")
        async with asyncio.timeout(60):
            while await follower.take() is not None:
                pass
    assert seen == [("plain", "first"), ("stderr", "using ***"), ("stderr", "of the next")]
    assert again.notices.logs.watchers == []


async def test_following_ends_with_its_context(host):
    connection = await host.connect(reporting_server(), name="reports")
    with LogFollower(lambda: connection) as follower:
        assert len(connection.notices.logs.watchers) == 1
        assert await follower.take() == []
    assert connection.notices.logs.watchers == []


async def test_a_display_that_fails_ends_a_watch_with_its_reason(host):
    changing = Changing()
    await host.connect(changing.server, name="notes")
    watch = Watch(host, "notes", "note://today", every=0.001)
    await watch.open()
    changing.text = "two"

    def draw() -> None:
        if not watch.ended:
            raise ValueError("no room")

    async with asyncio.timeout(60):
        await watch.follow(draw)
    assert watch.ended == "ValueError: no room"
