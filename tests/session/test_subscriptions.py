"""Resources that are watched, on both protocol eras."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic import errors
from tests.environments import everything_command, needs_node
from tests.support import SUPPORT
from tests.support.asgi import Forgetful, serving
from tests.support.bundled import load
from tests.support.changing_server import URI, Changing
from tests.support.waiting import until

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection
    from mcp_magic.session.subscriptions import Subscription, Update

ERAS = ("2026-07-28", "handshake")


async def connect(host: Host, era: str, *, process: bool = False) -> Connection:
    """Connect the changing server as one of an era."""
    handshake = era == "handshake"
    if process:
        script = str(SUPPORT / "changing_server.py")
        target: Any = [sys.executable, script, *(["--handshake"] if handshake else [])]
    else:
        target = Changing(handshake=handshake).server
    connection = await host.connect(target, name="changing", protocol="handshake" if handshake else None)
    assert (connection.protocol_version == "2026-07-28") == (era == "2026-07-28")
    return connection


async def update_of(subscription: Subscription) -> Update:
    async with asyncio.timeout(60):
        return await anext(subscription)


@pytest.mark.parametrize("era", ERAS)
async def test_a_change_of_a_watched_resource_is_told(host: Host, era: str) -> None:
    connection = await connect(host, era, process=True)
    async with await connection.subscribe(URI) as subscription:
        await connection.call("set_text", text="two")
        update = await update_of(subscription)
    assert (update.changes, update.missed) == (1, False)
    assert connection.notices.subscriptions.uris == ()


@pytest.mark.parametrize("era", ERAS)
async def test_what_comes_while_nobody_looks_is_one_update(host: Host, era: str) -> None:
    connection = await connect(host, era)
    async with await connection.subscribe(URI) as subscription:
        await connection.call("set_text", text="two", times=5)
        seen = 0
        while seen < 5 and era == "handshake":
            seen += (await update_of(subscription)).changes
        if era != "handshake":  # equal events that wait are one already in the SDK
            assert (await update_of(subscription)).changes >= 1


@pytest.mark.parametrize("era", ERAS)
async def test_subscription_survives_reconnect_and_reports_a_gap(host: Host, era: str) -> None:
    connection = await connect(host, era)
    async with await connection.subscribe(URI) as subscription:
        again = await host.reconnect("changing")
        assert again.notices.subscriptions.uris == (URI,)
        assert (await update_of(subscription)).missed
        await again.call("set_text", text="two")
        assert (await update_of(subscription)).changes == 1


@pytest.mark.parametrize("era", ERAS)
async def test_a_resource_is_watched_over_http(host: Host, era: str) -> None:
    app = load("showcase_server").server.streamable_http_app()
    async with serving(Forgetful(app) if era == "handshake" else app) as url:
        connection = await host.connect(f"{url}/mcp", name="show")
        if era == "handshake":  # the SDK's high-level server knows no `resources/subscribe`
            with pytest.raises(errors.NotOfferedError):
                await connection.subscribe("showcase://counter")
        else:
            async with await connection.subscribe("showcase://counter") as subscription:
                await connection.call("count")
                assert (await update_of(subscription)).changes == 1
        await host.disconnect("show")


@needs_node
async def test_server_everything_announces_changes(host: Host) -> None:
    connection = await host.connect([*everything_command(), "stdio"], name="everything")
    [uri] = [str(r.uri) for r in await connection.listing("resources")][:1]
    async with await connection.subscribe(uri) as subscription:
        await connection.call("toggle-subscriber-updates")
        assert (await update_of(subscription)).changes >= 1


async def test_watchers_of_one_resource_share_one_subscription(host: Host) -> None:
    connection = await connect(host, "handshake")
    asked = connection.calls
    first, second = await asyncio.gather(connection.subscribe(URI), connection.subscribe(URI))
    await connection.call("set_text", text="two")
    assert (await update_of(first)).changes == (await update_of(second)).changes == 1
    sent = [e.method for e in connection.trace.entries if e.kind == "request" and "subscribe" in e.method]
    assert sent.count("resources/subscribe") == 1
    first.close()
    await connection.call("set_text", text="three")
    assert (await update_of(second)).changes == 1
    second.close()
    await until(lambda: any(e.method == "resources/unsubscribe" for e in connection.trace.entries))
    assert connection.calls > asked


async def test_subscription_reports_change_below_watched_resource(host: Host) -> None:
    connection = await connect(host, "handshake")
    async with await connection.subscribe(URI) as subscription:
        await connection.call("set_text", text="x", uri="test://notebook")
        await connection.call("set_text", text="x", uri=f"{URI}/page")
        assert (await update_of(subscription)).changes == 1


@pytest.mark.parametrize("era", ERAS)
async def test_disconnecting_ends_whoever_waits(host: Host, era: str) -> None:
    connection = await connect(host, era)
    subscription = await connection.subscribe(URI)
    waiting = asyncio.ensure_future(anext(subscription, None))
    await host.disconnect("changing")
    async with asyncio.timeout(60):
        assert await waiting is None
    subscription.close()


async def test_another_server_of_the_same_name_has_nothing_of_it(host: Host) -> None:
    connection = await host.connect(Changing().server, name="changing")
    subscription = await connection.subscribe(URI)
    other = await host.connect(Changing().server, name="changing")
    assert subscription.ended
    assert other.notices.subscriptions.uris == ()


async def test_a_stream_that_the_server_ends_is_opened_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_magic.session.subscriptions.FIRST_PAUSE_SECONDS", 0.01)
    changing = Changing()
    connection = await host.connect(changing.server, name="changing")
    async with await connection.subscribe(URI) as subscription:
        changing.listen.close()
        assert (await update_of(subscription)).missed
        await changing.announce()
        assert (await update_of(subscription)).changes == 1
    [said] = [m.data for m in connection.notices.messages if "subscription" in str(m.data)]
    assert said == f"the subscription to {URI} was interrupted (the server has ended it); it is tried again"


async def test_subscription_without_announcements_says_alternative(host: Host) -> None:
    from mcp.server.mcpserver import MCPServer

    silent = MCPServer("silent", subscriptions=False)
    silent.resource("silent://x", name="x")(lambda: "x")
    connection = await host.connect(silent, name="silent")
    with pytest.raises(errors.NotOfferedError) as caught:
        await connection.subscribe("silent://x")
    assert str(caught.value) == (
        "silent announces no changes of resources, so silent://x cannot be subscribed to; "
        "`%mcp watch silent://x --every 5` reads it every five seconds instead"
    )
    assert connection.failures == 0


async def test_a_server_that_refuses_is_an_error_and_leaves_nothing(host: Host) -> None:
    from mcp_types import SubscriptionsListenRequestParams

    async def refuse(context: Any, params: Any) -> Any:
        from mcp import MCPError

        raise MCPError(-32002, "no such resource")

    changing = Changing()
    changing.server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, refuse)
    connection = await host.connect(changing.server, name="changing")
    with pytest.raises(errors.SessionError, match="no such resource"):
        await connection.subscribe(URI)
    assert connection.notices.subscriptions.uris == ()


async def test_listing_that_changes_during_fetch_is_fetched_again(host: Host) -> None:
    changing = Changing()
    connection = await host.connect(changing.server, name="changing")
    fetched, first = changing.lists, asyncio.Event()
    listing = changing._tools

    async def slow(context: Any, params: Any) -> Any:
        found = await listing(context, params)
        if not first.is_set():
            first.set()
            changing.description = "Changed meanwhile."
            await changing.announce_tools()
            connection.catalog.changed("tools")
        return found

    from mcp_types import PaginatedRequestParams

    changing.server.add_request_handler("tools/list", PaginatedRequestParams, slow)
    connection.catalog.changed("tools")  # nobody waits for it
    await until(lambda: connection.tools["work"].definition.description == "Changed meanwhile.")
    assert changing.lists >= fetched + 2


async def test_change_announced_at_all_listings_keeps_nobody_waiting(host: Host) -> None:
    changing = Changing()
    connection = await host.connect(changing.server, name="changing")
    listing = changing._tools

    async def restless(context: Any, params: Any) -> Any:
        connection.catalog.changed("tools")
        return await listing(context, params)

    from mcp_types import PaginatedRequestParams

    changing.server.add_request_handler("tools/list", PaginatedRequestParams, restless)
    async with asyncio.timeout(60):
        assert len(await connection.listing("tools", refresh=True)) == 3
