"""Servers in this process for maps, and the steps of maps over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.server import MCPServer

from mcp_magic.map.plan import Step
from mcp_magic.map.rows import col
from mcp_magic.map.run import MapRun, map_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic import Host


async def offer(host: Host, function: Callable[..., Any], name: str = "s", **options: Any) -> None:
    """Connect a server with one tool."""
    server = MCPServer(name)
    server.tool(**options)(function)
    await host.connect(server, name=name, trust=True)


async def step(host: Host, tool: str, *columns: str, name: str = "") -> Step:
    """Return a step of a map, whose arguments are columns."""
    server, _, tool = tool.partition(":")
    return Step(name, host[server], await host[server].find_tool(tool), {column: col(column) for column in columns})


async def prepared(host: Host, tool: str, rows: Any, *columns: str, **options: Any) -> MapRun:
    """Return a map of one step that has not begun."""
    return map_steps([await step(host, tool, *columns)], rows, host.services, **options)
