"""Servers for tests whose tools have any schema, answer anything, and count their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.server import Server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Handler = Callable[[str, dict[str, Any]], Awaitable[CallToolResult]]


async def echo(name: str, arguments: dict[str, Any]) -> CallToolResult:
    """Answer the arguments."""
    return CallToolResult(content=[TextContent(text=str(sorted(arguments.items())))])


def tool(name: str, description: str, **properties: Any) -> Tool:
    return Tool(name=name, description=description, input_schema={"type": "object", "properties": properties})


def serving_tools(*tools: Tool, handler: Handler = echo) -> Server[Any]:
    """Return a server with these tools; `handler` answers calls of any of them."""

    async def listed(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=list(tools))

    async def called(context: Any, params: Any) -> CallToolResult:
        return await handler(params.name, params.arguments or {})

    return Server("lowlevel", on_list_tools=listed, on_call_tool=called)
