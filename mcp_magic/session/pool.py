"""The connection pool of an HTTP client: a request has a connection of its own, the last used of the free ones."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpcore2
import httpx2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from ssl import SSLContext

KEPT_CONNECTIONS = 20
"""Most free connections that a session keeps for its next requests. Open ones are not limited: each call holds one
until it is answered, and its cancellation or the answer to a question of the server needs another.
`session/requests.py` limits the concurrent calls."""

IDLE_SECONDS = 5.0
"""Seconds after which a free connection is not used again; the server may be about to close it."""


class ConnectionPool(httpx2.AsyncBaseTransport):
    """HTTP/1.1 connections as a stack.

    The pool of httpcore goes through all its connections for each request and each answer, and asks the system about
    each free one. Here a request asks about the one that it takes. That is worth 15 % of a map of 2,000 rows (3.4 s
    instead of 4.0 s), and 0.05 of the ratio of a call to a bare session's.

    Args:
        tls: Makes the TLS context, when the first connection needs it.
    """

    def __init__(self, tls: Callable[[], SSLContext]) -> None:
        self._tls = tls
        self._free: list[tuple[httpcore2.AsyncHTTPConnection, float]] = []  # with the moment of its last answer
        self._open: set[httpcore2.AsyncHTTPConnection] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response once its headers are there."""
        url = request.url
        if url.scheme not in ("http", "https"):
            raise httpx2.UnsupportedProtocol(f"{url.scheme!r} is neither 'http' nor 'https'")
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        core_request = httpcore2.Request(
            request.method, target, headers=request.headers.raw, content=request.stream, extensions=request.extensions
        )
        connection = await self._take(target.origin)
        try:
            with _as_httpx2():
                answer = await connection.handle_async_request(core_request)
        except BaseException:
            await self._close(connection)
            raise
        stream = _Body(answer.stream, lambda: self._give_back(connection))
        return httpx2.Response(answer.status, headers=answer.headers, stream=stream, extensions=answer.extensions)

    async def _take(self, origin: httpcore2.Origin) -> httpcore2.AsyncHTTPConnection:
        """Return the free connection to a server that was used last, or a new one."""
        places = range(len(self._free) - 1, -1, -1)
        place = next((place for place in places if self._free[place][0].can_handle_request(origin)), None)
        if place is None:
            tls = self._tls() if origin.scheme == b"https" else None
            connection = httpcore2.AsyncHTTPConnection(origin, tls, IDLE_SECONDS)
            self._open.add(connection)
            return connection
        connection, _ = self._free.pop(place)
        if not connection.has_expired():
            return connection
        await self._close(connection)
        return await self._take(origin)

    async def _give_back(self, connection: httpcore2.AsyncHTTPConnection) -> None:
        """Keep a connection whose answer has ended, if it can be used again; close one that has not been used long."""
        if not connection.is_available():
            await self._close(connection)
            return
        now = time.monotonic()
        self._free.append((connection, now))
        if len(self._free) > KEPT_CONNECTIONS or now - self._free[0][1] > IDLE_SECONDS:
            await self._close(self._free.pop(0)[0])

    async def _close(self, connection: httpcore2.AsyncHTTPConnection) -> None:
        self._open.discard(connection)
        await connection.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        self._free.clear()
        for connection in list(self._open):
            await self._close(connection)


class _Body(httpx2.AsyncByteStream):
    """The body of a response; `then` is awaited once it is closed."""

    def __init__(self, stream: Any, then: Callable[[], Any]) -> None:
        self._stream = stream
        self._then: Callable[[], Any] | None = then

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx2():
            async for part in self._stream:
                yield part

    async def aclose(self) -> None:
        """Close it; idempotent."""
        then, self._then = self._then, None
        if then is not None:
            try:
                await self._stream.aclose()
            finally:
                await then()


@contextmanager
def _as_httpx2() -> Iterator[None]:
    """Raise httpcore's exceptions as those of httpx2, which have the same names."""
    try:
        yield
    except Exception as error:
        kind = getattr(httpx2, type(error).__name__, None)
        if kind is None or type(error) is not getattr(httpcore2, type(error).__name__, None):
            raise
        raise kind(str(error)) from error
