"""`%mcp disconnect`: closes sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic._text import listed
from mcp_magic.errors import CommandError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser
from mcp_magic.ipython.commands.servers import server_listing

if TYPE_CHECKING:
    import argparse

    from mcp_magic.display.listing import Listing

__all__ = ["DISCONNECT"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("names", nargs="*", default=[], metavar="SERVER", help="a connected server")
    parser.add_argument("--all", action="store_true", help="all of them")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Close sessions and list the others."""
    host = invocation.host
    if bool(arguments.names) == arguments.all:
        raise CommandError(f"%mcp disconnect: name the servers, or say --all. Connected: {listed(host)}")
    names = list(host) if arguments.all else list(dict.fromkeys(arguments.names))
    await host.disconnect(*names)
    note = f"disconnected: {listed(names)}"
    return server_listing([connection.info().row() for connection in host.connections.values()], note=note)


DISCONNECT = Implementation(
    run,
    options,
    examples=("%mcp disconnect weather math", "%mcp disconnect --all"),
)
