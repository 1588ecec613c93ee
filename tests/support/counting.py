"""Servers that count their calls and answer some when they are told to, behind a network that comes and goes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

from tests.support.asgi import Forgetful, serving
from tests.support.proxy import Proxy, proxied

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection


class Counting:
    """A server that counts.

    Attributes:
        runs: What was called.
        release: Lets the calls of `hold` go on.
    """

    def __init__(self) -> None:
        self.server = MCPServer("counting")
        self.runs: list[str] = []
        self.release = asyncio.Event()
        self.server.add_tool(self.count)
        self.server.add_tool(self.hold)
        self.server.add_tool(self.look, annotations=ToolAnnotations(read_only_hint=True))

    async def count(self) -> int:
        """Count."""
        self.runs.append("count")
        return len(self.runs)

    async def hold(self, ctx: Context[Any, Any]) -> int:
        """Wait until it is let go on."""
        self.runs.append("hold")
        await ctx.report_progress(0.0)
        await self.release.wait()
        return len(self.runs)

    async def look(self) -> int:
        """Look, and wait for nothing the second time."""
        self.runs.append("look")
        if self.runs.count("look") == 1:
            await self.release.wait()
        return len(self.runs)

    def app(self, *, legacy: bool = False, **options: Any) -> Any:
        """An ASGI app; a legacy one does not know `server/discover`."""
        app = self.server.streamable_http_app(**options)
        return Forgetful(app) if legacy else app


@asynccontextmanager
async def behind_proxy(host: Host, app: Any, **options: Any) -> AsyncIterator[tuple[Connection, Proxy]]:
    """Connect to an app as `counting`, through a proxy."""
    async with serving(app) as url, proxied(url) as proxy:
        yield await host.connect(proxy.url(), name="counting", **options), proxy
        await host.close()


class Holding:
    """A server that answers when it is told to.

    Attributes:
        held: The calls that it has begun with and not answered.
        most: How many there were at once at most.
        release: Lets it answer them, and all that come.
    """

    def __init__(self) -> None:
        self.server = MCPServer("load", log_level="ERROR")
        self.held: list[int] = []
        self.most = 0
        self.release = asyncio.Event()
        self.server.add_tool(self.hold)

    async def hold(self, n: int) -> int:
        """Answer with `n` when it is time."""
        self.held.append(n)
        self.most = max(self.most, len(self.held))
        try:
            await self.release.wait()
        finally:
            self.held.remove(n)
        return n

    def app(self, *, legacy: bool = False) -> Any:
        """An ASGI app; a legacy one does not know `server/discover`."""
        app = self.server.streamable_http_app()
        return Forgetful(app) if legacy else app


def calls(connection: Connection, count: int) -> list[asyncio.Task[Any]]:
    """Make so many calls of `hold` at once."""
    return [asyncio.create_task(connection.call("hold", n=n)) for n in range(count)]


async def answers(tasks: list[asyncio.Task[Any]]) -> list[Any]:
    """Return the values that were answered."""
    return [result.data for result in await asyncio.gather(*tasks)]
