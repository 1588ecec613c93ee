"""Transports: stdio, Streamable HTTP, SSE, WebSocket and in-process.

The HTTP client outlives a session. A streamable-HTTP server that answers 404 to a session's id has forgotten the
session, and the request has not reached a tool. So the owner task leaves the session and opens the next over the same
client, and the request is sent once more. Pending requests get time to receive their own 404. A request that loses its
connection is not repeated, because it may have run.

When a task raises SystemExit or KeyboardInterrupt, asyncio ends its loop, and so the kernel; the SDK catches
`Exception` only. So a middleware of ours (`contained`) runs before those of a server in this kernel.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import cache
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn
from urllib.parse import urlsplit
from urllib.request import getproxies

from pydantic_core import PydanticSerializationError, ValidationError

from mcp_magic._compat import IN_BROWSER, call_without_threads
from mcp_magic._sdk import patch_line_reader, patch_message_adapter, patch_process_start
from mcp_magic.config.specs import HttpSpec, InProcessSpec, Spec, SseSpec, StdioSpec, WebSocketSpec, tls_context
from mcp_magic.display.text import one_line
from mcp_magic.errors import MissingDependencyError, TargetError
from mcp_magic.flight.attempt import current_attempt, keep_alive
from mcp_magic.protocol import INTERNAL_ERROR, say
from mcp_magic.results.reasons import telling_line
from mcp_magic.results.results import CRASHES, META
from mcp_magic.session.observation import Observation
from mcp_magic.session.secrets import fetch_headers, resolve_secrets
from mcp_magic.session.stdio import MAX_MESSAGE, read_whole_lines, remark_spread
from mcp_magic.session.streams import Watched, trace_in_process
from mcp_magic.session.wire import LOG_IN, Wire
from mcp_magic.stderr import log_for, note_starts, started_early

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    import httpx2
    from mcp import Client
    from mcp_types import CallToolResult


# Connections cancelled during the TLS handshake.
#
# The HTTP client closes its socket when the handshake fails, but not when its task is cancelled (an interrupt, the end
# of a probe). The socket would stay open as long as the kernel.


class CloseOnFailedTLS:
    """The "trace" extension of one request: closes a connection whose TLS handshake does not succeed."""

    def __init__(self, then: Callable[[str, dict[str, Any]], Awaitable[None]]) -> None:
        self._then = then
        self._stream: Any = None

    async def __call__(self, event: str, info: dict[str, Any]) -> None:
        """Handle an event of the HTTP client, until it sends the request; those after that would only take time."""
        await self._then(event, info)
        if event.endswith("send_request_headers.started"):
            info["request"].extensions.pop("trace", None)
            return
        if event.endswith("connect_tcp.complete"):
            self._stream = info.get("return_value")
        elif event.endswith("start_tls.complete"):
            self._stream = None
        elif event.endswith("start_tls.failed") and self._stream is not None:
            stream, self._stream = self._stream, None
            with suppress(Exception):
                await stream.aclose()


# The WebSocket client transport, with the `websockets` library.
#
# mcp 2 has none, and the specification does not define one. Servers that offer it send one JSON-RPC message per text
# frame under the subprotocol "mcp", as version 1 of the SDK did.

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""Maximum bytes of a message. The library's default of 1 MiB would refuse images that other transports carry."""

GOODBYE_SECONDS = 2.0  # deadline in seconds for the closing handshake: a server that is gone does not answer it


def _connect(spec: WebSocketSpec) -> Any:
    try:
        from websockets.asyncio.client import connect
        from websockets.exceptions import SecurityError
        from websockets.typing import Subprotocol
    except ImportError:
        message = "WebSocket servers need the package websockets: pip install 'mcp-magic[ws]'"
        raise MissingDependencyError(message) from None

    class WithinOrigin(connect):
        """Follows redirects only to the same server: another one would get the headers, including keys."""

        def process_redirect(self, exc: Exception) -> Exception | str:
            origin = _origin(self.uri)
            target = super().process_redirect(exc)
            if isinstance(target, str) and _origin(target) != origin:
                return SecurityError(f"it redirects to {target}; if that is the server you mean, connect to that URL")
            return target

    return WithinOrigin(
        spec.url,
        subprotocols=[Subprotocol("mcp")],
        additional_headers=dict(spec.headers),
        ssl=tls_context(spec) if spec.url.startswith("wss:") else None,
        open_timeout=spec.timeout,
        close_timeout=GOODBYE_SECONDS,
        max_size=MAX_MESSAGE_BYTES,
    )


def _origin(url: str) -> tuple[str, str, int]:
    return urlsplit(url).scheme, *WebSocketSpec(url=url).address


@asynccontextmanager
async def websocket_client(spec: WebSocketSpec) -> AsyncIterator[Any]:
    """Open a WebSocket and yield the pair of streams that the SDK's client reads and writes."""
    import anyio
    from websockets.exceptions import ConnectionClosed

    async with _connect(spec) as socket:
        received, to_client = anyio.create_memory_object_stream[Any](0)
        outgoing, from_client = anyio.create_memory_object_stream[Any](0)

        async def reader() -> None:
            async with received:
                try:
                    async for frame in socket:
                        await received.send(_message(frame))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionClosed):
                    return  # the session sees the end of its stream

        async def writer() -> None:
            async with from_client:
                async for item in from_client:
                    try:
                        await socket.send(item.message.model_dump_json(by_alias=True, exclude_unset=True))
                    except ConnectionClosed:
                        await received.aclose()
                        return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader)
            tasks.start_soon(writer)
            try:
                yield to_client, outgoing
            finally:
                for stream in (received, to_client, outgoing, from_client):
                    await stream.aclose()
                tasks.cancel_scope.cancel()


def _message(frame: str | bytes) -> Any:
    """Return the message in a frame, or the error why it is invalid, for the session to report."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(frame, by_name=False))
    except ValueError as error:
        return error


# Exceptions of servers in this kernel: they end the call, not the kernel, and the caller sees them.
#
# The SDK hides a tool's exception from the client and logs it with forty lines of its own frames. Here client and
# server are the same notebook, so the answer leads to the exception instead.

_CALLERS = ("mcp", "mcp_magic", "anyio", "pydantic", "asyncio", "pyodide")
"""Packages whose frames to drop from the traceback of a tool."""

_BYTES = (
    "it returned bytes, which are not JSON; return Image(data=..., format='png') or Audio(data=..., format='wav') "
    "of mcp.server.mcpserver, or base64.b64encode(data).decode()"
)


@contextmanager
def contained(server: Any) -> Iterator[None]:
    """Let exceptions of a server's functions end only the request, and report them to the caller: by a middleware."""

    async def contain(context: Any, call_next: Any) -> Any:
        try:
            return await call_next(context)
        except MCPError as error:
            say(error)
            raise
        except (ValidationError, asyncio.CancelledError, GeneratorExit):
            raise  # the SDK handles these itself
        except BaseException as error:
            crash = error
        return _answer(crash, context)

    from mcp import MCPError

    server.middleware.insert(0, contain)
    try:
        with (
            _relay_crashes(server, "call_tool", _failed_call),
            _relay_crashes(server, "read_resource", _failed_reading),
        ):
            yield
    finally:
        server.middleware.remove(contain)


@contextmanager
def _relay_crashes(server: Any, method: str, on_crash: Callable[[BaseException, str], Any]) -> Iterator[None]:
    """Let `on_crash` answer when a method of an `MCPServer` raises, while any of its sessions is open."""
    if not hasattr(server, method):  # a low-level server, whose exceptions reach the middleware
        yield
        return
    current = getattr(server, method)
    relay = current if isinstance(current, _CrashRelay) else _CrashRelay(current, on_crash)
    setattr(server, method, relay)
    relay.sessions += 1
    try:
        yield
    finally:
        relay.sessions -= 1
        if not relay.sessions:
            delattr(server, method)


class _CrashRelay:
    """A method of an `MCPServer` that answers for exceptions of the server's functions before the SDK logs them."""

    def __init__(self, method: Callable[..., Awaitable[Any]], on_crash: Callable[[BaseException, str], Any]) -> None:
        from mcp.server.mcpserver.exceptions import ToolError, UnexpectedResourceError

        self._method = method
        self._on_crash = on_crash
        self._crashes = (ToolError, UnexpectedResourceError)
        self.sessions = 0

    async def __call__(self, name: Any, *arguments: Any, **keywords: Any) -> Any:
        try:
            return await self._method(name, *arguments, **keywords)
        except self._crashes as error:
            crash = error
        return self._on_crash(crash, str(name))


def _cause(crash: BaseException) -> BaseException:
    """Return the exception of a function, without the SDK's exceptions around it."""
    while crash.__cause__ is not None and _package(_last_frame(crash.__traceback__)) == "mcp":
        crash = crash.__cause__
    return crash


def _failed_call(crash: BaseException, tool: str) -> CallToolResult:
    from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
    from mcp_types import CallToolResult, TextContent

    if isinstance(crash, ToolError) and not isinstance(crash, UnexpectedToolError):  # the tool raised it on purpose
        return CallToolResult(content=[TextContent(type="text", text=str(crash))], is_error=True)
    crash = _cause(crash)
    if wrong := _wrong_return(crash, tool):
        return CallToolResult(content=[TextContent(type="text", text=wrong)], is_error=True)
    if isinstance(crash, PydanticSerializationError) and "utf-8" in str(crash):
        crash = TypeError(_BYTES)
    return crashed(crash, tool)


def _wrong_return(crash: BaseException, tool: str) -> str:
    """Say that a tool returned what its annotation does not allow; "" if that is not why it failed."""
    frames = {frame.f_code.co_name: frame for frame, _ in walk_tb(crash.__traceback__) if _package_of(frame) == "mcp"}
    if not isinstance(crash, ValidationError) or not {"run", "convert_result"} <= frames.keys():
        return ""
    problem = crash.errors()[0]
    path = ".".join(map(str, problem["loc"][1:] if problem["loc"][:1] == ("result",) else problem["loc"]))
    kind = inspect.signature(frames["run"].f_locals["self"].fn).return_annotation
    kind = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    value = one_line(repr(problem["input"]), 100)
    where = f" as {path}" if path else ""
    reason = f": {problem['msg']}" if path else ""
    return f"{tool} returned {value}{where}; its return type is {kind}{reason}"


def _failed_reading(crash: BaseException, uri: str) -> NoReturn:
    from mcp.server.mcpserver.exceptions import ResourceError

    raise ResourceError(f"Error reading resource {uri}: {_describe(_cause(crash))}")


def _answer(crash: BaseException, context: Any) -> CallToolResult:
    if context.method == "tools/call":
        return _failed_call(crash, str((context.params or {}).get("name", "")))
    from mcp import MCPError

    raise MCPError(INTERNAL_ERROR, f"the server raised {_describe(_cause(crash))}")


def crashed(crash: BaseException, tool: str) -> CallToolResult:
    """Return the error result of a tool that raised; `ToolResult.raise_for_error` finds the exception through it."""
    from mcp_types import CallToolResult, TextContent

    crash.__traceback__ = _own_frames(crash.__traceback__)
    crash.__context__ = crash.__context__ if crash.__cause__ is None else None
    text = f"Error executing tool {tool}: {_describe(crash)}"
    answer = CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
    answer.meta = {META: CRASHES.keep(crash)}
    return answer


def _describe(crash: BaseException) -> str:
    text = telling_line(str(crash)) if isinstance(crash, ValidationError) else str(crash)
    return f"{type(crash).__name__}: {one_line(text, 500)}".rstrip(": ")


def _own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the user's function on, without the frames of the SDK, pydantic and anyio before it."""
    while traceback is not None and _package(traceback) in _CALLERS:
        traceback = traceback.tb_next
    return traceback


def _last_frame(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


def _package(traceback: TracebackType | None) -> str:
    return _package_of(traceback.tb_frame) if traceback is not None else ""


def _package_of(frame: FrameType) -> str:
    """Return the top-level package of the function that runs in a frame."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


# From a spec to the transport for `mcp.Client`: one function per transport, and their table.
#
# A transport is opened once per connection and entered again for each new session (when a streamable-HTTP server forgot
# the session), so the HTTP client with its pool and cookies outlives a session.

CONNECT_SECONDS = 15.0
"""Deadline in seconds for a TCP and TLS connection, or a write. Answers have none here: a server holds event streams
open for hours, and a call has its own deadline."""


class Transport(NamedTuple):
    """Opens sessions over a wire."""

    make: Callable[[], Any]
    prepare: Callable[[Client], None] = lambda client: None


Opener = Callable[[Any, Wire, AsyncExitStack], Awaitable[Transport]]
"""Prepares the transport to the server of a spec: `async def (spec, wire, stack) -> Transport`. It enters its resources
into the stack, which is closed when the transport is no longer needed."""


async def _open_stdio(spec: StdioSpec, wire: Wire, stack: AsyncExitStack) -> Transport:
    from mcp_magic.sandbox.backends import isolated

    _refuse_in_browser("starts no programs")
    observation = wire.recorder.find(Observation)
    program = isolated(spec) if observation is None else observation.observed(spec)
    await stack.enter_async_context(started_early(program))
    errlog = wire.errlog = stack.enter_context(log_for(program))
    errlog.keep_small()
    wire.recorder.follow(errlog)
    stack.callback(wire.recorder.follow, None)
    from mcp.client.stdio import StdioServerParameters, stdio_client

    patch_line_reader(read_whole_lines)
    remark_spread.set(wire.remark)  # for the tasks that the transport starts
    patch_process_start(note_starts)
    parameters = StdioServerParameters(
        command=program.command,
        args=list(program.args),
        env=dict(program.env),
        cwd=program.cwd,
        # One invalid byte must not end the session; it shows as U+FFFD.
        encoding_error_handler="replace",
    )
    return Transport(lambda: Watched(stdio_client(parameters, errlog=errlog.file), wire))


async def _open_http(spec: HttpSpec, wire: Wire, stack: AsyncExitStack) -> Transport:
    from mcp.client.streamable_http import streamable_http_client

    from mcp_magic.session.bodies import TolerantAdapter
    from mcp_magic.session.http import ResilientClient

    patch_message_adapter(TolerantAdapter)
    client: Any = ResilientClient(await stack.enter_async_context(_http_client(spec, wire)), wire)
    options: dict[str, Any] = {"http_client": client, "max_sse_event_size": MAX_MESSAGE}
    return Transport(lambda: Watched(streamable_http_client(spec.url, **options), wire, makes_up=True))


async def _open_sse(spec: SseSpec, wire: Wire, stack: AsyncExitStack) -> Transport:
    from mcp.client.sse import sse_client

    from mcp_magic.session.http import ResilientClient

    def factory(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> Any:
        # Ignores the arguments of sse_client: its deadline would end an idle session after five minutes.
        return ResilientClient(_http_client(spec, wire), wire, spec.url)

    return Transport(lambda: Watched(sse_client(spec.url, httpx_client_factory=factory), wire))


async def _open_websocket(spec: WebSocketSpec, wire: Wire, stack: AsyncExitStack) -> Transport:
    _refuse_in_browser("opens no sockets")
    return Transport(lambda: Watched(websocket_client(spec), wire))


async def _open_in_process(spec: InProcessSpec, wire: Wire, stack: AsyncExitStack) -> Transport:
    call_without_threads()
    stack.enter_context(contained(spec.server))
    return Transport(lambda: spec.server, lambda client: trace_in_process(client, wire.recorder, wire.remark))


TRANSPORTS: dict[type[Spec], Opener] = {
    StdioSpec: _open_stdio,
    HttpSpec: _open_http,
    SseSpec: _open_sse,
    WebSocketSpec: _open_websocket,
    InProcessSpec: _open_in_process,
}
"""Spec type -> its opener. A new transport is a spec and a row here."""


async def open_transport(spec: Spec, wire: Wire, stack: AsyncExitStack) -> Transport:
    """Prepare the transport to a server, with its secrets. Sends nothing to it and starts no process of it yet."""
    opener = TRANSPORTS.get(type(spec))
    if opener is None:
        names = ", ".join(kind.transport for kind in TRANSPORTS)
        raise TargetError(f"no transport for {type(spec).__name__}; there are {names}")
    spec = await resolve_secrets(spec, wire.recorder.server, wire.recorder.know, wire.ask, wire.waits, wire.values)
    return await opener(spec, wire, stack)


def _refuse_in_browser(lacks: str) -> None:
    if IN_BROWSER:
        raise TargetError(
            f"this Python runs in a browser and {lacks}. "
            "Connect to the URL of a streamable-HTTP server, or to a server in this kernel (`%%mcp_server NAME`)."
        )


def _http_client(spec: HttpSpec | SseSpec, wire: Wire) -> httpx2.AsyncClient:
    import httpx2

    timeout = httpx2.Timeout(min(CONNECT_SECONDS, spec.timeout), read=None, pool=None)
    headers = dict(spec.headers)
    if spec.client_factory is not None:
        client: httpx2.AsyncClient = spec.client_factory(headers=headers, timeout=timeout, auth=None)
    else:
        plain = spec.verify is True and spec.cert is None
        context = None if plain else tls_context(spec)
        if IN_BROWSER or getproxies():  # the client finds out what the browser offers, or which proxy a URL needs
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
            client = httpx2.AsyncClient(headers=headers, timeout=timeout, verify=context or True, limits=limits)
        else:
            from mcp_magic.session.pool import ConnectionPool

            pool = ConnectionPool(cache(lambda: context or httpx2.create_ssl_context()))
            client = httpx2.AsyncClient(headers=headers, timeout=timeout, transport=pool)
    _observe(client, wire)
    wire.authenticate(client, spec, wire)
    if spec.headers_helper is not None and client.auth is None:
        from mcp_magic.session.http import HelperAuth

        client.auth = HelperAuth(lambda: fetch_headers(spec, wire.recorder.server, wire.recorder.know))
    return client


def _observe(client: httpx2.AsyncClient, wire: Wire) -> None:
    """Record how each request is answered, in its attempt and in the trace; requests of a log-in are left out."""

    async def remember(response: httpx2.Response) -> None:
        if LOG_IN in response.request.extensions:
            return
        method, headers = response.request.method, dict(response.headers.items())  # at once: each look-up is a walk
        cookies = response.headers.get_list("set-cookie") if "set-cookie" in headers else ()
        wire.recorder.http(method, response.status_code, headers, cookies)
        if method == "POST" and (attempt := current_attempt.get()) is not None:
            had_session = "mcp-session-id" in response.request.headers
            attempt.answered(response.status_code, headers, had_session=had_session)

    async def count(event: str, info: dict[str, Any]) -> None:
        keep_alive(event, info)
        if (attempt := current_attempt.get()) is not None:
            attempt.happened(event)

    async def watch(request: httpx2.Request) -> None:
        if LOG_IN not in request.extensions:
            request.extensions.setdefault("trace", CloseOnFailedTLS(count))

    hooks = client.event_hooks
    client.event_hooks = {"request": [*hooks["request"], watch], "response": [*hooks["response"], remember]}
