"""Fixtures: a shop whose tools can be watched, and a host that is connected to it."""

from __future__ import annotations

import pytest

from mcp_magic import Host
from tests.support.agents import Shop


@pytest.fixture
async def shop():
    return Shop()


@pytest.fixture
async def host(shop):
    """A host with the shop; its policy lets everything through."""
    async with Host() as host:
        host.consent.policy = "auto"
        await host.connect(shop.server, name="shop")
        yield host
