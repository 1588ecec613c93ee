"""MCP tools as LangChain tools."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.tools import StructuredTool
    from mcp_types import Tool

    from mcp_magic.core.connection import Connection
    from mcp_magic.results import ToolResult

from mcp_magic.errors import DeniedError

__all__ = ["langchain_tools", "provider_name"]

MAX_NAME = 64
"""Characters that providers accept in a tool's name (`^[a-zA-Z0-9_-]{1,64}$`)."""


def provider_name(server: str, tool: str, taken: Iterable[str] = ()) -> str:
    """Return the name under which a model knows a tool: `server__tool`, cut and made unique.

    >>> provider_name("weather", "get forecast")
    'weather__get_forecast'
    >>> provider_name("a", "b", taken={"a__b"})
    'a__b_2'
    """
    base = re.sub(r"[^a-zA-Z0-9_-]", "_", f"{server}__{tool}")[:MAX_NAME]
    name, number = base, 1
    while name in set(taken):
        number += 1
        suffix = f"_{number}"
        name = base[: MAX_NAME - len(suffix)] + suffix
    return name


def langchain_tools(connection: Connection) -> list[StructuredTool]:
    """Return the tools of an open session as LangChain tools.

    Text is the content a model reads; everything else, structured content too, is the artifact. Calls go
    through the host's consent as an agent's: by default the person is asked.
    """
    tools: list[StructuredTool] = []
    for tool in connection.catalog.cached("tools"):
        name = provider_name(connection.name, tool.name, [made.name for made in tools])
        tools.append(_langchain_tool(connection, tool, name))
    return tools


def _langchain_tool(connection: Connection, tool: Tool, name: str) -> StructuredTool:
    from langchain_core.tools import StructuredTool, ToolException

    async def call(**arguments: Any) -> tuple[Any, Any]:
        refused = ""
        try:
            result = await connection.call_tool(tool.name, arguments, asker="agent")
        except DeniedError as error:
            refused = str(error)
        if refused:
            raise ToolException(refused)
        if result.is_error:
            raise ToolException(_content(result))
        return _content(result), result

    hints = tool.annotations.model_dump() if tool.annotations else {}
    return StructuredTool(
        name=name,
        description=tool.description or tool.title or tool.name,
        args_schema=tool.input_schema,
        coroutine=call,
        response_format="content_and_artifact",
        metadata={"server": connection.name, "tool": tool.name, "annotations": hints},
    )


def _content(result: ToolResult) -> Any:
    """Return what the model reads: the text, or the structured content where there is no text."""
    if result.text or result.data is None:
        return result.text
    return json.dumps(result.data, ensure_ascii=False)
