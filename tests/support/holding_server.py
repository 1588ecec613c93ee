"""A server whose tool waits, and leaves files that say how far it came; stdio, or HTTP with `--transport http`."""

import asyncio
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("holding", log_level="ERROR")


@server.tool()
async def hold(folder: str) -> str:
    """Wait for an hour; make the file `started`, and `cancelled` when nobody waits any more."""
    Path(folder, "started").touch()
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        Path(folder, "cancelled").touch()
        raise
    return "an hour is over"


@server.tool()
def ping() -> str:
    """Answer at once."""
    return "pong"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks" / "servers"))
    from serving import parser, serve

    serve(server, parser(__doc__ or "").parse_args())
