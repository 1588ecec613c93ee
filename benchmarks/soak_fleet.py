"""The servers of the soak: they are killed, and come back."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks import soak_server
from mcp_magic._host import Host

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator
    from pathlib import Path

__all__ = ["SERVERS", "Fleet", "fleet"]

SERVERS = (4, 2, 2)
"""Servers of each kind: over stdio, over HTTP, in this process."""

TRACE = (200, 2_000_000)
"""Messages and bytes that the trace keeps here: a ring that fills for long would look like a leak."""

LEFT_SECONDS = 5.0
"""Seconds that tasks have to end after the host is closed."""


class Fleet:
    """The servers.

    Attributes:
        host: The host with their sessions.
        names: Their names.
        left: What was left over when they were gone.
    """

    def __init__(self) -> None:
        self.host = Host()
        self.host.trace.limit(*TRACE)
        plan = self.host.reconnection
        plan.first, plan.longest, plan.lasting = 0.02, 0.5, 0.0
        self.names: list[str] = []
        self.left: list[str] = []
        self._keepers: list[asyncio.Task[None]] = []

    async def kill_one(self, chance: random.Random) -> bool:
        """Kill one of the server processes; return whether there was one."""
        found = await asyncio.to_thread(psutil.Process().children)  # which looks at all processes of the machine
        victims = sorted(found, key=lambda process: process.pid)
        if not victims:
            return False
        with suppress(psutil.NoSuchProcess):
            chance.choice(victims).kill()
        return True

    async def start(self, folder: Path, kinds: tuple[int, int, int]) -> None:
        """Start the servers and open the sessions; each server writes into a file of its own in `folder`."""
        script = soak_server.__file__
        stdio, http, in_process = kinds
        for number in range(stdio):
            await self._connect(f"stdio{number}", [sys.executable, script, str(folder / f"stdio{number}")])
        for number in range(http):
            ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            command = [sys.executable, script, str(folder / f"http{number}")]
            self._keepers.append(asyncio.create_task(_kept_running(command, ready)))
            await self._connect(f"http{number}", await ready)
        for number in range(in_process):
            await self._connect(f"near{number}", soak_server.made(folder / f"near{number}"))

    async def _connect(self, name: str, target: Any) -> None:
        await self.host.connect(target, name=name, **({"reconnect": True} if isinstance(target, list) else {}))
        self.names.append(name)

    async def end(self) -> None:
        """Close the sessions and end the servers."""
        await self.host.close()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)


@asynccontextmanager
async def fleet(folder: Path, kinds: tuple[int, int, int] = SERVERS) -> AsyncIterator[Fleet]:
    """Start the servers, and see afterwards what they leave."""
    before, others = _tasks(), _processes()
    started = Fleet()
    try:
        await started.start(folder, kinds)
        yield started
    finally:
        await started.end()
    if more := _tasks() - before:
        _, more = await asyncio.wait(more, timeout=LEFT_SECONDS)
    started.left += [f"task {task.get_name()}" for task in more]
    started.left += [f"process {child.pid}" for child in _processes() - others]


def _tasks() -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


def _processes() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


async def _kept_running(command: list[str], ready: asyncio.Future[str]) -> None:
    """Start a server over HTTP, and start it again on its port whenever it is killed."""
    port = 0
    while True:
        process = await asyncio.create_subprocess_exec(*command, str(port), stdout=asyncio.subprocess.PIPE)
        try:
            assert process.stdout is not None
            said = await process.stdout.readline()
            port = int(said or port)  # it may be killed before it says anything
            if said and not ready.done():
                ready.set_result(f"http://127.0.0.1:{port}/mcp")
            await process.wait()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
