"""`%mcp tool`: one tool in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.ipython.commandline import Implementation, Invocation, Parser
from mcp_magic.results.cards import ToolCard

if TYPE_CHECKING:
    import argparse


__all__ = ["TOOL"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("tool", metavar="SERVER:TOOL", help="the server may be left out while the name is unique")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> ToolCard:
    """Describe a tool."""
    connection, tool = await invocation.host.resolve(arguments.tool)
    return ToolCard(tool, server=connection.name, trusted=connection.spec.trust, change=connection.change_of(tool))


TOOL = Implementation(
    run,
    options,
    examples=("%mcp tool weather:forecast",),
    left_over="A tool is SERVER:TOOL, in one word.",
)
