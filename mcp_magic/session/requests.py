"""The sender of requests: deadlines, safe retries, and errors that say what to do.

Every request goes through it. A request that finds its session lost waits for the reconnect. A streamable-HTTP server
that has forgotten the session gets a new one, and the request again. `Retry-After` is honoured. `flight/retry.py`
decides which requests may be retried.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from mcp_magic._compat import IN_BROWSER
from mcp_magic.config.specs import HttpSpec, StdioSpec
from mcp_magic.display.text import one_line
from mcp_magic.errors import (
    AuthorizationError,
    RequestTimeoutError,
    SessionClosedError,
    SessionError,
)
from mcp_magic.flight.attempt import Attempt, current_attempt
from mcp_magic.flight.deadline import check_seconds
from mcp_magic.flight.progress import Reports
from mcp_magic.flight.request import NOBODY, Answerers, InFlightRequest, Limits, Look
from mcp_magic.flight.retry import MAY_HAVE_RUN, Failure, Retries, failure_of_attempt
from mcp_magic.protocol import has_type, leaf, until_answered, without_context
from mcp_magic.results.reasons import note_refusal
from mcp_magic.session.failures import (
    away,
    closed_error,
    lost_error,
    request_error,
    waited_error,
    why_unanswered,
)
from mcp_magic.session.negotiation import wants_handshake
from mcp_magic.session.wire import ErrorContext, Event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT

    from mcp_magic.flight.questions import QuestionQueue
    from mcp_magic.session.supervisor import Supervisor

T = TypeVar("T")

_NO_BLOCK = nullcontext()

LISTEN_SECONDS = 60.0  # seconds that a server has to answer the ping which shows that it works on no abandoned call

MOST_AT_ONCE = 400
"""Maximum number of concurrent calls of one session over HTTP, where each holds a connection and so a file descriptor.
On Windows a kernel's event loop watches at most 512 sockets, and most systems let a process open 1,024 files."""


def most_at_once() -> int:
    """Return the most concurrent calls of a session: at most half of the files that the process may open."""
    if IN_BROWSER:  # no file descriptors to run out of
        return MOST_AT_ONCE
    try:
        import resource
    except ImportError:  # Windows
        return MOST_AT_ONCE
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_AT_ONCE if files == resource.RLIM_INFINITY else max(1, min(MOST_AT_ONCE, files // 2))


INTERRUPTIONS = {asyncio.CancelledError: "was interrupted", TimeoutError: "timed out", RequestTimeoutError: "timed out"}
"""How the wait for an answer ends while its server may go on."""


class AbandonedCall:
    """The call for which its caller no longer waits, until the server answers anything.

    A server of one thread reads nothing while it computes. It does not learn that the call is cancelled, and later
    calls wait. `client` is the session of the call, or None if there is no such call.
    """

    def __init__(self) -> None:
        self.client: Client | None = None
        self._attempt: Attempt | None = None
        self._what = ""
        self._is_pinged = False
        self._listening: asyncio.Task[None] | None = None

    def note(self, client: Client, call: InFlightRequest, attempt: Attempt, error: BaseException) -> None:
        """Note that a call has failed. It is kept if its server may go on with it, and is the first in its session."""
        how = INTERRUPTIONS.get(type(error))
        if how is not None and self.client is not client:
            self.client, self._attempt, self._is_pinged = client, attempt, False
            self._what = f"{one_line(call.title, 60)}, which {how}"

    def answered(self, client: Client) -> None:
        """Note that a server has answered something, so that it works on nothing else."""
        if self.client is client:
            self.client = self._attempt = None

    def blocks(self, client: Client | None, attempt: Attempt | None = None) -> str:
        """Return the call that a server seems to work on, with how it ended; "" if none, or if it is that attempt."""
        if client is None or self.client is not client or not self._is_pinged:
            return ""
        return "" if attempt is not None and attempt is self._attempt else self._what

    def listen(self, client: Client) -> None:
        """Send a ping before the next request. A server that answers it works on nothing else, or can do both."""
        if self._listening is None:
            self._is_pinged = True
            self._listening = asyncio.create_task(self._listen(client), name="mcp_magic abandoned call")

    async def _listen(self, client: Client) -> None:
        current_attempt.set(None)  # the ping is no part of a request
        with suppress(Exception):
            async with asyncio.timeout(LISTEN_SECONDS):
                await until_answered(client)
                self.answered(client)
        self._listening = None


def _check_kind(answer: object) -> None:
    """Raise ValueError if an answer is of an unknown kind."""
    kind = getattr(answer, "result_type", None)
    if kind not in (None, "complete"):
        raise ValueError(f"its resultType is {one_line(str(kind), 40)!r}, which mcp_magic does not know")


@dataclass(frozen=True, slots=True)
class Sending:
    """How a request is sent.

    Attributes:
        limits: How long it may take. The clock of a call stops while the server asks the user, and restarts with each
            progress notification; other requests have a clock of their own.
        answerers: Who answers the server's questions meanwhile, before the host does.
        on_progress: Takes its progress, which then is not shown.
        is_call: Whether the server may ask the user questions meanwhile.
        is_harmless: Whether it may be sent again although it may have run.
        is_counted: Whether it is the user's; the host's own are not counted.
        is_shown: Whether it is shown while it waits.
    """

    limits: Limits = Limits()
    answerers: Answerers = NOBODY
    on_progress: ProgressFnT | None = None
    is_call: bool = False
    is_harmless: bool = False
    is_counted: bool = True
    is_shown: bool = True


@dataclass(slots=True)
class Traffic:
    """The requests of a connection.

    Attributes:
        calls: How many the user has sent.
        failures: How many of them failed; an error that a tool reports is no failure.
        in_flight: How many have no answer yet, with those of the host.
        latency: Seconds until the last answer, or None.
        last_seen: When it came (`time.time()`), or None.
    """

    calls: int = 0
    failures: int = 0
    in_flight: int = 0
    latency: float | None = None
    last_seen: float | None = None


class RequestSender:
    """Sends the requests of one connection, and counts them."""

    def __init__(
        self,
        place: ErrorContext,
        supervisor: Supervisor,
        questions: QuestionQueue,
        reports: Reports,
    ) -> None:
        self.traffic = Traffic()
        self._answered: Client | None = None  # the last that got a result
        self._drained: asyncio.Event | None = None
        self._place = place
        self._look = Look(place.masked, self._waits_for)
        self._has_stderr = isinstance(place.spec, StdioSpec)
        self._supervisor = supervisor
        self._questions = questions
        self._reports = reports
        self._abandoned = AbandonedCall()
        self._most = most_at_once()
        self._turns = asyncio.Semaphore(self._most) if isinstance(place.spec, HttpSpec) else None

    async def send(
        self,
        title: str,
        send: Callable[[Client], Awaitable[T]],
        how: Sending = Sending(),
        check: Callable[[T, Attempt], None] | None = None,
    ) -> T:
        """Send a request, and again where the rules for retries allow it.

        `check` raises ValueError if the answer breaks the protocol.
        """
        if self._supervisor.is_of_other_process:
            self._supervisor.check_process()
        timeout, max_total = how.limits.timeout, how.limits.max_total
        if timeout is not None or max_total is not None:
            check_seconds(title, timeout=timeout, max_total_timeout=max_total)
        reports = self._reports if how.is_shown else Reports(max_total_timeout=self._reports.max_total_timeout)
        request = InFlightRequest(
            title,
            self._place.name,
            reports,
            limits=how.limits if how.is_call else Limits(max_total=max_total),
            answerers=how.answerers,
            on_progress=how.on_progress,
            look=self._look,
        )
        call = request if how.is_call else None
        client = self._supervisor.client
        retries: Retries | None = None
        turn = self._turns if how.is_call and self._turns is not None else _NO_BLOCK
        beside = self._questions.beside() if how.is_counted and not how.is_call else _NO_BLOCK
        with beside, request if how.is_counted and reports.reporter is not None else _NO_BLOCK:
            if client is None:
                client = await self.open_client(title, timeout)
            self.traffic.calls += how.is_counted
            while True:
                async with turn:
                    if client is not self._supervisor.client:  # lost or reopened while this request waited
                        client = await self.open_client(title, timeout)
                    attempt = Attempt()
                    try:
                        return await self._send_once(client, send, call, attempt, check)
                    except Exception as error:
                        failure = error
                await self._supervisor.after_failure(client, failure)
                retries = retries or Retries(how.limits, is_harmless=how.is_harmless)
                if not await self._again(client, failure, attempt, retries):
                    break
                client = await self.open_client(title, timeout)
            self.traffic.failures += how.is_counted
            with without_context:
                raise self._error_of(failure, attempt, title, timeout, retries)

    def _waits_for(self) -> str:
        """Return what requests wait for besides the answer, or ""."""
        if self._supervisor.client is None:
            return f"reconnecting, {away(self._supervisor.backoff)}" if self._supervisor.comes_back else "closed"
        if self._turns is not None and self._turns.locked():
            return f"{self._most} calls are under way, others wait"
        return self._works_on()

    def _works_on(self, attempt: Attempt | None = None) -> str:
        """Return which abandoned call the server seems to work on, other than `attempt`, and what to type; or ""."""
        call, name = self._abandoned.blocks(self._supervisor.client, attempt), self._place.name
        todo = f"`%mcp reconnect {name}` starts it again" if self._has_stderr else "restart that server"
        return f"{name} still seems to work on {call}; {todo}" if call else ""

    async def _send_once(
        self,
        client: Client,
        send: Callable[[Client], Awaitable[T]],
        call: InFlightRequest | None,
        attempt: Attempt,
        check: Callable[[T, Attempt], None] | None = None,
    ) -> T:
        place, traffic = self._place, self.traffic
        attempt.stderr_offset = place.position() if self._has_stderr else None
        if not traffic.in_flight:
            place.stderr_offset = attempt.stderr_offset
        token = current_attempt.set(attempt)
        started = time.perf_counter()
        traffic.in_flight += 1
        if self._abandoned.client is client:
            self._abandoned.listen(client)
        try:
            if call is None:
                answer = await send(client)
            else:
                if self._questions.settling is not None:
                    await self._questions.wait_until_settled()
                answer = await call.wait(send(client), self._questions.calls)
            _check_kind(answer)
            if check is not None:
                check(answer, attempt)
        except BaseException as error:
            self._gave_up(attempt, error)
            if call is not None:
                self._questions.interrupted(call, client)
                self._abandoned.note(client, call, attempt, error)
            raise
        finally:
            traffic.in_flight -= 1
            if not traffic.in_flight and self._drained is not None:
                self._drained.set()
            attempt.over = True
            current_attempt.reset(token)
        traffic.latency = time.perf_counter() - started
        traffic.last_seen = time.time()
        self._answered = client
        self._abandoned.answered(client)
        if self._has_stderr and not traffic.in_flight:
            place.stderr_offset = place.position()
        return answer

    def _gave_up(self, attempt: Attempt, error: BaseException) -> None:
        """Note in the trace why nobody waits for the answer any more."""
        wire = self._place.wire
        if attempt.awaited is not None and wire is not None:
            why = why_unanswered(error, is_closing=self._supervisor.is_closing)
            wire.recorder.give_up(attempt.awaited.number, why)

    async def _again(self, client: Client, error: Exception, attempt: Attempt, retries: Retries) -> bool:
        """Decide whether to retry a failed request; wait for a busy server first."""
        supervisor = self._supervisor
        wants_handshake = not retries.repeats[Failure.FORGOTTEN] and self._wants_handshake(client, error, attempt)
        failure = Failure.FORGOTTEN if wants_handshake else failure_of_attempt(error, attempt)
        comes_back = supervisor.comes_back or supervisor.client is not None
        if failure in (Failure.UNSENT, Failure.DROPPED) and not comes_back:
            return False
        pause = retries.pause(failure, attempt.retry_after)
        if pause is None:
            return False
        if failure is Failure.FORGOTTEN:
            supervisor.report(Event.UNINITIALIZED if wants_handshake else Event.FORGOTTEN, client)
            return not wants_handshake or supervisor.client is not client
        if pause:
            await asyncio.sleep(pause)
        return True

    def _wants_handshake(self, client: Client, failure: Exception, attempt: Attempt) -> bool:
        """Whether a server has discovered a session and refuses its requests.

        Once it has answered one, such words are those of a tool, which may have run.
        """
        wire = self._place.wire
        if wire is None or not wire.modern or self._answered is client:
            return False
        return wants_handshake(failure, attempt.status)

    def _error_of(
        self, failure: Exception, attempt: Attempt, title: str, timeout: float | None, retries: Retries
    ) -> Exception:
        if isinstance(attempt.error, AuthorizationError):
            return AuthorizationError(*attempt.error.args)
        if has_type(cause := leaf(failure), "mcp", "InputRequiredRoundsExceededError"):
            return SessionError(f"{title}: asked {cause.max_rounds} times; given up.")  # type: ignore[attr-defined]
        error = request_error(failure, self._place, title, timeout, attempt)
        meaning = failure_of_attempt(failure, attempt)
        if meaning is Failure.FORGOTTEN and retries.repeats[meaning]:
            error.args = (f"{error}\n  tried in two sessions; the server forgot each at once",)
        note_refusal(error)
        if isinstance(error, RequestTimeoutError):
            in_vain = attempt.awaited.in_vain if attempt.awaited is not None else ""
            clues = [clue for clue in (in_vain, self._works_on(attempt)) if clue]
            return RequestTimeoutError("\n  ".join((str(error), *clues))) if clues else error
        if isinstance(error, SessionClosedError):
            error.sent = error.sent and (meaning in MAY_HAVE_RUN or meaning is Failure.FINAL)
            if error.sent and (self._supervisor.comes_back or self._supervisor.client is not None):
                return lost_error(self._place.name, title, attempt.error or failure, self._place)
            if error.sent and not retries.is_harmless:
                return closed_error(self._place, failure, title, attempt.stderr_offset)
        return error

    async def open_client(self, title: str = "", timeout: float | None = None) -> Client:
        """Return the client of the open session, waiting at most `timeout` seconds; raise SessionError without one."""
        check_seconds(title, timeout=timeout)
        supervisor = self._supervisor
        if supervisor.client is None and supervisor.comes_back:
            longest = supervisor.reconnection.wait
            longest = longest if timeout is None else min(timeout, longest)
            late = asyncio.timeout(longest)
            with without_context:
                try:
                    async with late:
                        await supervisor.back()
                except SessionClosedError:
                    pass  # said below
                except TimeoutError:
                    if not late.expired():
                        raise
                    name, last = self._place.name, supervisor.last_attempt()
                    raise waited_error(name, title or name, longest, supervisor.backoff, last) from None
        if supervisor.client is None:
            await supervisor.last_words()
        if supervisor.client is None:
            raise supervisor.unavailable()
        return supervisor.client

    async def drained(self, seconds: float) -> None:
        """Wait until no request is pending, but at most `seconds`."""
        if self.traffic.in_flight:
            self._drained = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._drained.wait()
