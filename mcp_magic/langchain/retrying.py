"""Calls that go on over a session that ends: opened again, and repeated where that is safe.

Safe is what certainly did not reach the tool (nobody listened, the session had ended before), and what a
trusted server declares read-only or idempotent (`core/repeating.py`). Nothing else is ever sent twice. A session that
comes back by itself (`core/owning.py`) is waited for below, and not opened here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from mcp_magic.core.connection import Connection
from mcp_magic.errors import ConnectError, HTTPStatusError, RequestTimeoutError, SessionClosedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_magic.langchain.breaker import Breaker

__all__ = ["ATTEMPTS", "current", "reaching", "retrying"]

T = TypeVar("T")

ATTEMPTS = 3
"""Times that a call is tried."""

FIRST_WAIT, MAX_WAIT, JITTER = 0.2, 2.0, 0.2
"""Seconds before the second attempt, before any attempt at most, and the random part of each."""

_BUSY = (429, 502, 503, 504)
"""HTTP statuses after which a server may be there a moment later."""


def current(connection: Connection) -> Connection:
    """Return the connection to the same server that the host holds now: somebody may have reconnected."""
    held = connection.host.connections.get(connection.name) if connection.host is not None else None
    return held if isinstance(held, Connection) and held.spec == connection.spec else connection


async def retrying(
    connection: Connection,
    send: Callable[[Connection], Awaitable[T]],
    *,
    breaker: Callable[[Connection], Breaker],
    repeatable: Callable[[], bool],
) -> T:
    """Run `send` on the open session, at most three times, with a growing and partly random wait in between.

    Args:
        connection: Any connection to the server.
        send: Called with the connection that is open now.
        breaker: Returns the circuit breaker of a connection.
        repeatable: Whether what was sent may be sent again.

    Raises:
        SessionError: The session failed, or the breaker is open.
        ConnectError: The session had ended and could not be opened again.
    """

    def again(error: BaseException) -> bool:
        if isinstance(error, SessionClosedError):
            if error.waited:  # long enough
                return False
            return _can_reopen(current(connection)) and (not error.sent or repeatable())
        if isinstance(error, RequestTimeoutError):
            return repeatable()
        return _may_be_there_soon(error)

    async def once() -> T:
        live = await _opened(current(connection), breaker)
        with breaker(live).attempt((live.name, live.opened_at)):
            return await send(live)

    return await _attempts(once, again)


async def reaching(connect: Callable[[], Awaitable[Connection]], breaker: Breaker) -> Connection:
    """Open a session, at most three times where the server may only not be there yet.

    Args:
        connect: Opens it.
        breaker: Refuses while the server is taken to be dead.

    Raises:
        SessionError: The breaker is open.
        ConnectError: No session could be opened.
    """

    async def once() -> Connection:
        with breaker.attempt():
            return await connect()

    return await _attempts(once, _may_be_there_soon)


async def _attempts(once: Callable[[], Awaitable[T]], again: Callable[[BaseException], bool]) -> T:
    from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential, wait_random

    attempts = AsyncRetrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_exponential(multiplier=FIRST_WAIT, max=MAX_WAIT) + wait_random(0, JITTER),
        retry=retry_if_exception(again),
        reraise=True,
    )
    return await attempts(once)


def _may_be_there_soon(error: BaseException) -> bool:
    return isinstance(error, UnreachableError) or (isinstance(error, HTTPStatusError) and error.status in _BUSY)


def _can_reopen(connection: Connection) -> bool:
    """Whether the session was not ended by the person, and a host can open it again."""
    return connection.is_held and connection.state != "closed"


_reopening: WeakKeyDictionary[Connection, asyncio.Task[Connection]] = WeakKeyDictionary()


async def _opened(connection: Connection, breaker: Callable[[Connection], Breaker]) -> Connection:
    """Return a connection whose session is open; a lost one is opened again, once for all who wait for it."""
    if connection.state != "lost" or not _can_reopen(connection):
        return connection
    task = _reopening.get(connection)
    if task is None or task.done():
        task = _reopening[connection] = asyncio.ensure_future(_reopen(connection, breaker(connection)))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)


async def _reopen(connection: Connection, breaker: Breaker) -> Connection:
    assert connection.host is not None
    breaker.check()
    try:
        await connection.host.reconnect(connection.name, by_hand=False)
    except ConnectError as error:  # that it opens does not say that calls work: the next one is judged
        breaker.failed(error)
        raise
    return connection
