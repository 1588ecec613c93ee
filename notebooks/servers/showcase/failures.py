"""Tools that fail, in each way that a tool can."""

from typing import Annotated, Any

from mcp import MCPError
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent
from pydantic import Field

from showcase.app import READS, server


@server.tool(annotations=READS)
def fail_exception() -> str:
    """Crash: the caller only reads that the tool failed, the traceback goes to the server's stderr."""
    raise RuntimeError("a secret that must stay in the server")


@server.tool(annotations=READS)
def fail_error(message: Annotated[str, Field(description="What the caller reads")] = "This did not work.") -> str:
    """Fail with a message for the caller."""
    raise ToolError(message)


@server.tool(annotations=READS)
def fail_structured() -> CallToolResult:
    """Report an error whose details are structured content."""
    details = {"code": "quota", "limit": 10, "retry_after_seconds": 60}
    return CallToolResult(
        content=[TextContent(text="The quota is used up.")], structured_content=details, is_error=True
    )


@server.tool(annotations=READS)
def fail_several_texts() -> CallToolResult:
    """Report an error in two text blocks."""
    return CallToolResult(content=[TextContent(text="It failed."), TextContent(text="Twice.")], is_error=True)


@server.tool(annotations=READS)
def fail_silently() -> CallToolResult:
    """Report an error and say nothing about it."""
    return CallToolResult(content=[], is_error=True)


@server.tool(annotations=READS)
def fail_protocol() -> str:
    """Answer with a JSON-RPC error instead of a result."""
    raise MCPError(INVALID_PARAMS, "This tool always refuses its parameters.", {"reason": "showcase"})


@server.tool(annotations=READS)
def fail_sometimes(
    fail: Annotated[bool, Field(description="Whether to fail this time")] = False,
) -> dict[str, Any]:
    """Fail if asked to, otherwise return an object."""
    if fail:
        raise ToolError("You asked for it.")
    return {"failed": False}
