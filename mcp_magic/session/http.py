"""The HTTP client below a session: it resumes streams, and bounds what it reads."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx2

from mcp_magic import inflight
from mcp_magic.inflight import BUSY, says_no_session
from mcp_magic.session import stdio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from httpx2 import Response

    from mcp_magic.session.wire import Keeper, Wire

__all__ = ["PersistentClient", "TooLargeError", "read_whole"]


# Reading answers over HTTP that may be larger than they seem: a megabyte of gzip can hold gigabytes.

_OF_THE_BODY = ("content-encoding", "content-length", "transfer-encoding")


class TooLargeError(httpx2.RequestError):
    """An answer has more than `MAX_MESSAGE` bytes; the rest of it was not read."""


async def read_whole(response: Response) -> Response:
    """Read an answer, part by part where it could be larger than it seems.

    Returns:
        An answer whose content is there: the same, or one like it.

    Raises:
        TooLargeError: It is too large.
    """
    limit, headers = stdio.MAX_MESSAGE, response.headers
    size = headers.get("content-length", "")
    if "content-encoding" not in headers and size.isascii() and size.isdigit() and int(size) <= limit:
        await response.aread()
        return response
    parts, length = [], 0
    async for part in response.aiter_bytes():
        parts.append(part)
        length += len(part)
        if length > limit:
            await response.aclose()
            raise TooLargeError(f"the answer has more than {limit:,} bytes, and was not read to its end")
    kept = [(name, value) for name, value in headers.multi_items() if name.lower() not in _OF_THE_BODY]
    return httpx2.Response(
        response.status_code,
        headers=kept,
        content=b"".join(parts),
        request=response.request,
        extensions=response.extensions,
        history=response.history,
    )


# An HTTP client for the SDK's transports that outlives a network that comes and goes.
#
# The SDK's streamable-HTTP transport ends the whole session, with all calls under way, when one request finds nobody;
# gives an interrupted stream up after two attempts; and never opens the stream of notifications again once it was cut
# twice. It sends everything with `client.send`, so what it lacks is done there: a request that fails becomes an
# answer of its own, and a stream that was cut is waited for as long as the session is being opened again.

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a stream that cannot be opened is tried again, twice as long each time, up to the second."""

GOODBYE_SECONDS = 2.0
"""Seconds for the message that ends a session: a server that is gone must not keep the person waiting."""

STREAM_SECONDS = 0.5
"""Seconds for which the first request of a session waits for the stream of notifications to be open. What a server
tells before that is lost; but some answer the request for the stream only when there is something to tell."""

_AWAY = (409, *BUSY, 502, 504)
"""HTTP statuses of a stream that may be there a moment later. 409: the server has not noticed yet that the one before
was cut."""


class PersistentClient:
    """What the SDK's transports use of an `httpx2.AsyncClient`.

    Args:
        client: Sends.
        wire: Whose `keeper` is told; without one nothing is done differently.
        isolate: Whether a request that fails is one failure; else the session is over, as over HTTP+SSE.
    """

    def __init__(self, client: httpx2.AsyncClient, wire: Wire, *, isolate: bool) -> None:
        self._client = client
        self._wire = wire
        self._isolate = isolate
        self._session: str | None = None
        self._stream_answered = asyncio.Event()
        self._stream_answered.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def __aenter__(self) -> PersistentClient:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *details: Any) -> None:
        await self._client.__aexit__(*details)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request as `httpx2.AsyncClient.send` does, but wait as long as it takes for a free connection."""
        request.extensions.get("timeout", {})["pool"] = None  # of a client that the spec made, with limits of its own
        keeper = self._wire.keeper
        if request.method == "DELETE":
            return await self._goodbye(request, options)
        if request.method == "GET" and self._isolate:
            return await self._stream(request, options)
        if keeper is None:
            response = await self._client.send(request, **options)
            if not _is_stream(response):
                response = await read_whole(response)
        elif self._isolate:
            response = await self._one(request, keeper, options)
        else:
            response = await self._or_lost(request, keeper, options)
        await self._after_stream()
        return response

    async def _after_stream(self) -> None:
        """Wait until a stream of notifications that was asked for meanwhile is open.

        The SDK asks for it while it sends `notifications/initialized`, and sends no request before that is answered.
        """
        if not self._stream_answered.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stream_answered.wait(), STREAM_SECONDS)
            self._stream_answered.set()

    async def _one(self, request: httpx2.Request, keeper: Keeper, options: dict[str, Any]) -> httpx2.Response:
        """Send one message; its failure is an answer that fails this message and no other."""
        try:
            response = await self._client.send(request, **options)
            if not _is_stream(response):
                response = await read_whole(response)
        except TooLargeError as error:
            return _failure(request, str(error))
        except httpx2.RequestError as error:
            problem = str(error) or type(error).__name__
            if (made := inflight.current.get()) is not None:
                made.error = error
            keeper.doubted(error)
        else:
            if _is_stream(response):
                response.stream = _Followed(response.stream, self._wire)
            return response
        return _failure(request, f"Connection closed: {problem}")

    async def _or_lost(self, request: httpx2.Request, keeper: Keeper, options: dict[str, Any]) -> httpx2.Response:
        """Send one message of a session whose answers come on another stream; a failure ends the session."""
        try:
            response = await self._client.send(request, **options)
        except httpx2.TransportError as error:
            keeper.doubted(error)
            raise
        if response.status_code >= 400:
            keeper.doubted(httpx2.HTTPStatusError(f"HTTP {response.status_code}", request=request, response=response))
        return response

    async def _stream(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """Open a stream, or open it again where it was: `Last-Event-ID` is in the request already."""
        made = inflight.current.get()
        pause = FIRST_PAUSE
        if (session := request.headers.get("mcp-session-id")) != self._session:
            self._session = session
            self._stream_answered.clear()
        while True:
            keeper = self._wire.keeper
            try:
                response = await self._ask_for_stream(request, options)
            except httpx2.TransportError as error:
                if keeper is None or (made is not None and made.over):
                    raise
                keeper.doubted(error)
                await keeper.back()
                asked = None
            else:
                if keeper is None or response.status_code not in _AWAY or (made is not None and made.over):
                    return await self._opened(response, keeper)
                asked = inflight.retry_after(response.headers.get("retry-after"))
                await response.aclose()
            await asyncio.sleep(pause if asked is None else min(asked, LONGEST_PAUSE))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _ask_for_stream(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        try:
            return await self._client.send(request, **options)
        finally:
            self._stream_answered.set()

    async def _opened(self, response: httpx2.Response, keeper: Keeper | None) -> httpx2.Response:
        if _is_stream(response):
            # A stream that breaks off and one that ends are the same to whoever opens it again, except to the SDK.
            response.stream = _Followed(response.stream, self._wire, quietly=True)
        elif keeper and "mcp-session-id" in response.request.headers and response.status_code in (400, 404):
            await response.aread()
            if response.status_code == 404 or says_no_session(response.text):
                keeper.forgotten()
        return response

    async def _goodbye(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        with suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                return await self._client.send(request, **options)
        return httpx2.Response(504, request=request)


class _Followed(httpx2.AsyncByteStream):
    """A stream whose end by failure is told.

    Args:
        stream: The stream.
        wire: Whose `keeper` is told, if it has one by then.
        quietly: Whether it then just ends.
    """

    def __init__(self, stream: Any, wire: Wire, *, quietly: bool = False) -> None:
        self._stream = stream
        self._wire = wire
        self._quietly = quietly

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                yield chunk
        except httpx2.TransportError as error:
            if self._wire.keeper is not None:
                self._wire.keeper.doubted(error)
            if not self._quietly:
                raise

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()


def _failure(request: httpx2.Request, message: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": message}}
    return httpx2.Response(502, json=error, request=request)


def _is_stream(response: httpx2.Response) -> bool:
    is_events: bool = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    return is_events and response.status_code < 400
