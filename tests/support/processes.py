"""Starts real server processes for tests, and ends them."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from mcp import Client, StdioServerParameters, stdio_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

PLAIN = [sys.executable, str(Path(__file__).with_name("plain_server.py"))]
"""A server that starts at once: what is tested with it is the session."""

READY = r"(?P<url>http://\S+)"
"""The line that the bundled servers write once they listen."""

END_TIMEOUT = 5.0
"""Seconds that a process has to end after SIGTERM, before it is killed."""


def children(*parts: str) -> list[psutil.Process]:
    """Return the server processes of this test that run; other tests may have left a browser or a Jupyter server."""
    servers = []
    for process in psutil.Process().children():
        with suppress(psutil.Error):  # it has ended meanwhile
            line = " ".join(process.cmdline())
            if any(part in line for part in parts or ("notebooks/servers", PLAIN[1])):
                servers.append(process)
    return servers


class Running:
    """A server process that is ready.

    Attributes:
        url: Where it listens.
        process: The process.
    """

    def __init__(self, process: subprocess.Popen[str], ready: str, path: str) -> None:
        self.process = process
        self.url = ""
        self._ready, self._path = re.compile(ready), path
        self._lines: list[str] = []
        self._decided = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    @property
    def port(self) -> int:
        """The port of the URL."""
        return int(self.url.split(":")[2].split("/")[0])

    @property
    def stderr(self) -> str:
        """What the process wrote until now, on stderr and on stdout."""
        return "".join(self._lines)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.append(line)
            match = self._ready.search(line)
            if match and not self.url:
                groups = match.groupdict()
                self.url = groups.get("url") or f"http://127.0.0.1:{groups['port']}{self._path}"
                self._decided.set()
        self._decided.set()

    def wait_ready(self, timeout: float) -> None:
        """Wait for the ready line; AssertionError with the output if it does not come."""
        self._decided.wait(timeout)
        if not self.url:
            state = self.process.poll()
            what = f"still running after {timeout:g} s" if state is None else f"ended with code {state}"
            raise AssertionError(f"{self.process.args!r} is not ready, {what}:\n{self.stderr}")

    def wait_end(self, timeout: float = END_TIMEOUT) -> int:
        """Wait until the process has ended and all its output is read; return its exit code."""
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        return code

    def end(self) -> None:
        """End the process: SIGTERM, then SIGKILL."""
        self.process.terminate()
        try:
            self.wait_end()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.wait_end()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def start_http(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    ready: str = READY,
    timeout: float = 100,
    *,
    path: str = "/mcp",
    cwd: Path | None = None,
) -> Iterator[Running]:
    """Start a server process, wait until it listens, and end it at the end.

    Args:
        argv: The command.
        env: Variables added to this process's environment.
        ready: A regular expression for the line that says it listens, with the group `url` or `port`.
        timeout: Seconds that it may take.
        path: What follows the port in the URL, if `ready` has the group `port`.
        cwd: Its working directory.
    """
    process = subprocess.Popen(
        argv,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    running = Running(process, ready, path)
    try:
        running.wait_ready(timeout)
        yield running
    finally:
        running.end()


@asynccontextmanager
async def stdio_session(argv: Sequence[str], errlog: Path, **options: Any) -> AsyncIterator[Client]:
    """Open a session of the bare SDK with a server process over stdio.

    Args:
        argv: The command.
        errlog: The file that takes its stderr.
        options: `env` and `cwd` of the process; all others go to `mcp.Client`.
    """
    where = {name: options.pop(name) for name in ("env", "cwd") if name in options}
    parameters = StdioServerParameters(command=argv[0], args=list(argv[1:]), **where)
    with errlog.open("w") as file:
        async with Client(stdio_client(parameters, errlog=file), **options) as client:
            yield client


@asynccontextmanager
async def kept_open(client: Client) -> AsyncIterator[Client]:
    """Hold a client open in a task of its own, for fixtures.

    pytest sets a fixture up and tears it down in different tasks, and a client must be left by the task that
    entered it.
    """
    opened, wanted = asyncio.Event(), asyncio.Event()

    async def own() -> None:
        async with client:
            opened.set()
            await wanted.wait()

    owner = asyncio.create_task(own())
    opening = asyncio.create_task(opened.wait())
    await asyncio.wait({owner, opening}, return_when=asyncio.FIRST_COMPLETED)
    opening.cancel()
    try:
        if not owner.done():
            yield client
    finally:
        wanted.set()
        await owner


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on, and that the system gives nobody who does not name it.

    For about a minute: a connection on it has just been closed there, which keeps it out of those that port 0 and
    outgoing connections are given, while a server with SO_REUSEADDR, as all have, can take it.
    """
    with socket.socket() as listener, socket.socket() as client:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        client.connect(listener.getsockname())
        accepted, _ = listener.accept()
        accepted.close()  # before the other side, so that the wait is on this port
        client.recv(1)
        return int(listener.getsockname()[1])


async def listening(port: int) -> None:
    """Return when somebody listens: some say where they will before they do."""
    async with asyncio.timeout(60):
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.02)
