"""The page on this machine to which the authorization server sends the browser back (RFC 8252, section 7.3).

It runs on a thread, so that the browser gets its answer also while `input()` holds the event loop.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic.core.oauth.login import CALLBACK_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CallbackServer"]

SILENT_SECONDS = 10.0
"""Seconds a connection may stay without a request; browsers open some in advance."""

MOST_CONNECTIONS = 32
"""Connections at a time, each a thread; the oldest makes room for one more."""

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>mcp_magic</title><style>
body{{font-family:system-ui,sans-serif;margin:15vh auto;max-width:32em;padding:0 1em;color-scheme:light dark}}
</style></head><body><h1>{title}</h1><p>{text}</p></body></html>"""

DONE = ("Logged in", "You can close this window and go back to your notebook.")
REFUSED = ("Not logged in", "You can close this window; the notebook says what was wrong.")
STALE = ("An older log-in", "This is the answer to another log-in. Use the link that the notebook shows now.")
NOTHING = ("Nothing here", "This address only waits for the end of a log-in.")


class CallbackServer:
    """Waits on 127.0.0.1 for the redirect of one log-in.

    Args:
        port: The port; 0 for a free one.

    Attributes:
        port: The port.
        judge: Told of each URL that is asked for below the callback's path; says whether it is `"done"`, `"refused"`
            or `"stale"` (no answer to this log-in). Called on a thread.

    Raises:
        OSError: The port is taken.
    """

    def __init__(self, port: int = 0) -> None:
        self.judge: Callable[[str], str] = lambda url: "stale"
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.callback = self
        self.port: int = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, name="mcp_magic callback", daemon=True
        )
        self._thread.start()

    @property
    def redirect_uri(self) -> str:
        """Where the browser is sent."""
        return f"http://127.0.0.1:{self.port}{CALLBACK_PATH}"

    def close(self) -> None:
        """Close the socket and all connections, and wait for the thread. Closing twice is fine."""
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS
    callback: CallbackServer

    def __init__(self, *arguments: Any) -> None:
        self._open: dict[socket.socket, None] = {}
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            self._hang_up(next(iter(self._open)))
        self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        for connection in list(self._open):
            self._hang_up(connection)

    def _hang_up(self, connection: socket.socket) -> None:
        self._open.pop(connection, None)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that hung up."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "mcp_magic"
    sys_version = ""
    timeout = SILENT_SECONDS

    def do_GET(self) -> None:
        callback = self.server.callback
        hosts = (f"127.0.0.1:{callback.port}", f"localhost:{callback.port}")
        if urlsplit(self.path).path != CALLBACK_PATH or self.headers.get("host", "") not in hosts:
            self._answer(404, *NOTHING)
            return
        match callback.judge(f"{callback.redirect_uri}?{urlsplit(self.path).query}"):
            case "done":
                self._answer(200, *DONE)
            case "refused":
                self._answer(200, *REFUSED)
            case _:
                self._answer(400, *STALE)

    def _answer(self, status: int, title: str, text: str) -> None:
        body = PAGE.format(title=title, text=text).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the address holds the code."""
