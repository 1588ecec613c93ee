"""Serves a server of this kernel to other programs on this machine: streamable HTTP on 127.0.0.1, with a token."""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mcp_magic._compat import IN_BROWSER
from mcp_magic.errors import CommandError
from mcp_magic.session.transports import contained

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mcp.server.mcpserver import MCPServer

HOST = "127.0.0.1"
STOP_SECONDS = 5.0  # seconds that `stop` gives pending requests

HEADER_SECONDS = 10.0  # seconds within which a new connection must send the headers of a request with the token

MOST_STRANGERS = 64  # most connections that have not sent the token; one more closes the oldest

BACKLOG = 128  # connections that asyncio accepts at once; more wait in the system's queue without a file descriptor

IDLE_SECONDS = 5  # seconds that a connection may be idle between two requests


class Serving:
    """A server that other programs on this machine can reach; only the owner can read its token file."""

    def __init__(self, name: str, port: int, token: str, token_file: Path) -> None:
        self.name = name
        self.port = port
        self.token = token
        self.token_file = token_file
        self._task: asyncio.Task[None] | None = None
        self._uvicorn: Any = None

    @property
    def url(self) -> str:
        """The URL of the MCP endpoint."""
        return f"http://{HOST}:{self.port}/mcp"

    @property
    def running(self) -> bool:
        """Whether the server can be reached."""
        return self._task is not None and not self._task.done()

    def __repr__(self) -> str:
        return f"<Serving {self.name!r} {'at ' + self.url if self.running else 'stopped'}>"

    async def start(self, server: MCPServer[Any], listening: socket.socket) -> None:
        """Serve on a socket until `stop`."""
        entrance = _Entrance()
        app = _guarded(server.streamable_http_app(host=HOST), self.token, entrance)
        self._uvicorn = _uvicorn(app, entrance)

        async def serving() -> None:
            with contained(server):
                await self._uvicorn.serve(sockets=[listening])

        self._task = asyncio.get_running_loop().create_task(serving(), name=f"mcp_magic serves {self.name}")
        while not self._uvicorn.started and not self._task.done():
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Stop serving and delete the token file. Idempotent."""
        with suppress(OSError):
            self.token_file.unlink()
        if self._task is None or self._task.done():
            return
        self._uvicorn.should_exit = True
        await asyncio.wait({self._task}, timeout=STOP_SECONDS)
        if not self._task.done():
            self._uvicorn.force_exit = True
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=STOP_SECONDS)


async def serve(name: str, server: MCPServer[Any], folder: Path, *, port: int = 0, token: str = "") -> Serving:
    """Serve a server to other programs on this machine, with a token file in `folder`; port 0 is any free one."""
    if IN_BROWSER:
        raise CommandError("%mcp serve: this Python runs in a browser, where no other program can reach it.")
    listening = _socket(port)
    port = listening.getsockname()[1]
    serving = Serving(name, port, token or secrets.token_urlsafe(32), folder / f"{name}-{port}.token")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    serving.token_file.unlink(missing_ok=True)
    opened = os.open(serving.token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "w") as file:
        file.write(serving.token)
    await serving.start(server, listening)
    return serving


def _socket(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except (OSError, OverflowError) as error:
        problem = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    raise CommandError(f"%mcp serve: port {port} on {HOST}: {problem}; --port names another, 0 any that is free.")


class _Entrance:
    """Limits connections without the token: any program or page can open them, and use up file descriptors."""

    def __init__(self) -> None:
        self._waiting: dict[Any, tuple[asyncio.Transport, asyncio.TimerHandle]] = {}

    def comes(self, client: Any, transport: asyncio.Transport) -> None:
        """Register a new connection; abort the oldest if there are too many."""
        if len(self._waiting) >= MOST_STRANGERS:
            oldest, _ = self._waiting[next(iter(self._waiting))]
            self.leaves(next(iter(self._waiting)))
            oldest.abort()
        ends = asyncio.get_running_loop().call_later(HEADER_SECONDS, transport.abort)
        self._waiting[client] = transport, ends

    def leaves(self, client: Any) -> None:
        """Forget a connection that has closed or has sent the token."""
        if (found := self._waiting.pop(client, None)) is not None:
            found[1].cancel()


def _uvicorn(app: Any, entrance: _Entrance) -> Any:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Entered(H11Protocol):
        """Tells the entrance of opened and closed connections."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            entrance.comes(self.client, transport)

        def connection_lost(self, exc: Exception | None) -> None:
            entrance.leaves(self.client)
            super().connection_lost(exc)

    class Quiet(uvicorn.Server):
        """Leaves signals (Interrupt) to the kernel."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

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
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=1,
    )
    return Quiet(config)


def _guarded(app: Any, token: str, entrance: _Entrance) -> Any:
    """Return an ASGI application that answers 401 to a request without the token, without reading its body."""
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers") or ()).get(b"authorization", b"")
        if scope["type"] == "lifespan" or hmac.compare_digest(given, wanted):
            entrance.leaves(scope.get("client"))
            await app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"a token is needed: Authorization: Bearer TOKEN\n"})

    return guarded
