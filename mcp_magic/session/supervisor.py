"""The supervisor of a connection: opens, reconnects and closes its session.

A task that enters `mcp.Client` must also leave it, and each cell is a task of its own. So each connection has one owner
task, which opens, holds and leaves its sessions. A lost session is opened again there, below the `Connection`, which so
stays valid with its settings.

A streamable-HTTP session is not tied to a connection. While its server is away it is kept, because its stream of
notifications can be resumed, and pings ask whether the server is back; a forgotten one is renewed. Since 2026-07-28
nothing tells whether it is still the same server, so there the session is always renewed. Sessions of other transports
end with their stream.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from contextvars import copy_context
from enum import IntEnum, StrEnum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

from mcp_magic.config.specs import HttpSpec, StdioSpec
from mcp_magic.errors import CallCancelledError, ConnectError, SessionClosedError
from mcp_magic.flight.attempt import current_attempt
from mcp_magic.flight.progress import shown_reports
from mcp_magic.flight.request import InFlightRequest, Look
from mcp_magic.protocol import is_closed, without_context
from mcp_magic.schema.validate import check_arguments
from mcp_magic.session.catalog import KINDS, Catalog
from mcp_magic.session.failures import away, closed_error, connect_error, gave_up, why_unanswered
from mcp_magic.session.negotiation import Negotiation, unless_listening
from mcp_magic.session.reconnect import Answer, Pacing, is_hopeless, look
from mcp_magic.session.wire import Event, Place, Wire, text_of
from mcp_magic.stderr import terminate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from mcp import Client
    from mcp_types import Implementation, ServerCapabilities

    from mcp_magic.flight.retry import Backoff
    from mcp_magic.session.notifications import Notices
    from mcp_magic.session.services import Services
    from mcp_magic.session.transports import Transport
    from mcp_magic.trace.trace import Recorder


# Preparations while a server connects, which would make the first call slow.

_ANY: dict[str, Any] = {"type": "object"}


def build_models(protocol: str) -> None:
    """Build the pydantic models of a call in a protocol version, and import the checks of its arguments.

    The SDK builds models lazily, on first use.
    """
    from mcp_types import CallToolResult
    from mcp_types.methods import validate_server_result

    check_arguments({}, _ANY)
    CallToolResult.model_validate({"content": []}, by_name=False)
    with suppress(ValueError, KeyError):  # a version that requires more in a result, or is unknown to this SDK
        validate_server_result("tools/call", protocol, {"content": []})


_NOISE = {"mcp.client": logging.CRITICAL, "client": logging.CRITICAL, "httpx2": logging.WARNING}
"""Logger -> its level in a notebook. The client's records repeat the errors of this package, and httpx2 logs every
request."""


def quiet_sdk_logging() -> None:
    """Keep the SDK's log records out of the notebook, unless the user has set a level for them.

    Without a handler Python prints them to stderr, below the running cell. With one they are printed as well: an
    `MCPServer` made in a cell configures the root logger.
    """
    for name, level in _NOISE.items():
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(level)


# The owner task and the supervisor.
#
# The task that enters `mcp.Client` must also leave it, but each cell of a notebook is its own task. So one task owns a
# session: it enters the client, hands it out, waits, and leaves it. Meanwhile any task of the same event loop uses it.
#
# A session over streamable HTTP does not depend on one network connection: while its server is away the session is
# kept, and the server is pinged until it is back. Other sessions end with their stream, and a new one is opened.

DEATH_SECONDS = 0.5
"""Seconds to wait after a failed request for the end of the server's process, whose last output tells the cause."""

DRAIN_SECONDS = 5.0
"""Seconds that pending requests of a forgotten session have to be answered before it is left: a 404 tells each of them
that it never reached a tool and may be retried."""

MAX_FORGOTTEN = 4  # sessions in a row that a server may forget before it answers anything

MAX_WAITS = 100  # how often an orderly close waits, at most

CLOSE_SECONDS = 10.0
"""Seconds that an orderly close may take; the SDK's own steps (end of input, SIGTERM, SIGKILL) need about six."""


class State(StrEnum):
    """The state of a connection."""

    CONNECTING = "connecting"
    OPEN = "open"
    RECONNECTING = "reconnecting"
    LOST = "lost"
    """The server ended it, or could not be reached."""
    CLOSED = "closed"

    def __repr__(self) -> str:
        return repr(self.value)  # as what it is compared with, in tables and outputs too


class _Then(IntEnum):
    """What the owner task does next. A later one replaces an earlier one, never the other way round."""

    STAY = auto()
    REOPEN = auto()
    """The stream has ended: open another transport, if the rules for reconnecting cover the server."""
    RENEW = auto()
    """The server has forgotten the session: open the next one over the same transport."""
    GIVE_UP = auto()
    REPLACE = auto()
    """Close; the user opens it again at once, and calls that wait for a session keep waiting."""
    CLOSE = auto()


class Known(NamedTuple):
    """What a session's server told about itself; the SDK's client knows it only while it is open."""

    client: Client
    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation | None
    instructions: str | None


def _unwind(task: asyncio.Task[None]) -> None:
    """Leave the contexts of a task whose loop is closed. What they would wait for does not come."""
    coroutine = task.get_coro()
    for _ in range(MAX_WAITS):
        try:
            coroutine.close()
        except Exception:
            continue
        return


_all: WeakSet[Supervisor] = WeakSet()  # to be marked in a forked child


def _forked() -> None:
    for supervisor in _all:
        supervisor.leave_process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Supervisor:
    """Owns the session of one connection; only it changes the state.

    `client` is the SDK's while the session is open, and `known` what the server told about itself in the last one.
    """

    def __init__(
        self,
        place: Place,
        services: Services,
        recorder: Recorder,
        notices: Notices,
        catalog: Catalog,
        drained: Callable[[float], Awaitable[None]],
        held: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self.spec = place.spec
        self.loop: asyncio.AbstractEventLoop | None = None
        self.opened_at: float | None = None
        self.connect_seconds = 0.0
        self.reconnection = services.reconnection
        self._pacing = Pacing(services.reconnection.first, services.reconnection.longest)
        self.reconnects = self.opened_by_hand = 0
        self.state = State.CLOSED
        self.client: Client | None = None
        self.known: Known | None = None
        self.backoff: Backoff | None = None
        self.owner: asyncio.Task[None] | None = None
        self.is_of_other_process = False  # whether this process is a forked child of the one that opened the session
        _all.add(self)
        self._place = place
        self._services = services
        self._recorder = recorder
        self._notices = notices
        self._catalog = catalog
        self._drained = drained
        self._held = held
        self._changed = changed
        self._leave, self._left = asyncio.Event(), asyncio.Event()
        self._ready: asyncio.Future[None] | None = None
        self._reopening = asyncio.Lock()
        self._entering = False  # it opens a transport or a session: the server may never answer
        self._then = _Then.STAY
        self._negotiation: Negotiation | None = None
        self._closes = 0
        self._sessions = 0
        self._vain = 0  # sessions in a row that were forgotten before anything was answered
        self._forgotten = False  # whether the server has forgotten the session without having been away
        self._up_since = self._up_for = 0.0
        self._lost: SessionClosedError | None = None
        self._why: BaseException | None = None
        self._tried: BaseException | None = None

    def leave_process(self) -> None:
        """Note that this process is a forked child, in which the loop of the session does not run."""
        self.is_of_other_process = self.owner is not None
        self._catalog.loop = None

    @property
    def problem(self) -> str:
        """Why the session is not open, and when the next attempt is; "" while it is open."""
        if self.client is not None or self._lost is None:
            return ""
        first = str(self._lost).partition("\n")[0]
        return f"{first} ({away(self.backoff)})" if self.backoff is not None and self.comes_back else first

    def check_process(self) -> None:
        """Raise SessionClosedError in a forked child: both would write to the same server."""
        if self.is_of_other_process:
            error = SessionClosedError(
                f"{self._place.name}: this session belongs to another process, of which this one is a forked child. "
                "Connect in the child: `async with mcp_magic.Host() as host: await host.connect(...)`, "
                'or start it with `multiprocessing.get_context("spawn")`.'
            )
            error.sent = False
            raise error

    @property
    def comes_back(self) -> bool:
        """Whether a closed session is being reopened or will reconnect."""
        return self._reopening.locked() or self._goes_on

    @property
    def _goes_on(self) -> bool:
        """Whether the owner task reconnects the session."""
        if self.owner is None or self.owner.done() or self._then >= _Then.GIVE_UP:
            return False
        return self._then is _Then.RENEW or self.reconnection.covers(self.spec)

    @property
    def is_closing(self) -> bool:
        """Whether the session is being closed on purpose."""
        return self._then >= _Then.REPLACE

    @property
    def _lasted(self) -> bool:
        """Whether the session was open long enough to reconnect without a pause."""
        return self._up_for >= self.reconnection.lasting

    @property
    def is_stranded(self) -> bool:
        """Whether its loop was closed while the session was open: nothing runs there any more, not even its end."""
        return self.loop is not None and self.loop.is_closed() and self.owner is not None and not self.owner.done()

    def _abandon_stranded(self) -> None:
        """End what a closed loop has left behind, so that a session can begin on this one."""
        owner, wire = self.owner, self._place.wire
        if owner is None or not self.is_stranded:
            return
        self.owner = None
        if wire is not None:
            wire.abandoned()
            if isinstance(self.spec, StdioSpec) and wire.errlog is not None and not wire.replayed:
                terminate(wire.errlog.file)
        self._catalog.abandon()
        _unwind(owner)  # now: when Python deletes the task, this would end the next session
        self._then, self._ready, self._reopening = _Then.STAY, None, asyncio.Lock()
        self._leave, self._left = asyncio.Event(), asyncio.Event()
        self.client = self.known = self.backoff = None
        self._lost = SessionClosedError(f"{self._place.name}: the session has ended with its event loop.")
        self._become(State.LOST)

    # State changes

    def _become(self, state: State) -> None:
        self.state = state
        self._changed()

    def _leave_for(self, then: _Then) -> None:
        """Let the owner task leave the session."""
        self._then = max(self._then, then)
        self._leave.set()

    def _begin(self) -> None:
        assert self.loop is not None
        if self._ready is None or self._ready.done():
            self._ready = self.loop.create_future()
        self._then = _Then.STAY
        self._lost = self.backoff = self._why = self._tried = None
        self._sessions = self._vain = 0
        self.state = State.CONNECTING

    def _pause(self) -> None:
        """Note that there is no session now; requests wait for the next."""
        if self.client is not None:
            self.client = None
            self._up_for = time.monotonic() - self._up_since
            if self._lasted:
                self.backoff = None
        if self._ready is None or self._ready.done():
            self._ready = asyncio.get_running_loop().create_future()
            # Retrieved, so that asyncio does not report an error without a waiting request.
            self._ready.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self.is_closing or not self._sessions:
            self._changed()
        else:
            self._become(State.RECONNECTING if self._goes_on else State.LOST)

    def _away(self, failure: BaseException | None) -> None:
        """Note that the session is lost, or that an attempt to reconnect has failed."""
        if self.backoff is None:
            self.backoff = self.reconnection.backoff()
        self._lost = closed_error(self._place, self._why or failure)
        self._pause()

    def _resume(self, client: Client, *, afresh: bool) -> None:
        """Note that there is a session; `afresh` if the server may offer something else than before."""
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)
        self.client = client
        self.known = Known(
            client, client.protocol_version, client.server_capabilities, client.server_info, client.instructions
        )
        self._lost = self._why = self._tried = None
        self._up_since = time.monotonic()
        if afresh:
            self.reconnects += 1
            for kind in KINDS:
                self._catalog.changed(kind)
        self._become(State.OPEN)

    def _finish(self, failure: BaseException | None) -> None:
        """Note that there will be no further session."""
        if not self.is_closing:
            self._lost = closed_error(self._place, self._why or failure)
            if self._then is _Then.GIVE_UP and self.backoff is not None and self.reconnection.covers(self.spec):
                self._lost = gave_up(self._lost, self.backoff, self.last_attempt())
        if self._then is not _Then.REPLACE:
            never = not self._sessions and not self.is_closing
            self._refuse(connect_error(failure or EOFError("closed"), self._place) if never else self.gone())
        self._become(State.LOST if self._lost is not None else State.CLOSED)

    def _refuse(self, failed: Exception) -> None:
        """Fail the requests that wait for a session."""
        failed.__context__ = failed.__cause__ = None
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(failed)
            self._ready.exception()  # retrieved, so that asyncio does not report it

    def _owner_ended(self, owner: asyncio.Task[None]) -> None:
        """Fail what still waits for a session, in case the owner task ended by an error that it does not handle."""
        if owner is not self.owner or owner.cancelled() or (error := owner.exception()) is None:
            return
        text = f"{self._place.name}: {self.spec.where} failed: {type(error).__name__}: {text_of(error, self._place)}"
        self._lost = SessionClosedError(text)
        self._refuse(self._lost if self._sessions else ConnectError(text))
        self._become(State.LOST)

    def report(self, event: Event, session: Client | None = None, why: BaseException | None = None, /) -> None:
        """Note what a transport or a request has learned about a session, by default the present one."""
        if event is Event.LOGGED_IN:
            self._catalog.outdate()
            self._notices.reads.forget()
        elif event is Event.FORGOTTEN:
            if self.known is not None and self.known.client is session and self._then in (_Then.STAY, _Then.REOPEN):
                self._forgotten = True
                self._leave_for(_Then.RENEW)
                self._pause()
        elif event is Event.UNINITIALIZED:
            negotiation = self._negotiation
            if self.client is session and negotiation is not None and negotiation.fall_back():
                self._notices.remarks.add(
                    "it answers server/discover with 2026-07-28, and then wants `initialize`; "
                    "the session began again with the handshake"
                )
                self._leave_for(_Then.RENEW)
                self._pause()
        elif event is Event.ENDED:
            if not self.is_closing:
                self._lost = closed_error(self._place)
            self._leave_for(_Then.REOPEN)
            self._pause()
        elif self.client is not None and not self._leave.is_set():
            self._why = why
            self._lost = closed_error(self._place, why)
            # Over HTTP the session may outlive the connection: the owner task asks the server.
            self._leave_for(_Then.STAY if isinstance(self.spec, HttpSpec) else _Then.REOPEN)
            self._pause()

    def stream_cut(self, why: BaseException) -> None:
        """Note that a notification stream was cut. Over HTTP that is the first sign that a server is gone."""
        if isinstance(self.spec, HttpSpec):
            self.report(Event.DOUBTED, None, why)

    async def back(self) -> None:
        """Return when the session is open again. Raises MCPMagicError if the session is given up."""
        while self.client is None and self.comes_back and self._ready is not None:
            await asyncio.shield(self._ready)

    def gone(self) -> SessionClosedError:
        """Return the error for a request without a session; it was not sent."""
        if self._lost is not None:
            gone = type(self._lost)(*self._lost.args, stderr=self._lost.stderr)
        elif self.is_closing:
            name = self._place.name
            again = f"`%mcp reconnect {name}` opens it again" if self._held() else "`%mcp connect` opens one"
            gone = SessionClosedError(f"{name}: the session was closed; {again}.")
        else:
            gone = closed_error(self._place)
        gone.sent = False
        return gone

    def last_attempt(self) -> str:
        """Say why the last attempt to reconnect failed; "" if there was none."""
        if self._tried is None:
            return ""
        return str(connect_error(self._tried, self._place))

    async def after_failure(self, client: Client, failure: BaseException) -> None:
        """Note that a request has failed; if the server has ended, wait a moment until it is known how."""
        if self.client is client and is_closed(failure):
            self.report(Event.DOUBTED, client, failure)
        await self.last_words()

    async def last_words(self) -> None:
        """Give the owner task a moment to notice how the server has ended, so that state and last output are known."""
        owner = self.owner
        if owner is None or owner.done() or self._left.is_set() or not self._leave.is_set():
            return
        if isinstance(self.spec, HttpSpec) and self.comes_back:
            return
        left = asyncio.ensure_future(self._left.wait())
        await asyncio.wait({owner, left}, timeout=DEATH_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        left.cancel()

    # The owner task

    async def open(self) -> None:
        """Do what `Connection.open` says."""
        self.check_process()
        self._abandon_stranded()
        quiet_sdk_logging()
        loop = asyncio.get_running_loop()
        if self.loop not in (None, loop):  # the next `asyncio.run` of a program: events belong to the loop before
            self._leave, self._left = asyncio.Event(), asyncio.Event()
        self.loop = self._catalog.loop = loop
        self._begin()
        assert self._ready is not None
        started = time.perf_counter()
        name, reports = self._place.name, self._services.reports
        does = "starting" if isinstance(self.spec, StdioSpec) else "connecting to"
        request = InFlightRequest(f"{does} {self.spec.where}", name, reports, look=Look(detail=self._place.last_line))
        context = copy_context()
        context.run(shown_reports.set, (request.report,))  # a log-in stops its clock
        self.owner = loop.create_task(self._own(), name=f"mcp_magic connection {name}", context=context)
        self.owner.add_done_callback(self._owner_ended)
        try:
            with request:
                await asyncio.shield(self._ready)
        except (asyncio.CancelledError, CallCancelledError) as error:
            self._then = _Then.CLOSE
            self._become(State.CLOSED)
            self.owner.cancel()  # it ends its server by itself; the interrupted caller does not wait for that
            if isinstance(error, CallCancelledError):
                with without_context:
                    raise CallCancelledError(f"{name}: not connected: cancelled.") from None
            raise
        self.connect_seconds = time.perf_counter() - started

    async def close(self) -> None:
        """Do what `Connection.close` says."""
        if self.is_of_other_process:  # the server stays: it serves the parent
            return
        self._closes += 1
        self._abandon_stranded()
        await self._close(_Then.CLOSE)

    async def _close(self, then: _Then) -> None:
        self._leave_for(then)
        self._lost = None
        self._become(State.CLOSED)
        if (owner := self.owner) is None or owner.done():
            return
        if self._entering:  # the server may never answer: do not wait for it
            owner.cancel()
        await asyncio.wait({owner}, timeout=CLOSE_SECONDS)
        if not owner.done():
            owner.cancel()
            await asyncio.wait({owner}, timeout=CLOSE_SECONDS)

    async def reopen(self, *, by_hand: bool = True) -> None:
        """Do what `Connection.reopen` says."""
        self.check_process()
        self._abandon_stranded()
        closes = self._closes
        async with self._reopening:
            if self._closes == closes:
                try:
                    await self._close(_Then.REPLACE)
                finally:
                    self._leave_for(_Then.CLOSE)  # if the session cannot be replaced, it stays closed
            if self._closes != closes:
                gone = self.gone()
                self._refuse(gone)
                raise gone
            self.opened_by_hand += by_hand
            await self.open()
            for kind in KINDS:
                self._catalog.changed(kind)

    async def _own(self) -> None:
        """Run the owner task, which leaves all contexts that it enters."""
        failure: BaseException | None = None
        try:
            while True:
                before = self._sessions
                failure = await self._hold()
                opened = self._sessions > before
                if not self._sessions or not self._goes_on or (not opened and is_hopeless(self._tried)):
                    break
                self._away(failure)
                self._leave.clear()
                if not (opened and self._lasted) and not await self._rest():
                    break
        finally:
            self.known = None
            await self._catalog.close()
            self._recorder.trace.settle()
            self._finish(failure)

    async def _hold(self) -> BaseException | None:
        """Open the transport and hold sessions over it until the last ends; return the error, if any."""
        self._entering = True
        failure: BaseException | None = None
        try:
            async with AsyncExitStack() as stack:
                wire = Wire(
                    self._recorder,
                    self._services.logins,
                    self.report,
                    self.back,
                    self._notices.warn,
                    self._notices.remarks.add,
                )
                transport = await self._services.open_transport(self.spec, wire, stack)
                self._place.wire = wire
                await self._hold_sessions(wire, transport)
        except Exception as error:
            failure = error
            if self._entering:  # requests of an open session say it themselves
                self._recorder.give_up(None, why_unanswered(error, is_closing=self.is_closing))
        finally:
            self._pause()
            self._left.set()
        if failure is not None and self._entering and self._sessions:
            self._tried = connect_error(failure, self._place)
            self._tried.__context__ = self._tried.__cause__ = None
        self._entering = False
        return failure

    async def _hold_sessions(self, wire: Wire, transport: Transport) -> None:
        """Hold a session until it should end; if the server has forgotten it, hold a new one."""
        self._negotiation = negotiation = Negotiation(self.spec, self._services.protocols)
        self._then = max(self._then, _Then.RENEW)
        while self._then is _Then.RENEW:
            self._then, self._entering = _Then.STAY, True
            self._leave.clear()
            leaving = self._forgotten = False
            current_attempt.set(wire.begins(negotiation.probe(wire.errlog), negotiation.version))
            try:
                server, prepare = transport.make(), transport.prepare
                session = self._notices.session(server, self.spec.timeout, prepare, negotiation.way)
                async with self._unless_listening(session, wire) as client:
                    current_attempt.set(None)
                    build_models(client.protocol_version)
                    negotiation.opened(client)
                    wire.opened(client)
                    self._entering = False
                    self._left.clear()
                    self.opened_at = time.time()
                    self._sessions += 1
                    self._resume(client, afresh=self._sessions > 1)
                    await self._attend(client, wire)
                    leaving = self.is_closing or self._then is _Then.RENEW
                    wire.left()
                    self._pause()
                    if self._then is _Then.RENEW:
                        await self._drained(DRAIN_SECONDS)
            except Exception as error:
                entering = self._entering and not self.is_closing
                if entering and (negotiation.names_version(error) or negotiation.another(error, wire.probe)):
                    if negotiation.version:
                        wire.remark(
                            "it refuses the newest handshake instead of answering with a version of its own; "
                            f"{negotiation.version} was asked for"
                        )
                    wire.began_in_vain()
                    self._then = _Then.RENEW
                elif not leaving:  # errors while a session is closed on purpose do not matter
                    raise
            if leaving and self._then is _Then.RENEW and not (self._may_renew(wire) and await self._pace()):
                return

    @asynccontextmanager
    async def _unless_listening(
        self, session: AbstractAsyncContextManager[Client], wire: Wire
    ) -> AsyncIterator[Client]:
        """Enter a session, but stop waiting for a program that turns out to listen at a URL instead."""
        async with AsyncExitStack() as stack:
            entering = stack.enter_async_context(session)
            if isinstance(self.spec, StdioSpec) and wire.errlog is not None and not wire.replayed:
                yield await unless_listening(entering, self._place.heard, partial(terminate, wire.errlog.file))
            else:
                yield await entering

    async def _attend(self, client: Client, wire: Wire) -> None:
        """Wait until the session should end; meanwhile check on a server that may be gone."""
        while True:
            await self._leave.wait()
            if self._then is not _Then.STAY:
                return
            self._leave.clear()
            if not await self._outlast(client, wire):
                return

    async def _outlast(self, client: Client, wire: Wire) -> bool:
        """Ping a server that may be gone until it answers; return whether the session goes on."""
        failed = 0
        while not self._leave.is_set():
            found = await self._unless_left(look(client, self.reconnection.ping, wire.asks()))
            if found is None:
                break
            answer, why = found
            # Since 2026-07-28 nothing tells whether a server that was away is still the same.
            anew = answer is Answer.HERE and failed and client.session.discover_result is not None
            if answer is Answer.FORGOTTEN or anew:
                self._forgotten = not failed  # one that was away has started again
                self._leave_for(_Then.RENEW)
                return False
            if answer is Answer.HERE:
                self._resume(client, afresh=failed > 0)
                return True
            failed += 1
            self._tried = why
            self._away(None)
            if answer is Answer.REFUSED or not self._goes_on:
                self._leave_for(_Then.GIVE_UP)
                return False
            if not await self._rest():
                return False
        return False

    async def _unless_left(self, asking: Coroutine[Any, Any, Any]) -> Any:
        """Await something; return None if the session should end first."""
        asked, left = asyncio.ensure_future(asking), asyncio.ensure_future(self._leave.wait())
        try:
            await asyncio.wait({asked, left}, return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else None
        finally:
            asked.cancel()
            left.cancel()

    def _may_renew(self, wire: Wire) -> bool:
        """Count a forgotten session; give up if the server has forgotten many in a row and answered nothing."""
        in_vain = self._forgotten and not (wire.heard or self._lasted)
        self._vain = self._vain + 1 if in_vain else 0
        if self._vain < MAX_FORGOTTEN:
            return True
        self._why = ConnectionError(f"it forgot {self._vain} sessions in a row, each before it answered anything")
        self._lost = closed_error(self._place, self._why)
        self._leave_for(_Then.GIVE_UP)
        return False

    async def _pace(self) -> bool:
        """Pause before a forgotten session is renewed, if that happens often; return False to leave the session."""
        pause = self._pacing.pause()
        if not pause:
            return True
        self._notices.remarks.add("it forgets its sessions all the time; they are renewed with growing pauses")
        self._leave.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._leave.wait()
        return not self.is_closing

    async def _rest(self) -> bool:
        """Pause before the next attempt; return False to give up or to leave the session."""
        assert self.backoff is not None
        if self.backoff.left <= 0:
            self._leave_for(_Then.GIVE_UP)
            return False
        pause = self.backoff.pause()
        self._changed()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._leave.wait()
        self.backoff.next = None
        return not self._leave.is_set()
