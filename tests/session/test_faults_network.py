"""The network comes and goes between this host and a server over HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from mcp_magic.errors import RequestTimeoutError, SessionClosedError
from tests.support.checking import assert_clear, outcome
from tests.support.hosts import bystander
from tests.support.proxy import proxied
from tests.support.rogue_http import rogue_http
from tests.support.speaking import LEGACY, MODERN
from tests.support.waiting import until

if TYPE_CHECKING:
    from mcp_magic._host import Host

ERAS = pytest.mark.parametrize("version", [LEGACY, MODERN])


@pytest.fixture
def host(spotless: Host) -> Host:
    return spotless


@ERAS
async def test_cut_network_ends_calls_and_recovers(host: Host, version: str) -> None:
    async with bystander(host), rogue_http(version) as rogue, proxied(rogue.url) as proxy:
        connection = await host.connect(proxy.url(), name="rogue")
        waiting = [asyncio.create_task(outcome(connection, "hang")) for _ in range(10)]
        await until(lambda: rogue.calls["hang"] == 10)
        proxy.cut()
        for found in await asyncio.gather(*waiting):
            assert_clear(found, SessionClosedError, "it was not sent again")
            assert found.sent is True
        assert await outcome(connection, "right") == "right"
        assert (rogue.calls["hang"], rogue.calls["right"]) == (10, 1)
        assert host["rogue"] is connection
        await host.disconnect("rogue")


@ERAS
async def test_call_waits_for_network_and_is_made_once(host: Host, version: str) -> None:
    async with bystander(host), rogue_http(version) as rogue, proxied(rogue.url) as proxy:
        connection = await host.connect(proxy.url(), name="rogue")
        for round_ in range(3):
            proxy.refuse()
            proxy.cut()
            waiting = asyncio.create_task(outcome(connection, "right"))
            seen = proxy.accepted
            await proxy.listen()
            found = await waiting
            if found != "right":
                assert_clear(found, SessionClosedError)
                assert found.sent is False
                await until(lambda: connection.state == "open")
                assert await outcome(connection, "right") == "right"
            assert rogue.calls["right"] == round_ + 1
            assert proxy.accepted > seen
        await host.disconnect("rogue")


@ERAS
async def test_stalled_network_times_out_and_next_call_succeeds(host: Host, version: str) -> None:
    async with bystander(host), rogue_http(version) as rogue, proxied(rogue.url) as proxy:
        connection = await host.connect(proxy.url(), name="rogue")
        assert await outcome(connection, "right") == "right"
        proxy.stall()
        assert_clear(await outcome(connection, "right", 1), RequestTimeoutError, "no answer within 1 s")
        proxy.cut()
        assert await outcome(connection, "right") == "right"
        assert rogue.calls["right"] <= 3
        await host.disconnect("rogue")


async def test_calls_over_flapping_network_are_made_at_most_once(host: Host) -> None:
    async with rogue_http(MODERN) as rogue, proxied(rogue.url) as proxy:
        connection = await host.connect(proxy.url(), name="rogue")
        answered = failed = 0
        for round_ in range(15):
            waiting = [asyncio.create_task(outcome(connection, "right_sse")) for _ in range(8)]
            count = rogue.calls["right_sse"]
            await until(lambda: rogue.calls["right_sse"] > count or all(one.done() for one in waiting))  # noqa: B023
            if round_ % 2:
                proxy.cut()
            for found in await asyncio.gather(*waiting):
                answered += found == "right"
                if found != "right":
                    assert_clear(found, SessionClosedError)
                    failed += 1
        assert answered + failed == 15 * 8
        assert answered <= rogue.calls["right_sse"] <= 15 * 8
        assert answered >= 8 * 8, "rounds without a cut lose nothing"
        await host.disconnect("rogue")
