"""Sending one request until it is answered or has failed: timed, repeated where that is safe, failures in words.

One place, so that every request is treated alike: one that finds its session lost waits for it to be opened again, a
streamable-HTTP server that has forgotten the session gets a new one and the request once more, `Retry-After` is
honoured. What may be sent again says `core/repeating.py`. Other failures become errors that say what to do.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from mcp_magic.config.specs import HttpSpec
from mcp_magic.core.border import request_error
from mcp_magic.core.eras import finished, ping
from mcp_magic.core.foreign import is_closed
from mcp_magic.core.lost import ended_error, lost_error, waited_error
from mcp_magic.core.outcome import Outcome, current
from mcp_magic.core.pacing import Turns, most_at_once
from mcp_magic.core.repeating import BUSY, BUSY_ATTEMPTS, LOST_ATTEMPTS, Repeats, cannot_have_run, is_forgotten
from mcp_magic.errors import (
    AuthorizationError,
    CallCancelledError,
    MCPMagicError,
    RequestTimeoutError,
    SessionClosedError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp import Client

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.border import Place
    from mcp_magic.core.reconnection import Backoff, Reconnection

__all__ = ["Attempts"]

T = TypeVar("T")

BUSY_SECONDS = 60.0
"""Seconds that a request without a time-out waits in all because a busy server asks for it."""


class Attempts:
    """What `Connection` sends with; it adds the session.

    Attributes:
        calls: Requests sent, without those that the host made on its own account.
        failures: Those of them that failed (a tool's own error is no failure of the session).
        latency: Seconds of the last round trip, or None.
        last_seen: When the server last answered (`time.time()`), or None.
    """

    name: str
    spec: Spec
    reconnection: Reconnection
    _place: Place
    _client: Client | None
    _backoff: Backoff | None

    def __init__(self) -> None:
        self.calls = 0
        self.failures = 0
        self.latency: float | None = None
        self.last_seen: float | None = None
        self._under_way = 0
        self._turns = Turns(most_at_once())

    async def _send(
        self,
        what: str,
        send: Callable[[Client], Awaitable[T]],
        timeout: float | None = None,
        *,
        harmless: bool = False,
        patient: bool = True,
        queue: Callable[[int, int], None] | None = None,
        counted: bool = True,
    ) -> T:
        """Send a request.

        Args:
            what: What is asked, for messages.
            send: Sends it on a session, within `timeout` seconds.
            timeout: That time-out.
            harmless: Whether it may be sent again although it may have run.
            patient: Whether it waits for a server that is busy.
            queue: Told if it waits for its turn, how many have theirs and how many wait; None for what takes no turn.
            counted: Whether you asked for it; what the host asks on its own account is in the trace only.
        """
        repeats = Repeats(harmless, patient=patient)
        client = await self._open_client(what, timeout)
        self.calls += counted
        while True:
            if queue is not None and isinstance(self.spec, HttpSpec):
                async with self._turns.taken(queue):
                    if client is not self._client:  # it was lost, or opened again, while this waited
                        client = await self._open_client(what, timeout)
                    answer, failure, outcome = await self._attempt(client, send)
            else:
                answer, failure, outcome = await self._attempt(client, send)
            if failure is None:
                return answer  # type: ignore[return-value]
            if isinstance(failure, CallCancelledError):
                raise failure  # the person's own wish: nothing has failed
            await self._after_failure(client, failure)
            if not await self._again(client, failure, outcome, repeats, timeout):
                break
            client = await self._open_client(what, timeout)
        self.failures += counted
        raise self._failed(failure, outcome, what, timeout, harmless=harmless)

    async def _attempt(
        self, client: Client, send: Callable[[Client], Awaitable[T]]
    ) -> tuple[T | None, Exception | None, Outcome]:
        """Send once. Failures are returned, so that what is raised later has no foreign error in its context."""
        outcome = Outcome(self._place.position())
        if not self._under_way:
            self._place.quiet = outcome.begun
        token = current.set(outcome)
        started = time.perf_counter()
        self._under_way += 1
        try:
            answer = finished(await send(client))
        except Exception as error:
            return None, error, outcome
        finally:
            self._under_way -= 1
            outcome.over = True
            current.reset(token)
        self.latency = time.perf_counter() - started
        self.last_seen = time.time()
        if not self._under_way:
            self._place.quiet = self._place.position()
        return answer, None, outcome

    async def _again(
        self, client: Client, failure: Exception, outcome: Outcome, repeats: Repeats, timeout: float | None
    ) -> bool:
        """Whether a request that failed is to be sent once more, now."""
        if is_forgotten(failure, outcome) and not repeats.renewed:
            repeats.renewed = True
            self._forget(client)
            return True
        wait = outcome.retry_after
        if outcome.status in BUSY:
            if wait is None or not repeats.patient:
                return False
            longest = BUSY_SECONDS if timeout is None else min(timeout, BUSY_SECONDS)
            if repeats.busy >= BUSY_ATTEMPTS or repeats.waited + wait > longest:
                return False
            repeats.busy += 1
            repeats.waited += wait
            await asyncio.sleep(wait)
            return True
        if not is_closed(failure) or not (self._comes_back or self._client is not None):
            return False
        repeats.lost += 1
        if cannot_have_run(failure, outcome):
            return repeats.lost <= LOST_ATTEMPTS
        return repeats.harmless and repeats.lost <= 1

    def _failed(
        self, failure: Exception, outcome: Outcome, what: str, timeout: float | None, *, harmless: bool
    ) -> Exception:
        if isinstance(outcome.error, AuthorizationError):
            return AuthorizationError(*outcome.error.args)
        error = request_error(failure, self._place, what, timeout, outcome)
        if isinstance(error, RequestTimeoutError) and outcome.awaited is not None and outcome.awaited.in_vain:
            return RequestTimeoutError(f"{error}\n  {outcome.awaited.in_vain}")
        if isinstance(error, SessionClosedError):
            error.sent = error.sent and not cannot_have_run(failure, outcome)
            if error.sent and (self._comes_back or self._client is not None):
                return lost_error(self.name, what, outcome.error or failure, self._place)
            if error.sent and not harmless:
                return ended_error(what, self._place, failure, outcome.begun)
        return error

    async def _open_client(self, what: str = "", timeout: float | None = None) -> Client:
        """Return the session, or wait for one that is being opened again, `timeout` seconds at most.

        Raises:
            SessionError: There is none, and nothing was sent.
        """
        if self._client is not None and self._is_doubtful():
            await self._check(self._client)
        if self._client is None and self._comes_back:
            longest = self.reconnection.wait if timeout is None else min(timeout, self.reconnection.wait)
            late, failed = False, None
            try:
                async with asyncio.timeout(longest):
                    await self._back()
            except TimeoutError:
                late = True
            except MCPMagicError as error:
                failed = error
            if late:
                raise waited_error(self.name, what or self.name, longest, self._backoff, self._last_attempt())
            if failed is not None and not isinstance(failed, SessionClosedError):
                raise failed
        if self._client is None:
            await self._last_words()
        return self.client

    def _is_doubtful(self) -> bool:
        """Whether the session was silent for so long that the server may be gone without anybody having noticed.

        Over streamable HTTP a request has a connection of its own, and stdio has a process.
        """
        if self.spec.transport not in ("sse", "ws") or self._under_way or self.last_seen is None:
            return False
        return not 0 <= time.time() - self.last_seen <= self.reconnection.idle  # the clock may have been set back

    async def _check(self, client: Client) -> None:
        async def send(client: Client) -> None:
            async with asyncio.timeout(self.reconnection.ping):
                await ping(client)

        _, failure, _ = await self._attempt(client, send)
        if isinstance(failure, TimeoutError) or (failure is not None and is_closed(failure)):
            self._doubt(failure)

    async def _idle(self, timeout: float) -> None:
        """Wait until no request is under way, `timeout` seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._under_way:
                    await asyncio.sleep(0.01)

    # What the connection adds

    @property
    def client(self) -> Client:
        """The SDK's client."""
        raise NotImplementedError

    @property
    def _comes_back(self) -> bool:
        raise NotImplementedError

    async def _back(self) -> None:
        raise NotImplementedError

    def _forget(self, client: Client) -> None:
        raise NotImplementedError

    def _doubt(self, why: BaseException) -> None:
        raise NotImplementedError

    def _last_attempt(self) -> str:
        raise NotImplementedError

    async def _after_failure(self, client: Client, failure: Exception) -> None:
        raise NotImplementedError

    async def _last_words(self) -> None:
        raise NotImplementedError
