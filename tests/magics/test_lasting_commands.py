"""`%mcp`, `%mcp ping` and the setting: what a person sees of sessions that last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from mcp_magic.config.targets import resolve_target
from mcp_magic.ipython.completion import candidates
from mcp_magic.notebook import host
from tests.support.asgi import serving
from tests.support.counting import Counting
from tests.support.proxy import proxied
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    plan, before = host.reconnection, dict(vars(host.reconnection))
    plan.first, plan.longest, plan.wait = 0.02, 0.1, 0.1
    yield
    vars(plan).update(before)


async def test_ping_lists_who_answered_and_who_did_not(magic: Any) -> None:
    async with serving(Counting().app()) as url, proxied(url) as proxy:
        await magic(f"connect {proxy.url()} --name away")
        proxy.refuse()
        proxy.cut()
        rows = {row["server"]: row for row in await magic("ping")}
        assert rows["math"]["answered in"].endswith(" ms")
        assert (rows["math"]["state"], rows["math"]["problem"]) == ("open", None)
        assert rows["away"]["answered in"] is None
        assert rows["away"]["state"] == "reconnecting"
        assert "away: ping: not sent: the session did not come back within 0.1 s" in rows["away"]["problem"]
        assert [row["server"] for row in await magic("ping math --timeout 1")] == ["math"]
        await host.disconnect("away")


async def test_listing_shows_session_health_and_why_one_is_down(magic: Any) -> None:
    async with serving(Counting().app()) as url, proxied(url) as proxy:
        connection = await magic(f"connect {proxy.url()} --name away")
        await magic("ping math")
        (math, away) = await magic("")
        assert (math["seen"], math["failed"], math["reconnects"]) == ("now", None, None)
        proxy.refuse()
        proxy.cut()
        with pytest.raises(errors.SessionClosedError):
            await magic("call away:count")
        listing = await magic("")
        (_, away) = listing
        assert (away["state"], away["tools"]) == ("reconnecting", 3)
        assert "away: the session has ended" in str(listing)
        assert "tried" in str(listing)
        assert "reconnecting" in str(connection._repr_mimebundle_()["text/plain"])
        await proxy.listen()
        await until(lambda: connection.state == "open")
        (_, away) = await magic("")
        assert (away["state"], away["reconnects"]) == ("open", 1)
        await host.disconnect("away")


async def test_cached_listings_show_while_session_reopens(magic: Any) -> None:
    async with serving(Counting().app()) as url, proxied(url) as proxy:
        connection = await magic(f"connect {proxy.url()} --name away")
        proxy.refuse()
        proxy.cut()
        await until(lambda: connection.state == "reconnecting")
        assert "away:count" in str(await magic("tools away"))
        await host.disconnect("away")


async def test_the_setting_and_the_option_say_which_sessions_come_back(magic: Any) -> None:
    magic.settings.reconnect = "all"
    assert host.reconnection.mode == "all"
    magic.settings.reconnect = "remote"
    assert host.reconnection.mode == "remote"
    with pytest.raises(errors.ConfigError, match="remote"):
        magic.settings.apply({"reconnect": "never"})
    async with serving(Counting().app()) as url:
        connection = await magic(f"connect {url}/mcp --name once --no-reconnect")
        assert connection.spec.reconnect is False
        assert not host.reconnection.covers(connection.spec)
        await host.disconnect("once")


def test_a_declared_server_may_say_whether_it_comes_back() -> None:
    spec, _ = resolve_target({"command": "python", "reconnect": True})
    assert host.reconnection.covers(spec)
    with pytest.raises(errors.TargetError, match="reconnect"):
        resolve_target({"command": "python", "reconnect": "perhaps"})


async def test_ping_completes_the_names_of_servers(magic: Any) -> None:
    assert candidates("ping ma", {}).texts == ["math"]
    assert candidates("ping other ", {}).texts == [], "it takes one"
    assert candidates("disconnect other ", {}).texts == ["math"]


async def test_how_a_session_begins_is_chosen_and_completed(magic: Any) -> None:
    connection = await magic("connect server --name here --protocol handshake", server=MCPServer("here"))

    assert connection.protocol_version == "2025-11-25"
    assert candidates("connect server --protocol ", {}).texts == ["auto", "handshake", "2026-07-28"]
    with pytest.raises(errors.CommandError, match="--protocol"):
        await magic("connect server --protocol 2025-11-25", server=MCPServer("here"))
