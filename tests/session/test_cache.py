"""Listings and reads that a server lets be kept for a time, and what ends that time (SEP-2549)."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic import errors
from mcp_magic.config.targets import resolve_target
from mcp_magic.session import cache
from tests.support import SUPPORT
from tests.support.asgi import serving
from tests.support.changing_server import URI, Changing
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
async def over_http(host: Host, changing: Changing, clock: Clock, **options: Any) -> AsyncIterator[Connection]:
    async with (
        serving(changing.server.streamable_http_app()) as url,
        connected(host, f"{url}/mcp", clock, **options) as connection,
    ):
        yield connection


def sent(connection: Connection, method: str) -> int:
    """Return how many requests of a method went out."""
    return sum(entry.kind == "request" and entry.method == method for entry in connection.trace.entries)


async def test_expired_listing_is_fetched_again_on_use(host: Host) -> None:
    changing, clock = Changing(ttl=MINUTE), Clock()
    async with over_http(host, changing, clock) as connection:
        await connection.listing("tools")
        clock.now += 59.9
        await connection.listing("tools")
        await connection.call("work")
        assert changing.lists == 1
        changing.description = "Works better."
        clock.now += 0.2
        assert changing.lists == 1, "nothing is fetched before it is used"
        assert [tool.description for tool in await connection.listing("tools")][-1] == "Works better."
        assert changing.lists == 2
        clock.now += 60.0
        await connection.call("work")
        assert changing.lists == 3, "a call uses the definition of its tool"


async def test_a_listing_without_a_time_is_kept_until_a_notice(host: Host) -> None:
    changing, clock = Changing(), Clock()
    async with over_http(host, changing, clock) as connection:
        await connection.listing("tools")
        clock.now += 1e9
        await connection.listing("tools")
        assert changing.lists == 1
        assert connection.info().kept == {}


async def test_a_notice_ends_the_time_of_a_listing(host: Host) -> None:
    changing, clock = Changing(ttl=MINUTE), Clock()
    async with over_http(host, changing, clock) as connection:
        await connection.listing("tools")
        await until(lambda: any(e.method.endswith("subscriptions/acknowledged") for e in connection.trace.entries))
        await connection.call("set_tool", description="Works better.")
        await until(lambda: connection.tools["work"].definition.description == "Works better.")
        assert connection.info().kept == {"tools": 60}


async def test_failed_refetch_of_listing_is_an_error_and_calls_go_on(host: Host) -> None:
    from mcp import MCPError
    from mcp_types import PaginatedRequestParams

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


async def test_a_read_is_kept_for_its_time_and_costs_no_request(host: Host) -> None:
    command, clock = [sys.executable, str(SUPPORT / "changing_server.py"), "--ttl", str(MINUTE)], Clock()
    async with connected(host, command, clock) as connection:
        first = await connection.read(URI)
        assert (first.text, first.age) == ("one", None)
        await connection.call("set_text", text="two", uri="test://other")
        clock.now += 12
        calls, seen = connection.calls, connection.last_seen
        again = await connection.read(URI)
        assert (again.text, again.age) == ("one", 12)
        assert again == first
        assert again.contents[0] is not first.contents[0], "what is done to one result does not change the next"
        assert sent(connection, "resources/read") == 1
        assert (connection.calls, connection.last_seen) == (calls, seen)
        assert str(again).splitlines()[0] == (
            "kept for 12 s; `%mcp read test://note --server changing --refresh` asks the server"
        )
        entry = connection.trace.entries[-1]
        assert (entry.direction, entry.kind, entry.method) == ("kept", "kept", "resources/read")
        assert entry.message == {"method": "resources/read", "params": {"uri": URI}, "age": 12}
        fresh = await connection.read(URI, refresh=True)
        assert (fresh.text, fresh.age) == ("two", None)
        assert (await connection.read(URI)).text == "two", "what was read anew is kept in place of it"
        clock.now += 60
        assert (await connection.read(URI)).age is None


@pytest.mark.parametrize("ttl", [0, MINUTE])
async def test_cache_keeps_no_reads_of_older_versions_or_without_ttl(host: Host, ttl: int) -> None:
    clock = Clock()
    changing = Changing(ttl=ttl, handshake=ttl > 0)
    options = {"protocol": "handshake"} if ttl else {}
    async with connected(host, changing.server, clock, **options) as connection:
        await connection.listing("tools")
        assert [(await connection.read(URI)).age for _ in range(2)] == [None, None]
        assert changing.reads == 2
        assert connection.info().kept == {}


async def test_change_or_interrupted_subscription_expires_read(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_reconnecting_keeps_nothing(host: Host) -> None:
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


async def test_nothing_is_shared_between_two_sessions(host: Host) -> None:
    changing, clock = Changing(ttl=MINUTE), Clock()
    async with connected(host, changing.server, clock) as one, connected(host, changing.server, clock) as other:
        await one.read(URI)
        assert (await other.read(URI)).age is None
        assert changing.reads == 2


async def test_another_log_in_ends_the_time_of_all_that_is_kept(host: Host) -> None:
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


async def test_what_is_kept_and_for_how_long_is_shown(host: Host) -> None:
    changing, clock = Changing(ttl=MINUTE), Clock()
    async with over_http(host, changing, clock) as connection:
        await connection.listing("tools")
        await connection.read(URI)
        clock.now += 15
        assert connection.info().kept == {"tools": 45}
        assert "  kept       tools for 45 s, 1 read resource\n" in connection._repr_mimebundle_()["text/plain"]
        assert connection.info().row()["kept"] == "tools for 45 s, 1 read resource"
        clock.now += 45
        assert connection.info().row()["kept"] is None


DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "resources": {}},
    "serverInfo": {"name": "sick", "version": "1"},
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
}


def answering(ttl: Any, *pages: dict[str, Any]) -> list[str]:
    """Return the command of a server that says any time for its listing and its resource."""
    read = {"contents": [{"uri": "x://a", "text": "a"}]}
    common = {"resultType": "complete", "ttlMs": ttl, "cacheScope": "public"}
    answers = {
        "server/discover": DISCOVERED,
        "tools/list": [{"tools": [], **common, **page} for page in pages or [{}]],
        "resources/read": {**read, **common},
    }
    return [sys.executable, str(SUPPORT / "sick_server.py"), json.dumps(answers)]


@pytest.mark.parametrize(("ttl", "seconds"), [(10**30, 86_400), (1, cache.SHORTEST_SECONDS)])
async def test_a_time_is_bounded_above_and_below(host: Host, ttl: int, seconds: float) -> None:
    clock = Clock()
    async with connected(host, answering(ttl), clock) as connection:
        await connection.listing("tools")
        assert connection.info().kept == {"tools": seconds}
        await connection.read("x://a")
        clock.now += 86_401
        assert (await connection.read("x://a")).age is None
        assert connection.info().kept == {}


async def test_a_negative_time_is_none(host: Host) -> None:
    async with connected(host, answering(-5), Clock()) as connection:
        assert await connection.listing("tools") == ()
        assert connection.info().kept == {}
        assert [(await connection.read("x://a")).age for _ in range(2)] == [None, None]


async def test_the_shortest_time_of_its_pages_is_that_of_a_listing(host: Host) -> None:
    pages = ({"nextCursor": "1", "ttlMs": 90_000}, {"nextCursor": "2", "ttlMs": 30_000}, {"ttlMs": 60_000})
    async with connected(host, answering(0, *pages), Clock()) as connection:
        await connection.listing("tools")
        assert connection.info().kept == {"tools": 30}


async def test_reads_that_are_kept_are_bounded_in_number_and_size(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
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
