"""The server whose calls are timed: one async tool with an output schema.

The SDK calls a sync tool on a thread. That hop takes longer than all that is measured here, and would hide it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

__all__ = ["calculator"]


def calculator() -> MCPServer:
    """Return a new server."""
    server = MCPServer("math", log_level="ERROR")

    @server.tool()
    async def add(a: float, b: float) -> float:
        """Add two numbers."""
        return a + b

    return server


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "notebooks" / "servers"))
    import serving

    if "http" in sys.argv:
        serving.serve_http(calculator(), "http", "127.0.0.1", 0)
    else:
        serving.serve_stdio(calculator())
