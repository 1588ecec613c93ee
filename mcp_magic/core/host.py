"""The host: the named connections of one kernel."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from mcp_magic.config.names import check_name, unique_name
from mcp_magic.config.specs import InProcessSpec
from mcp_magic.config.targets import resolve_target
from mcp_magic.core import lookup
from mcp_magic.core.opening import Opening
from mcp_magic.errors import MCPMagicError, UnknownServerError, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.connection import Connection

__all__ = ["Host"]

PREFETCH_SECONDS = 5.0
"""Seconds `connect` waits for the first listings, which completion and signatures are made of; a server
that lists more slowly is connected all the same, and the listings arrive when they arrive."""


class Host(Opening):
    """Named connections to any number of MCP servers.

    A mapping-like value: `host["weather"]`, `"weather" in host`, `len(host)`, iteration over names.
    All its sessions live on the event loop that opened them. A program writes `async with Host() as host`,
    which closes them at its end.

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
                open_.found_open = open_.opened_at
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
            self._keep_until_closed(connection)
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
        connection.host = self
        self.consent.definitions.meet(connection.name, connection.spec)
        old = self._connections.get(connection.name)
        if old is not None and old is not connection:
            if old.spec == connection.spec:
                connection.notices.subscriptions.take(old.notices.subscriptions)
            old.notices.subscriptions.end()
        self._connections[connection.name] = connection
        connection.catalog.on_loaded = lambda kind: self._watchers.tell(connection.name)
        connection.on_state = lambda: self._watchers.tell(connection.name)
        self._watchers.tell(connection.name)

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
        offered = await lookup.offered(asked.values(), kind, name)
        elsewhere = lookup.elsewhere(name, kind, self._connections.values())
        found = lookup.pick(name, kind, offered, self._connections, elsewhere)
        return asked[found[0]], found[1]
