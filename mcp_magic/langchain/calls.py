"""Calls of tools for a model, with retries and a circuit breaker for servers that keep failing."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException

from mcp_magic._text import clause, duration
from mcp_magic.consent.values import referenced, unchanged
from mcp_magic.errors import (
    CassetteError,
    ConnectError,
    MCPMagicError,
    ProtocolError,
    RequestTimeoutError,
    SessionClosedError,
    SessionError,
)
from mcp_magic.flight.request import Limits
from mcp_magic.flight.retry import MODEL, failure_of, is_repeatable
from mcp_magic.langchain.content import LIMIT, Content, approval_of, artifact_of, bounded, storable, to_content
from mcp_magic.results.results import ToolResult
from mcp_magic.session.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from mcp_magic.calls.call import Call, CallObserver
    from mcp_magic.consent.consent import Decision
    from mcp_magic.jobs import Job, Jobs
    from mcp_magic.langchain.large_results import Spill


# Retries over a session that ends: the session is reopened, and a call is repeated if that is safe.
#
# `flight/retry.py` says what is repeated. A session that reconnects by itself (`session/supervisor.py`) is not reopened
# here.

T = TypeVar("T")

LEAST_ERROR = 2000  # characters of an error that a model reads, also where it reads less of a result


def current(connection: Connection) -> Connection:
    """Return the host's present connection to the same server: the user may have reconnected."""
    present = connection.host.connections.get(connection.name) if connection.host is not None else None
    return present if isinstance(present, Connection) and present.spec == connection.spec else connection


async def retrying(
    connection: Connection,
    send: Callable[[Connection], Awaitable[T]],
    *,
    breaker: Callable[[Connection], Breaker],
    repeatable: Callable[[], bool],
) -> T:
    """Run `send` on the open session, and again where the rules for retries allow it."""

    async def once() -> T:
        live = await _opened(current(connection), breaker)
        with breaker(live).attempt((live.name, live.opened_at)):
            return await send(live)

    return await _attempts(once, repeatable, lambda: _can_reopen(current(connection)))


async def reaching(connect: Callable[[], Awaitable[Connection]], breaker: Breaker) -> Connection:
    """Open a session, with up to three attempts if the server may only not be ready yet."""

    async def once() -> Connection:
        with breaker.attempt():
            return await connect()

    return await _attempts(once, lambda: False, lambda: False)


async def _attempts(
    once: Callable[[], Awaitable[T]], repeatable: Callable[[], bool], can_reopen: Callable[[], bool]
) -> T:
    backoff = MODEL.backoff()
    while True:
        try:
            return await once()
        except Exception as error:
            if isinstance(error, SessionClosedError) and (error.waited or not can_reopen()):
                raise
            if not MODEL.allows(failure_of(error), backoff.attempts, is_harmless=repeatable()):
                raise
        await asyncio.sleep(backoff.pause())


def _can_reopen(connection: Connection) -> bool:
    return connection.is_held and connection.state != "closed"


_reopening: WeakKeyDictionary[Connection, asyncio.Task[Connection]] = WeakKeyDictionary()


async def _opened(connection: Connection, breaker: Callable[[Connection], Breaker]) -> Connection:
    """Return an open connection; a lost one is reopened once for all callers that wait for it."""
    if connection.state != "lost" or not _can_reopen(connection):
        return connection
    task = _reopening.get(connection)
    if task is None or task.done():
        task = _reopening[connection] = asyncio.ensure_future(_reopen(connection, breaker(connection)))
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return await asyncio.shield(task)


async def _reopen(connection: Connection, breaker: Breaker) -> Connection:
    assert connection.host is not None
    breaker.check()
    try:
        await connection.host.reconnect(connection.name, by_hand=False)
    except ConnectError as error:  # a success is not counted: that it opens does not mean that calls work
        breaker.count_failure(error)
        raise
    return connection


# A circuit breaker for each connection: calls to a dead server fail at once, and other servers are not affected.

FAILURES = 3  # failures in a row after which calls are refused

REST_SECONDS = 30.0  # seconds until a call may try again; restarting a server by hand takes about that long

MAX_REASON = 200  # characters of the last failure in the refusal's message


class Breaker:
    """A circuit breaker for a server's session: after failures in a row, not of tools themselves, it refuses calls."""

    def __init__(self, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._clock = clock
        self._failures = 0
        self._first = self._last = 0.0
        self._reason = ""
        self._counted: object = None

    @property
    def is_open(self) -> bool:
        """Whether calls are refused now."""
        return self._failures >= FAILURES and self._clock() - self._last < REST_SECONDS

    def check(self) -> None:
        """Raise a SessionError that says since when and what to do, if calls are refused now."""
        if self.is_open:
            since = duration(round(self._clock() - self._first))
            rest = duration(round(max(0.0, REST_SECONDS - (self._clock() - self._last))))
            raise SessionError(
                f"{self.name}: not called: its session has failed {self._failures} times in a row since {since} ago; "
                f"`%mcp reconnect {self.name}` opens it again, else the next call after {rest} tries it.\n"
                f"  last: {self._reason}"
            )

    @contextmanager
    def attempt(self, session: object = None) -> Iterator[None]:
        """Count the outcome of the enclosed attempt; raises like `check` before it."""
        self.check()
        try:
            yield
        except (SessionClosedError, RequestTimeoutError, ConnectError) as error:
            self.count_failure(error, session)
            raise
        except ProtocolError:
            self._failures, self._counted = 0, None
            raise
        else:
            self._failures, self._counted = 0, None

    def count_failure(self, error: Exception, session: object = None) -> None:
        """Count a failure."""
        if isinstance(error, SessionClosedError) and session is not None and not error.waited:
            if session == self._counted:
                return
            self._counted = session
        self._last = self._clock()
        if not self._failures:
            self._first = self._last
        self._failures += 1
        self._reason = str(error).partition("\n")[0][:MAX_REASON]


_breakers: WeakKeyDictionary[Connection, tuple[int, Breaker]] = WeakKeyDictionary()


def breaker_of(connection: Connection) -> Breaker:
    """Return the breaker of a connection; a connection that the user reopened gets a new, closed one."""
    opened, breaker = _breakers.get(connection, (None, None))
    if breaker is None or opened != connection.supervisor.opened_by_hand:
        breaker = Breaker(connection.name)
        _breakers[connection] = (connection.supervisor.opened_by_hand, breaker)
    return breaker


# One call of a tool for a model: consent, session, retries, and the result in the form that a model reads.

decided: ContextVar[Decision | None] = ContextVar("decided", default=None)
"""The decision about the call that LangChain makes in this context; None if it needs one."""

JOB = "job"
"""The key in an artifact of the job that the call has become: its number in that kernel, and when it began."""

JOB_SECONDS = 3.0  # seconds that a model's turn waits for a task before it goes on without the result

MIN_SECONDS = 0.01  # the least seconds for an attempt; a call with less left is not retried


class MCPToolException(ToolException):
    """A failed call: the tool's own error, a refusal, or a failed session."""

    def __init__(self, content: Content, artifact: dict[str, Any]) -> None:
        items = [content] if isinstance(content, str) else content
        super().__init__("\n".join(item for item in items if isinstance(item, str)))
        self.content = content
        self.artifact = artifact

    def __reduce__(self) -> tuple[Any, ...]:  # a pool of processes that cannot read the error of a child waits for ever
        return type(self), (self.content, self.artifact), vars(self)

    def message(self, name: str, call_id: str) -> ToolMessage:
        """Return the error as the answer to a model's call; `name` is the tool's name for the model."""
        return ToolMessage(self.content, artifact=self.artifact, tool_call_id=call_id, name=name, status="error")


@dataclass(frozen=True)
class Reading:
    """How a model reads results: whether it takes images, at most how many characters, and what is too large."""

    images: bool = False
    limit: int = LIMIT
    spill: Spill | None = None


async def call_for_model(
    call: Call,
    *observers: CallObserver,
    reading: Reading = Reading(),
    breaker: Breaker | None = None,
    jobs: Jobs | None = None,
) -> tuple[Content, dict[str, Any]]:
    """Make a call for a model; return the content and the artifact of `to_content`, or raise MCPToolException.

    With `jobs`, a call that the server makes a task and that takes longer goes on there, as a job that `JOB` names in
    the artifact.
    """
    assert isinstance(call.connection, Connection)
    attempts, server = _Attempts(call, observers, jobs), call.connection.name
    failure = result = None
    try:
        result = await retrying(
            call.connection, attempts.send, breaker=lambda c: breaker or breaker_of(c), repeatable=attempts.repeatable
        )
    except CassetteError:  # a model cannot fix it
        raise
    except MCPMagicError as error:
        failure = bounded(error.whole, max(reading.limit, LEAST_ERROR))
    if result is None:
        artifact = artifact_of(server, call.tool, seconds=attempts.seconds)
        raise MCPToolException(failure or "", artifact | attempts.facts) from None
    if not isinstance(result, ToolResult):
        artifact = artifact_of(server, call.tool, seconds=attempts.seconds, is_error=False)
        return started_text(result), artifact | attempts.facts | {JOB: [result.number, result.began]}
    content, artifact = to_content(result, images=reading.images, limit=reading.limit, spill=reading.spill)
    if result.is_error:
        raise MCPToolException(content, artifact | attempts.facts) from None
    return content, artifact | attempts.facts


def started_text(job: Job) -> str:
    """Return what a model reads of a job that goes on."""
    status, message = job.status.replace("_", " "), clause(job.message)
    says = f" The server says: {message}." if message else ""
    text = f"Started as job {job.number}, which goes on in the background: {status}."
    return f"{text}{says} `wait_for_job` gives its result."


@dataclass
class _Attempts:
    """The attempts of a call: `call` has what was decided about, before the user changed its arguments."""

    call: Call
    observers: Sequence[CallObserver]
    jobs: Jobs | None
    seconds: float = 0.0
    declared_safe: bool = False

    async def send(self, connection: Connection) -> ToolResult | Job:
        caller = connection.caller
        # its time begins when it is sent: a session for one call lists the tools first
        prepared = await caller.prepare(replace(self.call, connection=connection, limits=Limits()))
        self.call = replace(prepared, limits=self.call.limits)
        if self.call.decision is None and caller.consent is not None:
            [decision] = await caller.decide([self.call.request])
            self.call = replace(self.call, decision=decision)
        self.declared_safe = is_repeatable(connection.spec, self.call.definition)
        timeout = self.call.limits.timeout
        rest = None if timeout is None else max(timeout - self.seconds, MIN_SECONDS)
        limits = replace(self.call.limits, timeout=rest, may_repeat=False)
        started = time.perf_counter()
        try:
            call = await caller.authorize(replace(self.call, limits=limits))
            if self.jobs is None or not connection.makes_tasks:
                return await caller.send(call, *self.observers)
            return await self.jobs.call(call, JOB_SECONDS, *self.observers)
        finally:
            self.seconds += time.perf_counter() - started

    def repeatable(self) -> bool:
        timeout = self.call.limits.timeout
        return self.declared_safe and (timeout is None or self.seconds < timeout - MIN_SECONDS)

    @property
    def facts(self) -> dict[str, Any]:
        decision, arguments = self.call.decision, self.call.arguments
        if decision is None:
            return {"arguments": storable(referenced(arguments, self.call.values))}
        final = arguments if decision.arguments is None else decision.arguments
        references = referenced(final, unchanged(self.call.values, arguments, final))
        return {"arguments": storable(references), "approval": approval_of(decision, arguments)}
