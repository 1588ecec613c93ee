"""A host with servers in this process, and what an agent's run needs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from mcp_magic._host import Host
from mcp_magic.agent.threads import memory_threads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(autouse=True)
def no_threads() -> None:
    """Let each test begin without threads in memory: they are those of the whole process."""
    memory_threads.cache_clear()


class Shop:
    """A server whose tools can be watched from a test."""

    def __init__(self) -> None:
        self.called: list[tuple[str, dict[str, Any]]] = []
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.together = 0
        self.most_together = 0
        self.server = MCPServer("shop", log_level="ERROR")
        self._add_tools()

    def _add_tools(self) -> None:
        @self.server.tool(annotations=ToolAnnotations(read_only_hint=True))
        def price(item: str) -> float:
            """Tells the price of an item."""
            self.called.append(("price", {"item": item}))
            return {"apple": 1.5, "pear": 2.0}[item]

        @self.server.tool()
        def buy(item: str, count: int = 1) -> str:
            """Buys items."""
            self.called.append(("buy", {"item": item, "count": count}))
            return f"bought {count} {item}"

        @self.server.tool()
        async def wait(name: str, ctx: Context) -> str:
            """Waits until the test lets it go on."""
            self.together += 1
            self.most_together = max(self.most_together, self.together)
            await ctx.report_progress(1, 2, "half")
            self.started.set()
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            finally:
                self.together -= 1
            return f"{name} waited"

        @self.server.tool()
        def fail(reason: str) -> str:
            """Fails."""
            raise ToolError(reason)


@pytest.fixture
async def shop() -> Shop:
    """The server."""
    return Shop()


@pytest.fixture
async def host(shop: Shop) -> AsyncIterator[Host]:
    """A host with the server; its policy lets everything through."""
    host = Host()
    host.consent.policy = "auto"
    await host.connect(shop.server, name="shop")
    try:
        yield host
    finally:
        await host.close()
