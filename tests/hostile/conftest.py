"""A host for the attacks in this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcp_magic._host import Host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    host = Host()
    yield host
    await host.close()
