"""Sessions that are open while a cassette comes in or goes out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mcp_magic.errors import CassetteError, MCPMagicError

if TYPE_CHECKING:
    from mcp_magic.core.connection import Connection
    from mcp_magic.core.host import Host

__all__ = ["begin_again", "leave_replayed"]


async def begin_again(host: Host) -> tuple[list[str], dict[str, MCPMagicError]]:
    """Open the sessions of a host again, so that a cassette has them from their beginning.

    Returns:
        The names of those that are open again, and by name why others are not; one that is not in a cassette that
        only replays is disconnected.
    """

    async def one(connection: Connection) -> MCPMagicError | None:
        try:
            await host.reconnect(connection.name)
        except CassetteError as error:
            await host.disconnect(connection.name)
            return error
        except MCPMagicError as error:
            return error
        return None

    connections = host.find()
    found = await asyncio.gather(*(one(connection) for connection in connections))
    failed = {c.name: error for c, error in zip(connections, found, strict=True) if error is not None}
    return [c.name for c in connections if c.name not in failed], failed


async def leave_replayed(host: Host) -> list[str]:
    """Disconnect the sessions that were replayed, and return their names: there is nobody at their other end."""
    names = [connection.name for connection in host.connections.values() if connection.replayed]
    await host.disconnect(*names)
    return names
