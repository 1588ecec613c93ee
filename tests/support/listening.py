"""Listens on this machine to whatever a page sends out."""

from __future__ import annotations

import socket
import socketserver
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER = b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

SILENT_SECONDS = 2.0
"""Seconds in which a connection has to send something; one that does not was opened in advance."""


class Listener:
    """What came.

    Attributes:
        came: The first line of each connection, such as "GET /img HTTP/1.1".
        silent: Connections that sent nothing: browsers open some in advance.
        url: Where it listens.
    """

    def __init__(self, url: str) -> None:
        self.came: list[str] = []
        self.silent = 0
        self.url = url


@contextmanager
def listening() -> Iterator[Listener]:
    """Listen on a free port; each connection gets an empty page that every origin may read."""

    class Handler(socketserver.StreamRequestHandler):
        timeout = SILENT_SECONDS

        def handle(self) -> None:
            try:
                line = self.rfile.readline(4096)
            except TimeoutError:
                line = b""
            if line:
                listener.came.append(line.decode(errors="replace").strip())
                self.wfile.write(ANSWER)
            else:
                listener.silent += 1

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        listener = Listener(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield listener
        finally:
            server.shutdown()


@contextmanager
def listening_for_datagrams(port: int = 0) -> Iterator[socket.socket]:
    """Yield a socket that gets datagrams, as of WebRTC; without a port, on a free one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", port))
        yield found
