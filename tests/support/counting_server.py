"""A server whose tool is not idempotent: it writes a line into a file for each call. Waits a little."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("counting")
LOG = Path(sys.argv[1])


@server.tool()
async def count(n: int) -> int:
    """Write the number down and return its double."""
    with LOG.open("a") as file:
        file.write(f"{n}\n")
    await asyncio.sleep(0.002)
    return n * 2


if __name__ == "__main__":
    server.run()
