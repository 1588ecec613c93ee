from __future__ import annotations

import pytest

from mcp_magic.notebook import NotebookHost
from tests.support.bundled import load
from tests.support.hosts import checked


@pytest.fixture
async def host():
    """A host that lets everybody call, and leaves no process and no task behind, which is checked."""
    async with checked(NotebookHost()) as host:
        host.consent.policy = "auto"
        yield host


@pytest.fixture
async def math(host):
    return await host.connect(load("math_server").server, name="math")


@pytest.fixture
async def show(host):
    return await host.connect(load("showcase_server").server, name="show")
