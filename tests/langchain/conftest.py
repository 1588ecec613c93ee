from __future__ import annotations

import asyncio

import psutil
import pytest

from mcp_magic.notebook import NotebookHost
from tests.support.bundled import load


@pytest.fixture
async def host():
    """A host that lets everybody call, and leaves no process and no task behind, which is checked."""
    tasks = asyncio.all_tasks()
    processes = set(psutil.Process().children(recursive=True))
    host = NotebookHost()
    host.consent.policy = "auto"
    yield host
    await host.close()
    this = asyncio.current_task()
    left = {task for task in asyncio.all_tasks() - tasks if not task.done() and task is not this}
    left = {task for task in left if "_shutdown_watcher" not in repr(task)}  # sse_starlette keeps one a loop for ever
    if left:
        await asyncio.wait(left, timeout=30.0)
    assert not [task for task in left if not task.done()]
    assert not [p for p in psutil.Process().children(recursive=True) if p not in processes and p.is_running()]


@pytest.fixture
async def math(host):
    return await host.connect(load("math_server").server, name="math")


@pytest.fixture
async def show(host):
    return await host.connect(load("showcase_server").server, name="show")
