"""Sending one request on an open session: timed, repeated where that is safe, failures in words.

One place, so that every request is treated alike: a streamable-HTTP server that has forgotten the
session gets a new one and the request once more; other failures become errors that say what to do.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from mcp_magic.core.border import request_error
from mcp_magic.core.underway import CallUnderWay
from mcp_magic.errors import SessionClosedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp import Client

    from mcp_magic.core.border import Place
    from mcp_magic.core.elicitation import Elicitor
    from mcp_magic.core.notices import Notices

__all__ = ["METHOD_NOT_FOUND", "Sending"]

T = TypeVar("T")
METHOD_NOT_FOUND = -32601
PAGES_FIRST = -32042


class Sending:
    """What `Connection` sends with; it adds the session.

    Attributes:
        calls: Requests sent.
        failures: Requests that failed (a tool's own error is no failure of the session).
        latency: Seconds of the last round trip, or None.
        last_seen: When the server last answered (`time.time()`), or None.
    """

    notices: Notices
    _place: Place
    _client: Client | None

    def __init__(self) -> None:
        self.calls = 0
        self.failures = 0
        self.latency: float | None = None
        self.last_seen: float | None = None
        self._under_way = 0
        self._may_ask: list[CallUnderWay] = []

    async def _send_call(
        self,
        what: str,
        send: Callable[[Client], Awaitable[T]],
        timeout: float | None = None,
        elicitor: Elicitor | None = None,
    ) -> T:
        """Send a request in the course of which the server may ask the person; meanwhile its clock stands still."""
        call = CallUnderWay(timeout, elicitor)
        return await self._send(what, lambda client: call.wait(self._after_pages(client, send), self._may_ask), timeout)

    async def _after_pages(self, client: Client, send: Callable[[Client], Awaitable[T]]) -> T:
        """Send; where the server did nothing because pages have to be visited first, ask for them, and send once more.

        Source: specification 2025-11-25, "URL Elicitation Required Error".
        """
        try:
            return await send(client)
        except Exception as error:
            questions = self.notices.questions if getattr(error, "code", None) == PAGES_FIRST else None
            if questions is None or not await questions.visited(getattr(error, "data", None)):
                raise
        return await send(client)

    async def _send(self, what: str, send: Callable[[Client], Awaitable[T]], timeout: float | None = None) -> T:
        client = self._client or await self._open_client()
        self.calls += 1
        refused, sent = self._traffic
        answer, failure = await self._attempt(client, send)
        if failure is not None and self._forgotten(failure):
            # HTTP 404 to a session id: the request never reached the server's tools.
            await self.renew(client)
            answer, failure = await self._attempt(await self._open_client(), send)
        if failure is None:
            return answer  # type: ignore[return-value]
        self.failures += 1
        await self._after_failure(failure)
        error = request_error(failure, self._place, what, timeout)
        if isinstance(error, SessionClosedError) and self._traffic[0] > refused and self._traffic[1] == sent:
            error.sent = False  # nobody listened, and nothing was written meanwhile
        raise error

    @property
    def _traffic(self) -> tuple[int, int]:
        """Connections refused and requests written until now, over HTTP."""
        line = self._place.line
        return (line.refused, line.sent) if line is not None else (0, 0)

    async def _attempt(
        self, client: Client, send: Callable[[Client], Awaitable[T]]
    ) -> tuple[T | None, Exception | None]:
        """Send once. Failures are returned, so that what is raised later has no foreign error in its context."""
        started = time.perf_counter()
        self._under_way += 1
        try:
            answer = await send(client)
        except Exception as error:
            return None, error
        finally:
            self._under_way -= 1
        self.latency = time.perf_counter() - started
        self.last_seen = time.time()
        return answer, None

    def _forgotten(self, failure: Exception) -> bool:
        """Whether HTTP 404 answered a request that named a session: then it never reached a tool."""
        line = self._place.line
        code = getattr(failure, "code", None)
        if line is None or line.status != 404 or code is None:
            return False
        # "Method not found" is a 404 too since 2026-07-28; "Connection closed" may have run.
        return code != METHOD_NOT_FOUND and str(failure) != "Connection closed"

    async def _idle(self, timeout: float) -> None:
        """Wait until no request is under way, `timeout` seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._under_way:
                    await asyncio.sleep(0.01)

    # What the connection adds

    async def _open_client(self) -> Client:
        raise NotImplementedError

    async def renew(self, client: Client) -> None:
        """Replace a session that the server has forgotten."""
        raise NotImplementedError

    async def _after_failure(self, failure: Exception) -> None:
        raise NotImplementedError
