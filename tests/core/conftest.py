from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psutil
import pytest

from mcp_magic._host import Host
from mcp_magic.session import supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait as long as a busy machine takes for the end of a process whose call has failed: its error tells how."""
    monkeypatch.setattr(supervisor, "DEATH_SECONDS", 20.0)


@pytest.fixture
async def host(patient: None) -> AsyncIterator[Host]:
    """A host that leaves no process and no task behind, which is checked."""
    tasks = asyncio.all_tasks()
    processes = set(psutil.Process().children(recursive=True))
    host = Host()
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
def quick(host: Host) -> Host:
    """A host that does quickly what it does."""
    plan = host.reconnection
    plan.first, plan.longest, plan.lasting, plan.wait, plan.ping = 0.02, 0.1, 0.0, 60.0, 20.0
    return host
