"""Resources that are watched, on both protocol eras."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from mcp import MCPError
from mcp.server.mcpserver import MCPServer
from mcp_types import SubscriptionsListenRequestParams

from mcp_magic import errors
from tests.environments import everything_command, needs_node
from tests.support.asgi import Forgetful, serving
from tests.support.bundled import load
from tests.support.changing_server import ERAS, URI, Changing, connect
from tests.support.waiting import until

if TYPE_CHECKING:
    from mcp_magic.session.subscriptions import Subscription, Update

IN_ERAS = pytest.mark.parametrize("era", ERAS)


async def update_of(subscription: Subscription) -> Update:
    async with asyncio.timeout(60):
        return await anext(subscription)


@pytest.mark.parametrize(("era", "process"), [(ERAS[0], False), (ERAS[1], True)])
async def test_changes_of_a_watched_resource_are_told(host, era, process):
    connection = await connect(host, era, process=process)
    async with await connection.subscribe(URI) as subscription:
        await connection.call("set_text", text="two")
        update = await update_of(subscription)
        assert (update.changes, update.missed) == (1, False)
        await connection.call("set_text", text="two", times=5)
        seen = 0
        while seen < 5 and era == "handshake":
            seen += (await update_of(subscription)).changes
        if era != "handshake":  # equal events that wait are one already in the SDK
            assert (await update_of(subscription)).changes >= 1
    assert connection.notices.subscriptions.uris == ()


@IN_ERAS
async def test_a_subscription_survives_a_reconnect_and_tells_a_gap(host, era):
    connection = await connect(host, era)
    async with await connection.subscribe(URI) as subscription:
        again = await host.reconnect("changing")
        assert again.notices.subscriptions.uris == (URI,)
        assert (await update_of(subscription)).missed
        await again.call("set_text", text="two")
        assert (await update_of(subscription)).changes == 1
    subscription = await connection.subscribe(URI)
    waiting = asyncio.ensure_future(anext(subscription, None))
    await host.disconnect("changing")
    async with asyncio.timeout(60):
        assert await waiting is None, "disconnecting ends whoever waits"
    subscription.close()


@IN_ERAS
async def test_a_resource_is_watched_over_http(host, era):
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
async def test_server_everything_announces_changes(host):
    connection = await host.connect([*everything_command(), "stdio"], name="everything")
    uri = str((await connection.listing("resources"))[0].uri)
    async with await connection.subscribe(uri) as subscription:
        await connection.call("toggle-subscriber-updates")
        assert (await update_of(subscription)).changes >= 1


async def test_watchers_of_one_resource_share_one_subscription(host):
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


async def test_changes_below_a_watched_resource_are_told(host):
    connection = await connect(host, "handshake")
    async with await connection.subscribe(URI) as subscription:
        await connection.call("set_text", text="x", uri="test://notebook")
        await connection.call("set_text", text="x", uri=f"{URI}/page")
        assert (await update_of(subscription)).changes == 1


async def test_a_subscription_does_not_pass_to_a_namesake(host):
    connection = await connect(host, ERAS[0])
    subscription = await connection.subscribe(URI)
    other = await connect(host, ERAS[0])
    assert subscription.ended
    assert other.notices.subscriptions.uris == ()


async def test_a_stream_that_the_server_ends_is_opened_again(host, monkeypatch):
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


async def test_a_server_that_announces_nothing_is_told_with_advice(host):
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


async def test_a_refused_subscription_leaves_nothing(host):
    async def refuse(context: Any, params: Any) -> Any:
        raise MCPError(-32002, "no such resource")

    changing = Changing()
    changing.server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, refuse)
    connection = await host.connect(changing.server, name="changing")
    with pytest.raises(errors.SessionError, match="no such resource"):
        await connection.subscribe(URI)
    assert connection.notices.subscriptions.uris == ()
