"""From a spec to what `mcp.Client` takes: one function a transport, and the table of them.

A transport here is opened once a connection and can be entered again for a new session (a
streamable-HTTP server that forgot the session), so the HTTP client, with its pool and cookies,
outlives a session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.browser import IN_BROWSER
from mcp_magic.config.specs import HttpSpec, InProcessSpec, Spec, SseSpec, StdioSpec, WebSocketSpec, tls_context
from mcp_magic.core.crashing import contained
from mcp_magic.core.errlog import ErrorLog
from mcp_magic.core.halfopen import ClosesHalfOpen
from mcp_magic.core.outcome import current, keep_alive
from mcp_magic.core.stdio_lines import MAX_MESSAGE, read_whole_lines
from mcp_magic.core.stdio_process import know_processes
from mcp_magic.core.threadless import call_without_threads
from mcp_magic.core.trace.streams import trace_in_process
from mcp_magic.core.trace.watched import Watched
from mcp_magic.core.websocket import websocket_client
from mcp_magic.core.wire import Wire
from mcp_magic.errors import TargetError

if TYPE_CHECKING:
    import httpx2
    from mcp import Client

__all__ = ["TRANSPORTS", "Opener", "Transport", "open_transport"]

CONNECT_SECONDS = 15.0
"""Seconds for a TCP and TLS connection, or a write. Answers may take as long as they take: a server holds its event
streams open for hours, and a call has its own time-out."""

KEPT_CONNECTIONS = 20
"""Idle connections that a session keeps for its next requests. It may open as many as it needs: over HTTP/1.1 each
call holds one until it is answered, and what the call needs meanwhile (the answer to a question of the server, word
that nobody waits any more) must find another. `core/attempts.py` limits how many calls are made at once."""


class Transport(NamedTuple):
    """How sessions are opened over a wire.

    Attributes:
        make: Returns a fresh object for `mcp.Client`, once a session.
        prepare: Called with the client of each session before it is entered.
    """

    make: Callable[[], Any]
    prepare: Callable[[Client], None] = lambda client: None


Opener = Callable[[Any, Wire, AsyncExitStack], Awaitable[Transport]]
"""Prepares the way to the server of a spec: `async def (spec, wire, stack) -> Transport`. What it holds for that is
entered in the stack, and left when the way is not needed any more."""


async def _open_stdio(spec: StdioSpec, wire: Wire, stack: AsyncExitStack) -> Transport:
    _refuse_in_browser("starts no programs")
    from mcp.client.stdio import StdioServerParameters, stdio_client

    read_whole_lines()
    know_processes()
    errlog = wire.errlog = stack.enter_context(ErrorLog())
    errlog.keep_small()
    wire.recorder.follow(errlog)
    stack.callback(wire.recorder.follow, None)
    parameters = StdioServerParameters(
        command=spec.command,
        args=list(spec.args),
        env=dict(spec.env),
        cwd=spec.cwd,
        # One bad byte must not end the session; it shows as U+FFFD where it stands.
        encoding_error_handler="replace",
    )
    return Transport(lambda: Watched(stdio_client(parameters, errlog=errlog.file), wire))


async def _open_http(spec: HttpSpec, wire: Wire, stack: AsyncExitStack) -> Transport:
    from mcp.client.streamable_http import streamable_http_client

    from mcp_magic.core.persistent import PersistentClient

    client: Any = PersistentClient(await stack.enter_async_context(_http_client(spec, wire)), wire, isolate=True)
    options: dict[str, Any] = {"http_client": client, "max_sse_event_size": MAX_MESSAGE}
    return Transport(lambda: Watched(streamable_http_client(spec.url, **options), wire))


async def _open_sse(spec: SseSpec, wire: Wire, stack: AsyncExitStack) -> Transport:
    from mcp.client.sse import sse_client

    from mcp_magic.core.persistent import PersistentClient

    def factory(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> Any:
        # What sse_client asks for is passed over: its time-out would end an idle session after five minutes.
        return PersistentClient(_http_client(spec, wire), wire, isolate=False)

    return Transport(lambda: Watched(sse_client(spec.url, httpx_client_factory=factory), wire))


async def _open_websocket(spec: WebSocketSpec, wire: Wire, stack: AsyncExitStack) -> Transport:
    _refuse_in_browser("opens no sockets")
    return Transport(lambda: Watched(websocket_client(spec), wire))


async def _open_in_process(spec: InProcessSpec, wire: Wire, stack: AsyncExitStack) -> Transport:
    call_without_threads()
    stack.enter_context(contained(spec.server))
    return Transport(lambda: spec.server, lambda client: trace_in_process(client, wire.recorder))


TRANSPORTS: dict[type[Spec], Opener] = {
    StdioSpec: _open_stdio,
    HttpSpec: _open_http,
    SseSpec: _open_sse,
    WebSocketSpec: _open_websocket,
    InProcessSpec: _open_in_process,
}
"""Spec type -> what prepares the way to its server. A new transport is a spec and a row here."""


async def open_transport(spec: Spec, wire: Wire, stack: AsyncExitStack) -> Transport:
    """Prepare the way to a server; nothing is sent yet, no process is started."""
    opener = TRANSPORTS.get(type(spec))
    if opener is None:
        known = ", ".join(kind.transport for kind in TRANSPORTS)
        raise TargetError(f"no transport for {type(spec).__name__}; there are {known}")
    return await opener(spec, wire, stack)


def _refuse_in_browser(lacks: str) -> None:
    if IN_BROWSER:
        raise TargetError(
            f"this Python runs in a browser and {lacks}. "
            "Connect to the URL of a streamable-HTTP server, or to a server in this kernel (`%%mcp_server NAME`)."
        )


def _http_client(spec: HttpSpec | SseSpec, wire: Wire) -> httpx2.AsyncClient:
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
    _observe(client, wire)
    about = wire.recorder
    log_in_with(client, AuthContext(about.server, spec, wire.logins, about.know, about.hide, lambda: wire.open))
    return client


def _observe(client: httpx2.AsyncClient, wire: Wire) -> None:
    """Let each request, and the trace, know how it is answered; those of a log-in are none of the session's."""
    from mcp_magic.auth.client import OWN

    async def remember(response: httpx2.Response) -> None:
        if OWN in response.request.extensions:
            return
        wire.recorder.http(response.request.method, response.status_code, response.headers)
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
