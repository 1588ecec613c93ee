"""Fixtures of hosts that leave nothing behind, and a session beside a faulty one that must not notice anything."""

from __future__ import annotations

import asyncio
import functools
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import mcp
import psutil
import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic._host import Host
from mcp_magic.session import supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

HostT = TypeVar("HostT", bound=Host)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait as long as a busy machine takes for the end of a process whose call has failed: its error tells how."""
    monkeypatch.setattr(supervisor, "DEATH_SECONDS", 20.0)


@asynccontextmanager
async def checked(host: HostT) -> AsyncIterator[HostT]:
    """Close a host at the end, and see that it leaves no process and no task behind."""
    tasks = asyncio.all_tasks()
    processes = set(psutil.Process().children(recursive=True))
    yield host
    await host.close()
    this = asyncio.current_task()
    left = {task for task in asyncio.all_tasks() - tasks if not task.done() and task is not this}
    # sse_starlette, in servers that run on the test's own loop, keeps one task a loop for ever
    left = {task for task in left if "_shutdown_watcher" not in repr(task)}
    if left:
        await asyncio.wait(left, timeout=30.0)
    assert not [task for task in left if not task.done()]
    assert not [p for p in psutil.Process().children(recursive=True) if p not in processes and p.is_running()]


@pytest.fixture
async def host(patient: None) -> AsyncIterator[Host]:
    """A host that leaves no process and no task behind, which is checked."""
    async with checked(Host()) as host:
        yield host


def hastened(host: Host) -> Host:
    """Let a host open sessions again quickly."""
    plan = host.reconnection
    plan.first, plan.longest, plan.lasting, plan.wait, plan.ping = 0.02, 0.1, 0.0, 60.0, 20.0
    return host


@pytest.fixture
def quick(host: Host) -> Host:
    return hastened(host)


@pytest.fixture
def handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open sessions by the handshake, as before 2026-07-28: a server asks by requests of its own."""
    monkeypatch.setattr(mcp, "Client", functools.partial(mcp.Client, mode="legacy"))


def logged(connection: Any) -> str:
    """Return what we have written into the log of a session."""
    return "\n".join(str(message.data) for message in connection.notices.messages if message.logger == "mcp_magic")


LEFT_SECONDS = 30.0
"""Seconds in which everything must be gone after a host is closed."""


class Left:
    """What there is of processes, tasks, threads and sockets, to compare with afterwards."""

    def __init__(self) -> None:
        self._before = self._now()

    def _now(self) -> dict[str, set[Any]]:
        this = psutil.Process()
        tasks = {task for task in asyncio.all_tasks() if not task.done() and task is not asyncio.current_task()}
        return {
            "processes": set(this.children(recursive=True)),
            # sse_starlette and the test's own servers keep tasks that are not the host's
            "tasks": {task for task in tasks if "mcp" in repr(task.get_coro())},
            "threads": set(threading.enumerate()),
            "sockets": {(each.fd, each.laddr, each.raddr) for each in this.net_connections("tcp") if each.raddr},
        }

    def more(self) -> dict[str, set[Any]]:
        """Return what has come since, without threads that are kept for the next work (asyncio's own)."""
        now = self._now()
        come = {kind: now[kind] - self._before[kind] for kind in now}
        come["threads"] = {each for each in come["threads"] if not each.name.startswith(("asyncio_", "AnyIO"))}
        return {kind: more for kind, more in come.items() if more}

    async def nothing(self) -> None:
        """Wait until all of it is gone."""
        try:
            async with asyncio.timeout(LEFT_SECONDS):
                while self.more():
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"left over: {self.more()}") from None


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have servers that ignore the end of their input killed sooner; the times are the SDK's."""
    from mcp.client import stdio

    monkeypatch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", 0.2)
    monkeypatch.setattr(stdio, "FORCE_KILL_TIMEOUT", 0.2)


@pytest.fixture
async def spotless(soon: None, patient: None) -> AsyncIterator[Host]:
    """A host whose sessions are opened again quickly, and that leaves nothing behind."""
    left = Left()
    host = hastened(Host())
    yield host
    await host.close()
    await left.nothing()


@asynccontextmanager
async def bystander(host: Host) -> AsyncIterator[Callable[[], Any]]:
    """Keep a call open on another session while something goes wrong, and see that it is answered."""
    server = MCPServer("near", log_level="ERROR")
    started, release = asyncio.Event(), asyncio.Event()

    @server.tool()
    async def wait() -> str:
        started.set()
        await release.wait()
        return "unharmed"

    server.add_tool(lambda: "unharmed", name="now")
    near = await host.connect(server, name="near")
    call = asyncio.create_task(near.call("wait"))
    await started.wait()
    yield lambda: near
    assert (await near.call("now")).text == "unharmed"
    release.set()
    assert (await call).text == "unharmed"
