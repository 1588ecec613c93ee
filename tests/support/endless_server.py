"""A stdio server whose schemas take as long to check as the size of a value allows."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
LEVELS = 30
VALUES = 300_000
"""Values of an answer; for each of them a check may take some steps more."""
REFERENCES: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"$ref": "#/$defs/level0"}},
    "$defs": {f"level{n}": {"allOf": [{"$ref": f"#/$defs/level{n + 1}"}] * 4} for n in range(LEVELS)}
    | {f"level{LEVELS}": {"type": "array"}},
}


async def list_tools(context: Any, params: Any) -> ListToolsResult:
    return ListToolsResult(
        tools=[
            Tool(name="answers", input_schema=NOTHING, output_schema=REFERENCES),
            Tool(name="takes", input_schema=REFERENCES),
            Tool(name="ping", input_schema=NOTHING),
        ]
    )


async def call_tool(context: Any, params: Any) -> CallToolResult:
    text = TextContent(type="text", text="pong")
    return CallToolResult(
        content=[text], structured_content={"x": ["a"] * VALUES} if params.name == "answers" else None
    )


async def main() -> None:
    server: Any = Server("endless", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
