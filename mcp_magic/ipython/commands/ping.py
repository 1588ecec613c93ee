"""`%mcp ping`: whether servers answer, and how fast."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcp_magic._text import ago, duration
from mcp_magic.display.listing import Listing
from mcp_magic.errors import MCPMagicError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser, seconds_typed

if TYPE_CHECKING:
    import argparse

    from mcp_magic.session.connection import Connection

__all__ = ["PING"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("server", nargs="?", metavar="SERVER", help="one server instead of all")
    parser.add_argument(
        "--timeout", type=seconds_typed, metavar="S", help="seconds to wait for the answer (default: 5)"
    )


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Ping one server, or all in parallel; a row shows a server that does not answer."""
    host = invocation.host
    connections = [host[arguments.server]] if arguments.server else list(host.connections.values())
    rows = await asyncio.gather(*(_row(connection, arguments.timeout) for connection in connections))
    return Listing(
        rows,
        title="Ping",
        columns=("server", "answered in", "state", "seen", "problem"),
        empty="no server is connected: `%mcp connect TARGET` opens a session",
        kind="ping",
    )


async def _row(connection: Connection, timeout: float | None) -> dict[str, Any]:
    seconds, problem = None, None
    try:
        seconds = await connection.ping(timeout)
    except MCPMagicError as error:
        problem = str(error)
    return {
        "server": connection.name,
        "answered in": None if seconds is None else duration(seconds),
        "state": connection.state,
        "seen": ago(connection.last_seen),
        "problem": problem,
    }


PING = Implementation(
    run,
    options,
    examples=("%mcp ping", "%mcp ping weather", "%mcp ping weather --timeout 1"),
    details="Sends `ping`, or since protocol 2026-07-28, which has none, `server/discover`. A session that is lost is "
    "opened again meanwhile where the setting `reconnect` says so.",
)
