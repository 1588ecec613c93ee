"""Listings and reads that a server lets be kept for a time, and what ends that time (SEP-2549)."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp import MCPError
from mcp_types import PaginatedRequestParams

from mcp_magic import errors
from mcp_magic.config.targets import resolve_target
from mcp_magic.session import cache
from tests.support import SUPPORT
from tests.support.asgi import serving
from tests.support.changing_server import URI, Changing
from tests.support.odd_server import MODERN
from tests.support.persons import logging_in
from tests.support.protected_server import protected_server
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

MINUTE = 60_000


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def connected(host: Host, target: Any, clock: Clock, **options: Any) -> AsyncIterator[Connection]:
    """Open a session whose answers are kept by a test's clock."""
    spec, _ = resolve_target(target, **options)
    connection = host.make("changing", spec, clock=clock)
    await connection.open()
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def over_http(host: Host, changing: Changing, clock: Clock) -> AsyncIterator[Connection]:
    app = changing.server.streamable_http_app()
    async with serving(app) as url, connected(host, f"{url}/mcp", clock) as connection:
        yield connection


async def test_a_listing_is_fetched_again_after_its_time(host):
    changing, clock = Changing(ttl=MINUTE), Clock()
    async with over_http(host, changing, clock) as connection:
        await connection.listing("tools")
        await connection.read(URI)
        clock.now += 15
        assert connection.info().kept == {"tools": 45}
        assert "  kept       tools for 45 s, 1 read resource\n" in connection._repr_mimebundle_()["text/plain"]
        assert connection.info().row()["kept"] == "tools for 45 s, 1 read resource"
        clock.now += 44.9
        await connection.listing("tools")
        await connection.call("work")
        assert changing.lists == 1
        changing.description = "Works better."
        clock.now += 0.2
        assert connection.info().row()["kept"] is None
        assert changing.lists == 1, "nothing is fetched before it is used"
        assert [tool.description for tool in await connection.listing("tools")][-1] == "Works better."
        assert changing.lists == 2
        clock.now += 60.0
        await connection.call("work")
        assert changing.lists == 3, "a call uses the definition of its tool"


async def test_a_notice_ends_the_time_of_a_listing(host):
    changing, clock = Changing(ttl=MINUTE), Clock()
    async with over_http(host, changing, clock) as connection:
        await connection.listing("tools")
        await until(lambda: any(e.method.endswith("subscriptions/acknowledged") for e in connection.trace.entries))
        await connection.call("set_tool", description="Works better.")
        await until(lambda: connection.tools["work"].definition.description == "Works better.")
        assert connection.info().kept == {"tools": 60}


async def test_a_failed_fetch_is_an_error_and_calls_go_on(host):
    async def ill(context: Any, params: Any) -> Any:
        raise MCPError(-32603, "I am ill")

    changing, clock = Changing(ttl=MINUTE), Clock()
    async with over_http(host, changing, clock) as connection:
        await connection.listing("tools")
        changing.server.add_request_handler("tools/list", PaginatedRequestParams, ill)
        clock.now += 61
        assert (await connection.call("work")).text == "worked with {}"
        with pytest.raises(errors.ProtocolError, match="I am ill"):
            await connection.listing("tools")


async def test_a_read_is_kept_for_its_time_and_costs_no_request(host):
    changing, clock = Changing(ttl=MINUTE), Clock()
    async with connected(host, changing.server, clock) as connection, connected(host, changing.server, clock) as other:
        first = await connection.read(URI)
        assert (first.text, first.age) == ("one", None)
        assert (await other.read(URI)).age is None, "nothing is shared between two sessions"
        changing.text = "two"
        clock.now += 12
        calls, seen = connection.calls, connection.last_seen
        again = await connection.read(URI)
        assert (again.text, again.age) == ("one", 12)
        assert again == first
        assert again.contents[0] is not first.contents[0], "what is done to one result does not change the next"
        assert (changing.reads, connection.calls, connection.last_seen) == (2, calls, seen)
        said = "kept for 12 s; `%mcp read test://note --server changing --refresh` asks the server"
        assert str(again).splitlines()[0] == said
        entry = connection.trace.entries[-1]
        assert (entry.direction, entry.kind, entry.method) == ("kept", "kept", "resources/read")
        assert entry.message == {"method": "resources/read", "params": {"uri": URI}, "age": 12}
        fresh = await connection.read(URI, refresh=True)
        assert (fresh.text, fresh.age) == ("two", None)
        assert (await connection.read(URI)).text == "two", "it is kept in place of the old one"
        clock.now += 60
        assert (await connection.read(URI)).age is None


@pytest.mark.parametrize("ttl", [0, MINUTE])
async def test_older_versions_and_no_time_keep_no_reads(host, ttl):
    changing, clock = Changing(ttl=ttl, handshake=ttl > 0), Clock()
    async with connected(host, changing.server, clock, **({"protocol": "handshake"} if ttl else {})) as connection:
        await connection.listing("tools")
        clock.now += 1e9
        await connection.listing("tools")
        assert changing.lists == 1, "a listing without a time is kept until a notice"
        assert [(await connection.read(URI)).age for _ in range(2)] == [None, None]
        assert (changing.reads, connection.info().kept) == (2, {})


async def test_a_change_or_a_gap_of_a_subscription_ends_a_read(host, monkeypatch):
    monkeypatch.setattr("mcp_magic.session.subscriptions.FIRST_PAUSE_SECONDS", 0.01)
    changing, clock = Changing(ttl=MINUTE), Clock()
    async with over_http(host, changing, clock) as connection, await connection.subscribe(URI) as updates:
        await connection.read(URI)
        await connection.call("set_text", text="two")
        assert (await anext(updates)).changes == 1
        assert (await connection.read(URI)).text == "two"
        changing.text = "three"
        assert (await connection.read(URI)).text == "two", "nothing was announced"
        changing.listen.close()
        assert (await anext(updates)).missed
        assert (await connection.read(URI)).text == "three"


async def test_reconnecting_keeps_nothing(host):
    changing, clock = Changing(ttl=MINUTE), Clock()
    async with over_http(host, changing, clock) as connection:
        await connection.listing("tools")
        await connection.read(URI)
        await connection.reopen()
        assert (await connection.read(URI)).age is None
        await until(lambda: changing.lists == 2)
        await connection.close()
        with pytest.raises(errors.SessionClosedError):
            await connection.read(URI)


async def test_another_log_in_ends_all_times(host):
    logging_in(host)
    async with protected_server() as protected:
        connection = await host.connect(protected.url, name="notes")
        assert (await connection.read("notes://reader")).text == "client-1: read offline_access"
        assert (await connection.read("notes://reader")).age is not None
        assert connection.info().kept.keys() == {"tools"}
        await connection.call("erase", name="diary")  # needs a second log-in, with more scopes
        assert connection.info().kept == {}
        assert (await connection.read("notes://reader")).text == "client-1: read offline_access admin"
        await host.close()


def answering(ttl: Any, *pages: dict[str, Any]) -> list[str]:
    """Return the command of a server that says any time for its listing and its resource."""
    common = {"resultType": "complete", "ttlMs": ttl, "cacheScope": "public"}
    discovered = {**MODERN["server/discover"], "capabilities": {"tools": {}, "resources": {}}}
    answers = {
        "server/discover": discovered,
        "tools/list": [{"tools": [], **common, **page} for page in pages or [{}]],
        "resources/read": {"contents": [{"uri": "x://a", "text": "a"}], **common},
    }
    return [sys.executable, str(SUPPORT / "sick_server.py"), json.dumps(answers)]


@pytest.mark.parametrize(("ttl", "seconds"), [(10**30, 86_400), (1, cache.SHORTEST_SECONDS), (-5, None)])
async def test_a_time_is_bounded_above_and_below(host, ttl, seconds):
    clock = Clock()
    async with connected(host, answering(ttl), clock) as connection:
        assert await connection.listing("tools") == ()
        assert connection.info().kept == ({} if seconds is None else {"tools": seconds})
        await connection.read("x://a")
        assert ((await connection.read("x://a")).age is None) is (seconds is None)
        clock.now += 86_401
        assert (await connection.read("x://a")).age is None
        assert connection.info().kept == {}


async def test_a_listing_is_kept_for_the_shortest_time_of_its_pages(host):
    pages = ({"nextCursor": "1", "ttlMs": 90_000}, {"nextCursor": "2", "ttlMs": 30_000}, {"ttlMs": 60_000})
    async with connected(host, answering(0, *pages), Clock()) as connection:
        await connection.listing("tools")
        assert connection.info().kept == {"tools": 30}


async def test_kept_reads_are_bounded_in_number_and_size(host, monkeypatch):
    changing, clock = Changing(ttl=MINUTE), Clock()
    async with connected(host, changing.server, clock) as connection:
        monkeypatch.setattr(cache, "MAX_READS", 3)
        for number in (1, 2, 3, 1, 4):
            await connection.read(f"test://{number}")
        kept = [number for number in range(1, 5) if connection.notices.reads.find(f"test://{number}")]
        assert kept == [1, 3, 4], "the one used least recently goes first"
        monkeypatch.setattr(cache, "MAX_BYTES", 2_000)
        changing.text = "x" * 1_200
        await connection.read("test://5")
        assert len(connection.notices.reads) == 1 + 2  # the large one, and two small ones beside it
        changing.text = "x" * 3_000
        await connection.read("test://5", refresh=True)
        assert connection.notices.reads.find("test://5") is None
