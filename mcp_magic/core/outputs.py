"""Structured answers against the output schema of their tool, in the SDK's place.

The SDK checks them by itself, with Python's `re` for the server's patterns: one of fifty characters takes all memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.results.safe import one_line
from mcp_magic.schema.check import check_answer

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp_types import CallToolResult, Tool

__all__ = ["check_output", "leave_outputs_to_us"]


def leave_outputs_to_us(session: ClientSession) -> None:
    """Have a session of the SDK check no structured answers; `check_output` does."""
    session.validate_tool_result = _checked_here  # type: ignore[method-assign]  # there is no option for it


async def _checked_here(name: str, result: CallToolResult) -> None:
    pass


def check_output(result: CallToolResult, tool: Tool) -> str:
    """Raise unless a result is what its tool's output schema announces.

    Returns:
        What the person is told if a pattern of the schema could not be checked, else "".

    Raises:
        ValueError: It is not, or the schema is invalid.
    """
    if tool.output_schema is None or result.is_error:
        return ""
    if result.structured_content is None and "structured_content" not in result.model_fields_set:
        raise ValueError(f"Tool {tool.name} has an output schema but did not return structured content")
    patterns = check_answer(result.structured_content, tool.output_schema)
    if not patterns:
        return ""
    more = f" and {len(patterns) - 1} more" if len(patterns) > 1 else ""
    name, pattern = one_line(tool.name, 100), one_line(patterns[0], 60)
    return f"The answer of {name} was not checked against the pattern {pattern}{more}; the rest of it was checked."
