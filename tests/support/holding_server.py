"""A server whose tool waits, and leaves files that say how far it came.

Over stdio it is one of the standard library, which starts at once; `made()` is one of the SDK, for HTTP with
`--transport http`, or for a kernel.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.plain import Call, Plain


def made() -> Any:
    """Return a server of the SDK."""
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

    return server


def plain() -> Plain:
    """Return a server of the standard library that does the same."""
    server = Plain("holding")

    @server.tool
    def hold(call: Call, folder: str) -> str:
        """Wait; make the file `started`, and `cancelled` when nobody waits any more."""
        Path(folder, "started").touch()
        call.cancelled.wait()
        Path(folder, "cancelled").touch()
        return "an hour is over"

    @server.tool
    def ping() -> str:
        """Answer at once."""
        return "pong"

    return server


if __name__ == "__main__":
    if len(sys.argv) == 1:
        plain().run()
    else:
        sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks" / "servers"))
        from serving import parser, serve

        serve(made(), parser(__doc__ or "").parse_args())
