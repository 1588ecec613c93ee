"""`%mcp export`: writes a server of the notebook as a program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic._text import listed
from mcp_magic.config.parsing import write_text
from mcp_magic.display.listing import Text
from mcp_magic.errors import CommandError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse

    from mcp_magic.server.cell import CellServer

__all__ = ["EXPORT"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("server", metavar="SERVER", help="a server that `%%%%mcp_server` has made")
    parser.add_argument("file", metavar="FILE", help="the program, such as server.py")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Text:
    """Write the program."""
    from mcp_magic.server.export import program

    server = _cell_server(invocation, arguments.server)
    file = invocation.directory / Path(invocation.text(arguments.file)).expanduser()
    if file.exists() and not arguments.force:
        raise CommandError(f"%mcp export: {file} is there already; --force writes over it.")
    namespace = invocation.shell.user_ns
    code = program(server, namespace, list(namespace.get("In", ())), file.name)
    write_text(file, code)
    return Text(f"{file} is the server {arguments.server!r}: `%mcp connect {arguments.file} --name NAME` starts it.")


def _cell_server(invocation: Invocation, name: str) -> CellServer:
    from mcp_magic.server.cell import CellServer

    found: Any = getattr(invocation.host[name].spec, "server", None)
    if isinstance(found, CellServer):
        return found
    made = [c.name for c in invocation.host.connections.values() if isinstance(_server(c), CellServer)]
    raise CommandError(f"%mcp export: {name!r} was not made by `%%mcp_server`; there are: {listed(made)}.")


def _server(connection: Any) -> Any:
    return getattr(connection.spec, "server", None)


EXPORT = Implementation(
    run,
    options,
    examples=("%mcp export shop shop_server.py", "%mcp export shop servers/shop.py --force"),
    details="The program needs the SDK (`pip install mcp`) and nothing of the notebook: imports, functions, classes "
    "and plain data that the cell uses are written into it, secrets are read from the environment. It speaks stdio, or "
    "streamable HTTP with --http PORT.",
)
