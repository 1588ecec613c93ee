"""`%mcp roots`: the directories in which a server may work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.display.listing import Listing
from mcp_magic.errors import CommandError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse

__all__ = ["ROOTS"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("server", nargs="?", metavar="SERVER", help="a connected server (default: the only one)")
    parser.add_argument(
        "directories", nargs="*", default=[], metavar="DIR", help="directories, instead of those before"
    )
    parser.add_argument("--clear", action="store_true", help="none from now on")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Set the roots, if given, and list them."""
    connection = invocation.connection(arguments.server)
    if arguments.clear and arguments.directories:
        message = "%mcp roots takes directories, or --clear"
        raise CommandError(message)
    if arguments.clear or arguments.directories:
        words = [invocation.text(word) for word in arguments.directories]
        await connection.roots.set(*words, base=invocation.directory)
    rows: list[dict[str, Any]] = [
        {"directory": str(path), "uri": path.as_uri()} for path in connection.roots.directories
    ]
    empty = f"{connection.name} is told of no directory; `%mcp roots {connection.name} DIR` names one"
    return Listing(rows, title=f"Roots of {connection.name}", columns=("directory", "uri"), empty=empty, kind="roots")


ROOTS = Implementation(
    run,
    options,
    examples=("%mcp roots files", "%mcp roots files . ~/data", "%mcp roots files --clear"),
    details="By default there are none. They are information and no protection: a server on this machine can reach "
    "what you can reach. They are kept when the session is opened again.",
)
