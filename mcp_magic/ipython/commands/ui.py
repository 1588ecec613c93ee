"""`%mcp ui`: an explorer of the connected servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.config.servers import discover_servers
from mcp_magic.ipython.ask import needs_yes
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse

    from mcp_magic.ui.explorer import Explorer

__all__ = ["UI"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("server", nargs="?", metavar="SERVER", help="one server instead of all, to begin with")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Explorer:
    """Open an explorer; closes the explorer of the cell's earlier run."""
    from mcp_magic.ipython.cells import keep_here
    from mcp_magic.ui.explorer import Explorer

    configured = discover_servers(invocation.directory)
    ready = [e for e in configured if e.spec and not (e.problem or e.disabled or e.shadowed_by)]
    offered = {e.name: e.spec for e in ready if e.spec and not needs_yes(e, invocation.directory)}

    timeout = invocation.settings.call_timeout
    explorer = Explorer(invocation.host, arguments.server, offered=offered, timeout=timeout)
    return keep_here(explorer, invocation.shell)


UI = Implementation(
    run,
    options,
    examples=("%mcp ui", "%mcp ui weather"),
    details="It lists the configured servers, too, and connects one when its button is clicked. Running the cell "
    "again closes the explorer that it showed before.",
)
