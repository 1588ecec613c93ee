"""A server over stdio whose schemas have regular expressions that kill: in arguments, answers and questions."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)

EXPLODES = "^(?:(?:(?:(?:(?:a?){999}){999}){999}){999}){999}z$"
BACKTRACKS = "^(a+)+$"
LOOKS_AHEAD = r"^(?=a)(a|a)*\1c"
PATTERNS = {"explodes": EXPLODES, "backtracks": BACKTRACKS, "looks_ahead": LOOKS_AHEAD}
TEXT = "a" * 40 + "b"
DRAFT = "http://json-schema.org/draft-07/schema#"


def schemas(pattern: str) -> dict[str, dict[str, Any]]:
    """Return, by the way that they take, schemas that have a pattern tried against `TEXT`."""
    text = {"type": "string", "pattern": pattern}
    return {
        "pattern": {"type": "object", "properties": {"text": text}},
        "draft": {"type": "object", "properties": {"text": {"$schema": DRAFT, **text}}},
        "names": {"type": "object", "patternProperties": {pattern: {}}, "additionalProperties": False},
        "unevaluated": {"type": "object", "patternProperties": {pattern: {}}, "unevaluatedProperties": False},
    }


def answer(way: str) -> dict[str, Any]:
    return {"text": TEXT} if way in ("pattern", "draft") else {TEXT: 1}


async def list_tools(context: Any, params: Any) -> ListToolsResult:
    tools = []
    for name, pattern in PATTERNS.items():
        for way, schema in schemas(pattern).items():
            tools.append(Tool(name=f"answers_{name}_{way}", input_schema={"type": "object"}, output_schema=schema))
            tools.append(Tool(name=f"takes_{name}_{way}", input_schema=schema))
        tools.append(Tool(name=f"asks_{name}", input_schema={"type": "object"}))
    return ListToolsResult(tools=tools)


async def call_tool(context: Any, params: Any) -> CallToolResult | InputRequiredResult:
    kind, _, rest = params.name.partition("_")
    if kind == "answers":
        return CallToolResult(content=[], structured_content=answer(rest.rpartition("_")[2]))
    if kind == "asks" and not params.input_responses:
        wanted = {"type": "object", "properties": {"text": {"type": "string", "pattern": PATTERNS[rest]}}}
        asked = ElicitRequest(params=ElicitRequestFormParams(message="Text?", requested_schema=wanted))
        return InputRequiredResult(input_requests={"text": asked}, request_state="s")
    return CallToolResult(content=[TextContent(text="done")])


async def main() -> None:
    server = Server("patterns", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
