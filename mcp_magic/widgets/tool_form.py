"""A form that calls a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.results import tool_badges
from mcp_magic.results.html import joined
from mcp_magic.schema import call_line, line_or_comment
from mcp_magic.widgets.look import heading
from mcp_magic.widgets.request_form import RequestForm
from mcp_magic.widgets.server_forms import PromptForm, TemplateForm, as_variables

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping, Sequence

    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import Tool

    from mcp_magic.core.connection import Connection
    from mcp_magic.results import ToolResult

__all__ = ["PromptForm", "TemplateForm", "ToolForm"]


class ToolForm(RequestForm):
    """A tool's arguments as a form, and its result below.

    Args:
        connection: The session.
        tool: The tool's definition.
        timeout: Seconds to wait for an answer, or None for as long as it takes.
        loop: The connection's event loop; the one that runs now, if left out.

    Attributes:
        tool: The tool's definition.
    """

    def __init__(
        self,
        connection: Connection,
        tool: Tool,
        *,
        timeout: float | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(connection, f"{connection.name}:{tool.name}", timeout=timeout, loop=loop)
        self.tool = self._definition = tool
        self._build(tool.input_schema)

    async def _ask(self, arguments: dict[str, Any], on_progress: ProgressFnT) -> ToolResult:
        result = await self.connection.call_tool(
            self.tool.name, arguments, timeout=self.timeout, on_progress=on_progress
        )
        return result.raise_for_error()

    def _line(self, arguments: Mapping[str, Any], secret: Sequence[str] = ()) -> str:
        line = call_line(self.name, arguments, schema=self.tool.input_schema) + as_variables(secret)
        return line_or_comment(line)

    def _heading(self) -> str:
        hints = self.tool.annotations
        badges = tool_badges(self.tool, trusted=self.connection.spec.trust)
        title = self.tool.title or (hints.title if hints else None) or ""
        return heading(self.name, title, self.tool.description or "", joined((badge.html() for badge in badges), " "))
