"""The server whose calls are timed: `add`, an async tool with an output schema, one with a long answer, and a slow one.

The SDK calls a sync tool on a thread. That hop takes longer than all that is measured here, and would hide it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

__all__ = ["OWN_TOOLS", "calculator"]

OWN_TOOLS = 3
"""Tools that it has."""


def calculator() -> MCPServer:
    """Return a new server."""
    server = MCPServer("math", log_level="ERROR")

    @server.tool()
    async def add(a: float, b: float) -> float:
        """Add two numbers."""
        return a + b

    @server.tool(structured_output=False)
    async def text(characters: int) -> str:
        """Return a text of this length."""
        return "Some words of an answer.\n" * (characters // 25)

    @server.tool(structured_output=False)
    async def wait(seconds: float) -> str:
        """Answer after some seconds."""
        await asyncio.sleep(seconds)
        return "done"

    return server


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "notebooks" / "servers"))
    import serving

    if "http" in sys.argv:
        serving.serve_http(calculator(), "http", "127.0.0.1", 0)
    else:
        serving.serve_stdio(calculator())
