"""`%mcp logout`: ends a log-in and deletes its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.auth.client import log_out
from mcp_magic.config.servers import find_server
from mcp_magic.config.specs import UrlSpec
from mcp_magic.config.targets import resolve_target
from mcp_magic.display.listing import Listing
from mcp_magic.errors import CommandError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse

__all__ = ["LOGOUT"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "server", metavar="SERVER|URL", completer="SERVER", help="a server, connected or configured, or its URL"
    )


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Close the session, revoke the tokens, and delete them with the client's registration."""
    host = invocation.host
    name = str(invocation.value(arguments.server))
    spec = host[name].spec if name in host else resolve_target(name, find_entry=find_server)[0]
    if not isinstance(spec, UrlSpec):
        raise CommandError(f"%mcp logout: {name} is no server with a URL, so there is no log-in.")
    specs = {known: connection.spec for known, connection in host.connections.items()}
    closed = [known for known, other in specs.items() if isinstance(other, UrlSpec) and other.url == spec.url]
    await host.disconnect(*closed)
    rows: list[dict[str, Any]] = [
        {"server": name, "authorization server": each.authority, "tokens": each.done}
        for each in await log_out(spec, host.logins)
    ]
    note = f"disconnected: {', '.join(closed)}" if closed else ""
    empty = f"no tokens of {spec.where} are kept{'; ' + note if note else ''}"
    return Listing(rows, title=f"Logged out of {spec.where}", empty=empty, note=note, kind="logout")


LOGOUT = Implementation(
    run,
    options,
    examples=("%mcp logout notes", "%mcp logout https://mcp.example.com/mcp"),
    details="Tokens are kept in the system's keyring, or in a file that you alone can read (the setting tokens), so "
    "that a new kernel need not ask again. What is forgotten as well is the registration as a client.",
)
