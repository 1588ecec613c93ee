"""The host: the named connections of one kernel."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Self

from mcp_magic.auth.login import LogIns
from mcp_magic.config.names import check_name, unique_name
from mcp_magic.config.specs import HttpSpec, InProcessSpec, SseSpec
from mcp_magic.config.targets import resolve_target
from mcp_magic.core import lookup, transports
from mcp_magic.core.arrivals import Arrivals
from mcp_magic.core.cassette.deck import deck
from mcp_magic.core.connection import Connection
from mcp_magic.core.consent.consent import Consent
from mcp_magic.core.elicitation import Elicitors
from mcp_magic.core.negotiation import KnownProtocols
from mcp_magic.core.progress import Reports
from mcp_magic.core.reconnection import Reconnection
from mcp_magic.core.sampling.sampling import Samplers
from mcp_magic.core.services import Services
from mcp_magic.core.telemetry.metrics import Metrics
from mcp_magic.core.trace.trace import Trace
from mcp_magic.core.watchers import Watchers
from mcp_magic.errors import ConnectError, HTTPStatusError, MCPMagicError, UnknownServerError, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AsyncExitStack

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.arrivals import Arrival
    from mcp_magic.core.transports import Transport
    from mcp_magic.core.wire import Wire
    from mcp_magic.results import PromptResult, ResourceResult, ToolResult

__all__ = ["Host"]

PREFETCH_SECONDS = 5.0
"""Seconds `connect` waits for the first listings, which completion and signatures are made of; a server
that lists more slowly is connected all the same, and the listings arrive when they arrive."""

KEPT = 20
"""Servers that could not be opened whose stderr is kept."""

_SSE_FALLBACK = (400, 404, 405)
"""HTTP statuses after which a URL may be of the old HTTP+SSE transport (specification, "Backwards Compatibility")."""


class Host:
    """Named connections to any number of MCP servers.

    A mapping-like value: `host["weather"]`, `"weather" in host`, `len(host)`, iteration over names.
    All its sessions live on the event loop that opened them. A program writes `async with Host() as host`,
    which closes them at its end.

    Args:
        consent: Who may call what without asking; by default the person is asked about what an agent calls.

    Attributes:
        loop: That loop, or None before the first session.
        consent: Who may call what without asking; `consent.approver` asks.
        elicitation: Who answers what servers ask the person for.
        logins: How the person logs in to servers, and where tokens are kept.
        sampling: Who answers what servers ask models for.
        trace: The messages between it and its servers.
        reports: Who shows the progress and the log messages of calls.
        protocols: What is known of how the sessions of servers begin.
        reconnection: What is done about sessions that are lost.
        metrics: Counters of its calls; `metrics.text()` is for Prometheus.
        failed: What servers wrote to their stderr that could not be opened, by name, secrets masked; the last 20.
    """

    def __init__(self, consent: Consent | None = None) -> None:
        self._connections: dict[str, Connection] = {}
        self._arrivals = Arrivals()
        self._closing: set[asyncio.Task[Any]] = set()
        self._watchers = Watchers(self._look_at_tools)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.consent = consent or Consent()
        self.elicitation = Elicitors()
        self.logins = LogIns()
        self.sampling = Samplers()
        self.protocols = KnownProtocols()
        self.metrics = Metrics(lambda: self.trace.settle())
        self.trace = Trace(moved=self.metrics.moved)
        self.reports = Reports()
        self.reconnection = Reconnection()
        self.failed: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.close()

    # The connections

    def __getitem__(self, name: str) -> Connection:
        if name in self._connections:
            return self._connections[name]
        raise UnknownServerError(lookup.no_server(name, self._connections))

    def __iter__(self) -> Iterator[str]:
        return iter(self._connections)

    def __len__(self) -> int:
        return len(self._connections)

    def __contains__(self, name: object) -> bool:
        return name in self._connections

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._connections)

    def __repr__(self) -> str:
        return f"<Host: {listed(f'{c.name} ({c.state})' for c in self._connections.values())}>"

    @property
    def connections(self) -> Mapping[str, Connection]:
        """The connections by name, in the order in which they were opened."""
        return dict(self._connections)

    def watch(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback` with a server's name whenever it comes, goes, changes its state or what it offers.

        Returns:
            A function that ends this.
        """
        return self._watchers.add(callback)

    # Opening

    async def connect(self, target: Any, *, name: str | None = None, **options: Any) -> Connection:
        """Open a session, or return the one that is open to the same server under the same name.

        Args:
            target: A URL, the path of a server file, a command as a list, the name of a configured
                server, an `MCPServer` or low-level `Server`, or a `Spec`.
            name: What to call it; the default is made from the target. A name given here that is
                taken by another server is taken over.
            **options: `transport`, `headers`, `env`, `cwd`, `timeout`, `trust`, `verify`, `cert`,
                `client_factory`, `auth`, `sampling`, `reconnect`, `protocol`: see `config.targets.resolve_target`.

        Raises:
            TargetError: The target names no server.
            ConnectError: No session could be opened; nothing is left running.
        """
        command = target if isinstance(target, list | tuple) else ()
        spec, default = resolve_target(None if command else target, command=command, **options)
        # A cell that defines a server and connects it is run again: the new object takes the name over.
        given = name or (default if isinstance(spec, InProcessSpec) else None)
        return await self.connect_spec(spec, given or default, replace=given is not None)

    async def connect_spec(self, spec: Spec, name: str, *, replace: bool = True) -> Connection:
        """Open a session to a server described by a spec.

        Args:
            spec: Where it is.
            name: Its name.
            replace: Whether a session of that name to another server is closed; otherwise the new
                one gets a number behind its name.
        """
        check_name(name)
        self.loop = asyncio.get_running_loop()
        while (arrival := self._arrivals.find(spec, name)) is not None:
            if (joined := await arrival.joined()) is not None:
                return joined
        for known in [name, *(n for n in self._connections if lookup.numbered(n, name))]:
            open_ = self._connections.get(known)
            if open_ is not None and open_.spec == spec and open_.state == "reconnecting":
                return await self.reconnect(known)
            if open_ is not None and open_.state == "open" and open_.spec == spec:
                open_.note_found_open()
                return open_
        if not replace:
            name = unique_name(name, [*(connection.name for connection in self.find()), *self._arrivals.names()])
        with self._arrivals.add(spec, name) as arrival:
            connection = await self._open(arrival)
            arrival.wanted()
            old = self._connections.get(name)
            self._add(connection)
            arrival.done(connection)
        if old is not None:
            await old.close()
        await connection.catalog.prefetch(PREFETCH_SECONDS)
        return connection

    async def connect_many(self, specs: Mapping[str, Spec]) -> dict[str, Connection | MCPMagicError]:
        """Open sessions in parallel; one that fails does not keep the others from working.

        Returns:
            By name the connection, or the error that says why there is none.
        """

        async def one(name: str, spec: Spec) -> Connection | MCPMagicError:
            try:
                return await self.connect_spec(spec, name)
            except MCPMagicError as error:
                return error

        opened = await asyncio.gather(*(one(name, spec) for name, spec in specs.items()))
        return dict(zip(specs, opened, strict=True))

    async def disconnect(self, *names: str) -> None:
        """Close sessions and forget their names.

        Raises:
            UnknownServerError: One of the names is not known; then nothing was closed.
        """
        connections = [self[name] for name in names]
        for connection in connections:
            del self._connections[connection.name]
            connection.notices.subscriptions.end()
            self._watchers.tell(connection.name)
        await asyncio.gather(*(connection.close() for connection in connections))

    async def reconnect(self, name: str, *, by_hand: bool = True) -> Connection:
        """Close a session, if it is still open, and open it again, at once: the same `Connection` goes on.

        Args:
            name: Which.
            by_hand: Whether the person wants it so; else it is to go on as if nothing had been.

        Raises:
            ConnectError: It could not be opened.
        """
        connection = self[name]
        self.loop = asyncio.get_running_loop()
        self.consent.definitions.meet(name, connection.spec)  # a command may run in another folder now
        try:
            await connection.reopen(by_hand=by_hand)
        finally:
            self.keep_until_closed(connection)
        await connection.catalog.prefetch(PREFETCH_SECONDS)
        return connection

    async def close(self) -> None:
        """Close all sessions, end all servers that were started, and forget those that could not be opened."""
        connections = [*self._connections.values(), *self._arrivals.refuse()]
        self._connections.clear()
        self.failed.clear()
        for connection in connections:
            connection.notices.subscriptions.end()
            self._watchers.tell(connection.name)
        await asyncio.gather(*(connection.close() for connection in connections), return_exceptions=True)
        if self._closing:
            await asyncio.wait(self._closing, timeout=10.0)

    def _add(self, connection: Connection) -> None:
        self.consent.definitions.meet(connection.name, connection.spec)
        old = self._connections.get(connection.name)
        if old is not None and old is not connection:
            if old.spec == connection.spec:
                connection.notices.subscriptions.take(old.notices.subscriptions)
            old.notices.subscriptions.end()
        self._connections[connection.name] = connection
        connection.watch(lambda: self._watchers.tell(connection.name))
        self._watchers.tell(connection.name)

    # What connections are made with

    def _look_at_tools(self, name: str) -> None:
        connection = self._connections.get(name)
        if connection is not None and connection.catalog.known("tools"):
            self.consent.definitions.look(name, connection.catalog.cached("tools"))

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
        connection = arrival.connection = self.make(name, spec)
        failed: HTTPStatusError | None = None
        try:
            await connection.open()
        except HTTPStatusError as error:
            if not (isinstance(spec, HttpSpec) and spec.fallback and error.status in _SSE_FALLBACK):
                raise
            failed = error
        finally:
            self.keep_until_closed(connection)
        if failed is None:
            return connection
        assert isinstance(spec, HttpSpec)
        arrival.wanted()
        shared = {field.name: getattr(spec, field.name) for field in fields(SseSpec)}
        sse = arrival.connection = self.make(name, SseSpec(**shared))
        try:
            with suppress(MCPMagicError):
                await sse.open()
        finally:
            self.keep_until_closed(sse)
        if sse.state == "open":
            return sse
        raise failed

    @property
    def services(self) -> Services:
        """What each of its connections is lent."""
        return Services(
            consent=self.consent,
            elicitation=self.elicitation,
            sampling=self.sampling,
            logins=self.logins,
            protocols=self.protocols,
            reconnection=self.reconnection,
            reports=self.reports,
            trace=self.trace,
            metrics=self.metrics,
            open_transport=open_transport,
            host=self,
        )

    def make(self, name: str, spec: Spec, *, logins: LogIns | None = None) -> Connection:
        """Return a connection that is not open yet, and that the host does not have yet.

        Args:
            name: Its name. It wants the roots and logs that a connection of this name to the same server has now.
            spec: Where its server is.
            logins: How the person logs in, instead of as the host does it.
        """
        services = self.services
        connection = Connection(name, spec, services if logins is None else replace(services, logins=logins))
        old = self._connections.get(name)
        if old is not None and old.spec == spec:
            connection.roots.keep(old.roots.directories)
            connection.notices.logs.keep(old.notices.logs)
        return connection

    def keep_until_closed(self, connection: Connection) -> None:
        """Remember the owner task of a connection, so that `close` waits for servers that are still ending."""
        owner = connection.owner
        if owner is not None and not owner.done():
            self.keep_until_done(owner)
            owner.add_done_callback(lambda _: self._watchers.tell(connection.name))

    def keep_until_done(self, task: asyncio.Task[Any]) -> None:
        """Remember a task that `close` waits for."""
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # Names

    def find(self, server: str | None = None) -> list[Connection]:
        """Return the connection with a name, or all that are open or are being opened again."""
        if server is not None:
            return [self[server]]
        return [one for one in self._connections.values() if one.state in lookup.OFFERING]

    async def resolve(self, name: str, kind: str = "tools") -> tuple[Connection, Any]:
        """Find a tool (or prompt) by `"server:name"`, or by its name alone while that is unique.

        Returns:
            The connection and the definition.

        Raises:
            UnknownServerError, UnknownToolError, UnknownPromptError: There is none.
            AmbiguousNameError: Several servers have one of that name.
        """
        server, colon, rest = name.partition(":")
        if colon and server in self._connections:
            connection = self._connections[server]
            find = connection.find_tool if kind == "tools" else connection.find_prompt
            return connection, await find(rest)
        if not self._connections:
            raise UnknownServerError(f"no server is connected, so there is no {name!r}; see `%mcp connect --help`")
        asked = {connection.name: connection for connection in self.find()}
        offers = await lookup.offered(asked.values(), kind, name)
        others = lookup.elsewhere(name, kind, self._connections.values())
        found = lookup.pick(name, kind, offers, self._connections, others)
        return asked[found[0]], found[1]

    # Requests by name

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> ToolResult:
        """Call a tool by `"server:tool"`; see `Connection.call`."""
        connection, definition = await self.resolve(tool)
        return await connection.call(definition.name, arguments, **named)

    async def read(
        self,
        uri: str,
        *,
        server: str | None = None,
        timeout: float | None = None,
        max_total_timeout: float | None = None,
    ) -> ResourceResult:
        """Read a resource from the server that lists it, or whose template matches it; see `Connection.read`."""
        owner = lookup.owner_of(uri, self.find(server))
        return await owner.read(uri, timeout=timeout, max_total_timeout=max_total_timeout)

    async def prompt(
        self,
        prompt: str,
        arguments: Mapping[str, str] | None = None,
        /,
        *,
        timeout: float | None = None,
        max_total_timeout: float | None = None,
        **named: str,
    ) -> PromptResult:
        """Get a prompt by `"server:prompt"`; see `Connection.prompt`."""
        connection, definition = await self.resolve(prompt, "prompts")
        given = {**(arguments or {}), **named}
        return await connection.prompt(definition.name, given, timeout=timeout, max_total_timeout=max_total_timeout)


async def open_transport(spec: Spec, wire: Wire, stack: AsyncExitStack) -> Transport:
    """Prepare the way to a server, through the cassette if one is in."""
    if (cassette := deck.cassette) is None:
        return await transports.open_transport(spec, wire, stack)
    from mcp_magic.core.cassette.line import open_through

    return await open_through(cassette, spec, wire, stack)
