"""The host: its connections, its settings, and requests by name."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from dataclasses import fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

from mcp_magic._text import did_you_mean, free_name, join_names
from mcp_magic.apps.calls import CallView
from mcp_magic.ask.callbacks import SessionQuestions
from mcp_magic.ask.elicitation import ElicitationSettings
from mcp_magic.ask.sampling import SamplingSettings
from mcp_magic.ask.secrets import Secrets
from mcp_magic.auth.login import LogIns
from mcp_magic.auth.session import authenticator
from mcp_magic.calls.call import Call, task_is_left
from mcp_magic.calls.caller import Caller, Outputs
from mcp_magic.cassette.cassette import deck
from mcp_magic.config.parsing import check_name
from mcp_magic.config.specs import HttpSpec, InProcessSpec, Spec, SseSpec, StdioSpec
from mcp_magic.config.targets import resolve_target
from mcp_magic.consent.consent import Consent
from mcp_magic.errors import (
    AmbiguousNameError,
    ArgumentsError,
    CassetteError,
    ConnectError,
    HTTPStatusError,
    MCPMagicError,
    SessionClosedError,
    TargetError,
    UnknownPromptError,
    UnknownResourceError,
    UnknownServerError,
    UnknownToolError,
)
from mcp_magic.flight.progress import Reports
from mcp_magic.jobs import Jobs, KeptTask
from mcp_magic.loops import iterate_on, on_own_loop_unless_closed, together
from mcp_magic.results.reasons import note_refusal
from mcp_magic.session import transports
from mcp_magic.session.connection import Connection
from mcp_magic.session.events import Events
from mcp_magic.session.observation import Observation
from mcp_magic.session.reconnect import Reconnection
from mcp_magic.session.services import Services
from mcp_magic.session.supervisor import State
from mcp_magic.skills import Skills
from mcp_magic.telemetry.metrics import Metrics
from mcp_magic.telemetry.spans import MeasuredCall, span_taps
from mcp_magic.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence

    from mcp_magic.calls.call import CallObserver
    from mcp_magic.consent.definitions import Definitions
    from mcp_magic.jobs import Job
    from mcp_magic.map.plan import MapItem
    from mcp_magic.map.run import MapRun
    from mcp_magic.results.results import PromptResult, ResourceResult, ToolResult
    from mcp_magic.sandbox.behaviour import Behaviour
    from mcp_magic.session.transports import Transport
    from mcp_magic.session.wire import Wire


# Names: which server offers a tool or serves a URI.

OFFERING = (State.OPEN, State.RECONNECTING)  # states of the sessions in which names are looked up


def numbered(name: str, base: str) -> bool:
    """Whether `name` is `base` with a number that makes it unique, as in `math_2`."""
    return re.fullmatch(re.escape(base) + r"_\d+", name) is not None


def no_server(name: str, connected: Iterable[str]) -> str:
    """Say that no session has this name, and which names exist.

    >>> no_server("waether", ["weather"])
    "no server 'waether'. Did you mean 'weather'? Connected: weather"
    """
    names = list(connected)
    if not names:
        return f"no server is connected, so there is no {name!r}; `%mcp connect TARGET` opens one"
    return f"no server {name!r}.{did_you_mean(name, names)} Connected: {join_names(names)}"


def pick(
    name: str,
    kind: str,
    offered: Mapping[str, Sequence[Any]],
    servers: Iterable[str],
    elsewhere: str = "",
) -> tuple[str, Any]:
    """Return the name of the server that offers `name`, and the definition.

    `offered` has the listings (`kind`: `"tools"` or `"prompts"`) by server. `elsewhere` says which other sessions may
    have it.
    """
    matches = [(server, item) for server, items in offered.items() for item in items if item.name == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        choices = join_names(f"{server}:{name}" for server, _ in matches)
        raise AmbiguousNameError(f"{len(matches)} servers have {name!r}; say which: {choices}")
    prefix, colon, rest = name.partition(":")
    noun = kind.rstrip("s")
    everything = [f"{server}:{item.name}" for server, items in offered.items() for item in items]
    if colon and not any(prefix == item.partition(":")[0] for item in (i.name for v in offered.values() for i in v)):
        near = did_you_mean(prefix, servers)
        raise UnknownServerError(
            f"no server {prefix!r} for the {noun} {rest!r}.{near} Connected: {join_names(servers)}"
        )
    bare = {item.name: f"{server}:{item.name}" for server, items in offered.items() for item in items}
    near = did_you_mean(name, [*bare, *everything])
    error = UnknownToolError if kind == "tools" else UnknownPromptError
    if name in servers:
        raise error(
            f"{name!r} is a server; its {kind} are {name}:NAME: {join_names(i.name for i in offered.get(name, ()))}"
        )
    if elsewhere:
        raise error(f"no open session has a {noun} {name!r}.{elsewhere}")
    raise error(f"no server has a {noun} {name!r}.{near} `%mcp {kind}` lists them.")


async def offered(connections: Iterable[Connection], kind: str, name: str) -> dict[str, Sequence[Any]]:
    """Return server -> listing, fetched again if none has `name`; servers whose listing fails are left out."""
    sessions = list(connections)
    listings = await asyncio.gather(*(session.listing(kind) for session in sessions), return_exceptions=True)
    by_session = {session: items for session, items in zip(sessions, listings, strict=True) if isinstance(items, tuple)}
    if not any(item.name == name for items in by_session.values() for item in items):
        await together(session.listings.search(kind) for session in by_session)
        by_session = {session: session.catalog.cached(kind) for session in by_session}
    return {session.name: items for session, items in by_session.items()}


def elsewhere(name: str, kind: str, connections: Iterable[Connection]) -> str:
    """Say which sessions may have a missing tool or prompt: lost ones that had it, and ones whose listing failed."""
    closed, silent = "", ""
    for connection in connections:
        if connection.state not in OFFERING:
            has = any(item.name == name for item in connection.catalog.cached(kind))
            if has:
                closed += f" {connection.name} ({connection.state}) has it: `%mcp reconnect {connection.name}`"
        elif problem := connection.catalog.problems.get(kind):
            why = problem.removeprefix(f"{connection.name}: {kind}: ")
            silent += f"\n  {connection.name} may have it, but its {kind} could not be listed: {why}"
        elif name in connection.catalog.unusable.get(kind, {}):
            silent += f"\n  {connection.listings.why_unknown(kind, name)}"
    return closed + silent


def owner_of(uri: str, connections: Sequence[Connection]) -> Connection:
    """Find the server of a resource: it lists the URI, or has a template for it, or is the only one with resources.

    Raises:
        UnknownResourceError: No server has resources.
        AmbiguousNameError: Several servers could have it.
    """
    listing = [c for c in connections if any(str(r.uri) == uri for r in c.catalog.cached("resources"))]
    matching = [
        c for c in connections if any(fits_template(uri, t.uri_template) for t in c.catalog.cached("templates"))
    ]
    able = [c for c in connections if c.capabilities is not None and c.capabilities.resources is not None]
    near = did_you_mean(uri, [str(r.uri) for c in connections for r in c.catalog.cached("resources")])
    for candidates in (listing, matching, able):
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            names = join_names(c.name for c in candidates)
            unlisted = f"no server lists {uri!r}.{near} " if candidates is able else ""
            subject = "It" if unlisted else repr(uri)
            raise AmbiguousNameError(f"{unlisted}{subject} could be on {names}; say which with --server NAME")
    raise UnknownResourceError(f"no connected server has resources, so {uri!r} cannot be read.{near}")


def fits_template(uri: str, template: str) -> bool:
    """Return whether a URI matches an RFC 6570 template.

    For templates that the SDK cannot match (`{name:3}`, `{?name*}`, `{a}{b}`), the part before the variables decides.

    >>> fits_template("math://table/7", "math://table/{n}"), fits_template("math://table/7/8", "math://table/{n}")
    (True, False)
    >>> fits_template("file:///a?b#c.txt", "file:///{+path}.txt"), fits_template("geo://osl", "geo://{city:3}")
    (True, True)
    """
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

    if not uri.startswith(template.partition("{")[0]):
        return False
    try:
        parsed = UriTemplate.parse(template)
    except InvalidUriTemplate:
        return True
    # For the SDK `{+x}` ends at `?` and `#`; RFC 6570 (section 3.2.3) lets it hold both.
    spellings = [uri, uri.replace("?", "%3F").replace("#", "%23")] if "{+" in template else [uri]
    return any(parsed.match(spelling) is not None for spelling in spellings)


# Sessions that are being opened.


class PendingConnection:
    """A session that is being opened."""

    def __init__(self, spec: Spec, name: str) -> None:
        self.spec = spec
        self.name = name
        self.connection: Connection | None = None
        self.is_refused = False
        self.done: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        """Gets the connection, None if the opening was interrupted, or the error why it failed."""

    def check(self) -> None:
        """Raise SessionClosedError if the host was closed meanwhile."""
        if self.is_refused:
            raise SessionClosedError(f"{self.name}: all sessions were closed while this one was being opened.")


logger = logging.getLogger(__name__)


class Connections:
    """The connections of a host, those that are being opened, and those that are still closing.

    Attributes:
        named: Name -> connection, in the order of opening.
        pending: Those that are being opened; they reserve their names.
        failed: Name -> stderr of servers that could not be opened; the last 20.
    """

    def __init__(self, definitions: Definitions) -> None:
        self.named: dict[str, Connection] = {}
        self.pending: list[PendingConnection] = []
        self.failed: dict[str, str] = {}
        self._definitions = definitions
        self._closing: set[asyncio.Task[Any]] = set()
        self._callbacks: dict[object, Callable[[str], None]] = {}

    def add(self, connection: Connection) -> Connection | None:
        """Add a connection; return the one that had its name."""
        name = connection.name
        self._definitions.note_server(name, connection.spec)
        if (old := self.named.get(name)) is not None:
            old.end_streams()
        self.named[name] = connection
        connection.watch(lambda: self.announce(name))
        self.announce(name)
        return old

    def find_pending(self, spec: Spec, name: str) -> PendingConnection | None:
        """Return the pending connection of the same server under the same name, or that name with a number."""
        for pending in self.pending:
            is_same = pending.spec == spec and (pending.name == name or numbered(pending.name, name))
            if is_same and not pending.is_refused:
                return pending
        return None

    @contextmanager
    def opening(self, spec: Spec, name: str) -> Iterator[PendingConnection]:
        """Have a pending connection for the duration of the context; a second request for its server joins it."""
        pending = PendingConnection(spec, name)
        self.pending.append(pending)
        try:
            yield pending
        except MCPMagicError as error:
            pending.done.set_exception(error)
            pending.done.exception()  # retrieved, so that asyncio does not report it
            raise
        finally:
            self.pending.remove(pending)
            if not pending.done.done():
                pending.done.set_result(None)

    def remove(self, connections: Iterable[Connection]) -> None:
        """Remove connections, and end the streams of their events."""
        for connection in connections:
            self.named.pop(connection.name, None)
            connection.end_streams()
            self.announce(connection.name)

    def watch(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback` with the name of each connection that changes; return an idempotent function that ends it."""
        key = object()  # the same callback may be added twice
        self._callbacks[key] = callback

        def stop() -> None:
            self._callbacks.pop(key, None)

        return stop

    def announce(self, name: str) -> None:
        """Compare a connection's tools with those of earlier sessions, and call all callbacks; their errors are logged.

        The tools come first, so that callbacks see what has changed.
        """
        for callback in [self._compare_tools, *self._callbacks.values()]:
            try:
                callback(name)
            except Exception:
                logger.exception("a watcher failed")

    def _compare_tools(self, name: str) -> None:
        connection = self.named.get(name)
        if connection is not None and connection.catalog.has("tools"):
            self._definitions.note_tools(name, connection.catalog.cached("tools"))

    def note_failure(self, name: str, stderr: str) -> None:
        """Keep the stderr of a server that could not be opened."""
        self.failed.pop(name, None)
        self.failed[name] = stderr
        if len(self.failed) > FAILURES:
            del self.failed[next(iter(self.failed))]

    def keep_until_closed(self, connection: Connection) -> None:
        """Remember a connection's owner task, so that the host's `close` waits for servers that are still ending."""
        owner = connection.supervisor.owner
        if owner is not None and not owner.done():
            self.keep_until_done(owner)
            owner.add_done_callback(lambda _: self.announce(connection.name))

    def keep_until_done(self, task: asyncio.Task[Any]) -> None:
        """Remember a task that the host's `close` waits for."""
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    @property
    def closing(self) -> set[asyncio.Task[Any]]:
        """The tasks that the host's `close` waits for."""
        return set(self._closing)


# The host: the named connections of one kernel.

PREFETCH_SECONDS = 5.0
"""Seconds that `connect` waits for the first listings, from which completion and signatures are made. A slower server
is connected all the same, and its listings arrive later."""

FAILURES = 20  # servers that could not be opened whose stderr is kept

_SSE_FALLBACK = (400, 404, 405)
"""HTTP statuses after which to try the old HTTP+SSE transport (specification, "Backwards Compatibility")."""


class Host:
    """Named connections to any number of MCP servers.

    Mapping-like: `host["weather"]`, `"weather" in host`, `len(host)`, iteration over names. Sessions live on one event
    loop; other loops may await the methods, which then run on that one. In a program, `async with Host() as host`
    closes them at the end.

    Args:
        consent: Who may call what without approval; by default the user is asked about the calls of agents.

    Attributes:
        consent: Who may call what without approval; `consent.approver` asks the user.
        elicitation: Answers the servers' elicitations.
        logins: How the user logs in to servers, and where tokens are kept.
        secrets: The secrets that configurations refer to: `await host.secrets.set("db", value)` stores one.
        sampling: Answers the servers' sampling requests.
        registry: Its connections, and those that are being opened or closed.
        trace: The messages between the host and its servers.
        events: What happens in the sessions; `connection.events()` follows those of one.
        reports: How the progress and the log messages of calls are shown.
        protocols: The specs of servers that support only the handshake.
        reconnection: How lost sessions reconnect.
        metrics: Counters of its calls; `metrics.text()` is for Prometheus.
        failed: Name -> stderr of servers that could not be opened, secrets masked; the last 20.
    """

    def __init__(self, consent: Consent | None = None) -> None:
        self._loop: tuple[asyncio.AbstractEventLoop | None, int] = (None, 0)
        self.consent = consent or Consent()
        self.registry = Connections(self.consent.definitions)
        self.elicitation = ElicitationSettings()
        self.logins = LogIns()
        self.secrets = Secrets()
        self.sampling = SamplingSettings()
        self.protocols: list[Spec] = []
        self.trace = Trace()
        self.events = Events()
        self.metrics = Metrics()
        self.reports = Reports()
        self.outputs = Outputs()
        self.reconnection = Reconnection()
        self.failed = self.registry.failed

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the sessions, or None before the first, and in a forked child."""
        loop, process = self._loop
        return loop if process == os.getpid() else None

    @loop.setter
    def loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = (loop, os.getpid())

    @cached_property
    def jobs(self) -> Jobs:
        """The calls that go on in the background: `host.jobs[1]`, iteration, `len(host.jobs)`."""
        return Jobs(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.close()

    # The connections

    def __getitem__(self, name: str) -> Connection:
        if name in self.registry.named:
            return self.registry.named[name]
        raise UnknownServerError(no_server(name, self.registry.named))

    def __iter__(self) -> Iterator[str]:
        return iter(self.registry.named)

    def __len__(self) -> int:
        return len(self.registry.named)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.registry.named)

    def __repr__(self) -> str:
        return f"<Host: {join_names(f'{c.name} ({c.state})' for c in self.registry.named.values())}>"

    @property
    def connections(self) -> Mapping[str, Connection]:
        """Name -> connection, in the order of opening."""
        return dict(self.registry.named)

    def watch(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback` with a server's name whenever it is added or removed, or its state or offer changes.

        Returns a function that removes the callback.
        """
        return self.registry.watch(callback)

    # Opening

    @on_own_loop_unless_closed
    async def connect(self, target: Any, *, name: str | None = None, **options: Any) -> Connection:
        """Open a session, or return an open one to the same server under the same name.

        Args:
            target: A URL, the path of a server file, a command as a list, the name of a configured
                server, an `MCPServer` or low-level `Server`, or a `Spec`.
            name: Its name, which it takes over from another server; by default a free name made from the target.
            **options: `transport`, `headers`, `env`, `cwd`, `sandbox`, `observe`, `timeout`, `trust`, `verify`, `cert`,
                `client_factory`, `auth`, `sampling`, `reconnect`, `protocol`: see `config.targets.resolve_target`.

        Raises:
            TargetError: The target names no server.
            ConnectError: No session could be opened; nothing is left running.
        """
        spec, default = resolve_target(target, **options)
        # When a cell that defines and connects a server runs again, the new object takes over the name.
        own_name = name or (default if isinstance(spec, InProcessSpec) else None)
        return await self.connect_spec(spec, own_name or default, replace=own_name is not None)

    @on_own_loop_unless_closed
    async def connect_spec(self, spec: Spec, name: str, *, replace: bool = True) -> Connection:
        """Open a session to a server described by a spec.

        `replace` closes a session of that name to another server; otherwise the new name gets a number.
        """
        check_name(name)
        self.loop = asyncio.get_running_loop()
        while (pending := self.registry.find_pending(spec, name)) is not None:
            if (joined := await asyncio.shield(pending.done)) is not None:
                return joined
        for candidate in [name, *(n for n in self.registry.named if numbered(n, name))]:
            same = self.registry.named.get(candidate)
            if same is None or same.spec not in (spec, _as_sse(spec)):
                continue
            return await open_again(self, candidate)
        if not replace:
            reserved = [pending.name for pending in self.registry.pending]
            name = free_name(name, [*(connection.name for connection in self.find()), *reserved])
        with self.registry.opening(spec, name) as pending:
            try:
                connection = await _open(self, pending)
            except ConnectError as error:
                self.registry.note_failure(name, error.stderr)
                note_refusal(error)
                raise
            self.failed.pop(name, None)
            pending.check()
            old = self.registry.add(connection)
            pending.done.set_result(connection)
        if old is not None:
            await old.close()
        await connection.catalog.prefetch(PREFETCH_SECONDS)
        return connection

    @on_own_loop_unless_closed
    async def connect_many(self, specs: Mapping[str, Spec]) -> dict[str, Connection | MCPMagicError]:
        """Open sessions in parallel; a failure does not affect the others.

        Returns name -> the connection, or the error why it could not be opened.
        """

        async def open_single(name: str, spec: Spec) -> Connection | MCPMagicError:
            try:
                return await self.connect_spec(spec, name)
            except MCPMagicError as error:
                return error

        opened = await together(open_single(name, spec) for name, spec in specs.items())
        return dict(zip(specs, opened, strict=True))

    @on_own_loop_unless_closed
    async def disconnect(self, *names: str) -> None:
        """Close sessions and forget their names.

        Raises:
            UnknownServerError: A name is unknown; nothing was closed.
        """
        connections = [self[name] for name in names]
        self.registry.remove(connections)
        await asyncio.gather(*(connection.close() for connection in connections))

    @on_own_loop_unless_closed
    async def reconnect(self, name: str, *, by_hand: bool = True) -> Connection:
        """Close a session if it is still open, and open it again at once, in the same `Connection`.

        `by_hand` says whether the user asked for it.

        Raises:
            ConnectError: It could not be opened.
        """
        connection = self[name]
        self.loop = asyncio.get_running_loop()
        self.consent.definitions.note_server(name, connection.spec)  # a command may now run in another folder
        try:
            await connection.reopen(by_hand=by_hand)
        finally:
            self.registry.keep_until_closed(connection)
        await connection.catalog.prefetch(PREFETCH_SECONDS)
        return connection

    @on_own_loop_unless_closed
    async def close(self) -> None:
        """Close all sessions, end all servers that the host started, and clear `failed`. Tasks of servers go on."""
        if "jobs" in vars(self):
            self.jobs.leave()
        connections = [*self.registry.named.values()]
        for pending in self.registry.pending:
            pending.is_refused = True
            if pending.connection is not None:
                connections.append(pending.connection)
        self.registry.named.clear()
        self.failed.clear()
        self.registry.remove(connections)
        await asyncio.gather(*(connection.close() for connection in connections), return_exceptions=True)
        here = asyncio.get_running_loop()
        closing = {task for task in self.registry.closing if task.get_loop() is here}  # not of a forked child's parent
        if closing:
            await asyncio.wait(closing, timeout=10.0)

    @on_own_loop_unless_closed
    async def behaviour(self, server: str) -> Behaviour:
        """Return the files, hosts and programs that a stdio server has used, by call, since it is observed.

        That is from its start on if it was connected with `observe=True`. Else it is opened again observed, as the
        note of the behaviour says. `Behaviour.save` writes a policy, `Behaviour.check` compares with one.

        Raises:
            UnknownServerError: There is no such server.
            TargetError: It has no process here, runs in a sandbox, or this system cannot observe it.
            ConnectError: It could not be opened again.
        """
        connection = self[server]
        spec, place = connection.spec, connection.place
        if not isinstance(spec, StdioSpec) or place.replayed:
            what = "it is replayed from a cassette" if place.replayed else f"its transport is {spec.transport}"
            raise TargetError(f"{server} has no process here that could be observed: {what}.")
        note = ""
        if not spec.observe:
            connection = await self.connect_spec(replace(spec, observe=True), server)
            note = f"{server} was started again, and is observed from now on"
        observation = connection.trace.find(Observation)
        assert observation is not None
        return replace(observation.behaviour(server, spec, connection.trace.masked), note=note)

    @property
    def caller(self) -> Caller:
        """The way of all calls: `await host.caller.call(Call(host["math"], "add", {"a": 1, "b": 2}))`."""

        def observers(call: Call, others: Sequence[CallObserver]) -> list[CallObserver]:
            """Each call is counted, has its view if its tool has one, and its task is kept."""
            additions: list[CallObserver] = [MeasuredCall(self.metrics)]
            has_view = any(isinstance(observer, CallView) for observer in others)
            if call.definition is not None and call.definition.meta and not has_view:
                additions.append(CallView())
            if not task_is_left(others):
                additions.append(KeptTask(lambda: self.jobs))
            return additions

        return Caller(self.consent, self.outputs, observers)

    @property
    def services(self) -> Services:
        """What the host shares with each of its connections."""
        return Services(
            caller=self.caller,
            questions=partial(SessionQuestions, self.elicitation, self.sampling, self.consent),
            max_questions=lambda: self.elicitation.max_questions,
            authenticate=authenticator(self.logins),
            inputs=self.secrets.ask_input,
            skills=Skills,
            protocols=self.protocols,
            reconnection=self.reconnection,
            reports=self.reports,
            trace=self.trace,
            events=self.events,
            taps=span_taps,
            open_transport=open_transport,
            host=self,
        )

    def make(self, name: str, spec: Spec, **services: Any) -> Connection:
        """Return a new connection, neither open nor added to the host. `services` replace the host's."""
        return Connection(name, spec, replace(self.services, **services))

    # Names

    def find(self, server: str | None = None) -> list[Connection]:
        """Return the connection with a name, or all that are open or reconnecting."""
        if server is not None:
            return [self[server]]
        return [connection for connection in self.registry.named.values() if connection.state in OFFERING]

    @on_own_loop_unless_closed
    async def resolve(self, name: str, kind: str = "tools") -> tuple[Connection, Any]:
        """Find a tool or prompt by `"server:name"`, or by its name alone if that is unique.

        Returns the connection and the definition.

        Raises:
            UnknownServerError, UnknownToolError, UnknownPromptError: It does not exist.
            AmbiguousNameError: Several servers have one of that name.
        """
        if not isinstance(name, str):
            raise ArgumentsError(f"expected text such as 'server:name', got {name!r}; `%mcp {kind}` lists them")
        server, colon, rest = name.partition(":")
        if colon and server in self.registry.named:
            connection = self.registry.named[server]
            find = connection.find_tool if kind == "tools" else connection.find_prompt
            return connection, await find(rest)
        if not self.registry.named:
            raise UnknownServerError(f"no server is connected, so there is no {name!r}; see `%mcp connect --help`")
        sessions = {connection.name: connection for connection in self.find()}
        for connection in sessions.values():
            connection.supervisor.check_process()
        offers = await offered(sessions.values(), kind, name)
        others = elsewhere(name, kind, self.registry.named.values())
        match = pick(name, kind, offers, self.registry.named, others)
        return sessions[match[0]], match[1]

    # Requests by name

    @on_own_loop_unless_closed
    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **by_name: Any) -> ToolResult:
        """Call a tool by `"server:tool"`; see `Connection.call`."""
        connection, definition = await self.resolve(tool)
        return await connection.call(definition.name, arguments, **by_name)

    @on_own_loop_unless_closed
    async def start(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **by_name: Any) -> Job:
        """Start a call of `"server:tool"` in the background: `job = await host.start("ci:build", ref="main")`.

        It returns once the server has the call. Where the server makes a task of it, the job outlives the session.

        Raises:
            ArgumentsError: The arguments do not fit the tool's schema; nothing was sent.
            DeniedError: Consent refused the call; nothing was sent.
            SessionError: The session failed.
        """
        connection, definition = await self.resolve(tool)
        return await self.jobs.start(Call(connection, definition.name, {**(arguments or {}), **by_name}))

    @on_own_loop_unless_closed
    async def map(
        self,
        tool: str,
        rows: Any,
        arguments: Mapping[str, Any] | None = None,
        /,
        **by_name: Any,
    ) -> MapRun:
        """Call a tool for each row of a table: `run = await host.map("weather:forecast", df, location=col("city"))`.

        Args:
            tool: `"server:tool"`.
            rows: A DataFrame (pandas or Polars), an iterable of dicts, or a CSV, JSON Lines or Parquet file.
            arguments: Arguments by name: a value for all rows, `col(NAME)`, or a function of the row. Without any, the
                columns that are named like parameters are passed.
            **by_name: Options, and further arguments. `limit` takes only the first rows, `on` is a `distributed.Client`
                whose workers make the calls, and the others are those of `MapOptions`: `concurrency`, `rate`,
                `sessions`, `timeout`, `journal`, `repeat_unknown`, `skip_invalid`, `keep`, `explode`. For an argument
                with such a name use `arguments`.

        Raises:
            ArgumentsError: Rows do not fit the schema; nothing was sent.
            ConfigError: The journal cannot be used; nothing was sent.
            DeniedError: All calls were denied; nothing was sent.
        """
        return await (await _plan_map(self, tool, rows, arguments, by_name)).run()

    async def map_iter(
        self, tool: str, rows: Any, arguments: Mapping[str, Any] | None = None, /, **by_name: Any
    ) -> AsyncIterator[MapItem]:
        """Call a tool for each row of a table, and yield each row with its outcome: `item.row`, `item.result`.

        Takes the arguments of `map`. The calls stay at most `concurrency` rows ahead of the loop, and leaving the loop
        cancels the rest.
        """
        run = await _plan_map(self, tool, rows, arguments, by_name)
        async with aclosing(iterate_on(self.loop, run.stream())) as items:
            async for item in items:
                yield item

    @on_own_loop_unless_closed
    async def read(
        self,
        uri: str,
        *,
        server: str | None = None,
        timeout: float | None = None,
        max_total_timeout: float | None = None,
        refresh: bool = False,
    ) -> ResourceResult:
        """Read a resource from the server that lists it, or whose template matches it; see `Connection.read`."""
        owner = owner_of(str(uri), self.find(server))
        return await owner.read(uri, timeout=timeout, max_total_timeout=max_total_timeout, refresh=refresh)

    @on_own_loop_unless_closed
    async def prompt(
        self,
        prompt: str,
        arguments: Mapping[str, str] | None = None,
        /,
        *,
        timeout: float | None = None,
        max_total_timeout: float | None = None,
        **by_name: str,
    ) -> PromptResult:
        """Get a prompt by `"server:prompt"`; see `Connection.prompt`."""
        connection, definition = await self.resolve(prompt, "prompts")
        values = {**(arguments or {}), **by_name}
        return await connection.prompt(definition.name, values, timeout=timeout, max_total_timeout=max_total_timeout)


async def _plan_map(
    host: Host, tool: str, rows: Any, arguments: Mapping[str, Any] | None, by_name: dict[str, Any]
) -> MapRun:
    from mcp_magic.map.cluster import Cluster
    from mcp_magic.map.plan import OPTIONS, Step
    from mcp_magic.map.rows import per_row
    from mcp_magic.map.run import map_steps

    options = {name: by_name.pop(name) for name in ("limit", *OPTIONS) if name in by_name}
    if options.get("on") is not None:
        options["on"] = Cluster(options["on"])
    connection, definition = await host.resolve(tool)
    step = Step("", connection, definition, per_row({**(arguments or {}), **by_name}))
    return map_steps([step], rows, host.services, **options)


async def open_again(host: Host, name: str) -> Connection:
    """Return a connection that the user connects once more: it is reconnected unless it is open, and says so."""
    connection = host[name]
    if connection.state is not State.OPEN:
        return await host.reconnect(name)
    connection.note_found_open()
    return connection


async def _open(host: Host, pending: PendingConnection) -> Connection:
    """Open a pending connection, by HTTP+SSE if the server does not know the newer transport."""
    spec, name = pending.spec, pending.name
    connection = pending.connection = host.make(name, spec)
    try:
        await connection.open()
    except HTTPStatusError as error:
        sse_spec = _as_sse(spec)
        if sse_spec is None or error.status not in _SSE_FALLBACK:
            raise
        pending.check()
        sse = pending.connection = host.make(name, sse_spec)
        try:
            with suppress(MCPMagicError):
                await sse.supervisor.open(connection.supervisor.secrets_by_reference)
        finally:
            host.registry.keep_until_closed(sse)
        if sse.state is not State.OPEN:
            raise
        return sse
    finally:
        host.registry.keep_until_closed(connection)
    return connection


def _as_sse(spec: Spec) -> SseSpec | None:
    """Return the spec of the same server over HTTP+SSE, or None if that is not to be tried."""
    if not isinstance(spec, HttpSpec) or not spec.fallback:
        return None
    return SseSpec(**{field.name: getattr(spec, field.name) for field in fields(SseSpec)})


async def open_transport(spec: Spec, wire: Wire, stack: AsyncExitStack) -> Transport:
    """Prepare the transport to a server, through the inserted cassette if there is one."""
    if (cassette := deck.cassette) is None:
        return await transports.open_transport(spec, wire, stack)
    from mcp_magic.cassette.replay import open_through

    return await open_through(cassette, spec, wire, stack)


# Open sessions when a cassette is inserted or ejected.


async def begin_again(host: Host) -> tuple[list[str], dict[str, MCPMagicError]]:
    """Reopen the sessions of a host, so that a cassette has them from their beginning.

    Returns the names of the reopened sessions, and name -> error of the others. A session that is missing in a
    replay-only cassette is disconnected.
    """

    async def reopen(connection: Connection) -> MCPMagicError | None:
        try:
            await host.reconnect(connection.name)
        except CassetteError as error:
            await host.disconnect(connection.name)
            return error
        except MCPMagicError as error:
            return error
        return None

    connections = host.find()
    outcomes = await together(reopen(connection) for connection in connections)
    errors = {c.name: error for c, error in zip(connections, outcomes, strict=True) if error is not None}
    return [c.name for c in connections if c.name not in errors], errors


async def leave_replayed(host: Host) -> list[str]:
    """Disconnect the replayed sessions, which have no server, and return their names."""
    names = [connection.name for connection in host.connections.values() if connection.place.replayed]
    await host.disconnect(*names)
    return names
