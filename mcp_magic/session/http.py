"""The HTTP client below a session: resumes streams, and turns failures into answers.

A stream that was cut is opened again by the SDK, with `Last-Event-ID`, after the time that the server names. Opening
waits here until the owner task finds the server back, so only the owner's clock counts.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import httpx2

from mcp_magic.display.text import one_line
from mcp_magic.errors import ConnectError
from mcp_magic.flight.attempt import current_attempt, retry_after
from mcp_magic.flight.backoff import Backoff, Pacing
from mcp_magic.protocol import AWAY, INTERNAL_ERROR, REFUSED
from mcp_magic.results.reasons import MAX_LINE, MAX_WHOLE, of_body
from mcp_magic.session.bodies import (
    TooLargeError,
    accept,
    answer_in,
    as_events,
    data_of,
    failed_event,
    has_end,
    is_stream,
    name_of,
    number_of,
    read_answer,
    read_whole,
    whole_events,
)
from mcp_magic.session.wire import Event, Wire

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from mcp import Client

    from mcp_magic.session.reader import Remark


# The stream of an HTTP+SSE session: its endpoint is checked, and answers that came with a POST are added.

_EVENTS = 100  # most events that wait to be read

_NO_ENDPOINT = "the stream ended before it named its endpoint"


class Inbox(httpx2.AsyncByteStream):
    """The stream on which all answers of a session come.

    It fails with the reason as an `httpx2.SSEError` if it names no usable endpoint: the SDK would wait for one.
    """

    def __init__(self, response: httpx2.Response, url: str, remark: Remark) -> None:
        self._stream: Any = response.stream
        self._url = url
        self._remark = remark
        self._is_named = False  # whether the endpoint was named
        self._events: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(_EVENTS)
        self._reading: asyncio.Task[None] | None = None

    async def add(self, message: dict[str, Any]) -> None:
        """Add a message as if it came on the stream."""
        await self._events.put(f"data: {json.dumps(message)}\n\n".encode())

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._reading = asyncio.create_task(self._read())
        try:
            while (event := await self._events.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self._reading.cancel()

    async def aclose(self) -> None:
        """Close it."""
        if self._reading is not None:
            self._reading.cancel()
        await self._stream.aclose()

    async def _read(self) -> None:
        """Queue the events of the server, and at the end the error that ended them, or None."""
        why: Exception | None = None
        try:
            async for event in whole_events(aiter(self._stream), self._remark):
                self._check(event)
                await self._events.put(failed_event(event, None))
            if not self._is_named:
                raise httpx2.SSEError(_NO_ENDPOINT)
        except httpx2.SSEError as error:
            why = error
        except Exception as error:
            why = error if self._is_named else httpx2.SSEError(f"{_NO_ENDPOINT}: {error}".removesuffix(": "))
        await self._events.put(why)

    def _check(self, event: bytes) -> None:
        """Raise SSEError if an event says that there is no usable endpoint."""
        kind, text = name_of(event), data_of(event).decode("utf-8", "replace")
        if kind == "endpoint":
            there, here = urlsplit(urljoin(self._url, text)), urlsplit(self._url)
            if (there.scheme, there.netloc) != (here.scheme, here.netloc):
                address = one_line(f"{there.scheme}://{there.netloc.rpartition('@')[2]}{there.path}", MAX_LINE)
                raise httpx2.SSEError(f"its endpoint {address} is of another origin and is refused")
            self._is_named = True
        elif kind == "error" and not self._is_named:
            reason = one_line(of_body(text), MAX_LINE)
            raise httpx2.SSEError(f"{_NO_ENDPOINT}: {reason}".removesuffix(": "))


# An HTTP client for the SDK's transports that survives network outages.
#
# The SDK's streamable-HTTP transport ends the whole session, with all pending calls, when one request cannot connect.
# It gives up an interrupted stream after two attempts, and never reopens the notification stream once that was cut
# twice. It sends everything with `client.send`, so the fix is there: a failed request becomes an error answer, and a
# cut stream is retried as long as the session is being reconnected.

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before the first retry of a stream that cannot be opened; doubles each time, up to the second value."""

GOODBYE_SECONDS = 2.0
"""Seconds for the message that ends a session: a server that is gone must not keep the user waiting."""

STREAM_SECONDS = 0.5
"""Seconds that the first request of a session waits for the notification stream to open. Earlier notifications are
lost; but some servers open the stream only with its first notification."""

LONGEST_RESUMING = 5.0  # longest pause in seconds before the stream of a call's answer is resumed

_NO_STREAM = (405,)  # HTTP statuses of a server without a stream of notifications, by the specification

_SESSION_ID = "mcp-session-id"
_VISIBLE = re.compile(rb"[\x21-\x7e]+")  # what a session id may have (specification, "Session Management")

REFUSAL = "Server returned an error response"
"""What the SDK says where HTTP answered a request with a status only."""

_WAY = "mcp_magic_redirects"  # extension of a request: the URLs to which it was redirected

_STILL_OPEN = 409  # HTTP status of a server that has not noticed yet that the previous stream was cut


TAKING_SECONDS, LATER_SECONDS = 3.0, 0.5
"""Seconds that a server has to take a message that has no answer, and those after the first that it did not: the SDK
sends nothing else meanwhile."""

_HAS_NO_ANSWER = re.compile(rb'\{"jsonrpc":"2\.0",(?:"method":"notifications/|"id":[^,]{1,100},"(?:result|error)":)')


_resuming: ContextVar[Pacing | None] = ContextVar("mcp_magic_resuming", default=None)
"""The pauses between the streams on which the answer to one request is to come."""


class ResilientClient:
    """The part of `httpx2.AsyncClient` that the SDK's transports use, made robust.

    A refused request fails alone, and so does one that cannot be sent; over HTTP+SSE, to which `sse_url` is the URL,
    that ends the session. Without a session, requests are sent as usual.
    """

    def __init__(self, client: httpx2.AsyncClient, wire: Wire, sse_url: str = "") -> None:
        self._client = client
        self._wire = wire
        self._sse_url = sse_url
        self._session_id: str | None = None
        self._odd_id: tuple[str, bytes] | None = None  # a session id that the SDK cannot send: its stand-in, and itself
        self._inbox: Inbox | None = None  # of an HTTP+SSE session
        self._had_stream = False  # whether this session's stream of notifications was open
        self._pacing = Pacing()
        self._taking = TAKING_SECONDS
        self._stream_answered = asyncio.Event()
        self._stream_answered.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def __aenter__(self) -> ResilientClient:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *details: Any) -> None:
        await self._client.__aexit__(*details)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request as `httpx2.AsyncClient.send` does, but wait without limit for a free connection."""
        request.extensions.get("timeout", {})["pool"] = None  # the spec's `client_factory` may set a limit
        session = self._wire.session
        if self._odd_id is not None and request.headers.get(_SESSION_ID) == self._odd_id[0]:
            headers = [(n, self._odd_id[1] if n.lower() == b"mcp-session-id" else v) for n, v in request.headers.raw]
            request.headers = httpx2.Headers(headers)
        if request.method == "DELETE":
            return await self._goodbye(request, options)
        if request.method == "GET" and not self._sse_url:
            return await self._stream(request, options)
        if request.method == "POST" and self._sse_url:
            response = await self._posted(request, session, options)
        elif _HAS_NO_ANSWER.match(await request.aread()):  # that of a redirect is not read yet
            response = await self._send_unanswered(request, session, options)
        elif session is None:
            response = await self._opening(request, options)
        else:
            response = await self._send_one(request, session, options)
        # The SDK requests the notification stream while it sends `notifications/initialized`, and sends no request
        # before that is answered.
        if not self._stream_answered.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stream_answered.wait(), STREAM_SECONDS)
            self._stream_answered.set()
        return response

    async def _send_one(self, request: httpx2.Request, session: Client, options: dict[str, Any]) -> httpx2.Response:
        """Send one message; a failure becomes an error answer, which fails only this message."""
        try:
            response = await self._read(await self._client.send(request, **options))
        except TooLargeError as error:
            return _failure(request, str(error))
        except httpx2.RequestError as error:
            problem = str(error) or type(error).__name__
            _note_error(error)
            self._wire.report(Event.DOUBTED, session, error)
        else:
            if is_stream(response):
                _resuming.set(Pacing(longest=LONGEST_RESUMING))  # the SDK resumes it in this context
            return response
        return _failure(request, f"Connection closed: {problem}")

    async def _send_unanswered(
        self, request: httpx2.Request, session: Client | None, options: dict[str, Any]
    ) -> httpx2.Response:
        """Send a message that has no answer, and go on if the server does not say that it took it."""
        sending = self._opening(request, options) if session is None else self._send_one(request, session, options)
        try:
            async with asyncio.timeout(self._taking):
                return await sending
        except TimeoutError:
            self._taking = LATER_SECONDS
            self._wire.remark("it does not answer the POST of a notification (202 is right)")
            return httpx2.Response(202, request=request)

    async def _opening(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """Send a message before the session is open; a failure ends the opening."""
        try:
            response = await self._read(await self._client.send(request, **options))
        except httpx2.RequestError as error:
            _note_error(error)
            raise
        raw = next((value for name, value in response.headers.raw if name.lower() == b"mcp-session-id"), None)
        if raw is not None and _VISIBLE.fullmatch(raw) is None:
            stand_in = raw.decode("latin-1").encode("unicode_escape").decode()
            self._odd_id, response.headers[_SESSION_ID] = (stand_in, raw), stand_in
            self._wire.remark(
                f"its Mcp-Session-Id has other characters than visible ASCII: '{stand_in}'; it is sent as it came"
            )
        return response

    async def _read(self, response: httpx2.Response) -> httpx2.Response:
        """Read the answer to a POST by its content; follow a stream."""
        if self._sse_url:  # the stream of the session
            if not is_stream(response):
                return _note_body(await read_whole(response))
            response.stream = self._inbox = Inbox(response, self._sse_url, self._wire.remark)
            return response
        if not is_stream(response):
            if response.status_code in (307, 308) and (there := response.next_request) is not None:
                if circle := _circle(there):
                    return _failure(response.request, f"Redirects in a circle: {circle}")
                here = response.request.url
                if (there.url.scheme, there.url.host, there.url.port) == (here.scheme, here.host, here.port):
                    text = f"{here.path} redirects to {there.url.path} with each request; connect to that"
                    self._wire.remark(text, logged=False)  # it works
            return _note_body(await read_answer(response, self._wire.remark))
        response.stream = _Followed(response, self._wire)
        accept(response, self._wire.remark)
        return response

    async def _posted(
        self, request: httpx2.Request, session: Client | None, options: dict[str, Any]
    ) -> httpx2.Response:
        """Send one message of an HTTP+SSE session. Answers belong on its stream; one in the response is moved there.

        A message that cannot be sent ends the session.
        """
        try:
            response = await self._client.send(request, **options)
            if is_stream(response) or response.has_redirect_location:
                return response
            response = _note_body(await read_whole(response))
        except httpx2.RequestError as error:
            _note_error(error)
            if session is not None:
                self._wire.report(Event.DOUBTED, session, error)
            raise
        number = number_of(request)
        answer = answer_in(response.content, number) if response.content else None
        if answer is None and response.status_code >= 400:
            answer = {"error": {"code": INTERNAL_ERROR, "message": REFUSAL}}
            self._wire.made_up.add(number)
        if answer is not None and number is not None and self._inbox is not None:
            await self._inbox.add({**answer, "jsonrpc": "2.0", "id": number})
        return httpx2.Response(202, request=request)

    async def _stream(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """Open a stream, or resume it: the request already has `Last-Event-ID`."""
        attempt = current_attempt.get()
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        if (session_id := request.headers.get("mcp-session-id")) != self._session_id:
            self._session_id, self._had_stream, self._pacing = session_id, False, Pacing()
            self._stream_answered.clear()
        resuming = _resuming.get()
        await asyncio.sleep((resuming or self._pacing).pause())  # a server may end a stream as soon as it is open
        if resuming is not None and attempt is not None and attempt.over:
            raise httpx2.RequestError("nobody waits for the answer any more", request=request)
        while True:
            session = self._wire.session
            pause_hint = None
            try:
                try:
                    response = await self._client.send(request, **options)
                finally:
                    self._stream_answered.set()
            except httpx2.TransportError as error:
                if session is None or (attempt is not None and attempt.over):
                    raise
                self._wire.report(Event.DOUBTED, session, error)
                await self._wire.back()
            else:
                away = response.status_code in AWAY or response.status_code == _STILL_OPEN
                if session is None or not away or (attempt is not None and attempt.over):
                    return await self._opened(response, session)
                pause_hint = retry_after(response.headers.get("retry-after"))
                await response.aclose()
            pause = backoff.pause()
            await asyncio.sleep(max(pause, min(pause_hint or 0.0, LONGEST_PAUSE)))

    async def _opened(self, response: httpx2.Response, session: Client | None) -> httpx2.Response:
        """Follow a stream that was opened, or report why there is none.

        Only the answer to a POST forgets a session: many servers answer no GET, also with a status that says otherwise.
        """
        status = response.status_code
        if response.next_request is not None and _circle(response.next_request):
            response.next_request = None
        if is_stream(response):
            self._had_stream = True
            # Quietly: the SDK gives up a stream that breaks, but reopens one that ends.
            response.stream = _Followed(response, self._wire, quietly=True)
        elif status >= 400 and self._had_stream and session is not None:
            why = httpx2.HTTPStatusError(f"HTTP {status}", request=response.request, response=response)
            self._wire.report(Event.DOUBTED, session, why)  # a ping tells whether it knows the session
        elif status >= 400 and status not in _NO_STREAM and status not in REFUSED:
            self._wire.remark(
                f"it has no stream of notifications (its GET was answered with HTTP {status}, where 405 is right), "
                "so changes are not announced"
            )
        return response

    async def _goodbye(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        with suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                return await self._client.send(request, **options)
        return httpx2.Response(504, request=request)


class HelperAuth(httpx2.Auth):
    """Runs a headers helper again where its headers are refused, because a token may have expired, and sends again.

    Requests that are refused at the same time share one run. `fetch` runs the helper.
    """

    def __init__(self, fetch: Callable[[], Awaitable[dict[str, str]]]) -> None:
        self._fetch = fetch
        self._headers: dict[str, str] = {}  # of the last run but the first, whose headers the client has
        self._runs = 0
        self._running = asyncio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request, and once more with fresh headers if it is refused."""
        runs = self._runs
        request.headers.update(self._headers)
        response = yield request
        if response.status_code not in REFUSED:
            return
        async with self._running:
            if self._runs == runs:
                try:
                    self._headers = await self._fetch()
                except ConnectError:  # the refusal says that the old headers are of no use
                    return
                self._runs += 1
        request.headers.update(self._headers)
        yield request


class _Followed(httpx2.AsyncByteStream):
    """The stream of an answer that reports when it breaks; one of notifications, `quietly`, then just ends."""

    def __init__(self, response: httpx2.Response, wire: Wire, *, quietly: bool = False) -> None:
        self._stream: Any = response.stream
        self._status = response.status_code
        self._number = None if quietly else number_of(response.request)
        self._wire = wire
        self._quietly = quietly
        self._is_plain = not quietly and "content-encoding" not in response.headers
        self._ends = has_end(response)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            if self._is_plain:
                parts = as_events(self._stream, self._status, self._wire.remark, ends=self._ends)
                async for event in whole_events(parts, self._wire.remark):
                    yield failed_event(event, self._number)
            else:
                async for chunk in self._stream:
                    yield chunk
        except httpx2.TransportError as error:
            if self._wire.session is not None:
                self._wire.report(Event.DOUBTED, self._wire.session, error)
            if not self._quietly:
                raise

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()


def _circle(request: httpx2.Request) -> str:
    """Note where a redirect leads; return the way as `/mcp/, /mcp, /mcp/` if one led there before, else "".

    A request that follows a redirect shares the extensions of the one before. One back to the first URL may be right:
    some proxies set a cookie so.
    """
    way: list[str] = request.extensions.setdefault(_WAY, [])
    way.append(str(request.url))
    if way.count(way[-1]) == 1:
        return ""
    return ", ".join(httpx2.URL(url).path for url in way)


def _note_body(response: httpx2.Response) -> httpx2.Response:
    """Keep the beginning of a body in its attempt: the SDK does not read a body that is no answer."""
    if not is_stream(response) and (attempt := current_attempt.get()) is not None:
        attempt.body = response.content[: 2 * MAX_WHOLE].decode("utf-8", "replace")
    return response


def _note_error(error: httpx2.RequestError) -> None:
    """Keep the error of a request in its attempt: the SDK replaces it by one of its own."""
    if (attempt := current_attempt.get()) is not None:
        attempt.error = error


def _failure(request: httpx2.Request, message: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": message}}
    return httpx2.Response(502, json=error, request=request)
