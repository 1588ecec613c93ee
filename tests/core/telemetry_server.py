"""A server for the telemetry tests, over stdio as a program; `server` is it."""

from __future__ import annotations

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError

server = MCPServer("telemetry", log_level="ERROR")


@server.tool()
def echo(text: str) -> str:
    """Repeat."""
    return text


@server.tool()
def meta(ctx: Context) -> str:
    """Return the trace context that came with the call, or nothing."""
    return str((ctx.request_context.meta or {}).get("traceparent", ""))


@server.tool()
def fail(text: str) -> str:
    """Report an error that repeats an argument."""
    raise ToolError(f"cannot do {text}")


@server.tool()
def refuse(text: str) -> str:
    """Answer with a JSON-RPC error that repeats an argument."""
    raise MCPError(code=-32602, message=f"no good: {text}")


if __name__ == "__main__":
    server.run()
