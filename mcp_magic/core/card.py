"""How a server looks in a cell: what is known of a connection, as a card and as a row of a listing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic.core.edited import edited
from mcp_magic.results.badges import Badge
from mcp_magic.results.html import details, facts, joined, preformatted, tag
from mcp_magic.results.parts import Part, bundle
from mcp_magic.results.safe import cut, one_line
from mcp_magic.wording import ago, duration

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcp_types import Implementation

    from mcp_magic.config.specs import Spec

__all__ = ["ConnectionInfo"]

MAX_INSTRUCTIONS = 4000
"""Characters shown of a server's instructions."""


@dataclass(frozen=True)
class ConnectionInfo:
    """What is known of a connection at one time; displayed, it is the connection's card.

    Attributes:
        name: The connection's name.
        spec: Where the server is.
        state: `"connecting"`, `"open"`, `"reconnecting"`, `"lost"` or `"closed"`.
        problem: Why the session is not open; "" while it is.
        server: The server's own name and version, or None if it gave none.
        protocol_version: The negotiated version, or None where there was no session yet.
        instructions: The server's instructions for models, or None.
        opened_at: When the session was opened (`time.time()`), or None.
        found_open: The `opened_at` of the session that `connect` found open already, or None.
        counts: How many tools, resources, templates and prompts the server lists, by kind; None for a kind that was
            not fetched.
        unlisted: Why a listing could not be fetched, by kind.
        last_seen: When the server last answered (`time.time()`), or None.
        latency: Seconds that the last request took, or None.
        calls: How many requests were sent.
        failures: How many of them failed.
        reconnects: How often the session came back by itself.
    """

    name: str
    spec: Spec
    state: str
    problem: str
    server: Implementation | None
    protocol_version: str | None
    instructions: str | None
    opened_at: float | None
    found_open: float | None
    counts: Mapping[str, int | None]
    unlisted: Mapping[str, str]
    last_seen: float | None
    latency: float | None
    calls: int
    failures: int
    reconnects: int

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return bundle([self.card()], include, exclude)

    def card(self) -> Part:
        """Return the card: what the server is, its state, what it offers, and what to type next."""
        known = self._facts()
        is_open = self.state == "open"
        hints = [("next", f"%mcp {'tools' if is_open else 'reconnect'} {self.name}")]
        if is_open:
            hints.append(("explore", f"%mcp ui {self.name}"))
        instructions = cut((self.instructions or "").strip(), MAX_INSTRUCTIONS)
        plain = [f"{self.name}: {self.state}", *(f"  {name:<10} {value}" for name, value in [*known, *hints])]
        state = Badge(self.state, "safe" if is_open else "danger").html()
        html = [tag("p", joined([tag("b", self.name), " ", state]))]
        html.append(facts([*known, *((name, tag("code", line)) for name, line in hints)]))
        if instructions:
            plain.append(f"\n{instructions}")
            html.append(details("instructions for models", preformatted(instructions)))
        return Part("\n".join(plain), joined(html))

    def row(self, **more: Any) -> dict[str, Any]:
        """Return the connection as a row of a listing: state, transport, protocol version, counts, health.

        Health is the latency of the last request in milliseconds, when the server last answered, how many requests
        failed, and how often the session came back by itself.

        Args:
            **more: Further columns.
        """
        return {
            "server": self.name,
            "state": self.state,
            "transport": self.spec.transport,
            "protocol": self.protocol_version,
            **self.counts,
            "latency": None if self.latency is None else duration(self.latency),
            "seen": ago(self.last_seen),
            "failed": f"{self.failures} of {self.calls}" if self.failures else None,
            "reconnects": self.reconnects or None,
            **more,
        }

    def _facts(self) -> list[tuple[str, str]]:
        known = [(self.spec.transport, one_line(self.spec.where, 200))]
        if self.server is not None:
            known.append(("server", one_line(f"{self.server.title or self.server.name} {self.server.version}", 200)))
        if self.protocol_version:
            known.append(("protocol", self.protocol_version))
        if since := self._since():
            known.append(("since", since))
        if offers := [f"{count} {kind if count != 1 else kind[:-1]}" for kind, count in self.counts.items() if count]:
            known.append(("offers", ", ".join(offers)))
        for kind, problem in self.unlisted.items():
            known.append((kind, one_line(f"could not be listed: {problem}", 400)))
        if self.problem:
            known.append(("why", one_line(self.problem, 400)))
        if self.last_seen is not None:
            known.append(("health", self._health()))
        return known

    def _since(self) -> str:
        """Say that a session was open before `connect` was typed, and that its program has changed since then."""
        if self.state != "open":
            return ""
        parts = []
        if self.opened_at is not None and self.found_open == self.opened_at:
            parts.append(f"open already since {time.strftime('%H:%M:%S', time.localtime(self.opened_at))}")
        if changed := edited(self.name, self.spec, self.opened_at):
            parts.append(changed)
        return "; ".join(parts)

    def _health(self) -> str:
        parts = [
            f"seen {ago(self.last_seen)}",
            f"latency {duration(self.latency) if self.latency is not None else None}",
        ]
        if self.failures:
            parts.append(f"{self.failures} of {self.calls} requests failed")
        if self.reconnects:
            parts.append(f"came back {self.reconnects}x")
        return ", ".join(parts)
