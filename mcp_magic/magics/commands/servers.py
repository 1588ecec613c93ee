"""`%mcp`: the connected servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.magics.parsing import Command, Invocation
from mcp_magic.results import Listing

if TYPE_CHECKING:
    import argparse

    from mcp_magic.core.connection import Connection

__all__ = ["COMMAND", "server_listing"]

_NOBODY = "no server is connected: `%mcp connect TARGET` opens a session, `%mcp --help` shows what there is"


def server_row(connection: Connection, **more: Any) -> dict[str, Any]:
    """Return a connection as a row: state, transport, protocol version, counts, latency in milliseconds."""
    latency = connection.latency
    return {
        "server": connection.name,
        "state": connection.state,
        "transport": connection.spec.transport,
        "protocol": connection.protocol_version,
        **{kind: _count(connection, kind) for kind in ("tools", "resources", "templates", "prompts")},
        "latency": None if latency is None else f"{latency * 1000:.1f} ms",
        **more,
    }


def _count(connection: Connection, kind: str) -> int | None:
    return len(connection.catalog.cached(kind)) if connection.catalog.known(kind) else None


def server_listing(rows: list[dict[str, Any]], *, title: str = "MCP servers", note: str = "") -> Listing:
    """Return rows about servers as a listing."""
    return Listing(rows, title=title, empty=_NOBODY, note=note, kind="servers")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """List the connected servers."""
    return server_listing([server_row(connection) for connection in invocation.host.connections.values()])


COMMAND = Command("servers", "Connect", "lists the connected servers", run)
