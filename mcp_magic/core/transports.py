"""From a spec to what `mcp.Client` takes: one function a transport, and the table of them.

A transport here is opened once a connection and can be entered again for a new session (a
streamable-HTTP server that forgot the session), so the HTTP client, with its pool and cookies,
outlives a session.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic.config.specs import HttpSpec, InProcessSpec, Spec, SseSpec, StdioSpec, WebSocketSpec
from mcp_magic.core.errlog import ErrorLog
from mcp_magic.core.trace import IN
from mcp_magic.core.trace_streams import TracedWrite, members, trace_in_process
from mcp_magic.core.websocket import tls_context, websocket_client
from mcp_magic.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import TracebackType

    import httpx2

    from mcp_magic.core.trace_record import Recorder

__all__ = ["TRANSPORTS", "Line", "open_line"]

CONNECT_SECONDS = 15.0
"""Seconds for a TCP and TLS connection, a write, or a place in the pool. Answers may take as long as they
take: a server holds its event streams open for hours, and a call has its own time-out."""


@dataclass
class Line:
    """What a connection knows of its way to the server, below the session.

    Attributes:
        make: Returns a fresh object for `mcp.Client`, once a session.
        recorder: Writes what goes over it into the trace.
        prepare: Called with the client of each session before it is entered.
        errlog: The server's stderr, for stdio.
        status: The last HTTP status that was an error, and the URL that answered it.
        ended: Called when the server ends the stream (a process that exits, a closed socket).
        garbage: Lines the server wrote that are no MCP messages, the first few.
        refused: HTTP connections that failed before anything was sent on them.
        sent: HTTP requests that were written, in whole or in part.
    """

    make: Callable[[], Any]
    recorder: Recorder
    prepare: Callable[[Any], None] = lambda client: None
    errlog: ErrorLog | None = None
    status: int | None = None
    content_type: str = ""
    ended: Callable[[], None] = lambda: None
    garbage: list[str] = field(default_factory=list)
    refused: int = 0
    sent: int = 0


async def _open_stdio(spec: StdioSpec, line: Line, stack: AsyncExitStack) -> None:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    errlog = line.errlog = stack.enter_context(ErrorLog())
    line.recorder.follow(errlog)
    stack.callback(line.recorder.follow, None)
    parameters = StdioServerParameters(
        command=spec.command,
        args=list(spec.args),
        env=dict(spec.env),
        cwd=spec.cwd,
        # One bad byte must not end the session; it shows as U+FFFD where it stands.
        encoding_error_handler="replace",
    )
    line.make = lambda: _Watched(stdio_client(parameters, errlog=errlog.file), line)


async def _open_http(spec: HttpSpec, line: Line, stack: AsyncExitStack) -> None:
    from mcp.client.streamable_http import streamable_http_client

    client = await stack.enter_async_context(_http_client(spec, line))
    line.make = lambda: _Watched(streamable_http_client(spec.url, http_client=client, max_sse_event_size=None), line)


async def _open_sse(spec: SseSpec, line: Line, stack: AsyncExitStack) -> None:
    from mcp.client.sse import sse_client

    def factory(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        # What sse_client asks for is passed over: its time-out would end an idle session after five minutes.
        return _http_client(spec, line)

    line.make = lambda: _Watched(sse_client(spec.url, httpx_client_factory=factory), line)


async def _open_websocket(spec: WebSocketSpec, line: Line, stack: AsyncExitStack) -> None:
    line.make = lambda: _Watched(websocket_client(spec), line)


async def _open_in_process(spec: InProcessSpec, line: Line, stack: AsyncExitStack) -> None:
    line.make = lambda: spec.server
    line.prepare = lambda client: trace_in_process(client, line.recorder)


TRANSPORTS: dict[type[Spec], Callable[[Any, Line, AsyncExitStack], Awaitable[None]]] = {
    StdioSpec: _open_stdio,
    HttpSpec: _open_http,
    SseSpec: _open_sse,
    WebSocketSpec: _open_websocket,
    InProcessSpec: _open_in_process,
}
"""Spec type -> the coroutine that prepares a line for it. A new transport is a spec and a row here."""


@asynccontextmanager
async def open_line(spec: Spec, recorder: Recorder) -> AsyncIterator[Line]:
    """Prepare the way to a server; nothing is sent yet, no process is started."""
    opener = TRANSPORTS.get(type(spec))
    if opener is None:
        known = ", ".join(kind.transport for kind in TRANSPORTS)
        raise TargetError(f"no transport for {type(spec).__name__}; there are {known}")
    line = Line(make=lambda: None, recorder=recorder)
    async with AsyncExitStack() as stack:
        await opener(spec, line, stack)
        yield line


def _http_client(spec: HttpSpec | SseSpec, line: Line) -> httpx2.AsyncClient:
    import httpx2

    timeout = httpx2.Timeout(min(CONNECT_SECONDS, spec.timeout), read=None)
    headers = dict(spec.headers)
    if spec.client_factory is not None:
        client: httpx2.AsyncClient = spec.client_factory(headers=headers, timeout=timeout, auth=None)
    else:
        plain = spec.verify is True and spec.cert is None
        client = httpx2.AsyncClient(headers=headers, timeout=timeout, verify=True if plain else tls_context(spec))

    async def remember(response: httpx2.Response) -> None:
        line.content_type = response.headers.get("content-type", "")
        line.status = response.status_code if response.status_code >= 400 else None
        line.recorder.http(response.request.method, response.status_code, response.headers)

    async def count(event: str, info: dict[str, Any]) -> None:
        line.refused += event.endswith(("connect_tcp.failed", "start_tls.failed"))
        line.sent += event.endswith("send_request_headers.started")

    async def watch(request: httpx2.Request) -> None:
        request.extensions.setdefault("trace", count)

    hooks = client.event_hooks
    client.event_hooks = {"request": [*hooks["request"], watch], "response": [*hooks["response"], remember]}
    return client


class _Watched:
    """A transport whose read stream says when the server ended it and what in it was no message.

    The SDK settles the pending requests then but tells nobody else, so a dead server would look
    alive until the next call.
    """

    def __init__(self, transport: Any, line: Line) -> None:
        self._transport = transport
        self._line = line

    async def __aenter__(self) -> tuple[Any, Any]:
        read, write = await self._transport.__aenter__()
        return _WatchedStream(read, self._line), TracedWrite(write, self._line.recorder)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        leave: bool | None = await self._transport.__aexit__(exc_type, exc, traceback)
        return leave


class _WatchedStream:
    def __init__(self, stream: Any, line: Line) -> None:
        self._stream = stream
        self._line = line
        self._next = stream.__anext__

    def __aiter__(self) -> _WatchedStream:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._next()
        except StopAsyncIteration:
            self._line.ended()
            raise
        self._note(item)
        return item

    def _note(self, item: Any) -> None:
        if not isinstance(item, Exception):
            self._line.recorder.message(IN, members(item.message))
            return
        details = item.errors() if hasattr(item, "errors") else []
        found = details[0].get("input", "") if details else str(item)
        text = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
        self._line.recorder.garbage(text)
        if len(self._line.garbage) < 5 and text.strip():
            self._line.garbage.append(text.strip()[:200])

    async def receive(self) -> Any:
        item = await self._stream.receive()
        self._note(item)
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> _WatchedStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        leave: bool | None = await self._stream.__aexit__(exc_type, exc, traceback)
        return leave

    def __getattr__(self, name: str) -> Any:  # last_context, which the HTTP streams have
        return getattr(self._stream, name)
