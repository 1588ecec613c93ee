"""From a spec to what `mcp.Client` takes: one function a transport, and the table of them.

A transport here is opened once a connection and can be entered again for a new session (a
streamable-HTTP server that forgot the session), so the HTTP client, with its pool and cookies,
outlives a session.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic.auth.login import LogIns
from mcp_magic.browser import IN_BROWSER
from mcp_magic.config.specs import HttpSpec, InProcessSpec, Spec, SseSpec, StdioSpec, WebSocketSpec, tls_context
from mcp_magic.core.cassette.deck import deck
from mcp_magic.core.crashing import contained
from mcp_magic.core.errlog import ErrorLog
from mcp_magic.core.halfopen import ClosesHalfOpen
from mcp_magic.core.negotiation import Probe
from mcp_magic.core.outcome import current, keep_alive
from mcp_magic.core.stdio_lines import MAX_MESSAGE, read_whole_lines
from mcp_magic.core.stdio_process import know_processes
from mcp_magic.core.threadless import call_without_threads
from mcp_magic.core.trace.streams import trace_in_process
from mcp_magic.core.trace.watched import Watched
from mcp_magic.core.websocket import websocket_client
from mcp_magic.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import httpx2

    from mcp_magic.core.keeper import Keeper
    from mcp_magic.core.outcome import Outcome
    from mcp_magic.core.trace.record import Recorder

__all__ = ["TRANSPORTS", "Line", "open_line"]

CONNECT_SECONDS = 15.0
"""Seconds for a TCP and TLS connection, or a write. Answers may take as long as they take: a server holds its event
streams open for hours, and a call has its own time-out."""

KEPT_CONNECTIONS = 20
"""Idle connections that a session keeps for its next requests. It may open as many as it needs: over HTTP/1.1 each
call holds one until it is answered, and what the call needs meanwhile (the answer to a question of the server, word
that nobody waits any more) must find another. `core/attempts.py` limits how many calls are made at once."""


@dataclass
class Line:
    """What a connection knows of its way to the server, below the session.

    Attributes:
        make: Returns a fresh object for `mcp.Client`, once a session.
        recorder: Writes what goes over it into the trace.
        prepare: Called with the client of each session before it is entered.
        errlog: The server's stderr, for stdio.
        opening: How the server answered when a session was last opened, or asked whether it is there; None before.
        ended: Called when the server ends the stream (a process that exits, a closed socket).
        strange: Told in words of answers that nobody asked for.
        stray: What it was told first.
        garbage: Lines the server wrote that are no MCP messages, the first few.
        logins: How a person logs in, and where tokens are kept.
        open: Whether there has been a session on it; what fails later must not end it.
        modern: Whether its session is one of 2026-07-28.
        keeper: Who holds a session open on it, once there is one.
        replayed: Whether it leads to a cassette.
        exited: How the process ended that the cassette tells of, or "".
        probe: What became of the first question of the session.
    """

    make: Callable[[], Any]
    recorder: Recorder
    prepare: Callable[[Any], None] = lambda client: None
    errlog: ErrorLog | None = None
    opening: Outcome | None = None
    ended: Callable[[], None] = lambda: None
    strange: Callable[[str], None] = lambda said: None
    stray: str = ""
    garbage: list[str] = field(default_factory=list)
    logins: LogIns = field(default_factory=LogIns)
    open: bool = False
    modern: bool = False
    keeper: Keeper | None = None
    replayed: bool = False
    exited: str = ""
    probe: Probe = field(default_factory=Probe)

    def begin_again(self) -> None:
        """Forget what a server did whose session could not be opened; it is begun in another way now."""
        self.garbage.clear()
        self.stray = ""
        self.recorder.ended()
        if self.errlog is not None:
            self.errlog.hide()


async def _open_stdio(spec: StdioSpec, line: Line, stack: AsyncExitStack) -> None:
    _refuse_in_browser("starts no programs")
    from mcp.client.stdio import StdioServerParameters, stdio_client

    read_whole_lines()
    know_processes()
    errlog = line.errlog = stack.enter_context(ErrorLog())
    errlog.keep_small()
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
    line.make = lambda: Watched(stdio_client(parameters, errlog=errlog.file), line)


async def _open_http(spec: HttpSpec, line: Line, stack: AsyncExitStack) -> None:
    from mcp.client.streamable_http import streamable_http_client

    from mcp_magic.core.persistent import PersistentClient

    client: Any = PersistentClient(await stack.enter_async_context(_http_client(spec, line)), line, isolate=True)
    options: dict[str, Any] = {"http_client": client, "max_sse_event_size": MAX_MESSAGE}
    line.make = lambda: Watched(streamable_http_client(spec.url, **options), line)


async def _open_sse(spec: SseSpec, line: Line, stack: AsyncExitStack) -> None:
    from mcp.client.sse import sse_client

    from mcp_magic.core.persistent import PersistentClient

    def factory(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> Any:
        # What sse_client asks for is passed over: its time-out would end an idle session after five minutes.
        return PersistentClient(_http_client(spec, line), line, isolate=False)

    line.make = lambda: Watched(sse_client(spec.url, httpx_client_factory=factory), line)


async def _open_websocket(spec: WebSocketSpec, line: Line, stack: AsyncExitStack) -> None:
    _refuse_in_browser("opens no sockets")
    line.make = lambda: Watched(websocket_client(spec), line)


async def _open_in_process(spec: InProcessSpec, line: Line, stack: AsyncExitStack) -> None:
    call_without_threads()
    stack.enter_context(contained(spec.server))
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
async def open_line(spec: Spec, recorder: Recorder, logins: LogIns | None = None) -> AsyncIterator[Line]:
    """Prepare the way to a server; nothing is sent yet, no process is started."""
    opener = TRANSPORTS.get(type(spec))
    if opener is None:
        known = ", ".join(kind.transport for kind in TRANSPORTS)
        raise TargetError(f"no transport for {type(spec).__name__}; there are {known}")
    line = Line(make=lambda: None, recorder=recorder, logins=logins or LogIns())
    async with AsyncExitStack() as stack:
        if (cassette := deck.cassette) is not None:
            from mcp_magic.core.cassette.line import through_cassette

            await through_cassette(cassette, spec, line, stack, opener)
        else:
            recorder.take = None
            await opener(spec, line, stack)
        yield line


def _refuse_in_browser(lacks: str) -> None:
    if IN_BROWSER:
        raise TargetError(
            f"this Python runs in a browser and {lacks}. "
            "Connect to the URL of a streamable-HTTP server, or to a server in this kernel (`%%mcp_server NAME`)."
        )


def _http_client(spec: HttpSpec | SseSpec, line: Line) -> httpx2.AsyncClient:
    import httpx2

    from mcp_magic.auth.client import AuthContext, log_in_with

    timeout = httpx2.Timeout(min(CONNECT_SECONDS, spec.timeout), read=None, pool=None)
    headers = dict(spec.headers)
    if spec.client_factory is not None:
        client: httpx2.AsyncClient = spec.client_factory(headers=headers, timeout=timeout, auth=None)
    else:
        plain = spec.verify is True and spec.cert is None
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS)
        verify = True if plain else tls_context(spec)
        client = httpx2.AsyncClient(headers=headers, timeout=timeout, verify=verify, limits=limits)
    _observe(client, line)
    about, lends = line.recorder, line.logins
    log_in_with(client, AuthContext(about.server, spec, lends, about.know, about.hide, lambda: line.open))
    return client


def _observe(client: httpx2.AsyncClient, line: Line) -> None:
    """Let each request, and the trace, know how it is answered; those of a log-in are none of the session's."""
    from mcp_magic.auth.client import OWN

    async def remember(response: httpx2.Response) -> None:
        if OWN in response.request.extensions:
            return
        line.recorder.http(response.request.method, response.status_code, response.headers)
        if (made := current.get()) is not None:
            made.answered(response)

    async def count(event: str, info: dict[str, Any]) -> None:
        keep_alive(event, info)
        if (made := current.get()) is not None:
            made.happened(event)

    async def watch(request: httpx2.Request) -> None:
        if OWN not in request.extensions:
            request.extensions.setdefault("trace", ClosesHalfOpen(count))

    hooks = client.event_hooks
    client.event_hooks = {"request": [*hooks["request"], watch], "response": [*hooks["response"], remember]}
