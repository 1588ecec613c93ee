"""A session to the showcase."""

from __future__ import annotations

import pytest

from tests.support.bundled import load


@pytest.fixture
async def show(host):
    return await host.connect(load("showcase_server").server, name="show")
