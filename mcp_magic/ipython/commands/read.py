"""`%mcp read`: reads a resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.ipython.commandline import Implementation, Invocation, Parser, timeout_options, timeouts

if TYPE_CHECKING:
    import argparse

    from mcp_magic.results.results import ResourceResult

__all__ = ["READ"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("uri", metavar="URI", help="of a resource, or made from a template")
    parser.add_argument("--server", metavar="SERVER", help="whose it is, where that is not clear")
    timeout_options(parser)


async def run(invocation: Invocation, arguments: argparse.Namespace) -> ResourceResult:
    """Read the resource."""
    uri = str(invocation.value(arguments.uri))
    return await invocation.host.read(uri, server=arguments.server, **timeouts(invocation, arguments))


READ = Implementation(
    run,
    options,
    examples=("%mcp read math://constants", "%mcp read file:///readme.md --server docs --timeout 10"),
    details=r"$name and {expression} stand for Python objects; a backslash in front ('\{name}') keeps them as text.",
)
