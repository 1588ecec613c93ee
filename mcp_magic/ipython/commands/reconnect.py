"""`%mcp reconnect`: opens a session again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse

    from mcp_magic.session.connection import Connection

__all__ = ["RECONNECT"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("name", metavar="SERVER", help="a server that is or was connected")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Connection:
    """Close the session, if it is open, and open it again."""
    return await invocation.host.reconnect(arguments.name)


RECONNECT = Implementation(
    run,
    options,
    examples=("%mcp reconnect weather",),
)
