"""Runs the client in forks of one process that has imported everything, a few at a time.

`python -m tests.conformance.warm SOCKET COUNT` listens until its standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from dataclasses import dataclass, field
from typing import Any

from tests.conformance import client

__all__ = ["Warm"]

ALONE = ("sse-retry",)
"""Scenarios that measure times of some hundred milliseconds."""

_SDK = ("mcp.client.streamable_http", "mcp.client.auth", "jsonschema", "referencing", "yaml")


@dataclass
class _Visit:
    """One scenario: who knocked, what they want, and the fork that does it."""

    door: socket.socket
    outputs: list[int]
    said: bytes = b""
    pid: int = 0

    @property
    def alone(self) -> bool:
        """Whether nothing else is to run meanwhile."""
        return json.loads(self.said)["environment"].get("MCP_CONFORMANCE_SCENARIO") in ALONE


@dataclass
class Warm:
    """Forks a client for each visit, `count` at a time."""

    listener: socket.socket
    count: int
    waiting: list[_Visit] = field(default_factory=list)
    running: list[_Visit] = field(default_factory=list)

    def serve(self) -> None:
        """Serve until the standard input ends."""
        wake, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as self._selector:
            self._selector.register(self.listener, selectors.EVENT_READ, self._accept)
            self._selector.register(wake, selectors.EVENT_READ, lambda: self._reap(wake))
            self._selector.register(sys.stdin, selectors.EVENT_READ, None)
            while self._turn():
                while self.waiting and self._may_start(self.waiting[0]):
                    self._start(self.waiting.pop(0))
        for visit in self.running:
            os.kill(visit.pid, signal.SIGKILL)

    def _may_start(self, visit: _Visit) -> bool:
        if visit.alone or any(each.alone for each in self.running):
            return not self.running
        return len(self.running) < self.count

    def _turn(self) -> bool:
        """Do what there is to do; return whether to go on."""
        done = [key.data is not None and key.data() for key, _ in self._selector.select()]
        return all(done)

    def _accept(self) -> bool:
        door, _ = self.listener.accept()
        first, outputs, _, _ = socket.recv_fds(door, 1, 2)
        visit = _Visit(door, list(outputs), first)
        self._selector.register(door, selectors.EVENT_READ, lambda: self._hear(visit))
        return True

    def _hear(self, visit: _Visit) -> bool:
        if visit.door.fileno() < 0:  # it ended in the same moment
            return True
        said = visit.door.recv(65536)
        visit.said += said
        if said and visit.said.endswith(b"\n"):
            self.waiting.append(visit)
        elif not said:  # the suite lost its patience
            self._leave(visit)
        return True

    def _leave(self, visit: _Visit) -> None:
        self._selector.unregister(visit.door)
        visit.door.close()
        for number in visit.outputs:
            os.close(number)
        if visit in self.waiting:
            self.waiting.remove(visit)
        if visit in self.running and visit.pid:
            os.kill(visit.pid, signal.SIGKILL)

    def _reap(self, wake: int) -> bool:
        os.read(wake, 4096)
        for visit in list(self.running):
            pid, status = os.waitpid(visit.pid, os.WNOHANG)
            if not pid:
                continue
            self.running.remove(visit)
            if visit.door.fileno() >= 0:
                visit.door.sendall(b"%d\n" % (os.waitstatus_to_exitcode(status) & 0xFF))
                self._leave(visit)
        return True

    def _start(self, visit: _Visit) -> None:
        wanted = json.loads(visit.said)
        visit.pid = os.fork()
        if visit.pid:
            self.running.append(visit)
            return
        code = 70
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(visit.outputs[0], 1)
            os.dup2(visit.outputs[1], 2)
            os.environ.update(wanted["environment"])
            code = client.main(wanted["url"])
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def main(path: str, count: str) -> None:
    """Import what the client needs, and serve."""
    for name in _SDK:
        __import__(name)
    asyncio.run(_rehearse())
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(128)
        print("warm", flush=True)
        Warm(listener, int(count)).serve()


async def _rehearse() -> None:
    """Hold a session with a server of our own, so that what is made at first need is there."""
    from mcp.server.mcpserver import MCPServer

    from mcp_magic import Host

    server = MCPServer("rehearsal")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    host: Any = Host()
    connection = await host.connect(server)
    await connection.call("add", a=1, b=2)
    await host.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
