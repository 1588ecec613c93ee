"""`%mcp config`: the configured servers and their files; starts nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.config.servers import discover_servers, load_config
from mcp_magic.display.listing import Listing
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse

    from mcp_magic.config.servers import ServerEntry

__all__ = ["CONFIG"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="one file instead of all that are found")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """List the configured servers, secrets masked."""
    if arguments.file:
        entries = load_config(invocation.directory / arguments.file)
    else:
        entries = discover_servers(invocation.directory)
    return Listing(
        [_row(entry) for entry in entries],
        title="Configured MCP servers",
        empty="no configured servers: looked for mcp.json, .mcp.json, .vscode/mcp.json, .cursor/mcp.json, "
        "Claude's and Jupyter's settings, and the variable MCP_SERVERS",
        kind="config",
    )


def _row(entry: ServerEntry) -> dict[str, Any]:
    state = "disabled" if entry.disabled else "shadowed" if entry.shadowed_by else "ready"
    return {
        "server": entry.name,
        "state": "wrong" if entry.problem else state,
        "transport": entry.spec.transport if entry.spec else None,
        "where": entry.spec.where if entry.spec else None,
        "file": entry.source,
        "problem": str(entry.problem or "") or None,
    }


CONFIG = Implementation(
    run,
    options,
    examples=("%mcp config", "%mcp config ~/.cursor/mcp.json"),
)
