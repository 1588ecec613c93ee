"""A host with a server in this process whose tools count their calls."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp_types import ToolAnnotations

from mcp_magic import Host


@pytest.fixture
async def host():
    async with Host() as host:
        yield host


@pytest.fixture
async def calls(host):
    """Connect the server `s`, and return how often each of its tools was called."""
    server, called = MCPServer("s"), Counter[str]()

    @server.tool()
    async def add(a: int, b: int = 10) -> int:
        called["add"] += 1
        return a + b

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def weather(city: str) -> dict[str, Any]:
        called["weather"] += 1
        if city == "Atlantis":
            raise ValueError("no such city")
        return {"city": city.upper(), "degrees": len(city)}

    @server.tool()
    async def days(n: int) -> list[dict[str, Any]]:
        called["days"] += 1
        return [{"day": day} for day in range(n)]

    await host.connect(server, name="s")
    return called
