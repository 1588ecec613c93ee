"""The events of sessions, followed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mcp_magic.session import events
from tests.support.changing_server import URI, Changing

if TYPE_CHECKING:
    from mcp_magic.session.events import EventStream, SessionEvent


def facts(event: SessionEvent) -> tuple[str, str, str, str]:
    return event.server, event.kind, event.name, event.text


async def next_of(stream: EventStream, kind: str) -> tuple[str, str, str, str]:
    """Return the next event of a kind."""
    async with asyncio.timeout(60):
        async for event in stream:
            if event.kind == kind:
                return facts(event)
    raise AssertionError(f"the stream ended without an event of the kind {kind}")


async def test_events_report_states_listings_and_changes_to_the_end(host):
    connection = await host.connect(Changing().server, name="notes")
    following = connection.events()
    await connection.listing("tools", refresh=True)
    assert await next_of(following, "listing") == ("notes", "listing", "tools", "3 tools")
    async with await connection.subscribe(URI):
        await connection.call("set_text", text="two")
        assert await next_of(following, "resource") == ("notes", "resource", URI, "changed")
    await host.reconnect("notes")
    assert [await next_of(following, "session") for _ in range(2)] == [
        ("notes", "session", "", "closed"),
        ("notes", "session", "", "open"),
    ]
    await host.disconnect("notes")
    rest = [facts(event) async for event in following]
    assert all(event[0] == "notes" for event in rest), "it ends"


async def test_events_remember_work_until_it_or_its_server_ends(host):
    connection = await host.connect(Changing().server, name="ci")
    other = await host.connect(Changing().server, name="dash")
    connection.publish("job", "build", "working")
    connection.publish("job", "build", "input_required")
    other.publish("app", "sales", "shown")
    assert [facts(event) for _, event in host.events.under_way()] == [
        ("ci", "job", "build", "input_required"),
        ("dash", "app", "sales", "shown"),
    ]
    [began, latest] = host.events.under_way()[0]
    assert began <= latest.time
    connection.publish("job", "build", "completed", ended=True)
    await host.disconnect("dash")
    assert host.events.under_way() == []


async def test_events_limit_memory_for_work_and_waiting_events(host, monkeypatch):
    monkeypatch.setattr(events, "MAX_UNDER_WAY", 3)
    connection = await host.connect(Changing().server, name="ci")
    following = connection.events()
    for number in range(events.WAITING + 5):
        connection.publish("job", str(number), "working")
    assert [event.name for _, event in host.events.under_way()] == ["1002", "1003", "1004"]
    assert (await next_of(following, "job"))[2] == "5"
