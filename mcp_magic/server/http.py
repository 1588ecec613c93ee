"""Serves a server to other programs on this machine: streamable HTTP on 127.0.0.1, with a token.

A request needs the token in its header `Authorization`; a token in a URL does not count, as URLs get into logs. Its
`Host` is this server at its port, and its `Origin`, if there is one, too: a page of another origin, or one whose name
was bound to 127.0.0.1 anew (DNS rebinding), is refused even if it had the token.

A program that has the token can make sure that it talks to this server before it sends it, with `GET
/proof?nonce=HEX`: the answer is an HMAC with the token of the port and the nonce. So a stranger that took over a port
which was ours cannot answer, and one that passes the question on to our port gets the proof for ours.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_magic._compat import IN_BROWSER
from mcp_magic.errors import CommandError
from mcp_magic.loopback import HOST, PROOF_PATH, LoopbackServer, listen, proof_of
from mcp_magic.session.transports import contained

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from mcp.server.lowlevel import Server
    from mcp.server.mcpserver import MCPServer


_NONCE = re.compile(rb"nonce=([0-9a-f]{32,128})")


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

    async def start(
        self, server: MCPServer[Any] | Server[Any], listening: socket.socket, *, own_thread: bool = False
    ) -> None:
        """Serve on a socket until `stop`; see `LoopbackServer` for `own_thread`."""
        app = server.streamable_http_app(host=HOST)
        self._server = LoopbackServer(app, self._refusal, thread_name(self.name), own_thread=own_thread)
        await self._server.start(listening, partial(contained, server))

    def _refusal(self, scope: Any) -> Any:
        """Return what answers a request that does not get to the server, None for one that does."""
        if scope["path"] == PROOF_PATH and (nonce := _NONCE.fullmatch(scope["query_string"])):
            return _answer(200, proof_of(self.token, self.port, nonce[1].decode()))
        headers = dict(scope.get("headers") or ())
        if not hmac.compare_digest(headers.get(b"authorization", b""), f"Bearer {self.token}".encode()):
            return _answer(401, "the token is missing or wrong: Authorization: Bearer TOKEN")
        addresses = [f"{host}:{self.port}".encode() for host in (HOST, "localhost")]
        if headers.get(b"host") not in addresses:
            return _answer(421, f"this is {self.url}: another Host is refused")
        if b"origin" in headers and headers[b"origin"] not in [b"http://" + address for address in addresses]:
            return _answer(403, "pages of another origin are refused")
        return None

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
    own_thread: bool = False,
) -> Serving:
    """Serve a server to other programs on this machine, with a token file in `folder`; port 0 is any free one.

    See `LoopbackServer` for `own_thread`.

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
        await serving.start(server, listening, own_thread=own_thread)
    except BaseException as error:
        await serving.stop()
        listening.close()
        if isinstance(error, OSError):
            raise CommandError(f"%mcp serve: the token file {serving.token_file}: {error.strerror}") from None
        raise
    return serving


def thread_name(name: str) -> str:
    """Return the name of the thread, or the task, that serves a server of this name."""
    return f"mcp_magic serves {name}"


def _socket(port: int) -> socket.socket:
    try:
        return listen(port)
    except (OSError, OverflowError) as error:
        problem = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    raise CommandError(f"%mcp serve: port {port} on {HOST}: {problem}; --port names another, 0 any that is free.")


def _answer(status: int, text: str) -> Any:
    """Return an application that answers with a line of text, and closes the connection."""
    headers = [(b"content-type", b"text/plain"), (b"connection", b"close"), (b"cache-control", b"no-store")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": f"{text}\n".encode()})

    return answer
