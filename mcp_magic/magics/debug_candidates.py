"""Requests of the trace, methods of the protocol, and what consent rules may be about, where the cursor is."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_magic.core.consent.rules import exactly
from mcp_magic.core.trace.trace import OUT
from mcp_magic.errors import NotFoundError
from mcp_magic.magics.offered_candidates import Candidates, Tab, starting, tool_argument
from mcp_magic.notebook import host

if TYPE_CHECKING:
    from mcp_magic.core.trace.trace import Entry

__all__ = ["method", "request", "request_argument", "rule"]

LATEST = 30
"""Requests that are offered; `%mcp trace` lists all."""


def request(tab: Tab) -> Candidates:
    """Return the numbers of the latest requests, each with what it asked."""
    from mcp_magic.magics.commands.replay import ONCE

    requests = (entry for entry in host.trace.entries() if entry.kind == "request" and entry.direction == OUT)
    sent = [entry for entry in requests if entry.method not in ONCE][: -LATEST - 1 : -1]
    asked = {str(entry.number): f"{entry.server} {entry.method} {_name(entry)}".rstrip() for entry in sent}
    return Candidates(tab.fragment, starting(tab.fragment, asked).texts, asked)


def request_argument(tab: Tab) -> Candidates:
    """Return the arguments of the tool that a request called."""
    with suppress(NotFoundError, ValueError):
        entry = host.trace.find(int(tab.positional[0]))
        if entry.method == "tools/call":
            tool = shlex.quote(f"{entry.server}:{_name(entry)}")
            return tool_argument(replace(tab, positional=[tool, *tab.positional[1:]]))
    return Candidates(tab.fragment, [])


def _name(entry: Entry) -> str:
    """Return which tool or prompt a request is about, or ""."""
    params = entry.message.get("params") if entry.whole else None
    name = params.get("name") if isinstance(params, dict) else None
    return name if isinstance(name, str) and name.isprintable() else ""


def method(tab: Tab) -> Candidates:
    """Return the methods of the protocol version that the server named first speaks."""
    connection = host.connections.get(tab.positional[0])
    if connection is None:
        return Candidates(tab.fragment, [])
    from mcp_types.methods import CLIENT_NOTIFICATIONS, CLIENT_REQUESTS

    asked = [*sorted(CLIENT_REQUESTS), *sorted(CLIENT_NOTIFICATIONS)]
    return starting(tab.fragment, [method for method, version in asked if version == connection.protocol_version])


def rule(tab: Tab) -> Candidates:
    """Return what a consent rule may be about: all of a server, or a tool."""
    tools = (exactly(f"{c.name}:{tool.name}") for c in host.find() for tool in c.catalog.cached("tools"))
    words = [shlex.quote(name) for name in (*(f"{name}:*" for name in host), *tools)]
    # a quotation that is begun has to be closed
    return starting(tab.fragment, [f"'{word}'" if tab.fragment[:1] == "'" != word[:1] else word for word in words])
