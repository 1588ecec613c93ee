"""Tasks of a real server, which fastmcp-tasks makes, over stdio; tests/kernel/test_jobs.py has them over HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from mcp_magic import Answer, CallCancelledError, Elicitation, ProtocolError, ToolError
from tests.environments import tasks_command
from tests.support.waiting import until

if TYPE_CHECKING:
    from mcp_magic import Host

pytestmark = pytest.mark.usefixtures("own_data")


async def test_its_tasks_are_awaited_asked_and_cancelled_like_calls(host: Host) -> None:
    async def elicitor(elicitation: Elicitation) -> Answer:
        return Answer.accept({"branch": "main"})

    host.elicitor = elicitor
    ci = await host.connect(tasks_command(), name="ci")
    assert ci.makes_tasks

    # the server has its tasks in memory, and a new process has none
    forgotten = await host.start("ci:build", ref="main")
    await host.reconnect("ci")
    async with asyncio.timeout(30):
        with pytest.raises(ProtocolError, match=r"^ci:build: the server no longer knows the task\.$"):
            await forgotten
    assert forgotten.status == "failed"

    assert (await ci.call("quick", ref="main")).data == "quick main"  # a tool that only runs as a task
    job = await host.start("ci:build", ref="main")
    assert (job.status, bool(job.task)) == ("working", True)
    await until(lambda: job.message == "building main")
    other = await host.start("ci:build", ref="other")
    other.cancel()
    with pytest.raises(CallCancelledError):
        await other
    assert (await ci.call("choose")).data == "accept main"
    with pytest.raises(ToolError, match="no such branch"):
        await ci.call("fail", how="tool")
    with pytest.raises(ProtocolError, match="the queue is full") as error:
        await (await host.start("ci:fail", how="protocol"))
    assert error.value.code == -32099
    await ci.call("release")
    assert (await job).data == {"built": "main"}
