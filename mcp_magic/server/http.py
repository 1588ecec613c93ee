"""Serves a server to other programs on this machine: streamable HTTP on 127.0.0.1, with a token."""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_magic._compat import IN_BROWSER
from mcp_magic.errors import CommandError
from mcp_magic.loopback import HOST, LoopbackServer, listen
from mcp_magic.session.transports import contained

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from mcp.server.lowlevel import Server
    from mcp.server.mcpserver import MCPServer


class Serving:
    """A server that other programs on this machine can reach; only the owner can read its token file.

    `cassette` is the file from which a mock server answers, None for a server of this kernel.
    """

    def __init__(self, name: str, port: int, token: str, token_file: Path, cassette: Path | None = None) -> None:
        self.name = name
        self.port = port
        self.token = token
        self.token_file = token_file
        self.cassette = cassette
        self._server: LoopbackServer | None = None

    @property
    def url(self) -> str:
        """The URL of the MCP endpoint."""
        return f"http://{HOST}:{self.port}/mcp"

    @property
    def running(self) -> bool:
        """Whether the server can be reached."""
        return self._server is not None and self._server.running

    def __repr__(self) -> str:
        return f"<Serving {self.name!r} {'at ' + self.url if self.running else 'stopped'}>"

    async def start(self, server: MCPServer[Any] | Server[Any], listening: socket.socket) -> None:
        """Serve on a socket until `stop`."""
        header = f"Bearer {self.token}".encode()

        def refusal(scope: Any) -> Any:
            authorization = dict(scope.get("headers") or ()).get(b"authorization", b"")
            return None if hmac.compare_digest(authorization, header) else _unauthorized

        app = server.streamable_http_app(host=HOST)
        self._server = LoopbackServer(app, refusal, f"mcp_magic serves {self.name}")
        await self._server.start(listening, partial(contained, server))

    async def stop(self) -> None:
        """Stop serving and delete the token file. Idempotent."""
        with suppress(OSError):
            self.token_file.unlink()
        if self._server is not None:
            await self._server.stop()


async def serve(
    name: str,
    server: MCPServer[Any] | Server[Any],
    folder: Path,
    *,
    port: int = 0,
    token: str = "",
    cassette: Path | None = None,
) -> Serving:
    """Serve a server to other programs on this machine, with a token file in `folder`; port 0 is any free one.

    Raises:
        CommandError: The port cannot be had, or the token file cannot be written.
    """
    if IN_BROWSER:
        raise CommandError("%mcp serve: this Python runs in a browser, where no other program can reach it.")
    listening = _socket(port)
    port = listening.getsockname()[1]
    serving = Serving(name, port, token or secrets.token_urlsafe(32), folder / f"{name}-{port}.token", cassette)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        serving.token_file.unlink(missing_ok=True)
        opened = os.open(serving.token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w") as file:
            file.write(serving.token)
        await serving.start(server, listening)
    except BaseException as error:
        await serving.stop()
        listening.close()
        if isinstance(error, OSError):
            raise CommandError(f"%mcp serve: the token file {serving.token_file}: {error.strerror}") from None
        raise
    return serving


def _socket(port: int) -> socket.socket:
    try:
        return listen(port)
    except (OSError, OverflowError) as error:
        problem = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    raise CommandError(f"%mcp serve: port {port} on {HOST}: {problem}; --port names another, 0 any that is free.")


async def _unauthorized(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": b"a token is needed: Authorization: Bearer TOKEN\n"})
