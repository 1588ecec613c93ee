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
from enum import StrEnum
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
from mcp_magic.session.reconnect import Answer, NextStep, ReconnectPolicy, is_hopeless, look
from mcp_magic.session.wire import ErrorContext, Event, Wire, text_of
from mcp_magic.stderr import terminate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from mcp import Client
    from mcp_types import Implementation, ServerCapabilities

    from mcp_magic.flight.backoff import Backoff
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

DEATH_SECONDS = 0.5
"""Seconds to wait after a failed request for the end of the server's process, whose last output tells the cause."""

DRAIN_SECONDS = 5.0
"""Seconds that pending requests of a forgotten session have to be answered before it is left: a 404 tells each of them
that it never reached a tool and may be retried."""

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


class ServerFacts(NamedTuple):
    """What the server of a session reports about itself; the SDK's client has it only while it is open."""

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


def _mark_forked_child() -> None:
    for supervisor in _all:
        supervisor.leave_process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked_child)


class Supervisor:
    """The session of one connection as requests and the user see it; only it changes the state.

    It opens and closes the session by an `OwnerTask`, a new one for each opening, and lets requests wait for the next
    session. Its many attributes are its collaborators and the facts that a connection reports.

    Attributes:
        state: The state of the connection.
        client: The SDK's client while the session is open.
        facts: What the server reported about itself in the last session.
        owner: The asyncio task that owns the session, or None.
        policy: What the owner task does next.
        is_of_other_process: Whether this process is a forked child of the one that opened the session.
    """

    def __init__(
        self,
        place: ErrorContext,
        services: Services,
        recorder: Recorder,
        notices: Notices,
        catalog: Catalog,
        drain: Callable[[float], Awaitable[None]],
        is_current: Callable[[], bool],
        on_change: Callable[[], None],
    ) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.opened_at: float | None = None
        self.connect_seconds = 0.0
        self.reconnects = self.opened_by_hand = 0
        self.reconnection = services.reconnection
        self.state = State.CLOSED
        self.client: Client | None = None
        self.facts: ServerFacts | None = None
        self.owner: asyncio.Task[None] | None = None
        self.is_of_other_process = False
        _all.add(self)
        self._place = place
        self._services = services
        self._recorder = recorder
        self._notices = notices
        self._catalog = catalog
        self._drain = drain
        self._is_current = is_current
        self.on_change = on_change
        self.policy = ReconnectPolicy(place.spec, services.reconnection)
        self._task: OwnerTask | None = None
        self._ready: asyncio.Future[None] | None = None
        self._reopening = asyncio.Lock()
        self._closes = 0
        self._loss: SessionClosedError | None = None
        self._doubt: BaseException | None = None  # the error by which a request or a stream noticed the loss

    def leave_process(self) -> None:
        """Note that this process is a forked child, in which the loop of the session does not run."""
        self.is_of_other_process = self.owner is not None
        self._catalog.loop = None

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
    def backoff(self) -> Backoff | None:
        """The pauses between attempts to reconnect; None before the session is lost."""
        return self.policy.backoff

    @property
    def secrets_by_reference(self) -> dict[str, str]:
        """The secrets of the last opening, by the text of their references."""
        return self._task.secrets_by_reference if self._task is not None else {}

    @property
    def problem(self) -> str:
        """Why the session is not open, and when the next attempt is; "" while it is open."""
        if self.client is not None or self._loss is None:
            return ""
        first = str(self._loss).partition("\n")[0]
        return f"{first} ({away(self.backoff)})" if self.backoff is not None and self.comes_back else first

    @property
    def comes_back(self) -> bool:
        """Whether a closed session is being reopened or will reconnect."""
        return self._reopening.locked() or self._goes_on

    @property
    def _goes_on(self) -> bool:
        return self.owner is not None and not self.owner.done() and self.policy.goes_on

    @property
    def is_closing(self) -> bool:
        """Whether the session is being closed on purpose."""
        return self.policy.is_closing

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
            if isinstance(self._place.spec, StdioSpec) and wire.errlog is not None and not wire.replayed:
                terminate(wire.errlog.file)
        self._catalog.abandon()
        _unwind(owner)  # now: when Python deletes the task, this would end the next session
        self.policy = ReconnectPolicy(self._place.spec, self.reconnection)
        self._ready, self._reopening = None, asyncio.Lock()
        self.client = self.facts = None
        self._loss = SessionClosedError(f"{self._place.name}: the session has ended with its event loop.")
        self._become(State.LOST)

    # What the owner task and requests report

    def _become(self, state: State) -> None:
        self.state = state
        self.on_change()

    def pause(self) -> None:
        """Note that there is no session now; requests wait for the next."""
        if self.client is not None:
            self.client = None
            self.policy.note_down()
        if self._ready is None or self._ready.done():
            self._ready = asyncio.get_running_loop().create_future()
            # Retrieved, so that asyncio does not report an error without a waiting request.
            self._ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        if self.is_closing or not self.policy.sessions:
            self.on_change()
        else:
            self._become(State.RECONNECTING if self._goes_on else State.LOST)

    def note_lost(self, failure: BaseException | None) -> None:
        """Note that the session is lost, or that an attempt to reconnect has failed."""
        self.policy.note_lost()
        self._loss = closed_error(self._place, self._doubt or failure)
        self.pause()

    def give_up(self, why: Exception) -> None:
        """Note why the session is given up."""
        self._doubt = why
        self._loss = closed_error(self._place, why)

    def resume(self, client: Client, *, afresh: bool) -> None:
        """Note that there is a session; `afresh` if the server may offer something else than before."""
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)
        self.client = client
        self.facts = ServerFacts(
            client, client.protocol_version, client.server_capabilities, client.server_info, client.instructions
        )
        self._loss = self._doubt = None
        self.policy.note_open()
        if afresh:
            self.reconnects += 1
            for kind in KINDS:
                self._catalog.mark_changed(kind)
        self._become(State.OPEN)

    def _finish(self, failure: BaseException | None) -> None:
        """Note that there will be no further session."""
        policy = self.policy
        if not policy.is_closing:
            self._loss = closed_error(self._place, self._doubt or failure)
            if policy.next_step is NextStep.GIVE_UP and policy.backoff is not None and policy.covers:
                self._loss = gave_up(self._loss, policy.backoff, self.last_attempt())
        if policy.next_step is not NextStep.REPLACE:
            if policy.sessions or policy.is_closing:
                self._refuse(self.unavailable())
            else:
                self._refuse(connect_error(failure or EOFError("closed"), self._place))
        self._become(State.LOST if self._loss is not None else State.CLOSED)

    def _refuse(self, error: Exception) -> None:
        """Fail the requests that wait for a session."""
        error.__context__ = error.__cause__ = None
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # retrieved, so that asyncio does not report it

    def _owner_ended(self, owner: asyncio.Task[None]) -> None:
        """Fail what still waits for a session, in case the owner task ended by an error that it does not handle."""
        if owner is not self.owner or owner.cancelled() or (error := owner.exception()) is None:
            return
        where, text = self._place.spec.where, text_of(error, self._place)
        text = f"{self._place.name}: {where} failed: {type(error).__name__}: {text}"
        self._loss = SessionClosedError(text)
        self._refuse(self._loss if self.policy.sessions else ConnectError(text))
        self._become(State.LOST)

    def report(self, event: Event, session: Client | None = None, why: BaseException | None = None, /) -> None:
        """Note what a transport or a request has learned about a session, by default the present one."""
        policy = self.policy
        if event is Event.LOGGED_IN:
            self._catalog.outdate()
            self._notices.reads.forget()
        elif event is Event.FORGOTTEN:
            is_latest = self.facts is not None and self.facts.client is session
            if is_latest and policy.next_step in (NextStep.STAY, NextStep.REOPEN):
                policy.is_forgotten = True
                policy.leave_for(NextStep.RENEW)
                self.pause()
        elif event is Event.UNINITIALIZED:
            if self.client is session and self._task is not None and self._task.fall_back():
                policy.leave_for(NextStep.RENEW)
                self.pause()
        elif event is Event.STREAM_END:
            if not policy.is_closing:
                self._loss = closed_error(self._place)
            policy.leave_for(NextStep.REOPEN)
            self.pause()
        elif self.client is not None and not policy.leave.is_set():
            self._doubt = why
            self._loss = closed_error(self._place, why)
            # Over HTTP the session may outlive the connection: the owner task asks the server.
            policy.leave_for(NextStep.STAY if isinstance(self._place.spec, HttpSpec) else NextStep.REOPEN)
            self.pause()

    def stream_cut(self, why: BaseException) -> None:
        """Note that a notification stream was cut. Over HTTP that is the first sign that a server is gone."""
        if isinstance(self._place.spec, HttpSpec):
            self.report(Event.DOUBTED, None, why)

    # What requests wait for

    async def back(self) -> None:
        """Return when the session is open again. Raises MCPMagicError if the session is given up."""
        while self.client is None and self.comes_back and self._ready is not None:
            await asyncio.shield(self._ready)

    def unavailable(self) -> SessionClosedError:
        """Return the error for a request without a session; it was not sent."""
        if self._loss is not None:
            error = type(self._loss)(*self._loss.args, stderr=self._loss.stderr)
        elif self.is_closing:
            name = self._place.name
            again = f"`%mcp reconnect {name}` opens it again" if self._is_current() else "`%mcp connect` opens one"
            error = SessionClosedError(f"{name}: the session was closed; {again}.")
        else:
            error = closed_error(self._place)
        error.sent = False
        return error

    def last_attempt(self) -> str:
        """Say why the last attempt to reconnect failed; "" if there was none."""
        error = self.policy.attempt_error
        return "" if error is None else str(connect_error(error, self._place))

    async def after_failure(self, client: Client, failure: BaseException) -> None:
        """Note that a request has failed; if the server has ended, wait a moment until it is known how."""
        if self.client is client and is_closed(failure):
            self.report(Event.DOUBTED, client, failure)
        await self.last_words()

    async def last_words(self) -> None:
        """Give the owner task a moment to notice how the server has ended, so that state and last output are known."""
        owner, task = self.owner, self._task
        if owner is None or task is None or owner.done() or task.is_left.is_set() or not self.policy.leave.is_set():
            return
        if isinstance(self._place.spec, HttpSpec) and self.comes_back:
            return
        leaving = asyncio.ensure_future(task.is_left.wait())
        await asyncio.wait({owner, leaving}, timeout=DEATH_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()

    # What the user does

    async def open(self, secrets_by_reference: dict[str, str] | None = None) -> None:
        """Do what `Connection.open` says; `secrets_by_reference` has those that are resolved already."""
        self.check_process()
        self._abandon_stranded()
        quiet_sdk_logging()
        loop = self.loop = self._catalog.loop = asyncio.get_running_loop()
        if self._ready is None or self._ready.done():
            self._ready = loop.create_future()
        self._loss = self._doubt = None
        self.state = State.CONNECTING
        self.policy = ReconnectPolicy(self._place.spec, self.reconnection)
        self._task = OwnerTask(
            self, self._place, self._services, self._recorder, self._notices, self._drain, secrets_by_reference
        )
        started = time.perf_counter()
        name, where, reports = self._place.name, self._place.spec.where, self._services.reports
        does = "starting" if isinstance(self._place.spec, StdioSpec) else "connecting to"
        task = self._task
        look = Look(detail=lambda: task.waits_for or self._place.last_line())
        request = InFlightRequest(f"{does} {where}", name, reports, look=look)
        context = copy_context()
        context.run(shown_reports.set, (request.report,))  # a log-in stops its clock
        self.owner = loop.create_task(self._own(task), name=f"mcp_magic connection {name}", context=context)
        self.owner.add_done_callback(self._owner_ended)
        try:
            with request:
                await asyncio.shield(self._ready)
        except (asyncio.CancelledError, CallCancelledError) as error:
            self.policy.next_step = NextStep.CLOSE
            self._become(State.CLOSED)
            self.owner.cancel()  # it ends its server by itself; the interrupted caller does not wait for that
            if isinstance(error, CallCancelledError):
                with without_context:
                    raise CallCancelledError(f"{name}: not connected: cancelled.") from None
            raise
        self.connect_seconds = time.perf_counter() - started

    async def _own(self, task: OwnerTask) -> None:
        failure: BaseException | None = None
        try:
            failure = await task.run()
        finally:
            self.facts = None
            await self._catalog.close()
            self._recorder.trace.settle()
            self._finish(failure)

    async def close(self) -> None:
        """Do what `Connection.close` says."""
        if self.is_of_other_process:  # the server stays: it serves the parent
            return
        self._closes += 1
        self._abandon_stranded()
        await self._close(NextStep.CLOSE)

    async def _close(self, step: NextStep) -> None:
        self.policy.leave_for(step)
        self._loss = None
        self._become(State.CLOSED)
        if (owner := self.owner) is None or owner.done():
            return
        if self._task is not None and self._task.is_opening:  # the server may never answer: do not wait for it
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
                    await self._close(NextStep.REPLACE)
                finally:
                    self.policy.leave_for(NextStep.CLOSE)  # if the session cannot be replaced, it stays closed
            if self._closes != closes:
                error = self.unavailable()
                self._refuse(error)
                raise error
            self.opened_by_hand += by_hand
            await self.open()
            for kind in KINDS:
                self._catalog.mark_changed(kind)


class OwnerTask:
    """Opens, holds and leaves the sessions of one opening, in one task; `supervisor` learns what happens.

    `is_opening` is true while it opens a transport or a session: the server may never answer. `is_left` is set while
    there is no session. `waits_for` is what it waits for before it opens the transport, such as a secret, or "".
    """

    def __init__(
        self,
        supervisor: Supervisor,
        place: ErrorContext,
        services: Services,
        recorder: Recorder,
        notices: Notices,
        drain: Callable[[float], Awaitable[None]],
        secrets_by_reference: dict[str, str] | None = None,
    ) -> None:
        self.is_opening = False
        self.is_left = asyncio.Event()
        self.waits_for = ""
        self.secrets_by_reference = secrets_by_reference or {}  # until the user opens it again
        self._supervisor = supervisor
        self._policy = supervisor.policy
        self._place = place
        self._services = services
        self._recorder = recorder
        self._notices = notices
        self._drain = drain
        self._negotiation = Negotiation(place.spec, services.protocols)

    def _note_wait(self, text: str) -> None:
        self.waits_for = text

    def fall_back(self) -> bool:
        """Begin the next session with the handshake, if that is possible; return whether it is."""
        if not self._negotiation.fall_back():
            return False
        self._notices.remarks.add(
            "it answers server/discover with 2026-07-28, and then wants `initialize`; "
            "the session began again with the handshake"
        )
        return True

    async def run(self) -> BaseException | None:
        """Hold sessions until there is no next one; return the error that ended the last, if any."""
        policy = self._policy
        while True:
            before = policy.sessions
            failure = await self._hold()
            opened = policy.sessions > before
            if not policy.sessions or not policy.goes_on or (not opened and is_hopeless(policy.attempt_error)):
                return failure
            self._supervisor.note_lost(failure)
            policy.leave.clear()
            if not (opened and policy.lasted) and not await policy.rest(self._supervisor.on_change):
                return failure

    async def _hold(self) -> BaseException | None:
        """Open the transport and hold sessions over it until the last ends; return the error, if any."""
        self.is_opening = True
        failure: BaseException | None = None
        try:
            async with AsyncExitStack() as stack:
                wire = Wire(
                    self._recorder,
                    self._services.authenticate,
                    self._supervisor.report,
                    self._supervisor.back,
                    self._notices.warn,
                    self._notices.remarks.add,
                    ask=self._services.inputs,
                    waits=self._note_wait,
                    values=self.secrets_by_reference,
                )
                transport = await self._services.open_transport(self._place.spec, wire, stack)
                self._place.wire = wire
                await self._hold_sessions(wire, transport)
        except Exception as error:
            failure = error
            if self.is_opening:  # requests of an open session say it themselves
                self._recorder.give_up(None, why_unanswered(error, is_closing=self._policy.is_closing))
        finally:
            self._supervisor.pause()
            self.is_left.set()
        if failure is not None and self.is_opening and self._policy.sessions:
            self._policy.attempt_error = connect_error(failure, self._place)
            self._policy.attempt_error.__context__ = self._policy.attempt_error.__cause__ = None
        self.is_opening = False
        return failure

    async def _hold_sessions(self, wire: Wire, transport: Transport) -> None:
        """Hold a session until it should end; if the server has forgotten it, hold a new one."""
        policy, spec = self._policy, self._place.spec
        self._negotiation = negotiation = Negotiation(spec, self._services.protocols)
        policy.next_step = max(policy.next_step, NextStep.RENEW)
        while policy.next_step is NextStep.RENEW:
            policy.next_step, self.is_opening = NextStep.STAY, True
            policy.leave.clear()
            leaving = policy.is_forgotten = False
            current_attempt.set(wire.start_opening(negotiation.probe(wire.errlog), negotiation.version))
            try:
                session = self._notices.session(transport.make(), spec.timeout, transport.prepare, negotiation.way)
                async with self._unless_listening(session, wire) as client:
                    current_attempt.set(None)
                    build_models(client.protocol_version)
                    negotiation.opened(client)
                    wire.opened(client)
                    self.is_opening = False
                    self.is_left.clear()
                    policy.sessions += 1
                    self._supervisor.opened_at = time.time()
                    self._supervisor.resume(client, afresh=policy.sessions > 1)
                    await self._attend(client, wire)
                    leaving = policy.is_closing or policy.next_step is NextStep.RENEW
                    wire.clear_session()
                    self._supervisor.pause()
                    if policy.next_step is NextStep.RENEW:
                        await self._drain(DRAIN_SECONDS)
            except Exception as error:
                opening = self.is_opening and not policy.is_closing
                if opening and (negotiation.names_version(error) or negotiation.try_other_way(error, wire.probe)):
                    if negotiation.version:
                        wire.remark(
                            "it refuses the newest handshake instead of answering with a version of its own; "
                            f"{negotiation.version} was asked for"
                        )
                    wire.discard_failed_opening()
                    policy.next_step = NextStep.RENEW
                elif not leaving:  # errors while a session is closed on purpose do not matter
                    raise
            if leaving and policy.next_step is NextStep.RENEW:
                if (why := policy.count_forgotten(answered=wire.has_answered)) is not None:
                    self._supervisor.give_up(why)
                    return
                if not await policy.pace(self._notices.remarks.add):
                    return

    @asynccontextmanager
    async def _unless_listening(
        self, session: AbstractAsyncContextManager[Client], wire: Wire
    ) -> AsyncIterator[Client]:
        """Enter a session, but stop waiting for a program that turns out to listen at a URL instead."""
        async with AsyncExitStack() as stack:
            entering = stack.enter_async_context(session)
            spec = self._place.spec
            may_listen = isinstance(spec, StdioSpec) and spec.sandbox is None  # an isolated one opens no port
            if may_listen and wire.errlog is not None and not wire.replayed:
                yield await unless_listening(entering, self._place.output, partial(terminate, wire.errlog.file))
            else:
                yield await entering

    async def _attend(self, client: Client, wire: Wire) -> None:
        """Wait until the session should end; meanwhile check on a server that may be gone."""
        while True:
            await self._policy.leave.wait()
            if self._policy.next_step is not NextStep.STAY:
                return
            self._policy.leave.clear()
            if not await self._outlast(client, wire):
                return

    async def _outlast(self, client: Client, wire: Wire) -> bool:
        """Ping a server that may be gone until it answers; return whether the session goes on."""
        policy, seconds = self._policy, self._services.reconnection.ping
        failures = 0
        while not policy.leave.is_set():
            answer, why = await self._unless_left(look(client, seconds, wire.new_attempt()))
            if answer is None:
                break
            # Since 2026-07-28 nothing tells whether a server that was away is still the same.
            anew = answer is Answer.HERE and failures and client.session.discover_result is not None
            if answer is Answer.FORGOTTEN or anew:
                policy.is_forgotten = not failures  # one that was away has started again
                policy.leave_for(NextStep.RENEW)
                return False
            if answer is Answer.HERE:
                self._supervisor.resume(client, afresh=failures > 0)
                return True
            failures += 1
            policy.attempt_error = why
            self._supervisor.note_lost(None)
            if answer is Answer.REFUSED or not policy.goes_on:
                policy.leave_for(NextStep.GIVE_UP)
                return False
            if not await policy.rest(self._supervisor.on_change):
                return False
        return False

    async def _unless_left(
        self, looking: Coroutine[Any, Any, tuple[Answer, BaseException | None]]
    ) -> tuple[Answer | None, BaseException | None]:
        """Await an answer; return (None, None) if the session should end first."""
        answer, leaving = asyncio.ensure_future(looking), asyncio.ensure_future(self._policy.leave.wait())
        try:
            await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else (None, None)
        finally:
            answer.cancel()
            leaving.cancel()
