"""The server of `benchmarks.map`: over stdio, or over HTTP with `--transport http` and a limit with `--rate 100`."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("mapped", log_level="ERROR")


@server.tool()
async def double(n: int) -> int:
    """Return twice the number, at once."""
    return n * 2


@server.tool()
async def slow(n: int) -> int:
    """Return twice the number after 50 ms."""
    await asyncio.sleep(0.05)
    return n * 2


@server.tool()
async def busy(n: int) -> int:
    """Return twice the number after computing for 5 ms of processor time."""
    end = time.thread_time() + 0.005
    while time.thread_time() < end:
        pass
    return n * 2


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "notebooks" / "servers"))
    import serving

    serving.serve(server, serving.parser("Doubles numbers.").parse_args())
