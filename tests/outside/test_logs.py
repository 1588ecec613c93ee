"""Log messages over stdio, which do not name their calls: they go to a client only if nobody else calls."""

from __future__ import annotations

import asyncio
import sys

import pytest
from mcp import Client

from mcp_magic.outside.gateway import KernelServer
from tests.support.hosts import host as host

PROGRAM = """
import time
from tests.support.plain import Plain

server = Plain("logs")

@server.tool
def note(call, text: str) -> str:
    call.log("warning", text)
    return text

@server.tool
def wait(call) -> str:
    call.log("info", "begun")
    call.cancelled.wait(60)
    return "done"

server.run()
"""


@pytest.fixture
async def logs(host, tmp_path):
    host.consent.policy = "auto"
    program = tmp_path / "logs.py"
    program.write_text(PROGRAM)
    await host.connect([sys.executable, str(program)], name="logs", env={"PYTHONPATH": "."})
    return host


async def test_logs_of_a_call_over_stdio_reach_its_client_alone(logs):
    taken = []

    async def take(params):
        taken.append((params.level, params.logger, params.data))

    async with Client(KernelServer(logs).server, mode="legacy", logging_callback=take) as client:
        await client.call_tool("logs__note", {"text": "mine"})
        assert taken == [("warning", "plain", "mine")]
        begun = asyncio.Event()
        logs["logs"].notices.logs.watchers.append(lambda message: begun.set())
        own = asyncio.create_task(logs.call("logs:wait"))
        await asyncio.wait_for(begun.wait(), 30)
        await client.call_tool("logs__note", {"text": "whose?"})
        own.cancel()
        assert taken == [("warning", "plain", "mine")]
