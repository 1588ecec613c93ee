"""`%mcp reconnect`: opens a session again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.magics.parsing import Command, Invocation

if TYPE_CHECKING:
    import argparse

    from mcp_magic.core.connection import Connection

__all__ = ["COMMAND"]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("name", metavar="NAME", help="a server that is or was connected")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Connection:
    """Close the session, if it is open, and open it again."""
    return await invocation.host.reconnect(arguments.name)


COMMAND = Command(
    "reconnect",
    "Connect",
    "opens a session again, for example after its server died",
    run,
    options,
    examples=("%mcp reconnect weather",),
)
