"""What a host makes connections with, and how one is opened."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from mcp_magic.auth.login import LogIns
from mcp_magic.config.specs import HttpSpec, SseSpec
from mcp_magic.core.arrivals import Arrival, Arrivals
from mcp_magic.core.connection import Connection
from mcp_magic.core.consent.consent import Consent
from mcp_magic.core.elicitation import Elicitors
from mcp_magic.core.negotiation import KnownProtocols
from mcp_magic.core.progress import Reports
from mcp_magic.core.reconnection import Reconnection
from mcp_magic.core.sampling.sampling import Samplers
from mcp_magic.core.shortcuts import Shortcuts
from mcp_magic.core.telemetry.metrics import Metrics
from mcp_magic.core.trace.trace import Trace
from mcp_magic.core.watchers import Watchers
from mcp_magic.errors import ConnectError, HTTPStatusError, MCPMagicError

if TYPE_CHECKING:
    import asyncio

    from mcp_magic.config.specs import Spec

__all__ = ["Opening"]

KEPT = 20
"""Servers that could not be opened whose stderr is kept."""

_SSE_FALLBACK = (400, 404, 405)
"""HTTP statuses after which a URL may be of the old HTTP+SSE transport (specification, "Backwards Compatibility")."""


class Opening(Shortcuts):
    """The part of a `Host` that opens sessions."""

    def __init__(self) -> None:
        self._connections: dict[str, Connection] = {}
        self._arrivals = Arrivals()
        self._closing: set[asyncio.Task[Any]] = set()
        self._watchers = Watchers(lambda name: self.consent.definitions.look(self._connections.get(name)))
        self.loop: asyncio.AbstractEventLoop | None = None
        self.consent = Consent()
        self.elicitation = Elicitors()
        self.logins = LogIns()
        self.sampling = Samplers()
        self.protocols = KnownProtocols()
        self.trace = Trace()
        self.metrics = Metrics()
        self.metrics.settle = self.trace.settle
        self.reports = Reports()
        self.reconnection = Reconnection()
        self.failed: dict[str, str] = {}

    def note_failed(self, name: str, stderr: str) -> None:
        """Keep what a server wrote to its stderr that could not be opened."""
        self.failed.pop(name, None)
        self.failed[name] = stderr
        if len(self.failed) > KEPT:
            del self.failed[next(iter(self.failed))]

    async def _open(self, arrival: Arrival) -> Connection:
        try:
            connection = await self._opened(arrival)
        except ConnectError as error:
            self.note_failed(arrival.name, error.stderr)
            raise
        self.failed.pop(arrival.name, None)
        return connection

    async def _opened(self, arrival: Arrival) -> Connection:
        spec, name = arrival.spec, arrival.name
        connection = arrival.connection = self._made(name, spec)
        failed: HTTPStatusError | None = None
        try:
            await connection.open()
        except HTTPStatusError as error:
            if not (isinstance(spec, HttpSpec) and spec.fallback and error.status in _SSE_FALLBACK):
                raise
            failed = error
        finally:
            self._keep_until_closed(connection)
        if failed is None:
            return connection
        assert isinstance(spec, HttpSpec)
        arrival.wanted()
        shared = {field.name: getattr(spec, field.name) for field in fields(SseSpec)}
        sse = arrival.connection = self._made(name, SseSpec(**shared))
        try:
            await sse.open()
        except MCPMagicError:
            sse.spec = spec
        finally:
            self._keep_until_closed(sse)
        if sse.state == "open":
            return sse
        raise failed

    def _made(self, name: str, spec: Spec) -> Connection:
        connection = Connection(name, spec, self.consent, self.elicitation, self.sampling, self.protocols)
        connection.trace.trace, connection.trace.metrics = self.trace, self.metrics
        connection.reports, connection.logins = self.reports, self.logins
        connection.reconnection = self.reconnection
        old = self._connections.get(name)
        if old is not None and old.spec == spec:
            connection.roots.keep(old.roots.directories)
            connection.notices.logs.keep(old.notices.logs)
        return connection

    def _keep_until_closed(self, connection: Connection) -> None:
        """Remember the owner task of a connection, so that `close` waits for servers that are still ending."""
        owner = connection._owner
        if owner is not None and not owner.done():
            self._closing.add(owner)
            owner.add_done_callback(self._closing.discard)
            owner.add_done_callback(lambda _: self._watchers.tell(connection.name))
