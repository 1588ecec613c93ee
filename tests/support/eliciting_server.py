"""Servers whose tools ask the person, on both protocol eras; run as a program it is the one with a form, over stdio."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Elicit, ElicitationResult, MCPServer, Resolve
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestURLParams,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)
from pydantic import BaseModel, Field


class Trip(BaseModel):
    city: str = Field(min_length=2)
    days: int = 3


async def where_to() -> Elicit[Trip]:
    return Elicit("Where to?", Trip)


async def _and_then() -> Elicit[Trip]:
    return Elicit("And then?", Trip)


def trip_server() -> MCPServer:
    server = MCPServer("trip", log_level="ERROR")

    @server.tool()
    async def plan(trip: Annotated[ElicitationResult[Trip], Resolve(where_to)]) -> str:
        data = getattr(trip, "data", None)
        return f"{trip.action} {data.city} {data.days}" if data is not None else trip.action

    @server.tool()
    async def two(
        one: Annotated[ElicitationResult[Trip], Resolve(where_to)],
        other: Annotated[ElicitationResult[Trip], Resolve(_and_then)],
    ) -> str:
        return f"{one.action} {other.action}"

    @server.tool()
    async def slow(trip: Annotated[ElicitationResult[Trip], Resolve(where_to)]) -> str:
        await asyncio.Event().wait()
        return trip.action

    return server


def url_server(url: str) -> Server[Any]:
    """A low-level server of 2026-07-28 whose tool asks to open a page."""

    async def tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="pay", input_schema={"type": "object"})])

    async def call(context: Any, params: Any) -> CallToolResult | InputRequiredResult:
        if params.input_responses:
            return CallToolResult(content=[TextContent(text=params.input_responses["page"].action)])
        asked = ElicitRequest(params=ElicitRequestURLParams(message="Pay there", url=url))
        return InputRequiredResult(input_requests={"page": asked}, request_state="s")

    return Server("pay", on_list_tools=tools, on_call_tool=call)


if __name__ == "__main__":
    trip_server().run()
