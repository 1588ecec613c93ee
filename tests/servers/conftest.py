"""One session with the showcase for all tests of a module that do not change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio
from mcp import Client

from tests.support import bundled
from tests.support.processes import kept_open

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def showcase() -> AsyncIterator[Client]:
    async with kept_open(Client(bundled.load("showcase_server").server)) as client:
        yield client
