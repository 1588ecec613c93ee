"""A server of 2026-07-28 whose tool wants to know the roots."""

from __future__ import annotations

from typing import Any

from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, InputRequiredResult, ListRootsRequest, ListToolsResult, TextContent, Tool


def roots_server() -> Server[Any]:
    """Return the server."""

    async def tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="where", input_schema={"type": "object"})])

    async def call(context: Any, params: Any) -> CallToolResult | InputRequiredResult:
        if not params.input_responses:
            return InputRequiredResult(input_requests={"roots": ListRootsRequest()}, request_state="s")
        roots = params.input_responses["roots"].roots
        text = " ".join(f"{root.name}={root.uri}" for root in roots)
        return CallToolResult(content=[TextContent(type="text", text=text or "none")])

    return Server("roots", on_list_tools=tools, on_call_tool=call)
