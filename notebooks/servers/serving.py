"""The command line that the servers here share: `--transport`, `--host`, `--port` and `--rate`.

`MCPServer.run("streamable-http", port=8000)` is all that a server needs. This adds what helps in a notebook
and in tests. A host that starts the file without options gets a server over stdio. `--port 8000` serves HTTP,
`--port 0` takes a free port, and one line on stderr says where the server listens.
"""

import argparse
import contextlib
import signal
import socket
import sys
import threading
import time
from typing import Any

import anyio
import uvicorn
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server
from starlette.applications import Starlette

PATHS = {"http": "/mcp", "sse": "/sse"}

DEFAULT_PORT = 8000
"""The port of `--transport http` and `--transport sse` without `--port`."""

GRACE = 1
"""Seconds that open event streams get at the end; they would otherwise keep the process alive."""


def parser(description: str, transports: tuple[str, ...] = ("stdio", "http")) -> argparse.ArgumentParser:
    """Return a parser with the options that `serve` needs."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--transport", choices=transports, help="default: http with --port, stdio without it")
    options.add_argument(
        "--host", default="127.0.0.1", help="default: 127.0.0.1, so that only this machine can connect"
    )
    options.add_argument("--port", type=int, help=f"default: {DEFAULT_PORT}; 0 takes a free one")
    options.add_argument("--rate", type=int, default=0, help="calls a second; more are refused (HTTP 429)")
    options.add_argument("--silent", action="store_true", help="refuse without a Retry-After header")
    options.add_argument("--attached", action="store_true", help="end when the standard input ends")
    return options


def serve(server: MCPServer | Server, options: argparse.Namespace) -> None:
    """Run `server` as the options say, until its input ends (stdio) or it is interrupted."""
    transport = options.transport or ("stdio" if options.port is None else "http")
    if transport == "stdio":
        serve_stdio(server)
    else:
        if options.attached:
            threading.Thread(target=_end_with_input, daemon=True).start()
        port = DEFAULT_PORT if options.port is None else options.port
        serve_http(server, transport, options.host, port, options.rate, not options.silent)


def _end_with_input() -> None:
    """End this process, in the orderly way, when whatever started it has closed its input or has ended."""
    sys.stdin.buffer.read()
    signal.raise_signal(signal.SIGTERM)


def serve_stdio(server: MCPServer | Server) -> None:
    """Run `server` over standard input and output."""
    # Python's own handler would wait for the thread that reads stdin, so Ctrl-C would seem to do nothing.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if isinstance(server, MCPServer):
        server.run("stdio")
    else:
        anyio.run(_serve_lowlevel, server)


async def _serve_lowlevel(server: Server) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def serve_http(
    server: MCPServer | Server, transport: str, host: str, port: int, rate: int = 0, says_when: bool = True
) -> None:
    """Run `server` over streamable HTTP or SSE, and say on stderr where it listens."""
    app = _app(server, transport, host)
    config = uvicorn.Config(
        Limit(app, rate, says_when) if rate else app,
        host=host,
        port=port,
        log_level="warning",
        timeout_graceful_shutdown=GRACE,
    )
    with contextlib.suppress(KeyboardInterrupt):
        _Announced(config, server.name, PATHS[transport]).run()


def _app(server: MCPServer | Server, transport: str, host: str) -> Starlette:
    if transport == "http":
        return server.streamable_http_app(host=host)
    if isinstance(server, MCPServer):
        return server.sse_app(host=host)
    raise SystemExit("A low-level server has no SSE app: use --transport http.")


class Limit:
    """An ASGI app that refuses more than `rate` calls of tools in a second, with or without a Retry-After header."""

    def __init__(self, app: Any, rate: int, says_when: bool) -> None:
        self._app = app
        self._rate = rate
        self._headers = [(b"retry-after", b"1")] if says_when else []
        self._second = 0.0
        self._calls = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a call beyond the rate, and pass everything else on."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        first = await receive()  # such a call is one message
        if b'"tools/call"' in first["body"] and self._is_refused():
            await send({"type": "http.response.start", "status": 429, "headers": self._headers})
            await send({"type": "http.response.body", "body": b""})
            return
        unread = [first]

        async def replayed() -> Any:
            return unread.pop() if unread else await receive()

        await self._app(scope, replayed, send)

    def _is_refused(self) -> bool:
        now = time.monotonic()
        if now - self._second >= 1:
            self._second, self._calls = now, 0
        self._calls += 1
        return self._calls > self._rate


class _Announced(uvicorn.Server):
    """A uvicorn server that says where it listens, once it does."""

    def __init__(self, config: uvicorn.Config, name: str, path: str) -> None:
        super().__init__(config)
        self._name, self._path = name, path

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            host = f"[{host}]" if ":" in host else host
            print(f"{self._name}: http://{host}:{port}{self._path}", file=sys.stderr, flush=True)
