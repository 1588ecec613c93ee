"""What a connection looks like in a cell: on its own, and as a row of a listing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from mcp_magic.core.catalog import KINDS
from mcp_magic.core.edited import edited
from mcp_magic.core.health import seen
from mcp_magic.results.badges import Badge
from mcp_magic.results.html import details, facts, joined, preformatted, tag
from mcp_magic.results.parts import Part
from mcp_magic.results.safe import cut, one_line
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from mcp_magic.core.connection import Connection

__all__ = ["connection_part", "server_row"]

MAX_INSTRUCTIONS = 4000
"""Characters shown of a server's instructions."""


def connection_part(connection: Connection) -> Part:
    """Return a connection's card: who it is, its state, what it offers, what to type next."""
    known = _facts(connection)
    is_open = connection.state == "open"
    hint = f"%mcp tools {connection.name}" if is_open else f"%mcp reconnect {connection.name}"
    hints = [("next", hint), *([("explore", f"%mcp ui {connection.name}")] if is_open else [])]
    instructions = cut((connection.instructions or "").strip(), MAX_INSTRUCTIONS)
    heading = f"{connection.name}: {connection.state}"
    plain = [heading, *(f"  {name:<10} {value}" for name, value in [*known, *hints])]
    plain += [f"\n{instructions}"] if instructions else []
    state = Badge(connection.state, "safe" if is_open else "danger").html()
    html = [tag("p", joined([tag("b", connection.name), " ", state]))]
    html.append(facts([*known, *((name, tag("code", line)) for name, line in hints)]))
    html += [details("instructions for models", preformatted(instructions))] if instructions else []
    return Part("\n".join(plain), joined(html))


def _facts(connection: Connection) -> list[tuple[str, str]]:
    known = [(connection.spec.transport, one_line(connection.spec.where, 200))]
    info = connection.server_info
    if info is not None:
        known.append(("server", one_line(f"{info.title or info.name} {info.version}", 200)))
    if connection.protocol_version:
        known.append(("protocol", connection.protocol_version))
    if is_old := _already(connection):
        known.append(("since", is_old))
    offers = [_count(connection, kind) for kind in KINDS]
    if any(offers):
        known.append(("offers", ", ".join(offer for offer in offers if offer)))
    known += [(kind, _unlisted(connection, kind)) for kind in connection.catalog.problems]
    if connection.problem:
        known.append(("why", one_line(connection.problem, 400)))
    if connection.last_seen is not None:
        known.append(("health", _health(connection)))
    return known


def _health(connection: Connection) -> str:
    said = [f"seen {seen(connection.last_seen)}", f"latency {_latency(connection)}"]
    said += [f"{connection.failures} of {connection.calls} requests failed"] if connection.failures else []
    said += [f"came back {connection.reconnects}x"] if connection.reconnects else []
    return ", ".join(said)


def _already(connection: Connection) -> str:
    """Say that a session was open before somebody connected to it, and what it may not know of its own program."""
    opened, said = connection.opened_at, []
    if opened is not None and connection.found_open == opened:
        said.append(f"open already since {time.strftime('%H:%M:%S', time.localtime(opened))}")
    return "; ".join([*said, *filter(None, [edited(connection)])]) if connection.state == "open" else ""


def _unlisted(connection: Connection, kind: str) -> str:
    problem = connection.catalog.problems[kind].removeprefix(f"{connection.name}: {kind}: ")
    return one_line(f"could not be listed: {problem}", 400)


def _count(connection: Connection, kind: str) -> str:
    count = len(connection.catalog.cached(kind))
    return f"{count} {kind if count != 1 else kind[:-1]}" if count else ""


def server_row(connection: Connection, **more: Any) -> dict[str, Any]:
    """Return a connection as a row: state, transport, protocol version, counts, health.

    Health is the latency of the last request in milliseconds, when the server last answered, how many requests
    failed, and how often the session came back by itself.
    """
    return {
        "server": connection.name,
        "state": connection.state,
        "transport": connection.spec.transport,
        "protocol": connection.protocol_version,
        **{kind: _known_count(connection, kind) for kind in KINDS},
        "latency": _latency(connection),
        "seen": seen(connection.last_seen),
        "failed": f"{connection.failures} of {connection.calls}" if connection.failures else None,
        "reconnects": connection.reconnects or None,
        **more,
    }


def _latency(connection: Connection) -> str | None:
    return None if connection.latency is None else duration(connection.latency)


def _known_count(connection: Connection, kind: str) -> int | None:
    return len(connection.catalog.cached(kind)) if connection.catalog.known(kind) else None
