"""Serves an ASGI application of this kernel on 127.0.0.1, to programs and pages that have its token."""

from __future__ import annotations

import asyncio
import hmac
import socket
import threading
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Application = Callable[..., Any]
    Refusal = Callable[[Any], Application | None]

HOST = "127.0.0.1"
PROOF_PATH = "/proof"
STOP_SECONDS = 5.0  # seconds that `stop` gives pending requests

CUT_SECONDS = 0.5  # seconds that requests have for their cleaning up once they are cut off

HEADER_SECONDS = 10.0  # seconds within which a new connection must send the headers of a request with the token

MOST_STRANGERS = 256  # most connections that have not sent the token (yet); one more closes the oldest

MOST_CONNECTIONS = MOST_STRANGERS + 256  # most connections at all: the descriptors of the kernel are the person's, too

BACKLOG = 128  # connections that asyncio accepts at once; more wait in the system's queue without a file descriptor

IDLE_SECONDS = 5  # seconds that a connection may be idle between two requests


class LoopbackServer:
    """An ASGI application on 127.0.0.1, served on this kernel's event loop, or on a thread with a loop of its own.

    On its own thread it answers while a cell computes, and `stop` ends open requests at once. What a request needs of
    the kernel, it awaits by `loops.run_on`.

    Args:
        app: The application.
        refusal: Returns what answers a request without the token, an ASGI application that reads no body; None lets the
            request in.
        name: Of the task or the thread, for debuggers.
        own_thread: Whether it is served on a thread of its own.
    """

    def __init__(self, app: Application, refusal: Refusal, name: str, *, own_thread: bool = False) -> None:
        self._entrance = _Entrance()
        self._uvicorn = _uvicorn(_guarded(app, refusal, self._entrance), self._entrance)
        self._name = name
        self._own_thread = own_thread
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def running(self) -> bool:
        """Whether the server can be reached."""
        if self._thread is not None:
            return self._thread.is_alive()
        return self._task is not None and not self._task.done()

    async def start(
        self, listening: socket.socket, within: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """Serve on a socket until `stop`; all requests are answered within the context manager."""

        async def serving() -> None:
            self._loop = asyncio.get_running_loop()
            with within():
                await self._uvicorn.serve(sockets=[listening])

        def run() -> None:
            loop = asyncio.new_event_loop()
            loop.set_exception_handler(lambda loop, context: None)  # of requests that are cut off
            try:
                loop.run_until_complete(serving())
                loop.run_until_complete(_end_tasks())
            finally:
                loop.close()

        if self._own_thread:
            self._thread = threading.Thread(target=run, name=self._name, daemon=True)
            self._thread.start()
        else:
            self._task = asyncio.get_running_loop().create_task(serving(), name=self._name)
        while not self._uvicorn.started and self.running:
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Stop serving. Idempotent."""
        if self._thread is not None and self._loop is not None:
            with suppress(RuntimeError):  # its loop has ended
                self._loop.call_soon_threadsafe(self._cut)
            await asyncio.to_thread(self._thread.join, STOP_SECONDS)
        if self._task is None or self._task.done():
            return
        self._uvicorn.should_exit = True
        await asyncio.wait({self._task}, timeout=STOP_SECONDS)
        if not self._task.done():
            self._uvicorn.force_exit = True
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=STOP_SECONDS)

    def _cut(self) -> None:
        """End all connections and requests: on the thread of the server."""
        self._uvicorn.should_exit = self._uvicorn.force_exit = True
        state = self._uvicorn.server_state
        for connection in list(state.connections):
            connection.transport.abort()
        for task in list(state.tasks):
            task.cancel()


CLIENT_HEADER = "mcp-magic-client"
"""Tells clients of one name apart that have no session, as since 2026-07-28: the stdio proxy sends it."""


def proof_of(token: str, port: int, nonce: str) -> str:
    """Return what only a server with this token at this port answers to a nonce; see `server/http.py`."""
    return hmac.new(token.encode(), f"mcp_magic {HOST}:{port} {nonce}".encode(), "sha256").hexdigest()


def listen(port: int = 0) -> socket.socket:
    """Return a socket that listens on 127.0.0.1; port 0 is any free one.

    Raises:
        OSError: The port cannot be had.
        OverflowError: There is no such port.
    """
    return socket.create_server((HOST, port))


async def _end_tasks() -> None:
    """Cancel all other tasks of the loop; what does not end soon is left."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CUT_SECONDS)


class _Entrance:
    """Limits connections without the token: any program or page can open them, and use up file descriptors."""

    def __init__(self) -> None:
        self._waiting: dict[Any, tuple[asyncio.Transport, asyncio.TimerHandle]] = {}

    def register(self, client: Any, transport: asyncio.Transport) -> None:
        """Register a new connection; abort the oldest if there are too many."""
        if len(self._waiting) >= MOST_STRANGERS:
            oldest, _ = self._waiting[next(iter(self._waiting))]
            self.forget(next(iter(self._waiting)))
            oldest.abort()
        ends = asyncio.get_running_loop().call_later(HEADER_SECONDS, transport.abort)
        self._waiting[client] = transport, ends

    def forget(self, client: Any) -> None:
        """Forget a connection that has closed or has sent the token."""
        if (entry := self._waiting.pop(client, None)) is not None:
            entry[1].cancel()


def _uvicorn(app: Application, entrance: _Entrance) -> Any:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Entered(H11Protocol):
        """Tells the entrance of opened and closed connections."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            # asyncio does it for sockets that name the protocol; without it an answer in two parts takes 40 ms more
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            entrance.register(self.client, transport)

        def connection_lost(self, exc: Exception | None) -> None:
            _shut(self.transport.get_extra_info("socket"))
            entrance.forget(self.client)
            super().connection_lost(exc)

    class Quiet(uvicorn.Server):
        """Leaves signals (Interrupt) to the kernel, and lets nobody connect once it stops."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            for listening in sockets or ():
                _shut(listening)
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="on",
        http=Entered,
        ws="none",
        proxy_headers=False,  # no proxy is in between, so headers must not change the client's address
        backlog=BACKLOG,
        limit_concurrency=MOST_CONNECTIONS,  # another is answered with 503
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=1,
    )
    return Quiet(config)


def _shut(own: socket.socket) -> None:
    """End what a socket does before it is closed: processes that a cell has forked keep copies, which hold it open."""
    with suppress(OSError):  # the other side was faster, or the system has it for connections alone
        own.shutdown(socket.SHUT_RDWR)


def _guarded(app: Application, refusal: Refusal, entrance: _Entrance) -> Application:
    """Return an application that lets only requests with the token in."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        refused = None if scope["type"] == "lifespan" else refusal(scope)
        if refused is None:
            entrance.forget(scope.get("client"))
        await (refused or app)(scope, receive, send)

    return guarded
