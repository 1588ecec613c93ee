"""What may follow `%mcp replay`, `raw` and the consent commands."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mcp_magic.core.consent.rules import exactly
from mcp_magic.core.trace.trace import OUT
from mcp_magic.errors import NotFoundError
from mcp_magic.magics.commands.replay import ONCE
from mcp_magic.magics.offered_candidates import Candidates, call, listed_tools, starting
from mcp_magic.notebook import host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.core.trace.trace import Entry

__all__ = ["raw", "replay", "rule"]

LATEST = 30
"""Requests that are offered; `%mcp trace` lists all."""


def replay(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    """Return the numbers of the latest requests, each with what it asked; behind one, the arguments of its tool."""
    if not positional:
        sent = [entry for entry in host.trace.entries() if _is_ours(entry)][: -LATEST - 1 : -1]
        return starting(fragment, [str(entry.number) for entry in sent])._replace(
            kinds={str(entry.number): f"{entry.server} {entry.method} {_name(entry)}".rstrip() for entry in sent}
        )
    with suppress(NotFoundError, ValueError):
        entry = host.trace.find(int(positional[0]))
        if entry.method == "tools/call":
            return call([shlex.quote(f"{entry.server}:{_name(entry)}"), *positional[1:]], fragment, namespace)
    return Candidates(fragment, [])


def _is_ours(entry: Entry) -> bool:
    return entry.kind == "request" and entry.direction == OUT and entry.method not in ONCE


def _name(entry: Entry) -> str:
    """Return which tool or prompt a request is about, or ""."""
    params = entry.message.get("params") if entry.whole else None
    name = params.get("name") if isinstance(params, dict) else None
    return name if isinstance(name, str) and name.isprintable() else ""


def raw(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    """Return the servers, then the methods of the session's protocol version."""
    if not positional:
        return starting(fragment, list(host))
    connection = host.connections.get(positional[0])
    if len(positional) > 1 or connection is None:
        return Candidates(fragment, [])
    from mcp_types.methods import CLIENT_NOTIFICATIONS, CLIENT_REQUESTS

    asked = [*sorted(CLIENT_REQUESTS), *sorted(CLIENT_NOTIFICATIONS)]
    return starting(fragment, [method for method, version in asked if version == connection.protocol_version])


def rule(positional: list[str], fragment: str, namespace: Mapping[str, Any]) -> Candidates:
    """Return what a consent rule may be about: all of a server, a tool, then its arguments."""
    if positional:
        return call(positional, fragment, namespace)
    names = [*(f"{name}:*" for name in host), *(exactly(f"{c.name}:{tool.name}") for c, tool in listed_tools())]
    words = [shlex.quote(name) for name in names]
    # whoever has begun a quotation wants to see it closed
    return starting(fragment, [f"'{word}'" if fragment[:1] == "'" != word[:1] else word for word in words])
