"""`%mcp`: the connected servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line
from mcp_magic.ipython.commandline import Implementation, Invocation

if TYPE_CHECKING:
    import argparse

__all__ = ["SERVERS", "server_listing"]

_NOBODY = "no server is connected: `%mcp connect TARGET` opens a session, `%mcp --help` shows what there is"


def server_listing(rows: list[dict[str, Any]], *, title: str = "MCP servers", note: str = "") -> Listing:
    """Return rows about servers as a listing."""
    return Listing(rows, title=title, empty=_NOBODY, note=note, kind="servers")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """List the connected servers, with the reason if a session is not open."""
    connections = invocation.host.connections.values()
    note = "\n".join(one_line(connection.problem, 400) for connection in connections if connection.problem)
    return server_listing([connection.info().row() for connection in connections], note=note)


SERVERS = Implementation(run)
